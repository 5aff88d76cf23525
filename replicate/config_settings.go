package replicate

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Setting is one setting of a configuration, for people.
type Setting struct {
	Name   string `json:"name"`   // as in the file, such as replica.bucket
	Value  string `json:"value"`  // "…" for a secret that is set
	Origin string `json:"origin"` // file:line, the environment, or default
}

// hidden stands for a secret that is set.
const hidden = "…"

// Settings lists the configuration with the origin of each setting. It shows no
// secret. Settings of a bucket are left out when the replica is a folder.
func (c Config) Settings() []Setting {
	var out []Setting
	add := func(name, value string) { out = append(out, Setting{name, value, c.origin(name)}) }
	add("replica.type", c.Replica.Type)
	if c.Replica.Type == TypeS3 {
		out = append(out, c.bucketSettings()...)
	} else {
		add("replica.path", c.Replica.Path)
	}
	add("sync-interval", brief(c.SyncInterval))
	var levels []string
	for _, d := range c.Levels {
		levels = append(levels, brief(d))
	}
	add("levels", strings.Join(levels, " "))
	add("snapshot.interval", brief(c.Snapshot.Interval))
	add("snapshot.retention", brief(c.Snapshot.Retention))
	add("l0-retention", brief(c.L0Retention))
	add("holdfast.failover", c.Failover)
	add("holdfast.lease_ttl", brief(c.LeaseTTL))
	add("holdfast.durability", c.Durability)
	add("holdfast.window", brief(c.Window))
	add("holdfast.max_unreplicated_age", brief(c.MaxUnreplicatedAge))
	add("holdfast.advertise", c.Advertise)
	return out
}

func (c Config) bucketSettings() []Setting {
	r := c.Replica
	var out []Setting
	add := func(name, value string) {
		name = "replica." + name
		out = append(out, Setting{name, value, c.origin(name)})
	}
	secret := func(name, value, variable string) {
		s := Setting{Name: "replica." + name, Origin: c.origin("replica." + name)}
		if value == "" && r.AccessKeyID == "" {
			value = os.Getenv(variable)
			s.Origin = "env " + variable
		}
		if value != "" {
			s.Value = hidden
		}
		out = append(out, s)
	}
	optional := func(b *bool) string {
		if b == nil {
			return "as the provider needs it"
		}
		return strconv.FormatBool(*b)
	}
	add("bucket", r.Bucket)
	add("path", r.Path)
	add("region", r.Region)
	add("endpoint", r.Endpoint)
	secret("access-key-id", r.AccessKeyID, "AWS_ACCESS_KEY_ID")
	secret("secret-access-key", r.SecretAccessKey, "AWS_SECRET_ACCESS_KEY")
	add("force-path-style", optional(r.ForcePathStyle))
	add("sign-payload", optional(r.SignPayload))
	add("skip-verify", strconv.FormatBool(r.SkipVerify))
	add("part-size", strconv.FormatInt(r.PartSize, 10))
	add("concurrency", strconv.Itoa(r.Concurrency))
	return out
}

// origin says where the value of a setting comes from.
func (c Config) origin(name string) string {
	at, ok := c.at[name]
	if !ok && name == "replica.type" {
		// Whatever names the place of the replica implies its type.
		for _, other := range []string{"replica.bucket", "replica.path"} {
			if at, ok = c.at[other]; ok {
				break
			}
		}
	}
	if !ok {
		return "default"
	}
	return fmt.Sprintf("%s:%d", c.file, at.line)
}

// brief writes a duration as one writes it into the file: 24h, not 24h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
