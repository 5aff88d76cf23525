package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

// mostSkew is how far the clocks of this machine and of the bucket may be apart.
// Buckets refuse requests from 15 minutes on, and restores to a time look there.
const mostSkew = time.Minute

// tryBucket tries out what a node needs of a bucket. One that is not reached was
// told by lookAtReplica.
func tryBucket(c *cli.Context, cfg replicate.Config) []node.Check {
	if cfg.Replica.Type != replicate.TypeS3 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, bucketTimeout)
	defer cancel()
	probe, err := replicate.ProbeBucket(ctx, cfg.Replica, commandLogger(c))
	if err != nil {
		return []node.Check{{Name: "bucket rights", Found: "they could not be tried", Fix: err.Error()}}
	}
	rights := node.Check{Name: "bucket rights", OK: true, Found: "the key may list, put, get and delete"}
	if probe.Rights != nil {
		rights = node.Check{Name: "bucket rights", Found: "the key lacks one", Fix: probe.Rights.Error()}
	}
	checks := []node.Check{rights}
	if probe.Rights == nil {
		checks = append(checks, conditionsOf(probe.Conditions, cfg.Failover))
	}
	if probe.SkewKnown {
		checks = append(checks, clockOf(probe.Skew))
	}
	return checks
}

func conditionsOf(err error, failover string) node.Check {
	check := node.Check{Name: "conditional writes", OK: true, Found: "they work: two nodes are kept apart"}
	switch {
	case err == nil:
	case replicate.NoConditions(err) && failover == replicate.FailoverAuto:
		check = node.Check{Name: check.Name, Found: err.Error(), Fix: "failover: auto needs them; use manual, or another provider"}
	case replicate.NoConditions(err):
		check.Found = err.Error() + "; never start a second node on this root, and durability: replicated is refused"
	default:
		check = node.Check{Name: check.Name, Found: "they could not be tried", Fix: err.Error()}
	}
	return check
}

func clockOf(skew time.Duration) node.Check {
	check := node.Check{Name: "clock", OK: true, Found: fmt.Sprintf("within %s of the bucket's", max(skew.Abs(), time.Second))}
	if skew.Abs() > mostSkew {
		check.OK, check.Found = false, fmt.Sprintf("%s from the bucket's", skew)
		check.Fix = "set this machine's clock, best by NTP; the bucket refuses requests from 15 minutes on"
	}
	return check
}
