// Package hrana serves a SQLite database that is only read to the clients of
// libSQL: Hrana 2 and 3 over HTTP, in JSON, as libsql-client-go, @libsql/client,
// @tursodatabase/serverless and what is built on them speak it. The protocol is
// that of docs/HRANA_3_SPEC.md and docs/HTTP_V2_SPEC.md of tursodatabase/libsql.
//
// # Design
//
// A [Handler] takes databases from a [Source], which may hand out another one at
// any time. A request (session.go) takes one snapshot at its first statement and
// keeps it to its end, two seconds at most.
//
// Clients send any SQL, and what they may see is decided in four places, each
// of which would do for most of it:
//
//   - admit (guard.go) looks at a statement's words before SQLite does.
//   - guard, SQLite's authorizer, denies what is not in the lists of schema.go,
//     by table and column where the data lies; a view's name counts for nothing,
//     as a statement can call a table of its own so. A hidden column reads as NULL.
//   - conn (driver.go) opens the file read-only, and bounds what a statement may
//     be made of.
//   - watch (watch.go) interrupts the connection at the deadline, when the client
//     is gone, when the database is wanted back, and when the process has grown
//     too much: a sort in memory has no other bound.
//
// Transactions are flags (stream.go): nothing is written, so BEGIN need not
// reach SQLite. What a stream has to keep between requests travels in a signed
// baton (baton.go), whose key is in the database, so that any node that has
// a copy of it can go on where another one died.
//
// # Basics
//
//	driver, err := hrana.NewDriver()
//	db := driver.Open("file:/var/lib/copy.db?mode=ro&immutable=1")
//	http.ListenAndServe("127.0.0.1:7781", hrana.New(hrana.Options{Source: source}))
//
// # Caveats
//
// Integers from 2^53 on arrive whole, but JavaScript cannot hold them. The views
// of the schema have none.
//
// An empty blob reads as NULL.
//
// The two pointers of SQLite's that the driver keeps to itself are read by
// reflection. With a driver that names them differently no connection opens.
//
// How much memory SQLite has taken is known on Linux only. Elsewhere a query is
// bounded by its time.
package hrana
