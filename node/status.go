package node

import (
	"io"
	"net/http"
	"slices"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

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
		Replication: a.replication(seq, time.Now()),
	}
	p := principalOf(r)
	if name != "" {
		if err := p.wantsQueue(name); err != nil {
			return err
		}
	}
	for i := range infos {
		if !p.covers(infos[i].Name) {
			continue
		}
		if name == "" || name == infos[i].Name {
			wire.Queues = append(wire.Queues, queueHealthOf(&infos[i]))
		}
	}
	if name != "" && len(wire.Queues) == 0 {
		return &queue.NoQueueError{Queue: name}
	}
	return a.answer(w, http.StatusOK, wire)
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

// readyz is GET /readyz: whether requests are served, else why not. It stays
// ready while the replica cannot be reached, since it keeps what it promises,
// and says what is exposed meanwhile.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) error {
	reasons := a.reasons.Load()
	if a.lost() {
		reasons = &[]string{errLost.Error()}
	}
	if reasons != nil {
		if copied := a.followReason(time.Now()); copied != "" {
			reasons = new(append(slices.Clone(*reasons), copied))
		}
		w.Header().Set("Retry-After", retryAfter)
		if !a.trusts(r) {
			reasons = &[]string{"the node says why to those who send an access token"}
		}
		return answer(w, http.StatusServiceUnavailable, client.Ready{Reasons: *reasons})
	}
	ready := client.Ready{Ready: true}
	if a.trusts(r) {
		ready.Warnings = a.warnings(time.Now())
	}
	return a.answer(w, http.StatusOK, ready)
}

// showVersion is GET /version.
func (a *API) showVersion(w http.ResponseWriter, _ *http.Request) error {
	return a.answer(w, http.StatusOK, Versions(a.version.Version, a.version.Commit))
}
