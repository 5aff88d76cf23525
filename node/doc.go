// Package node is one Holdfast process: its configuration, its life from boot
// to shutdown, and the HTTP API over a [queue.Queue].
//
// # Design
//
// [Run] owns everything that a process holds: the lock on the data directory,
// the listener, the queue and the goroutines between them. It returns when all
// of it is given back. The order of boot and of shutdown is argued where it
// happens, in run.go.
//
// [API] is the HTTP side alone. It knows the queue through the interface
// [Store] and can therefore serve something else, such as a store in memory. A
// request passes the guard against browsers (guard.go), then one route table
// (routes.go) on the standard ServeMux, where its token is looked at. A handler reads a wire type of package
// node/client, calls the store once and answers a wire type; when it returns
// an error instead, apierror.go alone decides what code and status the client
// sees, and that the cause of an internal error goes to the log and nowhere
// else.
//
// Access tokens are in the queue's file, and all of them in memory (auth_gate.go).
// What a route asks of a token stands in auth_routes.go; one that is missing
// there asks for everything. A token for some queues is checked against the
// queue or the job that the path names before the handler runs; handlers whose
// bodies name queues, or whose answers have several, check that themselves
// (auth_queues.go). Changes by hand leave an audit entry in their own commit.
//
// The document at /openapi.json (openapi.yaml) is written by hand. Tests hold it to
// the routes, to the wire types, and to each answer that a test of the API gets.
//
// GET /v1/events streams what happens. The queue hands what each commit changed
// to one feed (feed.go), which keeps the last of it for all streams together and
// never waits for one; events.go sends it on, at the pace of each client.
//
// An edge ([RunEdge]) is an API over copies of the primary's database that a
// [replicate.Follower] keeps up to date (edge_copies.go). A request to it is held
// to one state from its token's check to its answer, which says which one and how
// old that may be; min_seq and max_lag_ms ask for a newer one (freshness.go). The
// primary's positions, as events, wake the follower (edge_stream.go). Access tokens
// come with each state, before it is read. The dashboard reads there too.
//
// [Source] lets a worker of package node/client take its jobs from a queue in
// the same process, by the same conversions. [Examine] looks at what a node left.
//
// With Config.SQLListen the primary's file is served to SQL clients on a port of
// its own, by package node/hrana (sql.go), to whom the tokens let view everything.
//
// # Basics
//
//	err := node.Run(ctx, node.Config{
//		Data:    "/var/lib/holdfast",
//		OnReady: func(url string) { fmt.Println("serving", url) },
//	})
//	switch {
//	case errors.Is(err, node.ErrLocked): // another process uses the directory
//	case errors.Is(err, node.ErrRefused): // the data is not ours to touch
//	}
//
// Cancel ctx to stop: waiting claims are answered, requests under way finish,
// the file is closed, and Run returns nil.
//
// # Caveats
//
// As long as there is no access token, whoever can connect may do everything.
// So a node without one listens on loopback only, and refuses what a web page
// could make a browser send there.
//
// Bodies are checked strictly, but field names are matched without regard to
// case and the last of two equal names wins, as encoding/json has it.
//
// A claim whose client went away is given back at once only when the node can
// see it: the connection was closed before the answer, or writing failed. An
// answer that was lost on the way later comes back when its lease ends. So a
// client should not hang up, but close its half of the connection and read on,
// as those of ours do; over HTTP/2 it cannot.
package node
