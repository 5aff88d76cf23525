// Package s3server runs a real S3 server for tests, with a proxy in front of it
// that breaks what a test wants broken.
//
// The server is versitygw over a temporary folder. [Start] takes the binary that
// HOLDFAST_VERSITYGW names, one on PATH, or one in the user's cache folder; it
// is built there, once, only under HOLDFAST_CI=1, since that takes minutes.
// Without a binary a test is skipped, and fails under HOLDFAST_CI=1.
//
// The proxy runs in the test's own process, so the nodes that a test starts as
// processes of their own go through it too. It passes on a request as it came,
// the Host header included, which the signature covers.
package s3server
