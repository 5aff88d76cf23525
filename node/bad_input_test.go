package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"holdfast/node/client"
)

// TestBadInput sends what is wrong, to a real queue, and looks at the answer
// and at the queue after it: nothing half done.
func TestBadInput(t *testing.T) {
	f := overQueue(t)
	long := strings.Repeat("x", 2000)
	many := strings.TrimSuffix(strings.Repeat(`{"queue":"mail"},`, 1001), ",")
	manyAcks := strings.TrimSuffix(strings.Repeat(`{"lease":"1.1.1.x"},`, 1001), ",")
	f.enqueue(`{"queue":"there"}`)
	running := f.claimOne("there")
	deep := strings.Repeat("[", 513) + strings.Repeat("]", 513)
	tests := []struct {
		name   string
		method string
		path   string
		body   string
		status int
		code   client.Code
		part   string // of the message
	}{
		// JSON
		{"an empty body", "POST", "/v1/jobs", "", 400, "invalid", "body is empty"},
		{"a blank body", "POST", "/v1/claims", " \n ", 400, "invalid", "body is empty"},
		{"a body cut short", "POST", "/v1/jobs", `{"queue":"mail"`, 400, "invalid", "not JSON at byte 15: unexpected end"},
		{"a string cut short", "POST", "/v1/jobs", `{"queue":"ma`, 400, "invalid", "not JSON at byte 12: unexpected end"},
		{"no JSON", "POST", "/v1/jobs", "queue=mail", 400, "invalid", "not JSON at byte 0: invalid character 'q'"},
		{"a bad character", "POST", "/v1/jobs", `{"queue":"mail",}`, 400, "invalid", "not JSON at byte 16: invalid character '}'"},
		{"a bad last character", "POST", "/v1/jobs", `{"queue":}`, 400, "invalid", "not JSON at byte 9: invalid character '}'"},
		{"a bad character on a later line", "POST", "/v1/jobs", "{\n  \"queue\": \"é\" x\n}", 400, "invalid", "not JSON at byte 18 (line 2, column 16): invalid character 'x'"},
		{"trailing data", "POST", "/v1/jobs", `{"queue":"mail"} {}`, 400, "invalid", "not JSON at byte 17: invalid character '{' after top-level value"},
		{"a second line of JSON", "POST", "/v1/jobs", "{\"queue\":\"a\"}\n{\"queue\":\"b\"}", 400, "invalid", "line 2, column 1"},
		{"bytes that are not UTF-8", "POST", "/v1/jobs", "{\"queue\":\"mail\",\"payload\":\"\xff\"}", 400, "invalid", "not UTF-8 at byte 27"},
		{"nesting without end", "POST", "/v1/jobs", `{"queue":"mail","payload":` + strings.Repeat("[", 20000), 400, "invalid", "max depth"},
		// form
		{"an unknown field", "POST", "/v1/jobs", `{"queue":"mail","prio":1}`, 400, "invalid", "prio: unknown field at byte 16; there are queue, type, payload, "},
		{"an unknown field in an array", "POST", "/v1/jobs", `[{"queue":"a"},{"queue":"b","prio":1}]`, 400, "invalid", "jobs[1].prio: unknown field at byte 28"},
		{"an unknown field of a field", "POST", "/v1/jobs", `{"queue":"a","backoff":{"base":1}}`, 400, "invalid", "backoff.base: unknown field at byte 24"},
		{"an unknown field of an item", "POST", "/v1/acks", `{"acks":[{"lease":"x","id":"7"}]}`, 400, "invalid", "acks[0].id: unknown field at byte 22"},
		{"a number for a string", "POST", "/v1/jobs", `{"queue": 7}`, 400, "invalid", "queue: got the number 7, want a string at byte 10"},
		{"a string for a number", "POST", "/v1/jobs", `[{"queue":"a","priority":"1"}]`, 400, "invalid", "jobs[0].priority: got a string, want an integer of 64 bits at byte 25"},
		{"a fraction for an integer", "POST", "/v1/jobs", `{"queue":"a","priority":1.5}`, 400, "invalid", "priority: got the number 1.5, want an integer"},
		{"an exponent for an integer", "POST", "/v1/jobs", `{"queue":"a","delay_ms":1e3}`, 400, "invalid", "delay_ms: got the number 1e3, want an integer"},
		{"an integer of 65 bits", "POST", "/v1/jobs", `{"queue":"a","delay_ms":9223372036854775808}`, 400, "invalid", "delay_ms: got the number 9223372036854775808"},
		{"a string for the body", "POST", "/v1/jobs", `"mail"`, 400, "invalid", "the body: got a string, want an object"},
		{"a number in an array", "POST", "/v1/jobs", `[{"queue":"a"},7]`, 400, "invalid", "jobs[1]: got the number 7, want an object at byte 15"},
		{"an array for an object", "POST", "/v1/claims", `["mail"]`, 400, "invalid", "the body: got an array, want an object"},
		{"a string for an array", "POST", "/v1/claims", `{"queues":"mail"}`, 400, "invalid", "queues: got a string, want an array"},
		{"a number for a tag", "POST", "/v1/jobs", `{"queue":"a","tags":{"n":1}}`, 400, "invalid", "tags.n: got the number 1, want a string"},
		{"a string for a truth", "POST", "/v1/fails", `{"fails":[{"lease":"x","fatal":"no"}]}`, 400, "invalid", "fails[0].fatal: got a string, want true or false"},
		// specs
		{"an empty array", "POST", "/v1/jobs", `[]`, 400, "invalid", "jobs: the array is empty"},
		{"too many specs", "POST", "/v1/jobs", "[" + many + "]", 400, "invalid", "at most 1000"},
		{"no queue", "POST", "/v1/jobs", `{}`, 400, "invalid", "queue: "},
		{"null", "POST", "/v1/jobs", `null`, 400, "invalid", "queue: "},
		{"a null spec", "POST", "/v1/jobs", `[{"queue":"a"},null]`, 400, "invalid", "jobs[1].queue: "},
		{"a bad name", "POST", "/v1/jobs", `{"queue":"a b"}`, 400, "invalid", "queue: "},
		{"a long name", "POST", "/v1/jobs", `{"queue":"` + long + `"}`, 400, "invalid", "queue: "},
		{"a high priority", "POST", "/v1/jobs", `{"queue":"a","priority":1001}`, 400, "invalid", "priority: "},
		{"a high priority in a lone array", "POST", "/v1/jobs", `[{"queue":"a","priority":1001}]`, 400, "invalid", "jobs[0].priority: "},
		{"a high priority in an array", "POST", "/v1/jobs", `[{"queue":"a"},{"queue":"a","priority":1001}]`, 400, "invalid", "jobs[1].priority: "},
		{"a negative delay", "POST", "/v1/jobs", `{"queue":"a","delay_ms":-1}`, 400, "invalid", "delay_ms: must be from 0 to 315360000000; got -1"},
		{"a negative delay in an array", "POST", "/v1/jobs", `[{"queue":"a","delay_ms":-1}]`, 400, "invalid", "jobs[0].delay_ms: must be from 0"},
		{"a delay that overflows", "POST", "/v1/jobs", `{"queue":"a","delay_ms":9223372036854775807}`, 400, "invalid", "delay_ms: must be from 0"},
		{"a delay that overflows to a small one", "POST", "/v1/jobs", `{"queue":"a","delay_ms":18446744073709}`, 400, "invalid", "delay_ms: must be from 0"},
		{"a delay and a time", "POST", "/v1/jobs", `{"queue":"a","delay_ms":1,"run_at_ms":1790000000000}`, 400, "invalid", "run_at_ms"},
		{"a negative time", "POST", "/v1/jobs", `{"queue":"a","run_at_ms":-5}`, 400, "invalid", "run_at_ms: "},
		{"a time without end", "POST", "/v1/jobs", `{"queue":"a","run_at_ms":9223372036854775807}`, 400, "invalid", "run_at_ms: "},
		{"a negative expiry", "POST", "/v1/jobs", `{"queue":"a","expires_at_ms":-5}`, 400, "invalid", "expires_at_ms: "},
		{"a negative timeout", "POST", "/v1/jobs", `{"queue":"a","timeout_ms":-1}`, 400, "invalid", "timeout_ms: must be from 0 to 604800000"},
		{"negative attempts", "POST", "/v1/jobs", `{"queue":"a","max_attempts":-1}`, 400, "invalid", "max_attempts: "},
		{"a negative base", "POST", "/v1/jobs", `{"queue":"a","backoff":{"kind":"fixed","base_ms":-1}}`, 400, "invalid", "backoff.base_ms: must be from 0"},
		{"a base that overflows", "POST", "/v1/jobs", `[{"queue":"a","backoff":{"kind":"fixed","base_ms":18446744073709}}]`, 400, "invalid", "jobs[0].backoff.base_ms: must be from 0"},
		{"a bad delay of a list", "POST", "/v1/jobs", `{"queue":"a","backoff":{"kind":"list","delays_ms":[1,-1]}}`, 400, "invalid", "backoff.delays_ms[1]: must be from 0"},
		{"an unknown back-off", "POST", "/v1/jobs", `{"queue":"a","backoff":{"kind":"linear"}}`, 400, "invalid", `backoff: "linear" is not a kind`},
		{"a large payload", "POST", "/v1/jobs", `{"queue":"a","payload":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "too_large", "payload is 1048578 bytes"},
		{"a large payload in a lone array", "POST", "/v1/jobs", `[{"queue":"a","payload":"` + strings.Repeat("x", 1<<20) + `"}]`, 413, "too_large", "jobs[0].payload is"},
		{"a large body", "POST", "/v1/jobs", `{"queue":"a","payload":"` + strings.Repeat("x", 16<<20) + `"}`, 413, "too_large", "16777216 bytes"},
		{"replicated durability", "POST", "/v1/jobs", `{"queue":"a","durability":"replicated"}`, 400, "replicated_unavailable", "no remote replica"},
		{"replicated durability in an array", "POST", "/v1/jobs", `[{"queue":"a"},{"queue":"a","durability":"replicated"}]`, 400, "replicated_unavailable", "jobs[1].durability"},
		{"an unknown durability", "POST", "/v1/jobs", `{"queue":"a","durability":"forever"}`, 400, "invalid", "durability: "},
		// claims
		{"a claim without queues", "POST", "/v1/claims", `{}`, 400, "invalid", "queues: "},
		{"a claim of a bad name", "POST", "/v1/claims", `{"queues":["a b"]}`, 400, "invalid", "queues[0]: "},
		{"a claim of -1 jobs", "POST", "/v1/claims", `{"queues":["a"],"max":-1}`, 400, "invalid", "max: "},
		{"a claim of too many jobs", "POST", "/v1/claims", `{"queues":["a"],"max":1001}`, 400, "invalid", "max: "},
		{"a negative wait", "POST", "/v1/claims", `{"queues":["a"],"wait_ms":-1}`, 400, "invalid", "wait_ms: must be from 0 to 60000; got -1"},
		{"a long wait", "POST", "/v1/claims", `{"queues":["a"],"wait_ms":60001}`, 400, "invalid", "wait_ms: must be from 0 to 60000"},
		{"a short lease", "POST", "/v1/claims", `{"queues":["a"],"lease_ms":5}`, 400, "invalid", "lease_ms: must be from 1000 to 86400000; got 5"},
		{"a negative lease", "POST", "/v1/claims", `{"queues":["a"],"lease_ms":-1}`, 400, "invalid", "lease_ms: must be from 1000"},
		{"a negative delay in a claim's fail", "POST", "/v1/claims", `{"queues":["a"],"fails":[{"lease":"x","retry_in_ms":-1}]}`, 400, "invalid", "fails[0].retry_in_ms: must be from 0"},
		// finishing
		{"no acks", "POST", "/v1/acks", `{}`, 400, "invalid", "acks: is missing or empty"},
		{"empty fails", "POST", "/v1/fails", `{"fails":[]}`, 400, "invalid", "fails: is missing or empty"},
		{"null releases", "POST", "/v1/releases", `{"releases":null}`, 400, "invalid", "releases: is missing or empty"},
		{"no extends", "POST", "/v1/extends", `{}`, 400, "invalid", "extends: is missing or empty"},
		{"too many acks", "POST", "/v1/acks", `{"acks":[` + manyAcks + `]}`, 400, "invalid", "at most 1000"},
		{"acks with replicated durability", "POST", "/v1/acks", `{"acks":[{"lease":"x"}],"durability":"replicated"}`, 400, "replicated_unavailable", "durability"},
		{"fails with replicated durability", "POST", "/v1/fails", `{"fails":[{"lease":"x"}],"durability":"replicated"}`, 400, "replicated_unavailable", "durability"},
		{"a delay that overflows in a fail", "POST", "/v1/fails", `{"fails":[{"lease":"x","retry_in_ms":18446744073709}]}`, 400, "invalid", "fails[0].retry_in_ms: must be from 0"},
		{"a short lease in an extend", "POST", "/v1/extends", `{"extends":[{"lease":"x"},{"lease":"x","lease_ms":1}]}`, 400, "invalid", "extends[1].lease_ms: must be from 1000"},
		{"a large result", "POST", "/v1/acks", `{"acks":[{"lease":"x","result":"` + strings.Repeat("x", 64<<10) + `"}]}`, 413, "too_large", "acks[0].result is 65538 bytes"},
		{"a large result of one job", "POST", "/v1/jobs/7/ack", `{"lease":"1.7.1.x","result":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "too_large", "result is 65538 bytes"},
		{"an ack without a lease", "POST", "/v1/jobs/7/ack", `{}`, 400, "invalid", "lease: is required"},
		{"a fail of one job with a negative delay", "POST", "/v1/jobs/7/fail", `{"lease":"1.7.1.x","retry_in_ms":-1}`, 400, "invalid", "retry_in_ms: must be from 0"},
		{"an extend of one job with a short lease", "POST", "/v1/jobs/7/extend", `{"lease":"1.7.1.x","lease_ms":1}`, 400, "invalid", "lease_ms: must be from 1000"},
		{"an ack with a made-up lease", "POST", "/v1/jobs/7/ack", `{"lease":"1.7.1.x"}`, 409, "lease_lost", "is no lease that a claim here gave"},
		{"an ack with no token at all", "POST", "/v1/jobs/7/ack", `{"lease":"please"}`, 409, "lease_lost", "is no lease that a claim here gave"},
		{"a release with another job's lease", "POST", "/v1/jobs/8/release", `{"lease":"1.7.1.x"}`, 409, "lease_lost", "is no lease that a claim here gave"},
		{"no snoozes", "POST", "/v1/snoozes", `{}`, 400, "invalid", "snoozes: is missing or empty"},
		{"a negative snooze", "POST", "/v1/snoozes", `{"snoozes":[{"lease":"x","delay_ms":-1}]}`, 400, "invalid", "snoozes[0].delay_ms: must be from 0"},
		{"a snooze that overflows", "POST", "/v1/snoozes", `{"snoozes":[{"lease":"x","delay_ms":18446744073709}]}`, 400, "invalid", "snoozes[0].delay_ms: must be from 0"},
		{"a snooze of one job with a negative delay", "POST", "/v1/jobs/7/snooze", `{"lease":"1.7.1.x","delay_ms":-1}`, 400, "invalid", "delay_ms: must be from 0"},
		{"a snooze with a made-up lease", "POST", "/v1/jobs/7/snooze", `{"lease":"1.7.1.x","delay_ms":1}`, 409, "lease_lost", "is no lease that a claim here gave"},
		{"a snooze with an unknown field", "POST", "/v1/snoozes", `{"snoozes":[{"lease":"x","for":1}]}`, 400, "invalid", "snoozes[0].for: unknown field"},
		// nesting
		{"a deep payload", "POST", "/v1/jobs", `{"queue":"a","payload":` + deep + `}`, 400, "invalid", "payload: arrays and objects are nested more than 512 levels deep"},
		{"a deep payload of objects", "POST", "/v1/jobs", `{"queue":"a","payload":` + strings.Repeat(`{"a":`, 513) + "1" + strings.Repeat("}", 513) + `}`, 400, "invalid", "payload: arrays"},
		{"a deep payload in an array", "POST", "/v1/jobs", `[{"queue":"a"},{"queue":"a","payload":` + deep + `}]`, 400, "invalid", "jobs[1].payload: arrays"},
		{"a deep payload of a retry", "POST", "/v1/jobs/7/retry", `{"payload":` + deep + `}`, 400, "invalid", "payload: arrays"},
		{"a deep result", "POST", "/v1/acks", `{"acks":[{"lease":"x","result":` + deep + `}]}`, 400, "invalid", "acks[0].result: arrays"},
		{"a deep result of one job", "POST", "/v1/jobs/7/ack", `{"lease":"1.7.1.x","result":` + deep + `}`, 400, "invalid", "result: arrays"},
		{"a deep result in a claim", "POST", "/v1/claims", `{"queues":["a"],"acks":[{"lease":"x","result":` + deep + `}]}`, 400, "invalid", "acks[0].result: arrays"},
		{"deep progress", "POST", "/v1/extends", `{"extends":[{"lease":"x","progress":` + deep + `}]}`, 400, "invalid", "extends[0].progress: arrays"},
		// queues
		{"a queue that is not there", "GET", "/v1/queues/nothere", "", 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a patch of a queue that is not there", "PATCH", "/v1/queues/nothere", `{"max_attempts":3}`, 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a patch of the retention of a queue that is not there", "PATCH", "/v1/queues/nothere", `{"keep_last":{"done":3}}`, 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a patch that makes a queue of a bad name", "PATCH", "/v1/queues/a%20b", `{"create":true}`, 400, "invalid", "queue: "},
		{"a patch without a body", "PATCH", "/v1/queues/there", "", 400, "invalid", "body is empty"},
		{"a patch with an unknown field", "PATCH", "/v1/queues/there", `{"attempts":3}`, 400, "invalid", "attempts: unknown field"},
		{"a patch that pauses", "PATCH", "/v1/queues/there", `{"paused":true}`, 400, "invalid", "paused: unknown field"},
		{"negative attempts of a queue", "PATCH", "/v1/queues/there", `{"max_attempts":-1}`, 400, "invalid", "max_attempts: must be from 1 to 1000"},
		{"too many attempts of a queue", "PATCH", "/v1/queues/there", `{"max_attempts":1001}`, 400, "invalid", "max_attempts: must be from 1 to 1000"},
		{"a string for attempts of a queue", "PATCH", "/v1/queues/there", `{"max_attempts":"3"}`, 400, "invalid", "max_attempts: got a string, want an integer"},
		{"a long timeout of a queue", "PATCH", "/v1/queues/there", `{"timeout_ms":604800001}`, 400, "invalid", "timeout_ms: must be from 0 to 604800000"},
		{"a short lease of a queue", "PATCH", "/v1/queues/there", `{"lease_ms":5}`, 400, "invalid", "lease_ms: must be from 1000"},
		{"a negative depth", "PATCH", "/v1/queues/there", `{"max_depth":-1}`, 400, "invalid", "max_depth: "},
		{"an unknown durability of a queue", "PATCH", "/v1/queues/there", `{"durability":"forever"}`, 400, "invalid", "durability: must be local or replicated"},
		{"a durability that the node cannot give", "PATCH", "/v1/queues/there", `{"durability":"replicated"}`, 400, "replicated_unavailable", "durability: "},
		{"an unknown back-off of a queue", "PATCH", "/v1/queues/there", `{"backoff":{"kind":"linear"}}`, 400, "invalid", `backoff: "linear" is not a kind`},
		{"a back-off without its base", "PATCH", "/v1/queues/there", `{"backoff":{"kind":"fixed"}}`, 400, "invalid", "backoff: fixed needs a base"},
		{"a retention of a state that does not end", "PATCH", "/v1/queues/there", `{"retention_ms":{"queued":5}}`, 400, "invalid", `retention_ms: "queued" is not a state in which a job ends`},
		{"a retention below for ever", "PATCH", "/v1/queues/there", `{"retention_ms":{"done":-2}}`, 400, "invalid", "retention_ms.done: must be from 1"},
		{"a retention that overflows", "PATCH", "/v1/queues/there", `{"retention_ms":{"done":9223372036854775807}}`, 400, "invalid", "retention_ms.done: must be from 1"},
		{"a number for retentions", "PATCH", "/v1/queues/there", `{"retention_ms":5}`, 400, "invalid", "retention_ms: got the number 5, want an object"},
		{"a string for a retention", "PATCH", "/v1/queues/there", `{"retention_ms":{"done":"7d"}}`, 400, "invalid", "retention_ms.done: got a string, want an integer"},
		{"a negative number to keep", "PATCH", "/v1/queues/there", `{"keep_last":{"dead":-1}}`, 400, "invalid", "keep_last.dead: must be from 1"},
		{"a number to keep of an unknown state", "PATCH", "/v1/queues/there", `{"keep_last":{"gone":1}}`, 400, "invalid", "keep_last: "},
		{"a pause of a queue that is not there", "POST", "/v1/queues/nothere/pause", "", 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a resume with a field", "POST", "/v1/queues/there/resume", `{"now":true}`, 400, "invalid", "now: unknown field"},
		{"the throughput of a queue that is not there", "GET", "/v1/queues/nothere/throughput", "", 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a throughput since letters", "GET", "/v1/queues/there/throughput?since_ms=today", "", 400, "invalid", "since_ms: "},
		// dead jobs
		{"a bulk retry without a body", "POST", "/v1/dead/retry", "", 400, "invalid", "body is empty"},
		{"a bulk retry with a misspelled filter", "POST", "/v1/dead/retry", `{"queu":"there"}`, 400, "invalid", "queu: unknown field"},
		{"a bulk retry of a queue that is not there", "POST", "/v1/dead/retry", `{"queue":"nothere"}`, 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a bulk retry of a bad fingerprint", "POST", "/v1/dead/retry", `{"error":"oops"}`, 400, "invalid", "error: "},
		{"a bulk archive with a bad cursor", "POST", "/v1/dead/archive", `{"after":"there"}`, 400, "invalid", "after: "},
		{"a bulk archive with a high limit", "POST", "/v1/dead/archive", `{"limit":1001}`, 400, "invalid", "limit: must be from 1 to 1000"},
		{"a bulk archive since a negative time", "POST", "/v1/dead/archive", `{"since_ms":-1}`, 400, "invalid", "since_ms: "},
		{"groups of a queue that is not there", "GET", "/v1/dead/groups?queue=nothere", "", 404, "not_found", "no such queue"},
		{"groups of a bad fingerprint", "GET", "/v1/dead/groups?error=oops", "", 400, "invalid", "error: "},
		{"groups since a negative time", "GET", "/v1/dead/groups?since_ms=-1", "", 400, "invalid", "since_ms: "},
		{"groups before letters", "GET", "/v1/dead/groups?before_ms=today", "", 400, "invalid", "before_ms: "},
		{"too many groups", "GET", "/v1/dead/groups?limit=1001", "", 400, "invalid", "limit: "},
		{"groups of a state", "GET", "/v1/dead/groups?state=done", "", 400, "invalid", "state: unknown query parameter"},
		// one job
		{"an archive of a job that is not there", "POST", "/v1/jobs/999/archive", "", 404, "not_found", "no such job: 999"},
		{"an archive of a job that runs", "POST", "/v1/jobs/" + running.ID + "/archive", "", 409, "wrong_state", "is running; only a dead job"},
		{"a deletion of a job that is not there", "DELETE", "/v1/jobs/999", "", 404, "not_found", "no such job: 999"},
		{"a deletion of a job that runs", "DELETE", "/v1/jobs/" + running.ID, "", 409, "wrong_state", "is running"},
		{"a deletion of a malformed id", "DELETE", "/v1/jobs/x", "", 400, "invalid", "id: "},
		{"a wait of letters", "GET", "/v1/jobs/7?wait_ms=long", "", 400, "invalid", "wait_ms: "},
		{"a long wait for a job", "GET", "/v1/jobs/7?wait_ms=60001", "", 400, "invalid", "wait_ms: must be from 0 to 60000"},
		{"a negative wait for a job", "GET", "/v1/jobs/7?wait_ms=-1", "", 400, "invalid", "wait_ms: must be from 0"},
		{"a wait for a job that is not there", "GET", "/v1/jobs/999?wait_ms=1000", "", 404, "not_found", "no such job: 999"},
		{"a parameter of an export", "GET", "/v1/export?queue=there", "", 400, "invalid", "queue: unknown query parameter"},
		// paths and queries
		{"a job that is not there", "GET", "/v1/jobs/999", "", 404, "not_found", "no such job"},
		{"an id of letters", "GET", "/v1/jobs/seven", "", 400, "invalid", "id: "},
		{"a signed id", "GET", "/v1/jobs/+7", "", 400, "invalid", "id: "},
		{"an id of 65 bits", "GET", "/v1/jobs/9223372036854775808", "", 400, "invalid", "id: "},
		{"an ack of a malformed id", "POST", "/v1/jobs/x/ack", `{"lease":"1.7.1.x"}`, 400, "invalid", "id: "},
		{"a retry of a job that is not there", "POST", "/v1/jobs/999/retry", "", 404, "not_found", "no such job"},
		{"a retry with an unknown field", "POST", "/v1/jobs/999/retry", `{"pay":1}`, 400, "invalid", "pay: unknown field"},
		{"a cancel of a job that is not there", "POST", "/v1/jobs/999/cancel", `{}`, 404, "not_found", "no such job"},
		{"a cancel with a field", "POST", "/v1/jobs/999/cancel", `{"why":1}`, 400, "invalid", "why: unknown field"},
		{"an unknown parameter of a list", "GET", "/v1/jobs?stat=dead", "", 400, "invalid", "stat: unknown query parameter; known are queue, state"},
		{"a parameter where there are none", "POST", "/v1/jobs?payload=true", "", 400, "invalid", "payload: unknown query parameter; there are none here"},
		{"a parameter of another route", "GET", "/v1/queues?payload=true", "", 400, "invalid", "payload: unknown query parameter; known are"},
		{"a parameter twice", "GET", "/v1/jobs?queue=a&queue=b", "", 400, "invalid", "queue: given more than once"},
		{"a malformed query", "GET", "/v1/jobs?queue=%zz", "", 400, "invalid", "query string is malformed"},
		{"an unknown state", "GET", "/v1/jobs?state=ready", "", 400, "invalid", `state: "ready" is not a state`},
		{"a limit of letters", "GET", "/v1/jobs?limit=all", "", 400, "invalid", "limit: "},
		{"a limit of 0", "GET", "/v1/jobs?limit=0", "", 400, "invalid", "limit: "},
		{"a high limit", "GET", "/v1/jobs?limit=1001", "", 400, "invalid", "limit: "},
		{"a flag that is neither", "GET", "/v1/jobs?payload=1", "", 400, "invalid", "payload: "},
		{"a list of a queue that is not there", "GET", "/v1/jobs?queue=nothere", "", 404, "not_found", `no such queue: "nothere"; did you mean there?`},
		{"a bad cursor", "GET", "/v1/jobs?after=there", "", 400, "invalid", "after: "},
		{"a bad fingerprint", "GET", "/v1/jobs?error=oops", "", 400, "invalid", "error: "},
		{"the health of a queue that is not there", "GET", "/v1/health?queue=nothere", "", 404, "not_found", `no such queue: "nothere"; did you mean there?`},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s is %s", tt.name, tt.code), func(t *testing.T) {
			w := f.send(tt.method, tt.path, tt.body)
			if w.Header().Get("Holdfast-Seq") == "" {
				t.Error("the answer has no Holdfast-Seq")
			}
			wantError(t, w, tt.status, tt.code, tt.part)
		})
	}
	t.Run("none of it left a job, besides the one that was there", func(t *testing.T) {
		if page := call[client.Jobs](f, http.StatusOK, "GET", "/v1/jobs", ""); len(page.Jobs) != 1 {
			t.Errorf("got %+v", page.Jobs)
		}
	})
}
