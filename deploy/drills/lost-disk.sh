#!/bin/sh
# Drill of a lost disk: deploy/drills/lost-disk.sh
#
# A node of its own takes jobs, is killed, and loses its data directory. Started
# again with nothing, it has to have every job that it acknowledged. nodes.sh says
# which variables name the bucket.
. "$(dirname "$0")/nodes.sh"

url=http://127.0.0.1:$port
settings manual
start a "$port"
await 30 "the node is ready" holdfast status --url "$url"
enqueue 20 "$url"
kill -9 "$started"
wait "$started" 2>/dev/null || true
rm -rf "$dir/a"
echo "20 jobs are acknowledged; the node is killed and its disk is gone"

began=$(date +%s)
start a "$port"
await 60 "the node is back" holdfast status --url "$url"
check "$url"
echo "lost disk drill: ok; all 20 jobs are back, $(($(date +%s) - began)) s after the start"
