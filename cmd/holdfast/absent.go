package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"holdfast/node"
	"holdfast/node/client"
)

const (
	shownQueues = 10              // in a hint
	lookTime    = 5 * time.Second // for a hint, which nothing waits for longer
)

// A queue comes into being with its first job, so a worker may wait for jobs of
// one that is not there yet, and that is no error. A person who misspelled it
// waits in vain.

// absent returns those of names that are no queues, and a hint at what may have
// been meant. It has nothing to say where it may not look.
func absent(ctx context.Context, api *client.Client, names []string) (missing []string, hint string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	queues, err := api.Queues(ctx)
	if err != nil {
		return nil, ""
	}
	there := make([]string, len(queues))
	for i := range queues {
		there[i] = queues[i].Name
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 1 {
		if near := node.Nearest(missing[0], there); near != "" && !slices.Contains(names, near) {
			return missing, "did you mean " + near + "?"
		}
	}
	return missing, queuesHint(there)
}

// queuesHint lists queues, of which there may be many.
func queuesHint(names []string) string {
	if len(names) == 0 {
		return "there is none at all"
	}
	text := "the queues are: " + strings.Join(names[:min(len(names), shownQueues)], ", ")
	if more := len(names) - shownQueues; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// tellAbsent prints a line if one of names is no queue.
func tellAbsent(ctx context.Context, w io.Writer, api *client.Client, names ...string) {
	if missing, hint := absent(ctx, api, names); len(missing) > 0 {
		fmt.Fprintf(w, "there is no queue %s yet; %s\n", strings.Join(missing, ", "), hint)
	}
}

// logAbsent is tellAbsent for what writes a log.
func logAbsent(ctx context.Context, log *slog.Logger, api *client.Client, names []string) {
	if missing, hint := absent(ctx, api, names); len(missing) > 0 {
		log.Warn("there is no such queue yet; it comes into being with its first job", "queue", strings.Join(missing, ","), "hint", hint)
	}
}
