package node

import (
	"net/http"
	"strconv"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// From the queue's types to wire types. An array is never null on the wire.

func enqueuedOf(job *queue.Enqueued, spec *queue.Spec) client.Enqueued {
	typ := spec.Type
	if typ == "" {
		typ = queue.DefaultType
	}
	return client.Enqueued{
		ID:          idOf(job.ID),
		Queue:       spec.Queue,
		Type:        typ,
		State:       job.State.String(),
		Duplicate:   job.Duplicate,
		RunAtMS:     job.RunAt.UnixMilli(),
		CreatedAtMS: job.CreatedAt.UnixMilli(),
	}
}

// publisher turns an error into what a client may see of it.
type publisher func(error) *apiError

// publicTo is public for the answer to r.
func (a *API) publicTo(r *http.Request) publisher {
	return func(err error) *apiError { return a.public(r, err) }
}

func claimsOf(public publisher, claims *queue.Claims) client.Claims {
	wire := client.Claims{Jobs: make([]client.Claimed, len(claims.Jobs))}
	for i := range claims.Jobs {
		wire.Jobs[i] = claimedOf(&claims.Jobs[i])
	}
	if len(claims.Acks) > 0 {
		wire.Acks = resultsOf(public, claims.Acks)
	}
	if len(claims.Fails) > 0 {
		wire.Fails = resultsOf(public, claims.Fails)
	}
	return wire
}

func claimedOf(job *queue.Claimed) client.Claimed {
	return client.Claimed{
		ID:           idOf(job.ID),
		Queue:        job.Queue,
		Type:         job.Type,
		Payload:      job.Payload,
		Priority:     job.Priority,
		Run:          job.Run,
		Attempt:      job.Attempt,
		MaxAttempts:  job.MaxAttempts,
		TimeoutMS:    job.Timeout.Milliseconds(),
		Tags:         job.Tags,
		Traceparent:  job.Traceparent,
		RunAtMS:      job.RunAt.UnixMilli(),
		CreatedAtMS:  job.CreatedAt.UnixMilli(),
		Lease:        job.Lease,
		LeaseUntilMS: job.LeaseUntil.UnixMilli(),
	}
}

func resultsOf(public publisher, results []queue.Result) []client.Result {
	wire := make([]client.Result, len(results))
	for i := range results {
		wire[i] = resultOf(public, &results[i])
	}
	return wire
}

func resultOf(public publisher, result *queue.Result) client.Result {
	wire := client.Result{OK: result.Err == nil}
	if result.ID != 0 { // else the token names no job
		wire.ID = idOf(result.ID)
	}
	if result.Err != nil {
		body := public(result.Err).body()
		wire.Error = &body
		return wire
	}
	if result.State != 0 {
		wire.State = result.State.String()
	}
	if !result.RunAt.IsZero() {
		wire.RunAtMS = result.RunAt.UnixMilli()
	}
	if !result.LeaseUntil.IsZero() {
		wire.LeaseUntilMS = result.LeaseUntil.UnixMilli()
	}
	wire.Cancel = result.Cancel
	return wire
}

func jobOf(job *queue.Job) client.Job {
	wire := client.Job{
		ID:              idOf(job.ID),
		Queue:           job.Queue,
		Type:            job.Type,
		State:           job.State.String(),
		Priority:        job.Priority,
		Payload:         job.Payload,
		Run:             job.Run,
		Attempt:         job.Attempt(),
		MaxAttempts:     job.MaxAttempts,
		Failures:        job.Failures,
		Crashes:         job.Crashes,
		Interruptions:   job.Interruptions,
		TimeoutMS:       job.Timeout.Milliseconds(),
		LockedBy:        job.Worker,
		CancelRequested: job.CancelRequested,
		LastError:       optional(job.LastError),
		ErrorFP:         job.ErrorFP,
		Result:          job.Result,
		Progress:        job.Progress,
		Tags:            job.Tags,
		Traceparent:     job.Traceparent,
		RunAtMS:         job.RunAt.UnixMilli(),
		CreatedAtMS:     job.CreatedAt.UnixMilli(),
		StartedAtMS:     optionalMS(job.StartedAt),
		LeaseUntilMS:    optionalMS(job.LeaseUntil),
		FinishedAtMS:    optionalMS(job.FinishedAt),
		ExpiresAtMS:     optionalMS(job.ExpiresAt),
		ArchivedAtMS:    optionalMS(job.ArchivedAt),
		Backoff:         wireBackoff(job.Backoff),
	}
	for _, run := range job.Runs {
		wire.Runs = append(wire.Runs, client.Run{
			Run:         run.Run,
			StartedAtMS: run.StartedAt.UnixMilli(),
			EndedAtMS:   run.EndedAt.UnixMilli(),
			Outcome:     run.Outcome.String(),
			Worker:      run.Worker,
			Error:       run.Error,
		})
	}
	return wire
}

func wireBackoff(b queue.Backoff) *client.Backoff {
	if b.Kind == "" {
		return nil
	}
	wire := &client.Backoff{Kind: string(b.Kind), BaseMS: b.Base.Milliseconds(), MaxMS: b.Max.Milliseconds()}
	for _, d := range b.Delays {
		wire.DelaysMS = append(wire.DelaysMS, d.Milliseconds())
	}
	return wire
}

func queueHealthOf(info *queue.Info) client.QueueHealth {
	return client.QueueHealth{
		Name:             info.Name,
		Paused:           info.Paused,
		Scheduled:        info.Counts.Scheduled,
		Queued:           info.Counts.Queued,
		Running:          info.Counts.Running,
		Done:             info.Counts.Done,
		Dead:             info.Counts.Dead,
		OldestQueuedAtMS: optionalMS(info.OldestAt),
		LastError:        optional(info.LastError),
		LastErrorAtMS:    optionalMS(info.LastErrorAt),
	}
}

func idOf(id int64) string { return strconv.FormatInt(id, 10) }

// optional is nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// optionalMS is nil for the zero Time, which has no place on the wire.
func optionalMS(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
