package replicate

import "time"

// Month is the time for which [Config.Estimate] counts: 30 days.
const Month = 30 * 24 * time.Hour

// listsAFile is how many lists one compaction or snapshot takes: where the level
// ends, and what the one below has. Counted with an S3 server.
const listsAFile = 2

// Estimate returns about how many requests a primary sends to its bucket in a
// month, at so many commits a second, spread evenly. Deletions are left out:
// nobody charges for them. In auto mode a standby reads lock.json besides,
// which is counted too.
//
// TestCostIsWhatIsCounted (in ./tests) compares it with what a node counts.
func (c Config) Estimate(commits float64) Requests {
	if c.Replica.Type != TypeS3 {
		return Requests{}
	}
	per := func(d time.Duration) float64 { // times a second
		if d <= 0 {
			return 0
		}
		return 1 / d.Seconds()
	}
	var put, get, list float64
	// An upload takes all commits since the last one.
	interval := c.SyncInterval
	if c.Durability == DurabilityReplicated {
		interval = c.Window
	}
	uploads := commits
	if most := per(interval); interval > 0 {
		uploads = min(uploads, most)
	}
	put += uploads
	switch {
	case c.Durability == DurabilityReplicated:
		get += uploads // lock.json, after each
	default:
		get += min(uploads, per(askLock))
	}
	// Each level takes the files of the one below once and writes one. The uploads
	// themselves are on the disk too, and are read there.
	below := uploads
	for i, level := range c.Levels {
		files := min(below, per(level))
		put, list = put+files, list+listsAFile*files
		if i > 0 {
			get += below
		}
		below = files
	}
	if uploads > 0 {
		snapshots := per(c.Snapshot.Interval)
		put, list = put+snapshots, list+listsAFile*float64(len(c.Levels)+1)*snapshots
	}
	if c.Failover == FailoverAuto {
		put += renewals * per(c.LeaseTTL)
		get += renewals * per(c.LeaseTTL) // by the standby
	}
	month := Month.Seconds()
	return Requests{Put: int64(put * month), Get: int64(get * month), List: int64(list * month)}
}
