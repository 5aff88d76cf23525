#!/bin/sh
# Failover drill: deploy/drills/failover.sh
#
# Two nodes of its own on one root: the primary is killed while jobs come in. The
# standby has to take over by itself and to have every job that was acknowledged.
# nodes.sh says which variables name the bucket.
. "$(dirname "$0")/nodes.sh"

a=http://127.0.0.1:$port
b=http://127.0.0.1:$port2
settings auto
start a "$port"
primary=$started
await 30 "the primary is ready" holdfast status --url "$a"
start b "$port2"
await 30 "the standby stands by" grep -q standby "$dir/b.log"
enqueue 20 "$a,$b"
kill -9 "$primary"
wait "$primary" 2>/dev/null || true
echo "20 jobs are acknowledged; the primary is killed"

began=$(date +%s)
enqueue 1 "$a,$b"
took=$(($(date +%s) - began))
enqueue 19 "$a,$b"
check "$b"
echo "failover drill: ok; the standby took over within $took s, and all 40 jobs are there"
