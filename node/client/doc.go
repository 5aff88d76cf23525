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
