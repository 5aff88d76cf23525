package dashboard

import (
	"cmp"
	"slices"
	"time"
)

// worker is who holds jobs.
type worker struct {
	Name   string
	Held   int
	Jobs   []Job // those held for the longest first
	More   int   // that are not shown
	Since  time.Time
	Queues []string
}

// shownHeld bounds the jobs that are shown of a worker.
const shownHeld = 20

// workersOf puts running jobs to their workers, those first that have held one
// for the longest.
func workersOf(running []Job) []worker {
	held := map[string][]Job{}
	for _, j := range running {
		held[j.Worker] = append(held[j.Worker], j)
	}
	var out []worker
	for name, jobs := range held {
		slices.SortFunc(jobs, func(a, b Job) int { return a.StartedAt.Compare(b.StartedAt) })
		w := worker{Name: name, Held: len(jobs), Since: jobs[0].StartedAt}
		for _, j := range jobs {
			if !slices.Contains(w.Queues, j.Queue) {
				w.Queues = append(w.Queues, j.Queue)
			}
		}
		slices.Sort(w.Queues)
		if w.Jobs = jobs; len(jobs) > shownHeld {
			w.Jobs, w.More = jobs[:shownHeld], len(jobs)-shownHeld
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b worker) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name)) })
	return out
}
