package node

import (
	"net/http"
	"strings"

	"holdfast/node/client"
)

const (
	keyHeader   = "Idempotency-Key"
	traceHeader = "Traceparent"
)

// specHeaders puts into specs what the headers of POST /v1/jobs say of them:
//
//   - Idempotency-Key is the key of a single spec, as it is or in quotes, as
//     the draft of the header has it (draft-ietf-httpapi-idempotency-key-header).
//   - Traceparent, of W3C Trace Context, is for all that have none of their own.
//     One that is not valid is ignored, which that standard asks for: a tracer
//     on the way must not make a request fail.
func specHeaders(r *http.Request, specs []client.Spec, array bool) error {
	if keys := r.Header.Values(keyHeader); len(keys) > 0 {
		switch {
		case array:
			return invalid("the header %s is for a single job; give each job of an array an idempotency_key of its own", keyHeader)
		case len(keys) > 1:
			return invalid("the header %s is given more than once", keyHeader)
		}
		key := keys[0]
		if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
			key = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(key[1 : n-1])
		}
		switch own := specs[0].IdempotencyKey; {
		case key == "":
			return invalid("the header %s is empty", keyHeader)
		case own != "" && own != key:
			return invalid("the header %s and the field idempotency_key differ; give one of them", keyHeader)
		}
		specs[0].IdempotencyKey = key
	}
	if traces := r.Header.Values(traceHeader); len(traces) == 1 && client.ValidTraceparent(traces[0]) {
		for i := range specs {
			if specs[i].Traceparent == "" {
				specs[i].Traceparent = traces[0]
			}
		}
	}
	return nil
}
