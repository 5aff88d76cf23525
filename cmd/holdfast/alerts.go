package main

import (
	"github.com/urfave/cli/v2"

	"holdfast/node"
)

// alertFlags say when a person must know of something, and where to tell it.
func alertFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "alert-webhook", EnvVars: []string{"HOLDFAST_ALERT_WEBHOOK"}, Usage: "`URL` that is told, by a POST of JSON, what a person must know; none by default"},
		&cli.Int64Flag{Name: "alert-dead", EnvVars: []string{"HOLDFAST_ALERT_DEAD"}, Value: node.DefaultAlertDead, Usage: "tell when a queue has more dead jobs"},
		&cli.DurationFlag{Name: "alert-oldest", EnvVars: []string{"HOLDFAST_ALERT_OLDEST"}, Value: node.DefaultAlertOldest, Usage: "tell when a job has been due for longer"},
		&cli.DurationFlag{Name: "alert-exposed", EnvVars: []string{"HOLDFAST_ALERT_EXPOSED"}, Value: node.DefaultAlertExposed, Usage: "tell when a commit has been on this disk alone for longer"},
	}
}

func alertsOf(c *cli.Context) node.Alerts {
	return node.Alerts{Webhook: c.String("alert-webhook"), Dead: c.Int64("alert-dead"), Oldest: c.Duration("alert-oldest"), Exposed: c.Duration("alert-exposed")}
}
