package output

import (
	"fmt"
	"time"
)

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
