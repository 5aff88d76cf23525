// Package client talks to a Holdfast node over HTTP and runs workers.
//
// # Producing
//
// A [Client] adds jobs with [Client.Enqueue]. It gives every job an
// idempotency key unless the caller brings one, so a request whose answer was
// lost is sent again without making the job twice.
//
// # Working
//
// A [Worker] claims jobs from a [Source], which a Client is, and calls the
// handler of their type. It extends leases while handlers run, reports how
// they ended, and stops without losing or charging a job. A handler may report
// progress ([Claimed.Progress]), put its job off ([Snooze]), and say how a
// failure is to be taken ([Later], [Fatal]).
//
// At a stop, a claim that waits is called back, so that no job is left to its
// lease that the node hands out just then. Over TLS claims have connections of
// their own for that, by HTTP/1.1. What remains: through a proxy, with an
// HTTPClient of the caller's, or when the node takes longer than a second to
// answer, such a job comes back when its lease has ended, which counts as a crash.
//
// Delivery is at least once: a worker that dies after its work and before its
// ack leaves a job that runs again. Handlers should bear that.
//
// # Watching
//
// [Client.Events] yields what happens to jobs from now on. It tells of changes
// of state and of nothing else, and not of what came before or while the stream
// was broken: read the state with [Client.Jobs] or [Client.Health] first.
//
// # Errors
//
// An answer of the node that is not a success is an [*Error]; compare with the
// sentinels by errors.Is. An [*UnreachableError] means that no answer came, so
// a write may or may not have taken effect.
//
// The package imports the standard library only, so that a program that needs
// no more than a client does not link the server.
package client
