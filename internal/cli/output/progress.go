package output

import (
	"fmt"
	"time"
)

// seldom is the interval of lines for the same stage.
const seldom = 15 * time.Second

// A Progress shows the progress of long work: in one line that it overwrites or, where that is impossible, in a line for each stage and
// one more now and then.
type Progress struct {
	to    *Terminal
	now   func() time.Time
	stage string
	told  time.Time
	shown bool // whether a line must be erased
}

// Progress returns a Progress on the terminal.
func (t *Terminal) Progress() *Progress { return &Progress{to: t, now: time.Now} }

// Show shows the stage of the work and its details.
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

// End erases the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}
