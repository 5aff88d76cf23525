package replicate

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/benbjohnson/litestream"
)

// Validate returns nil, or a [*ConfigError] with all that is wrong with the
// settings. It looks at nothing but them.
func (c Config) Validate() error {
	problems := c.check()
	if c.Replica.Type == "" {
		problems = append(problems, ConfigProblem{Key: "replica.type", Text: "is missing"})
	}
	return configError(problems)
}

// ForDatabase completes the configuration for a node whose database is at
// dbPath: a replica that is not named is a folder beside it. A configuration
// that names another database is refused.
func (c Config) ForDatabase(dbPath string) (Config, error) {
	abs, err := filepath.Abs(dbPath)
	if err != nil {
		return Config{}, fmt.Errorf("path of the database: %w", err)
	}
	if c.DBPath != "" && !samePath(c.DBPath, abs) {
		at := c.at["dbs[0].path"]
		return Config{}, configError([]ConfigProblem{{
			File: c.file, Line: at.line, Key: "dbs[0].path",
			Text: fmt.Sprintf("names %s, but the database of the data directory is %s", c.DBPath, abs),
		}})
	}
	c.DBPath = abs
	if c.Replica.Type == "" {
		c.Replica = folderReplica(filepath.Dir(abs))
	}
	problems := c.check()
	for i := range problems {
		problems[i].File = c.file
	}
	return c, configError(problems)
}

// samePath compares two paths of a file that need not exist, by the directories
// that they lead to.
func samePath(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, err := os.Stat(filepath.Dir(a))
	other, err2 := os.Stat(filepath.Dir(b))
	return errors.Join(err, err2) == nil && os.SameFile(one, other) && filepath.Base(a) == filepath.Base(b)
}

// checker collects problems.
type checker struct {
	at       map[string]place
	problems []ConfigProblem
}

// want reports a setting unless ok.
func (k *checker) want(ok bool, name, format string, args ...any) {
	if ok {
		return
	}
	p := ConfigProblem{Key: name, Text: fmt.Sprintf(format, args...)}
	if at, found := k.at[name]; found {
		p.Key, p.Line = at.key, at.line
	}
	k.problems = append(k.problems, p)
}

// positive reports a duration of 0 or less.
func (k *checker) positive(d time.Duration, name string) {
	k.want(d > 0, name, "got %s, want more than 0", d)
}

// oneOf reports a word that is neither a nor b. It does not quote it, because
// it may come from a variable.
func (k *checker) oneOf(got, name, a, b string) {
	k.want(got == a || got == b, name, "want %s or %s", a, b)
}

// check is Validate, with the lines of the file. A replica that is not named
// passes.
func (c Config) check() []ConfigProblem {
	k := &checker{at: c.at}
	k.positive(c.SyncInterval, "sync-interval")
	n := len(c.Levels)
	k.want(n >= 1 && n < litestream.SnapshotLevel, "levels", "got %d levels, want 1 to %d", n, litestream.SnapshotLevel-1)
	for i, d := range c.Levels {
		k.positive(d, fmt.Sprintf("levels[%d].interval", i))
	}
	k.positive(c.Snapshot.Interval, "snapshot.interval")
	k.positive(c.Snapshot.Retention, "snapshot.retention")
	if c.Snapshot.Interval > 0 && c.Snapshot.Retention > 0 {
		k.want(c.Snapshot.Retention >= c.Snapshot.Interval, "snapshot.retention",
			"got %s, want at least the interval of %s: else there are times that no snapshot reaches", c.Snapshot.Retention, c.Snapshot.Interval)
	}
	k.want(c.L0Retention >= 0, "l0-retention", "got %s, want 0 or more", c.L0Retention)
	c.checkOwn(k)
	switch c.Replica.Type {
	case "":
	case TypeFile:
		c.checkFolder(k)
	case TypeS3:
		c.Replica.checkBucket(k)
	default:
		k.oneOf(c.Replica.Type, "replica.type", TypeFile, TypeS3)
	}
	return k.problems
}

// checkOwn checks what is under holdfast. A TTL under a second would make a
// lease of every slow request; a window over ten would outlast clients.
func (c Config) checkOwn(k *checker) {
	k.oneOf(c.Failover, "holdfast.failover", FailoverManual, FailoverAuto)
	k.want(c.LeaseTTL >= time.Second, "holdfast.lease_ttl", "got %s, want 1s or more", c.LeaseTTL)
	k.oneOf(c.Durability, "holdfast.durability", DurabilityLocal, DurabilityReplicated)
	k.want(c.Window >= 0 && c.Window <= 10*time.Second, "holdfast.window", "got %s, want 0s to 10s", c.Window)
	age := c.MaxUnreplicatedAge
	k.want(age == 0 || age > c.SyncInterval, "holdfast.max_unreplicated_age",
		"got %s, want 0s (off) or more than the sync-interval of %s: else new jobs are refused while all is well", age, c.SyncInterval)
	if c.Advertise != "" {
		u, err := url.Parse(c.Advertise)
		k.want(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil &&
			strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == "",
			"holdfast.advertise", "want the URL of this node, http(s)://HOST:PORT, and nothing behind it")
	}
}

func (c Config) checkFolder(k *checker) {
	k.want(c.Replica.Path != "", "replica.path", "is missing: the folder of the replica")
	k.want(c.DBPath == "" || c.Replica.Path == "" || !samePath(c.Replica.Path, filepath.Dir(c.DBPath)), "replica.path",
		"is the directory of the database; name a folder in it, or elsewhere")
	k.want(c.Failover != FailoverAuto, "holdfast.failover", "auto needs a replica of type s3: a standby cannot reach a folder")
	k.want(c.Durability != DurabilityReplicated, "holdfast.durability", "replicated needs a replica of type s3: a folder is lost with its machine")
}

// minPartSize is what S3 allows for every part of an upload but the last.
const minPartSize = 5 << 20

func (r Replica) checkBucket(k *checker) {
	k.want(r.Bucket != "", "replica.bucket", "is missing: the bucket of the replica")
	k.want(!strings.Contains(r.Bucket, "/") || strings.HasPrefix(r.Bucket, "arn:"), "replica.bucket", "is a name without slashes; what follows it goes into path:")
	for part := range strings.SplitSeq(r.Path, "/") {
		k.want(part != "." && part != ".." && (part != "" || r.Path == ""), "replica.path", "holds an empty part or one of dots")
	}
	k.want(r.AccessKeyID != "" || r.SecretAccessKey == "", "replica.secret-access-key", "is set, but access-key-id is not; set both or neither")
	k.want(r.SecretAccessKey != "" || r.AccessKeyID == "", "replica.access-key-id", "is set, but secret-access-key is not; set both or neither")
	if r.Endpoint != "" {
		u, err := url.Parse(r.Endpoint)
		k.want(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "",
			"replica.endpoint", "want http(s)://HOST of the store, without keys and parameters")
	}
	k.want(r.PartSize == 0 || r.PartSize >= minPartSize, "replica.part-size", "got %d bytes, want 5MiB or more", r.PartSize)
	k.want(r.Concurrency >= 0, "replica.concurrency", "got %d, want 1 or more, or 0 for the default", r.Concurrency)
}
