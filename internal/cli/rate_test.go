package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func TestMeterReads(t *testing.T) {
	const mib = 1 << 20
	now := time.Unix(0, 0)
	m := &meter{now: func() time.Time { return now }}
	steps := []struct {
		after    time.Duration
		progress v1beta1.CatalogProgress
		want     string
	}{
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressResolving}, "Asking the registry: "},
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading}, "Downloading: 0 B"},
		{time.Second, v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: mib, TotalBytes: 8 * mib}, "Downloading: 1.0 MiB of 8.0 MiB (12%), 1.0 MiB/s"},
		{time.Second, v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: mib, TotalBytes: 8 * mib}, "Downloading: 1.0 MiB of 8.0 MiB (12%), 1.0 MiB/s"},
		{time.Second, v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: 5 * mib, TotalBytes: 8 * mib}, "Downloading: 5.0 MiB of 8.0 MiB (62%), 2.0 MiB/s"},
		{time.Second, v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: mib, TotalBytes: 8 * mib}, "Downloading: 1.0 MiB of 8.0 MiB (12%)"}, // begun again
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressIndexing}, "Indexing: "},
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressPublishing, Packages: 7, TotalPackages: 319}, "Publishing: 7 of 319 packages"},
		{0, v1beta1.CatalogProgress{Phase: "Dancing"}, "Dancing: "},
	}
	for _, s := range steps {
		now = now.Add(s.after)
		stage, detail := m.read(s.progress)
		if diff := cmp.Diff(s.want, stage+": "+detail); diff != "" {
			t.Error(diff)
		}
	}
}

// What catalogd is at says more than that it has not looked at the change yet, and less than that it is over.
func TestMeterRefines(t *testing.T) {
	c := &v1beta1.CatalogSource{}
	c.Status.Progress = &v1beta1.CatalogProgress{Phase: v1beta1.ProgressIndexing}
	if got := newMeter().readiness(c); got.stage != "Indexing" || got.hint != "" {
		t.Errorf("got %+v", got)
	}
	if got := newMeter().refine(c, finding{done: true}); !got.done || got.stage != "" {
		t.Errorf("got %+v", got)
	}
}
