package node

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"holdfast/node/dashboard"
)

// signals are what a person should know, the urgent ones first.
func (p *pageReader) signals(_ context.Context, now time.Time) []dashboard.Signal {
	var out []dashboard.Signal
	for _, text := range p.api.warnings(now) {
		if p.api.copies != nil {
			out = append(out, dashboard.Signal{Text: "What is shown here may be old", Link: "/nodes", Fix: text + "."})
			continue
		}
		out = append(out, dashboard.Signal{
			Urgent: true, Text: "Commits are on this disk only", Link: "/nodes",
			Fix: fmt.Sprintf("%s. Check the bucket, its keys and the network; holdfast doctor tries them.", text),
		})
	}
	return append(out, p.api.watcher.outgrown(p.who.covers)...)
}

func queuePage(name string) string { return "/queues/" + url.PathEscape(name) }
