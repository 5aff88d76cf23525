package node

import (
	"fmt"
	"strings"

	"holdfast/queue"
)

// NoQueueText is what whoever names a queue that is not there is told: which
// one of queues, those that they may see, they probably meant.
func NoQueueText(name string, queues []string) string {
	text := fmt.Sprintf("no such queue: %.140q", name)
	if near := Nearest(name, queues); near != "" {
		return text + "; did you mean " + near + "?"
	}
	return text + "; a queue comes into being with its first job"
}

// Nearest returns the candidate that name was probably meant to be, or "". It
// looks at names of at most [queue.MaxName] bytes.
func Nearest(name string, candidates []string) string {
	if len(name) > queue.MaxName {
		return ""
	}
	best, bestCost := "", len(name)/3+2
	for _, c := range candidates {
		cost := 1
		if len(name) < 2 || !strings.HasPrefix(c, name) {
			if apart := len(c) - len(name); max(apart, -apart) >= bestCost {
				continue // each letter too many is one to delete
			}
			cost = distance(name, c)
		}
		if cost < bestCost && cost < len(c) {
			best, bestCost = c, cost
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to make a into b.
func distance(a, b string) int {
	var before []int // the row before last
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
