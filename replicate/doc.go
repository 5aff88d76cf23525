// Package replicate keeps a SQLite file in object storage, and brings it back.
//
// # What
//
// A data directory is bound to a root: a prefix in an S3-compatible bucket, or
// a folder. While a node runs, [Litestream] turns the WAL into files that go to
// the root within the sync interval. A node that finds its data gone restores
// it; one whose data is old sets it aside and restores; one whose data does not
// belong to the root refuses to start. Another node can take the root over, and
// whoever had it before finds out before it writes again.
//
// # Design
//
// lock.json at the root, changed by compare-and-swap only, says who may write.
// Each reign is an epoch with a prefix of its own, into which nobody else ever
// writes, so that a node which lost its place can only add to a dead prefix.
// DESIGN.md beside this file starts from the invariants; the order of a boot
// comes out of a model in which every interleaving was tried.
//
// # Basics
//
// [LoadConfig] or [DefaultConfig]; [Init] once for a root; [Acquire], then open
// the database, then [Primary.Start]. [Primary.Notify] after each commit. Close
// the database, then [Primary.Stop]. [Restore], [Adopt] and [TakeOver] are for
// operators.
//
// # Following
//
// A [Follower] keeps a copy of a root's database up to date with read rights
// alone, and serves it: [OpenFollower], then [Follower.Run], and
// [Follower.Acquire] for each reader. What a reader sees is one whole state,
// with its position and its age. A node that waits for its turn in auto mode
// follows too, and takes over from its copy.
//
// # Caveats
//
// The data directory must be locked by the caller. The database must leave
// checkpoints to this package (wal_autocheckpoint=0), and must not be opened by
// os.Open while it is in use: closing such a file drops SQLite's locks. This is
// the only package that imports Litestream, whose library has no stable
// interface: its version is pinned.
//
// [Litestream]: https://litestream.io
package replicate
