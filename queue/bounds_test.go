package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	for _, s := range []string{
		"", "plain", strings.Repeat("é", 20), strings.Repeat("\xff", 20), "123456789\xff\xff", "1234567é90", strings.Repeat("€", 7), "12345678\xe2\x82",
	} {
		for n := 3; n < 25; n++ {
			got := clip(s, n)
			if len(got) > n || !utf8.ValidString(got) {
				t.Errorf("clip(%q, %d) has %d bytes: %q", s, n, len(got), got)
			}
			if len(s) <= n && utf8.ValidString(s) && got != s {
				t.Errorf("clip(%q, %d) = %q", s, n, got)
			}
		}
	}
}

// TestBackoffIsStoredInMilliseconds: what is in files must never change its
// meaning.
func TestBackoffIsStoredInMilliseconds(t *testing.T) {
	q, _, _ := newFake(t)
	b := Backoff{Kind: BackoffFixed, Base: 2 * time.Second, Max: time.Minute}
	mustEnqueue(t, q, Spec{Queue: "mail", Backoff: &b}, Spec{Queue: "mail", Backoff: &Backoff{Kind: BackoffList, Delays: []time.Duration{time.Second}}})
	if _, _, err := q.UpdateQueue(ctx, "mail", Patch{Backoff: &b}); err != nil {
		t.Fatal(err)
	}
	var first, second, settings string
	if err := q.read.QueryRow(`select (select spec from jobs where id=1), (select spec from jobs where id=2), settings from queues`).Scan(&first, &second, &settings); err != nil {
		t.Fatal(err)
	}
	const want = `{"backoff":{"kind":"fixed","base_ms":2000,"max_ms":60000}}`
	if first != want || second != `{"backoff":{"kind":"list","delays_ms":[1000]}}` || settings != want {
		t.Errorf("stored are %s, %s and %s", first, second, settings)
	}
	if j := mustJob(t, q, 1); fmt.Sprint(j.Backoff) != fmt.Sprint(b) {
		t.Errorf("read back: %+v", j.Backoff)
	}
}

// TestTimesByTheQueuesClock: what is plausible is so by the queue's clock, not
// by the machine's.
func TestTimesByTheQueuesClock(t *testing.T) {
	q, clock, _ := newFake(t)
	clock.set(30 * 365 * day)
	mustEnqueue(t, q, Spec{Queue: "mail", RunAt: clock.now().Add(time.Hour)})
	if _, _, err := q.Enqueue(ctx, Spec{Queue: "mail", RunAt: clock.now().Add(11 * 365 * day)}); err == nil {
		t.Error("a time in 11 years was accepted")
	}
}

// TestNamesAreBounded: a dictionary keeps a bounded number of names in memory,
// whichever way they come.
func TestNamesAreBounded(t *testing.T) {
	d := newDictionary(nil, nil, nil, nil)
	for i := range 3 * namesKept {
		d.keep(fmt.Sprint(i), int64(i))
		if len(d.ids) > namesKept || len(d.names) > namesKept {
			t.Fatalf("%d ids and %d names after %d", len(d.ids), len(d.names), i)
		}
	}
	q, _, _ := newFake(t)
	specs := make([]Spec, 1000)
	for i := range specs {
		specs[i] = Spec{Queue: "mail", Type: fmt.Sprint("t", i)}
	}
	mustEnqueue(t, q, specs...)
	run(t, q, func(r *round) { clear(r.w.names.types.ids); clear(r.w.names.types.names) }) // as after a restart
	for i, j := range mustClaim(t, q, "mail", 1000) {
		if j.Type != specs[i].Type {
			t.Fatalf("job %d has the type %s, want %s", i, j.Type, specs[i].Type)
		}
	}
}
