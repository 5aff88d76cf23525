package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"holdfast/node/client"
	"holdfast/node/dashboard"
	"holdfast/queue"
)

// pages lets the dashboard see the node, and tells it who is looking.
type pages struct{ api *API }

// Visitor implements [dashboard.Gate].
func (p pages) Visitor(r *http.Request) (*dashboard.Visitor, error) {
	who := p.api.gate.visitor(r, dashboard.Cookie)
	if who == nil {
		return nil, dashboard.ErrLogin
	}
	if err := who.wants(scopeView); err != nil {
		return nil, pageError(err)
	}
	v := &dashboard.Visitor{Payloads: who.may(scopePayload)}
	if who != anyone {
		v.Name = who.actor
	}
	seen := &pageReader{api: p.api, who: who, store: p.api.store.Load()}
	v.Reader = seen
	if away := p.api.away(); away != "" {
		v.Away, v.ReadOnly = away, away
		return v, nil
	}
	switch {
	case p.api.copies != nil:
		v.ReadOnly = "this is an edge, which reads."
		if url := p.api.copies.primary(); url != "" {
			v.ReadOnly = "this is an edge, which reads; the primary is " + url
		}
	case !who.may(scopeAdmin):
		v.ReadOnly = "your token lacks the scope admin."
	default:
		v.Editor = &pageEditor{seen, withPrincipal(r, who)}
	}
	return v, nil
}

// Login implements [dashboard.Gate].
func (p pages) Login(r *http.Request, token string) (string, time.Duration, error) {
	if !p.api.gate.closed() {
		return "", 0, &dashboard.Error{Status: http.StatusBadRequest, Message: "No login is needed: this node has no access tokens."}
	}
	if token == "" || len(token) > maxSecret {
		return "", 0, &dashboard.Error{Status: http.StatusUnauthorized, Message: "Enter an access token: they begin with hf_."}
	}
	session, err := p.api.gate.login(token, r.RemoteAddr)
	if err != nil {
		p.api.log.Warn("login refused", "remote", networkOf(r.RemoteAddr), "err", err)
	}
	return session, sessionLife, pageError(err)
}

// away says why there is nothing to read, or "".
func (a *API) away() string {
	switch {
	case a.primary.Load() != nil:
		return "This node is a standby: queues and jobs are at the primary. It takes over when the primary is gone."
	case a.lost():
		return "This node is not the primary any more, or cannot be sure that it is."
	case a.store.Load() == nil:
		if reasons := a.reasons.Load(); reasons != nil && len(*reasons) > 0 {
			return "The node is not ready: " + (*reasons)[0] + "."
		}
		return "The node is not ready yet."
	}
	return ""
}

// pageError is an error as a visitor may see it.
func pageError(err error) error {
	if err == nil {
		return nil
	}
	if e := asAPIError(err); e != nil {
		return &dashboard.Error{Status: e.status(), Message: e.message}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &dashboard.Error{Status: http.StatusServiceUnavailable, Message: "This took too long. Narrow the search, or try again when the node has less to do."}
	}
	return err
}

// pageReader is what a visitor may see of a store.
type pageReader struct {
	api   *API
	who   *principal
	store *Store
}

func (p *pageReader) open() (Store, error) {
	if p.store == nil || p.api.lost() {
		return nil, &dashboard.Error{Status: http.StatusServiceUnavailable, Message: p.api.away()}
	}
	return *p.store, nil
}

// Queues implements [dashboard.Reader].
func (p *pageReader) Queues(ctx context.Context) ([]dashboard.Queue, error) {
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	infos, err := s.Queues(ctx)
	if err != nil {
		return nil, pageError(err)
	}
	out := make([]dashboard.Queue, 0, len(infos))
	for i := range infos {
		if p.who.covers(infos[i].Name) {
			out = append(out, p.queueOf(&infos[i]))
		}
	}
	return out, nil
}

// Minutes implements [dashboard.Reader].
func (p *pageReader) Minutes(ctx context.Context, name string, since time.Time) ([]dashboard.Minute, error) {
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	minutes, err := s.Throughput(ctx, name, since)
	if err != nil {
		return nil, pageError(err)
	}
	out := make([]dashboard.Minute, 0, len(minutes))
	for _, m := range minutes {
		if p.who.covers(m.Queue) {
			out = append(out, dashboard.Minute(m))
		}
	}
	return out, nil
}

// Job implements [dashboard.Reader].
func (p *pageReader) Job(ctx context.Context, id int64) (dashboard.Job, error) {
	s, err := p.open()
	if err != nil {
		return dashboard.Job{}, err
	}
	job, err := s.Job(ctx, id)
	if err != nil {
		return dashboard.Job{}, pageError(noSuchJob(id, err))
	}
	if !p.who.covers(job.Queue) {
		return dashboard.Job{}, pageError(p.who.notItsJob(id))
	}
	return p.jobOf(&job), nil
}

// Jobs implements [dashboard.Reader].
func (p *pageReader) Jobs(ctx context.Context, f dashboard.Filter) (dashboard.Page, error) {
	s, err := p.open()
	if err != nil {
		return dashboard.Page{}, err
	}
	filter, err := p.filter(f)
	if err != nil {
		return dashboard.Page{}, pageError(err)
	}
	page, err := s.Jobs(ctx, filter)
	if err != nil {
		return dashboard.Page{}, pageError(err)
	}
	out := dashboard.Page{Next: page.Next, Jobs: make([]dashboard.Job, len(page.Jobs))}
	for i := range page.Jobs {
		out.Jobs[i] = p.jobOf(&page.Jobs[i])
	}
	return out, nil
}

// DeadGroups implements [dashboard.Reader].
func (p *pageReader) DeadGroups(ctx context.Context, f dashboard.Filter) (dashboard.Groups, error) {
	s, err := p.open()
	if err != nil {
		return dashboard.Groups{}, err
	}
	filter, err := p.filter(f)
	if err != nil {
		return dashboard.Groups{}, pageError(err)
	}
	found, err := deadGroups(ctx, s, filter)
	if err != nil {
		return dashboard.Groups{}, pageError(err)
	}
	out := dashboard.Groups{Kinds: found.Kinds, Total: found.Total, Partial: found.Partial}
	for i := range found.Groups {
		g := &found.Groups[i]
		out.Groups = append(out.Groups, dashboard.Group{Queue: g.Queue, Error: g.ErrorFP, Jobs: g.Jobs, Sample: p.jobOf(&g.Sample)})
	}
	return out, nil
}

// Changed implements [dashboard.Reader]. It does not read the changes of jobs,
// so that nothing has to be kept for it.
func (p *pageReader) Changed(ctx context.Context, at string) (string, error) {
	for {
		now, moved, over := p.api.feed.position()
		if p.api.stopping.Load() || p.api.away() != "" {
			return "", errStopping
		}
		if at != now {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-over:
			return "", errStopping
		case <-moved:
		}
	}
}

func (p *pageReader) filter(f dashboard.Filter) (queue.Filter, error) {
	out := queue.Filter{
		Queue: f.Queue, Type: f.Type, ErrorFP: f.Error, FinishedSince: f.Since, FinishedBefore: f.Before, After: f.After, Limit: f.Limit,
	}
	if f.State != "" {
		var err error
		if out.State, err = queue.ParseState(f.State); err != nil {
			return out, err
		}
	}
	return p.who.within(out)
}

// pageEditor changes what its visitor may change.
type pageEditor struct {
	*pageReader
	r *http.Request // for the audit trail
}

// Retry implements [dashboard.Editor].
func (e *pageEditor) Retry(ctx context.Context, id int64, payload json.RawMessage) error {
	if err := checkNesting("payload", payload); err != nil {
		return pageError(err)
	}
	return e.change(ctx, id, "job.retry", map[string]any{"new_payload": len(payload) > 0}, "only a dead job can be retried",
		func(ctx context.Context, s Store) error { _, _, err := s.Retry(ctx, id, payload); return err })
}

// Cancel implements [dashboard.Editor].
func (e *pageEditor) Cancel(ctx context.Context, id int64) error {
	return e.change(ctx, id, "job.cancel", nil, "only a scheduled, queued or running job can be cancelled",
		func(ctx context.Context, s Store) error { _, _, err := s.Cancel(ctx, id); return err })
}

// Archive implements [dashboard.Editor].
func (e *pageEditor) Archive(ctx context.Context, id int64) error {
	return e.change(ctx, id, "job.archive", nil, "only a dead job can be archived",
		func(ctx context.Context, s Store) error { _, _, err := s.Archive(ctx, id); return err })
}

// Delete implements [dashboard.Editor].
func (e *pageEditor) Delete(ctx context.Context, id int64) error {
	return e.change(ctx, id, "job.delete", nil, "cancel it first; a running job cannot be deleted",
		func(ctx context.Context, s Store) error { _, err := s.Delete(ctx, id); return err })
}

// change does what a visitor asks for to a job of theirs.
func (e *pageEditor) change(ctx context.Context, id int64, action string, detail any, possible string, do func(context.Context, Store) error) error {
	if _, err := e.Job(ctx, id); err != nil { // it is one of theirs
		return err
	}
	s, err := e.open()
	if err != nil {
		return err
	}
	if err := do(e.api.audited(e.r, action, idOf(id), detail), s); err != nil {
		return pageError(refusal(ctx, s, id, err, possible))
	}
	return e.sure()
}

// sure is nil if what was done is not void.
func (e *pageEditor) sure() error {
	if e.api.lost() {
		return &dashboard.Error{Status: http.StatusServiceUnavailable, Message: errLost.Error() + ", and the change may or may not have taken effect"}
	}
	return nil
}

// Pause implements [dashboard.Editor].
func (e *pageEditor) Pause(ctx context.Context, name string, paused bool) error {
	s, err := e.open()
	if err == nil {
		err = e.who.wantsQueue(name)
	}
	if err != nil {
		return pageError(err)
	}
	if _, err := queueNamed(ctx, s, name); err != nil {
		return pageError(err)
	}
	action := "queue.resume"
	if paused {
		action = "queue.pause"
	}
	if _, _, err := e.api.settings.update(e.api.audited(e.r, action, name, nil), s, name, queue.Patch{Paused: &paused}, &client.QueuePatch{}); err != nil {
		return pageError(err)
	}
	return e.sure()
}

// Bulk implements [dashboard.Editor].
func (e *pageEditor) Bulk(_ context.Context, action dashboard.BulkAction, f dashboard.Filter, dryRun bool) (int, string, error) {
	s, err := e.open()
	if err != nil {
		return 0, "", err
	}
	filter, err := e.filter(f)
	if err != nil {
		return 0, "", pageError(err)
	}
	do, name := s.RetryDead, "dead.retry"
	if action == dashboard.BulkArchive {
		do, name = s.ArchiveDead, "dead.archive"
	}
	detail := client.DeadRequest{Queue: f.Queue, Type: f.Type, Error: f.Error, SinceMS: sinceMS(f.Since), BeforeMS: sinceMS(f.Before), After: f.After, Limit: f.Limit}
	step, _, err := do(e.api.audited(e.r, name, f.Queue, &detail), filter, dryRun)
	if err != nil {
		return 0, "", pageError(err)
	}
	return step.Count, step.Next, e.sure()
}

// queueOf is a queue as the pages show it.
func (p *pageReader) queueOf(i *queue.Info) dashboard.Queue {
	q := dashboard.Queue{
		Name: i.Name, Paused: i.Paused, Scheduled: i.Counts.Scheduled, Queued: i.Counts.Queued, Running: i.Counts.Running, Done: i.Counts.Done,
		Dead: i.Counts.Dead, Cancelled: i.Counts.Cancelled, OldestAt: i.OldestAt, LastError: i.LastError, LastErrorAt: i.LastErrorAt,
	}
	q.Settings = settingFacts(p.api.wholeQueue(i))
	return q
}

// jobOf is a job as the visitor may see it.
func (p *pageReader) jobOf(j *queue.Job) dashboard.Job {
	out := dashboard.Job{
		ID: j.ID, Queue: j.Queue, Type: j.Type, State: j.State.String(), Priority: j.Priority, Run: j.Run, Attempt: min(j.Attempt(), max(j.MaxAttempts, 1)),
		MaxAttempts: j.MaxAttempts, Failures: j.Failures, Crashes: j.Crashes, Interruptions: j.Interruptions, Timeout: j.Timeout, Worker: j.Worker,
		CancelRequested: j.CancelRequested, LastError: j.LastError, ErrorFP: j.ErrorFP, Tags: j.Tags, Traceparent: j.Traceparent, RunAt: j.RunAt,
		CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, LeaseUntil: j.LeaseUntil, FinishedAt: j.FinishedAt, ExpiresAt: j.ExpiresAt, ArchivedAt: j.ArchivedAt,
	}
	if p.who.may(scopePayload) {
		out.Payload, out.Result, out.Progress = j.Payload, j.Result, j.Progress
	}
	for _, r := range j.Runs {
		out.Runs = append(out.Runs, dashboard.Run{Run: r.Run, StartedAt: r.StartedAt, EndedAt: r.EndedAt, Outcome: r.Outcome.String(), Worker: r.Worker, Error: r.Error})
	}
	return out
}
