package node

import (
	"io"
	"net/http"

	"holdfast/node/client"
)

// queues is GET /v1/queues.
func (a *API) queues(s Store, w http.ResponseWriter, r *http.Request) error {
	infos, err := s.Queues(r.Context())
	if err != nil {
		return err
	}
	wire := client.Queues{Queues: make([]client.Queue, len(infos))}
	for i := range infos {
		wire.Queues[i] = queueOf(&infos[i])
	}
	return answer(w, http.StatusOK, wire)
}

// health is GET /v1/health.
func (a *API) health(s Store, w http.ResponseWriter, r *http.Request) error {
	seq := s.Seq()
	infos, err := s.Queues(r.Context())
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("queue")
	wire := client.Health{
		Queues:      []client.QueueHealth{},
		Replication: client.Replication{Epoch: seq.Epoch, Seq: seq.N},
	}
	for i := range infos {
		if name == "" || name == infos[i].Name {
			wire.Queues = append(wire.Queues, queueHealthOf(&infos[i]))
		}
	}
	if name != "" && len(wire.Queues) == 0 {
		return noSuchQueue()
	}
	return answer(w, http.StatusOK, wire)
}

// noSuchQueue answers a misspelled name, which an empty list would hide.
func noSuchQueue() error {
	return &apiError{code: client.CodeNotFound, message: "no such queue: it comes into being with its first job"}
}

// healthz is GET /healthz: the process lives. It says so also while the
// database is being opened; a restart would only begin that anew.
func (a *API) healthz(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := io.WriteString(w, "ok\n"); err != nil {
		return errHungUp
	}
	return nil
}

// readyz is GET /readyz: whether requests are served, else why not.
func (a *API) readyz(w http.ResponseWriter, _ *http.Request) error {
	if reasons := a.reasons.Load(); reasons != nil {
		w.Header().Set("Retry-After", retryAfter)
		return answer(w, http.StatusServiceUnavailable, client.Ready{Reasons: *reasons})
	}
	return answer(w, http.StatusOK, client.Ready{Ready: true})
}

// showVersion is GET /version.
func (a *API) showVersion(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, Versions(a.version.Version, a.version.Commit))
}
