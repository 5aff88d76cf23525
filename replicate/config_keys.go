package replicate

import (
	"fmt"
	"slices"
	"strings"
)

// The kinds of sections, by the words that an error has for them.
const (
	inTop      = "the top level"
	inDB       = "a database under dbs"
	inReplica  = "replica"
	inSnapshot = "snapshot"
	inLevel    = "a level under levels"
	inHoldfast = "holdfast"
)

// keysOf are the keys that we read, by the kind of section. The order of
// sectionKinds decides which one a misplaced key is sent to.
var (
	sectionKinds = []string{inHoldfast, inReplica, inDB, inTop, inSnapshot, inLevel}
	keysOf       = map[string][]string{
		inTop: {
			"dbs", "levels", "snapshot", "l0-retention", "holdfast", "sync-interval", "access-key-id", "secret-access-key",
			"bucket", "region", "endpoint", "force-path-style", "sign-payload", "skip-verify",
		},
		inDB: {"path", "replica", "snapshot"},
		inReplica: {
			"type", "url", "path", "sync-interval", "access-key-id", "secret-access-key", "bucket", "region", "endpoint",
			"force-path-style", "sign-payload", "skip-verify", "part-size", "concurrency",
		},
		inSnapshot: {"interval", "retention"},
		inLevel:    {"interval"},
		inHoldfast: {"failover", "lease_ttl", "durability", "window", "max_unreplicated_age", "advertise"},
	}
)

// formerKeys are those of Litestream v0.3, and what became of them.
var formerKeys = map[string]string{
	"replicas":                  "is a key of Litestream v0.3; write replica: with the one replica below it, without a dash",
	"snapshot-interval":         "is a key of Litestream v0.3; write interval: under snapshot: at the top level",
	"retention":                 "is a key of Litestream v0.3; write retention: under snapshot: at the top level",
	"retention-check-interval":  "is a key of Litestream v0.3 that has no successor; remove it",
	"validation-interval":       "is a key of Litestream v0.3; its successor validation.interval is not supported; remove it",
	"max-checkpoint-page-count": "is a key of Litestream v0.3 that has no successor; remove it",
	"name":                      "is a key of Litestream v0.3 that has no successor, a database has one replica now; remove it",
}

// Why keys of the stock program are not supported.
const (
	ownWay     = "Holdfast does this by itself"
	ownServer  = "Holdfast has its own server and logs"
	oneFile    = "Holdfast replicates the one database of its data directory"
	otherStore = "Holdfast supports the replica types file and s3"
	unprepared = "Holdfast's own requests to the bucket would not follow it"
)

// unsupportedKeys are those of the stock program that we refuse, because to
// ignore what somebody asked for would be worse.
var unsupportedKeys = map[string][]string{
	ownWay: {
		"monitor-interval", "checkpoint-interval", "busy-timeout", "min-checkpoint-page-count", "truncate-page-n",
		"max-sync-wal-bytes", "max-sync-ltx-files", "restore-if-db-not-exists", "meta-path", "validation", "verify-compaction",
		"l0-retention-check-interval", "shutdown-timeout", "shutdown-sync-timeout", "shutdown-sync-interval", "enabled",
	},
	ownServer: {
		"addr", "socket", "permissions", "exec", "logging", "level", "stderr", "source", "mcp-addr", "heartbeat-url", "heartbeat-interval",
	},
	oneFile: {"dir", "pattern", "recursive", "watch", "meta-dir"},
	otherStore: {
		"account-name", "account-key", "sas-token", "host", "user", "password", "key-path", "concurrent-writes", "host-key",
		"webdav-url", "webdav-username", "webdav-password", "jwt", "seed", "creds", "nkey", "username", "token", "tls",
		"root-cas", "client-cert", "client-key", "max-reconnects", "reconnect-wait", "timeout",
	},
	unprepared: {
		"storage-class", "sign-accept-encoding", "require-content-md5", "put-object-content-md5",
		"sse-customer-algorithm", "sse-customer-key", "sse-customer-key-path", "sse-kms-key-id",
	},
	"it loses writes without a word when local state is reset": {"auto-recover"},
	"the stock program refuses it as well":                     {"age", "identities", "recipients"},
}

// adviceFor has the keys whose advice depends on where they stand.
var adviceFor = map[string]string{
	inTop + "/retention":   "is a key of Litestream that is not supported: Holdfast deletes what is past snapshot.retention by itself; remove it",
	inTop + "/part-size":   "has no effect at the top level (the stock program ignores it there); write it under replica",
	inTop + "/concurrency": "has no effect at the top level (the stock program ignores it there); write it under replica",
}

// advise says what is wrong with a key that a kind of section does not have.
func advise(kind, name string) string {
	if text, ok := adviceFor[kind+"/"+name]; ok {
		return text
	}
	if text, ok := formerKeys[name]; ok && kind != inHoldfast {
		return text
	}
	for reason, keys := range unsupportedKeys {
		if kind != inHoldfast && slices.Contains(keys, name) {
			return "is a key of Litestream that is not supported: " + reason + "; remove it"
		}
	}
	for _, other := range sectionKinds {
		if slices.Contains(keysOf[other], name) {
			return fmt.Sprintf("does not belong here but in %s", other)
		}
	}
	if near := nearestKey(name, keysOf[kind]); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	return "unknown key; " + kind + " has " + strings.Join(keysOf[kind], ", ")
}

// nearestKey returns the key that was probably meant, or "". Those who write -
// for _ are sent to the right one too.
func nearestKey(name string, keys []string) string {
	best, bestCost := "", 3
	for _, key := range keys {
		if cost := editDistance(strings.ReplaceAll(strings.ToLower(name), "-", "_"), strings.ReplaceAll(key, "-", "_")); cost < bestCost && cost < len(key)/2 {
			best, bestCost = key, cost
		}
	}
	return best
}

// editDistance is the number of bytes to insert, delete or replace to make a
// into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
