package output

import (
	"fmt"
	"time"
)

// seldom is how often work that goes on is told of where lines cannot be written over.
const seldom = 15 * time.Second

// A Progress tells how far long work is: in one line that is written over or, where that cannot be done, in a line for each stage and now
// and then one more.
type Progress struct {
	to    *Terminal
	now   func() time.Time
	stage string
	told  time.Time
	shown bool // whether a line stands there that is to be written over
}

// Progress begins to tell of work.
func (t *Terminal) Progress() *Progress { return &Progress{to: t, now: time.Now} }

// Show tells what is being done, and how far that is.
func (p *Progress) Show(stage, detail string) {
	line := Line(stage)
	if detail != "" {
		line += ": " + Line(detail)
	}
	if p.to.Live {
		if p.to.Width > 1 {
			line = Cut(line, p.to.Width-1) // one that fills the last column makes some terminals begin another
		}
		fmt.Fprintf(p.to, "\r\x1b[K%s", line)
		p.shown = true
		return
	}
	if stage == p.stage && p.now().Sub(p.told) < seldom {
		return
	}
	p.stage, p.told = stage, p.now()
	fmt.Fprintln(p.to, line)
}

// End takes the line away, so that something else can be written.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}
