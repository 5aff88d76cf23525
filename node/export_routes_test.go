package node

import "holdfast/node/client"

// Routes returns the route table: the query parameters that each knows, by
// method and path.
func Routes() map[string][]string {
	out := map[string][]string{}
	for _, rt := range NewAPI(Config{}).routes() {
		out[rt.method+" "+rt.path] = rt.params
	}
	return out
}

// StatusOf returns the HTTP status of an error code.
func StatusOf(code string) int { return (&apiError{code: client.Code(code)}).status() }
