// Package dashboard serves the pages of a node: what stands in its queues, what
// went wrong, and what a person can do about it.
//
// # What
//
// The overview, a page for each queue and each job with its runs, the workbench
// for dead jobs, the workers and what they hold, the node with its replica, and
// the login. They are made for one look at 3 a.m., on a phone too.
//
// # Design
//
// Pages are HTML that the server makes (html/template); there is no build step
// and no state in the browser. The script adds two things to them: it fetches the
// page anew when GET /live says that something was committed and puts in what
// differs, and it draws charts. Without it every page and every form works, and
// shows how things stood when it was loaded.
//
// The package knows the node through [Reader], which is small enough for a
// read-only copy to serve, and through [Editor], which a visitor has who may
// change something. A [Gate] says who is visiting. Nothing is kept between
// requests: a retry of many jobs is a row of requests with a cursor, which the
// visitor's page paces and stops.
//
// The policy that is sent with each page allows scripts and styles of the node's
// own files alone. What is destructive has a page in between that says how many
// jobs it touches.
//
// # Basics
//
//	mux := http.NewServeMux()
//	pages := dashboard.New(dashboard.Options{Gate: gate})
//	for _, pattern := range dashboard.Patterns() {
//		mux.Handle(pattern, pages)
//	}
//
// # Caveats
//
// The package does not check where a form comes from: its caller refuses what
// other sites send ([net/http.CrossOriginProtection]).
package dashboard
