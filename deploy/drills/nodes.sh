# Read by the drills that start nodes of their own. They work in the bucket that
# the variables name, under a path of their own:
#
#   BUCKET_NAME AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY, and where they are needed
#   AWS_ENDPOINT_URL_S3 and AWS_REGION
#
# DRILL_PORT (7790) and DRILL_PORT2 (the next one) are the ports of the nodes.
set -eu
: "${BUCKET_NAME:?names the bucket to work in}"
command -v holdfast >/dev/null || {
	echo "drill: put holdfast on the path first" >&2
	exit 1
}
port=${DRILL_PORT:-7790}
port2=${DRILL_PORT2:-$((port + 1))}
dir=$(mktemp -d)
root=drill-$(date +%Y%m%d-%H%M%S)-$$
pids=
begun=
finish() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || true
	done
	wait
	rm -rf "$dir"
	[ -z "$begun" ] || echo "the bucket still has $root/, which you may delete"
}
trap finish EXIT
trap 'exit 1' INT TERM
unset HOLDFAST_CONFIG HOLDFAST_DATA HOLDFAST_LISTEN HOLDFAST_NODE HOLDFAST_URL HOLDFAST_USER HOLDFAST_TOKEN HOLDFAST_ADMIN_TOKEN

# settings FAILOVER: writes the nodes' litestream.yml and begins the root.
settings() {
	cat >"$dir/litestream.yml" <<END
dbs:
  - path: \${HOLDFAST_DATA}/holdfast.db
    replica:
      type: s3
      bucket: $BUCKET_NAME
      path: $root
      region: ${AWS_REGION:-auto}
      ${AWS_ENDPOINT_URL_S3:+endpoint: $AWS_ENDPOINT_URL_S3}
holdfast:
  failover: $1
  lease_ttl: 3s
  durability: replicated
END
	HOLDFAST_DATA=$dir/none holdfast init --config "$dir/litestream.yml" >/dev/null
	begun=yes
}

# start NAME PORT: starts a node; its process is $started.
start() {
	HOLDFAST_DATA=$dir/$1 holdfast serve --config "$dir/litestream.yml" --node "$1" --listen "127.0.0.1:$2" >>"$dir/$1.log" 2>&1 &
	started=$!
	pids="$pids $started"
}

# await SECONDS WHAT COMMAND…: runs a command until it succeeds, while the node
# lives that was started last.
await() {
	last=$(($(date +%s) + $1))
	what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		kill -0 "$started" 2>/dev/null || fail "a node ended; $what: never"
		[ "$(date +%s)" -lt "$last" ] || fail "not in time: $what"
		sleep 0.1
	done
}

# enqueue COUNT URLS: enqueues jobs, each until it is acknowledged, and keeps
# their ids in $dir/acknowledged. The key makes it safe to send one again.
enqueue() {
	n=0
	while [ "$n" -lt "$1" ]; do
		n=$((n + 1))
		key=$(date +%s%N)-$n
		await 60 "a job is acknowledged" one "$key" "$2"
		cat "$dir/id" >>"$dir/acknowledged"
	done
}

one() { holdfast enqueue drill '"job"' --key "$1" --url "$2" --quiet >"$dir/id"; }

# check URLS: every acknowledged job must be there.
check() {
	holdfast export --url "$1" >"$dir/export"
	while read -r id; do
		grep -q "^{\"id\":\"$id\"," "$dir/export" || fail "job $id was acknowledged and is lost"
	done <"$dir/acknowledged"
}

fail() {
	for log in "$dir"/*.log; do
		sed "s|^|$(basename "$log"): |" "$log" >&2
	done
	echo "drill: FAILED: $1" >&2
	exit 1
}
