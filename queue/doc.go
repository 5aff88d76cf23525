// Package queue is a durable job queue in one SQLite file.
//
// # What
//
// Producers enqueue jobs into named queues; workers claim them under a lease,
// and acknowledge or fail them. A job whose worker disappears comes back when
// its lease ends; one that keeps failing is dead, with its reason, until a
// person looks at it. What a call has answered is on the disk: committed and
// fsynced. Delivery is at least once, so handlers have to bear a second run.
//
// # Design
//
// One goroutine writes. It takes all operations that wait, runs them in one
// transaction, fsyncs once and answers all, so durable throughput grows with
// the number of callers. Readers use connections of their own and never wait
// for it. DESIGN.md beside this file starts from the invariants.
//
//	scheduled ──due──▶ queued ──claim──▶ running ──ack──▶ done
//	    ▲                 ▲                 │
//	    └── fail, snooze ─┴─ release, lease │──no attempt left──▶ dead ──retry──▶ queued
//	                         ended          └──cancel──▶ cancelled
//
// A cancel takes effect at once on a job that does not run; a job that nobody
// claimed before its expires_at is dead.
//
// # Basics
//
// [Open] a file, [Queue.Enqueue] a [Spec], [Queue.Claim] it, then [Queue.Ack],
// [Queue.Fail], [Queue.Release], [Queue.Snooze] or [Queue.Extend] with the
// lease token that the claim gave. [Queue.Tx] ties jobs to rows of your own.
// [Queue.Job], [Queue.Wait], [Queue.Jobs], [Queue.Queues], [Queue.Throughput]
// and [Queue.Export] look; [Queue.UpdateQueue], [Queue.Cancel], [Queue.Retry],
// [Queue.Archive], [Queue.Delete], [Queue.RetryDead] and [Queue.ArchiveDead]
// are for people, and leave an entry in [Queue.AuditTrail] for a context of
// [WithAudit]. [Queue.CreateAccessToken] keeps a token for a node's clients. [Queue.Close] when done.
//
// # Caveats
//
// The file must be on a local disk and open in one process only; the caller
// sees to that, by a lock on the directory for instance. An error that wraps
// [ErrUnknownOutcome], or the end of a context, leaves open whether a call took
// effect: a Spec with an idempotency key can be handed in again.
package queue
