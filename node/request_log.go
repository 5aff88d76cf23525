package node

import (
	"log/slog"
	"net/http"
	"time"
)

// logged serves a request, and says at the level debug how that went. Of the
// request there are only the method and the route: a path, a query or a header
// may have what is nobody's business.
func (a *API) logged(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
	if !a.log.Enabled(r.Context(), slog.LevelDebug) {
		serve(w, r)
		return
	}
	start, seen := time.Now(), &statusWriter{ResponseWriter: w}
	defer func() { // of a handler that panics too
		_, route := a.mux.Handler(r)
		a.log.Debug("request", "method", r.Method, "route", route, "status", seen.status, "took", time.Since(start))
	}()
	serve(seen, r)
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
