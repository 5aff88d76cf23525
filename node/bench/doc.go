// Package bench measures what a machine can do with Holdfast, beside a
// yardstick that ran in the same minute on the same machine.
//
// A suite starts what it needs as child processes of the same binary, on
// loopback and in a temporary directory, and loads ours and its yardstick in
// turns: noise that lasts longer than one turn meets both, so the ratio of a
// pair is steadier than either rate. A suite reports the median of its pairs.
//
// The clients are raw keep-alive connections that write requests rendered
// beforehand. They run on the machine that they measure, and Go's own HTTP
// client would cost more than the server does.
package bench
