#!/bin/sh
# Restore drill: deploy/drills/restore.sh [--config litestream.yml] [--data DIR]
#
# Brings the newest state out of the replica, with a check of every page, starts a
# node on it in a directory of its own, and shows what it holds. The node that
# serves is not disturbed, and nothing is written to its replica. Takes as much
# free space as the database, in TMPDIR. DRILL_PORT (7790) is the port of the node.
set -eu
command -v holdfast >/dev/null || {
	echo "drill: put holdfast on the path first" >&2
	exit 1
}
here=127.0.0.1:${DRILL_PORT:-7790}
dir=$(mktemp -d)
node=
finish() {
	[ -z "$node" ] || kill "$node" 2>/dev/null || true
	wait
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM

mkdir "$dir/data"
began=$(date +%s)
holdfast restore "$@" -o "$dir/data/holdfast.db"
restored=$(date +%s)

# A restored database knows the access tokens; this node takes one of its own.
HOLDFAST_ADMIN_TOKEN=drill-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export HOLDFAST_ADMIN_TOKEN
unset HOLDFAST_CONFIG HOLDFAST_TOKEN HOLDFAST_USER
holdfast serve --data "$dir/data" --listen "$here" --node drill >"$dir/log" 2>&1 &
node=$!
until holdfast status --url "http://$here" >"$dir/status" 2>/dev/null; do
	if ! kill -0 "$node" 2>/dev/null; then
		cat "$dir/log" >&2
		echo "restore drill: FAILED: no node starts on what was restored" >&2
		exit 1
	fi
	sleep 0.2
done
cat "$dir/status"
echo "restore drill: ok; restored in $((restored - began)) s, serving $(($(date +%s) - restored)) s later"
