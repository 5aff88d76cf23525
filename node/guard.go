package node

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"holdfast/node/client"
)

// guard keeps web pages away. The person at this machine visits pages of
// strangers, and their browser can reach loopback. Programs are not affected:
// they send none of these headers, or true ones. A node that asks for tokens is
// safe from pages that have none, and may be reached under any name; pages of
// other sites are refused there too.
//
//   - Host, without tokens: a page whose own name was made to resolve to 127.0.0.1 (DNS
//     rebinding) is of one origin with the node in the browser's eyes, but its
//     requests still carry that name. A request without a Host is HTTP/1.0, as
//     health checks of proxies send it; no browser does.
//   - Origin: a page elsewhere that calls us says so.
//   - Sec-Fetch-Site, or Origin against Host, for what changes something: a
//     form or a fetch in no-cors mode is sent without asking us first, also by
//     a page of another port of this machine. For reads of the API too: the page
//     would not see the answer, but the node would have worked for it.
func guard(csrf *http.CrossOriginProtection, r *http.Request, tokens bool) error {
	if !tokens && r.Host != "" && !isLoopback(hostOf(r.Host)) {
		return &apiError{code: client.CodeForbidden, message: "the Host header must name loopback (localhost, 127.0.0.1 or [::1]): this node has no access tokens"}
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || (tokens && !strings.EqualFold(u.Host, r.Host)) || (!tokens && !isLoopback(u.Hostname())) {
			return &apiError{code: client.CodeForbidden, message: "requests from web pages of other sites are refused (Origin header)"}
		}
	}
	if csrf.Check(r) != nil {
		return &apiError{code: client.CodeForbidden, message: "cross-origin requests of a browser are refused (Sec-Fetch-Site or Origin header)"}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, "/v1/") && site != "" && site != "none" && site != "same-origin" {
		return &apiError{code: client.CodeForbidden, message: "requests of a browser on behalf of another page are refused (Sec-Fetch-Site header)"}
	}
	return nil
}

// hostOf takes the port and the brackets off a Host header.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}
