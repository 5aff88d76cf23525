package replicate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// top reads the whole file.
func (l *configLoader) top(root *yaml.Node) {
	known := l.shared(&l.global, "global")
	known["dbs"] = l.databases
	known["levels"] = l.levels
	var outer, inner Snapshot
	known["snapshot"] = l.snapshot(&outer, "top")
	known["l0-retention"] = l.duration(&l.cfg.L0Retention, "l0-retention")
	known["holdfast"] = l.own
	// What a database says of snapshots counts where the top level is silent,
	// whichever stands first.
	l.dbSnapshot = &inner
	l.section(place{line: root.Line}, inTop, root, known)
	l.mergeSnapshot(&l.cfg.Snapshot.Interval, "snapshot.interval", inner.Interval, outer.Interval)
	l.mergeSnapshot(&l.cfg.Snapshot.Retention, "snapshot.retention", inner.Retention, outer.Retention)
}

func (l *configLoader) mergeSnapshot(to *time.Duration, name string, inner, outer time.Duration) {
	for _, from := range []struct {
		prefix string
		value  time.Duration
	}{{"db.", inner}, {"top.", outer}} {
		if at, ok := l.cfg.at[from.prefix+name]; ok {
			*to, l.cfg.at[name] = from.value, at
			delete(l.cfg.at, from.prefix+name)
		}
	}
}

func (l *configLoader) snapshot(to *Snapshot, prefix string) field {
	return func(at place, n *yaml.Node) {
		l.section(at, inSnapshot, n, map[string]field{
			"interval":  l.duration(&to.Interval, prefix+".snapshot.interval"),
			"retention": l.duration(&to.Retention, prefix+".snapshot.retention"),
		})
	}
}

func (l *configLoader) levels(at place, n *yaml.Node) {
	l.cfg.Levels = nil
	l.cfg.at["levels"] = at
	l.list(at, n, func(at place, n *yaml.Node) {
		name := fmt.Sprintf("levels[%d].interval", len(l.cfg.Levels))
		var interval time.Duration
		l.cfg.at[name] = place{at.key + ".interval", at.line}
		l.section(at, inLevel, n, map[string]field{"interval": l.duration(&interval, name)})
		l.cfg.Levels = append(l.cfg.Levels, interval)
	})
}

func (l *configLoader) databases(at place, n *yaml.Node) {
	count := 0
	total := l.list(at, n, func(at place, n *yaml.Node) {
		if count++; count == 1 {
			l.dbs = true
			l.database(at, n)
		}
	})
	if total > 1 {
		l.problem(place{fmt.Sprintf("%s[1]", at.key), n.Content[1].Line}, fmt.Sprintf("got %d databases, want one: %s", total, oneFile))
	}
}

func (l *configLoader) database(at place, n *yaml.Node) {
	hasPath, hasReplica := false, false
	before := len(l.problems)
	l.section(at, inDB, n, map[string]field{
		"path": func(at place, n *yaml.Node) {
			hasPath = true
			l.text(&l.cfg.DBPath, "dbs[0].path")(at, n)
		},
		"snapshot": l.snapshot(l.dbSnapshot, "db"),
		"replica": func(at place, n *yaml.Node) {
			hasReplica = true
			l.at = at
			l.section(at, inReplica, n, l.replicaFields())
		},
	})
	if len(l.problems) > before {
		return // what is missing may be what is misspelt
	}
	if !hasPath || l.has("dbs[0].path") && l.cfg.DBPath == "" {
		l.problem(place{at.key + ".path", at.line}, "is missing: the path of the database, holdfast.db in the data directory")
	} else if path, err := absolutePath(l.cfg.DBPath); err != nil {
		l.problem(l.cfg.at["dbs[0].path"], err.Error())
	} else {
		l.cfg.DBPath = path
	}
	if !hasReplica {
		l.problem(place{at.key + ".replica", at.line}, "is missing: where the database is replicated to")
	}
}

func (l *configLoader) own(at place, n *yaml.Node) {
	c := &l.cfg
	l.section(at, inHoldfast, n, map[string]field{
		"failover":             l.text(&c.Failover, "holdfast.failover"),
		"lease_ttl":            l.duration(&c.LeaseTTL, "holdfast.lease_ttl"),
		"durability":           l.text(&c.Durability, "holdfast.durability"),
		"window":               l.duration(&c.Window, "holdfast.window"),
		"max_unreplicated_age": l.duration(&c.MaxUnreplicatedAge, "holdfast.max_unreplicated_age"),
		"advertise":            l.text(&c.Advertise, "holdfast.advertise"),
	})
}

// absolute resolves a path as the stock program does, the home directory and
// the prefix of a connection string included.
func absolutePath(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "sqlite3://"); ok {
		path = rest
	} else if rest, ok := strings.CutPrefix(path, "sqlite://"); ok {
		path = rest
	}
	if rest, ok := strings.CutPrefix(path, "~"+string(filepath.Separator)); ok || path == "~" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("the home directory for ~ is not known: %w", err)
		}
		return filepath.Join(home, rest), nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("the working directory for a relative path is not known: %w", err)
	}
	return abs, nil
}
