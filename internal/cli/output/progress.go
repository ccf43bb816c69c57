package output

import (
	"fmt"
	"time"
)

// repeatInterval is the interval of lines for the same stage.
const repeatInterval = 15 * time.Second

// A Progress shows the progress of long work in one line that it overwrites. Where that is impossible, it prints a line
// for each stage and repeats it at intervals.
type Progress struct {
	to      *Terminal
	now     func() time.Time
	stage   string
	printed time.Time // the line of the stage
	shown   bool      // whether a line must be erased
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
			line = cut(line, p.to.Width-1) // some terminals begin a new line after the last column
		}
		fmt.Fprintf(p.to, "\r\x1b[K%s", line)
		p.shown = true
		return
	}
	if stage == p.stage && p.now().Sub(p.printed) < repeatInterval {
		return
	}
	p.stage, p.printed = stage, p.now()
	fmt.Fprintln(p.to, line)
}

// End erases the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// A Rate measures how fast bytes are transferred.
type Rate struct {
	Now       func() time.Time
	bytes     int64 // at the last measurement
	at        time.Time
	perSecond float64
}

// NewRate returns a Rate that uses the system's clock.
func NewRate() *Rate { return &Rate{Now: time.Now} }

// Progress returns bytes in words, with the share of total, if that is known, and the rate.
func (r *Rate) Progress(bytes, total int64) string {
	now := r.Now()
	if took := now.Sub(r.at); bytes < r.bytes || r.at.IsZero() {
		r.bytes, r.at, r.perSecond = bytes, now, 0
	} else if bytes > r.bytes && took > 0 {
		r.perSecond = float64(bytes-r.bytes) / took.Seconds()
		r.bytes, r.at = bytes, now
	}
	text := Bytes(bytes)
	if total > 0 {
		text += fmt.Sprintf(" of %s (%d%%)", Bytes(total), 100*bytes/total)
	}
	if r.perSecond > 0 {
		text += fmt.Sprintf(", %s/s", Bytes(int64(r.perSecond)))
	}
	return text
}
