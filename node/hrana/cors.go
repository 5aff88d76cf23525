package hrana

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// cors answers what a browser asks for a page of another origin; true: that was
// all. It comes before the token: a browser sends none with a preflight, and
// with no Origins there is no page that may ask.
func (h *Handler) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || sameOrigin(origin, r.Host) {
		return false
	}
	head := w.Header()
	head.Add("Vary", "Origin")
	if !slices.Contains(h.opts.Origins, origin) {
		writeError(w, &httpError{http.StatusForbidden, stmtError{
			"web pages of this origin may not ask; the node can be told to let them", "ORIGIN_REFUSED",
		}})
		return true
	}
	head.Set("Access-Control-Allow-Origin", origin)
	head.Set("Access-Control-Expose-Headers", "Holdfast-Seq, Holdfast-As-Of, Holdfast-Lag-Ms, Retry-After")
	if r.Method != http.MethodOptions {
		return false
	}
	head.Set("Access-Control-Allow-Methods", "GET, POST")
	head.Set("Access-Control-Allow-Headers", "authorization, content-type, x-libsql-client-version")
	head.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && host != "" && strings.EqualFold(u.Host, host)
}
