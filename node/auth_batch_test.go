package node_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/node/client"
)

// TestBatchOfRestrictedToken sends batches whose first item is of a job that the
// token is not for: what is said of the others goes by the caller's own count.
func TestBatchOfRestrictedToken(t *testing.T) {
	f := secured(t)
	for _, name := range []string{"secret", "mail", "mail"} {
		asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"`+name+`"}`)
	}
	worker := f.token("worker", []string{"mail"}, "work", "enqueue").Token
	foreign := asOK[client.Claims](f, adminSecret, "POST", "/v1/claims", `{"queues":["secret"]}`).Jobs[0].Lease
	own := asOK[client.Claims](f, worker, "POST", "/v1/claims", `{"queues":["mail"],"max":2}`).Jobs
	large := `"` + strings.Repeat("x", 65<<10) + `"`
	batch := func(field, more string) string {
		return fmt.Sprintf(`%q:[{"lease":%q},{"lease":%q%s}]`, field, foreign, own[0].Lease, more)
	}
	for _, tt := range []struct {
		path, field, wrong string
		status             int
		part               string
	}{
		{"acks", "acks", `,"result":` + large, 413, "acks[1].result is"},
		{"fails", "fails", `,"retry_in_ms":-1`, 400, "fails[1].retry_in_ms: "},
		{"snoozes", "snoozes", `,"delay_ms":-1`, 400, "snoozes[1].delay_ms: "},
		{"extends", "extends", `,"lease_ms":1`, 400, "extends[1].lease_ms: "},
		{"extends", "extends", `,"progress":` + large, 413, "extends[1].progress is"},
		{"releases", "releases", `,"delay_ms":1`, 400, "releases[1].delay_ms: "},
		{"claims", "acks", `,"result":` + large, 413, "acks[1].result is"},
		{"claims", "fails", `,"retry_in_ms":-1`, 400, "fails[1].retry_in_ms: "},
	} {
		t.Run("a wrong item of "+tt.path+" is named by its place in the request: "+tt.part, func(t *testing.T) {
			body := "{" + batch(tt.field, tt.wrong) + "}"
			if tt.path == "claims" {
				body = `{"queues":["mail"],` + batch(tt.field, tt.wrong) + "}"
			}
			code := client.CodeInvalid
			if tt.status == 413 {
				code = client.CodeTooLarge
			}
			wantError(t, f.as(worker, "POST", "/v1/"+tt.path, body), tt.status, code, tt.part)
		})
	}
	t.Run("so is a wrong job of an enqueue", func(t *testing.T) {
		wantError(t, f.as(worker, "POST", "/v1/jobs", `[{"queue":"mail"},{"queue":"mail","priority":1001}]`), 400, client.CodeInvalid, "jobs[1].priority: ")
	})
	t.Run("more items than there may be are refused, though one is not counted as the token's", func(t *testing.T) {
		many := strings.Repeat(`{"lease":"`+foreign+`"},`, 1000) + `{"lease":"` + own[0].Lease + `"}`
		wantError(t, f.as(worker, "POST", "/v1/releases", `{"releases":[`+many+`]}`), 400, client.CodeInvalid, "1001 items")
	})
	t.Run("the results are in the order of the request", func(t *testing.T) {
		for _, path := range []string{"extends", "acks"} {
			body := fmt.Sprintf(`{%q:[{"lease":%q},{"lease":%q},{"lease":"1.99.1.x"},{"lease":%q},{"lease":%q}]}`,
				path, foreign, own[0].Lease, foreign, own[1].Lease)
			var got []string
			for _, r := range asOK[client.Results](f, worker, "POST", "/v1/"+path, body).Results {
				text := r.ID
				if err := r.Err(); err != nil {
					text += " " + string(r.Error.Code)
				}
				got = append(got, text)
			}
			if want := "[1 forbidden 2 99 lease_lost 1 forbidden 3]"; fmt.Sprint(got) != want {
				t.Errorf("%s: got %v, want %s", path, got, want)
			}
		}
		if job := asOK[client.Job](f, adminSecret, "GET", "/v1/jobs/1", ""); job.State != "running" {
			t.Errorf("the job of another queue is %s", job.State)
		}
	})
}
