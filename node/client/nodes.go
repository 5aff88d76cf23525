package client

import (
	"slices"
	"sync"
)

const (
	primaryHeader       = "Holdfast-Primary"
	seqHeader           = "Holdfast-Seq"
	replicatedSeqHeader = "Holdfast-Replicated-Seq"
)

// nodes are those that a client knows, and the one that it thinks is the
// primary.
type nodes struct {
	mu  sync.Mutex
	all []string
	at  int
}

func (n *nodes) current() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[n.at]
}

// hops is how often a call goes on to another node.
func (n *nodes) hops() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all) + 1
}

// leave goes on from a node that is not the primary, or does not answer, to the
// one that it named, or to the next. It reports whether there is another.
func (n *nodes) leave(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[n.at] != from { // another call has done it
		return true
	}
	if base, err := nodeURL(to); err == nil && base != from {
		if n.at = slices.Index(n.all, base); n.at < 0 {
			n.all = append(n.all, base)
			n.at = len(n.all) - 1
		}
		return true
	}
	n.at = (n.at + 1) % len(n.all)
	return len(n.all) > 1
}
