package cli

import (
	"fmt"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// A meter says how far catalogd is with a new digest, and how fast.
type meter struct {
	now   func() time.Time
	bytes int64 // downloaded at that time
	at    time.Time
	rate  float64 // bytes in a second
}

func newMeter() *meter { return &meter{now: time.Now} }

// readiness is that of a catalog, with what catalogd is at.
func (m *meter) readiness(c *v1beta1.CatalogSource) finding {
	return m.refine(c, readiness(c))
}

// refine says what catalogd is at, of a catalog that is waited for.
func (m *meter) refine(c *v1beta1.CatalogSource, found finding) finding {
	if found.done || found.err != nil || c.Status.Progress == nil {
		return found
	}
	found.stage, found.detail = m.read(*c.Status.Progress)
	found.hint = ""
	return found
}

func (m *meter) read(p v1beta1.CatalogProgress) (stage, detail string) {
	switch p.Phase {
	case v1beta1.ProgressResolving:
		return "Asking the registry", ""
	case v1beta1.ProgressDownloading:
		return "Downloading", m.download(p.Bytes, p.TotalBytes)
	case v1beta1.ProgressIndexing:
		return "Indexing", ""
	case v1beta1.ProgressPublishing:
		return "Publishing", fmt.Sprintf("%d of %s", p.Packages, counted(int(p.TotalPackages), "package", "packages"))
	}
	return string(p.Phase), ""
}

func (m *meter) download(bytes, total int64) string {
	now := m.now()
	if took := now.Sub(m.at); bytes < m.bytes || m.at.IsZero() {
		m.bytes, m.at, m.rate = bytes, now, 0
	} else if bytes > m.bytes && took > 0 {
		m.rate = float64(bytes-m.bytes) / took.Seconds()
		m.bytes, m.at = bytes, now
	}
	text := term.Bytes(bytes)
	if total > 0 {
		text += fmt.Sprintf(" of %s (%d%%)", term.Bytes(total), 100*bytes/total)
	}
	if m.rate > 0 {
		text += fmt.Sprintf(", %s/s", term.Bytes(int64(m.rate)))
	}
	return text
}
