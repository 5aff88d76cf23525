package replicate

import (
	"path/filepath"
	"time"
)

// Config is what litestream.yml says. Load it with [LoadConfig], or take
// [DefaultConfig].
type Config struct {
	// DBPath is the database that the file names, absolute; empty: it names none.
	// [Config.ForDatabase] compares it with the one of the data directory.
	DBPath       string
	Replica      Replica
	SyncInterval time.Duration   // the longest that a commit waits for its upload to begin
	Levels       []time.Duration // intervals of the compaction levels 1, 2, …
	Snapshot     Snapshot
	L0Retention  time.Duration // how long uploaded files stay after they were compacted

	// What follows is under the key holdfast, which the stock program ignores.
	Failover           string // manual or auto
	LeaseTTL           time.Duration
	Durability         string // of requests that name none: local or replicated
	Window             time.Duration
	MaxUnreplicatedAge time.Duration // 0: off
	Advertise          string        // the URL under which other nodes reach this one

	file string           // the file that it was loaded from; empty: none
	at   map[string]place // where the file sets what, by the names of settings
}

// Snapshot says how often whole copies are taken and how long they are kept.
type Snapshot struct {
	Interval  time.Duration
	Retention time.Duration
}

// Replica is where the copy goes: a folder, or a bucket of an S3-compatible
// store. Path is the root below which each epoch has a prefix.
type Replica struct {
	Type            string // file or s3
	Path            string
	Bucket          string
	Region          string
	Endpoint        string
	AccessKeyID     string // empty: the environment's, or the machine's role
	SecretAccessKey string
	ForcePathStyle  *bool // nil: as the provider needs it
	SkipVerify      bool
	SignPayload     *bool
	PartSize        int64 // bytes; 0: the client's default
	Concurrency     int   // 0: the client's default

	// The variables that the file takes the keys from, if it takes them whole.
	accessKeyVar, secretKeyVar string
}

// The values of Replica.Type, Config.Failover and Config.Durability.
const (
	TypeFile             = "file"
	TypeS3               = "s3"
	FailoverManual       = "manual"
	FailoverAuto         = "auto"
	DurabilityLocal      = "local"
	DurabilityReplicated = "replicated"
)

// DefaultConfig is the configuration of a node without a file: its replica is a
// folder of the data directory.
func DefaultConfig(dataDir string) Config {
	c := defaults()
	c.Replica = folderReplica(dataDir)
	return c
}

// folderReplica is the replica of a node that names none.
func folderReplica(dataDir string) Replica {
	if abs, err := filepath.Abs(dataDir); err == nil {
		dataDir = abs
	}
	return Replica{Type: TypeFile, Path: filepath.Join(dataDir, "replica")}
}

// defaults are the settings that do not depend on the data directory. The
// levels are the stock program's.
func defaults() Config {
	return Config{
		SyncInterval: time.Second,
		Levels:       []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour},
		Snapshot: Snapshot{
			Interval: 24 * time.Hour,
			// The stock program keeps one day. Three bridge a weekend: a bad
			// deployment of Friday evening can still be undone on Monday
			// morning, at the price of two more copies of a small file.
			Retention: 72 * time.Hour,
		},
		L0Retention: 5 * time.Minute,
		Failover:    FailoverManual,
		LeaseTTL:    10 * time.Second,
		Durability:  DurabilityLocal,
		Window:      100 * time.Millisecond,
	}
}
