package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
)

// sweepProgress tells how a sweep gets on: in a line that it rewrites on a
// terminal, and by one now and then elsewhere.
type sweepProgress struct {
	w        io.Writer
	terminal bool
	quiet    bool
	total    int // jobs; 0: not known
	told     time.Time
	wrote    bool
}

func newSweepProgress(c *cli.Context) *sweepProgress {
	return &sweepProgress{w: c.App.ErrWriter, terminal: isTerminal(c.App.ErrWriter), quiet: c.Bool("json")}
}

const rewriteProgress = 200 * time.Millisecond

// begin makes the first line come at once on a terminal, and elsewhere only
// when it takes a while.
func (p *sweepProgress) begin() {
	if !p.terminal {
		p.told = time.Now()
	}
}

func (p *sweepProgress) tell(done, rate int) {
	every := logProgress
	if p.terminal {
		every = rewriteProgress
	}
	now := time.Now()
	if p.quiet || now.Sub(p.told) < every {
		return
	}
	p.told = now
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", p.text(done, rate))
		p.wrote = true
		return
	}
	fmt.Fprintln(p.w, p.text(done, rate))
}

func (p *sweepProgress) text(done, rate int) string {
	if p.total == 0 {
		return fmt.Sprintf("%d jobs so far", done)
	}
	text := fmt.Sprintf("%d of %d jobs", done, max(p.total, done))
	if left := time.Duration(p.total-done) * time.Second / time.Duration(max(rate, 1)); left >= time.Second {
		text += ", " + short(left) + " left"
	}
	return text
}

// end leaves the line.
func (p *sweepProgress) end() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
}
