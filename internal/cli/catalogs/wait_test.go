package catalogs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

func TestReadiness(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	deleted := metav1.NewTime(time.Unix(0, 0))
	tests := []struct {
		name               string
		ready, progressing metav1.Condition
		edit               func(*status.Catalog)
		done, failed       bool
		stage              string
	}{
		{name: "new", edit: func(c *status.Catalog) { c.Status = v1beta1.CatalogSourceStatus{} }, stage: unobserved},
		{name: "changed", ready: metav1.Condition{Status: yes}, edit: func(c *status.Catalog) { c.Generation = 3 }, stage: unobserved},
		{
			name:        "unpacked for the first time",
			ready:       metav1.Condition{Status: no, Reason: "Unpacking"},
			progressing: metav1.Condition{Status: yes, Reason: "Unpacking"},
			stage:       "Unpacking",
		},
		{
			name:        "ready",
			ready:       metav1.Condition{Status: yes, Reason: "Succeeded"},
			progressing: metav1.Condition{Status: yes, Reason: "Succeeded"},
			done:        true,
		},
		{
			name:        "suspended",
			ready:       metav1.Condition{Status: no, Reason: "Unavailable"},
			progressing: metav1.Condition{Status: no, Reason: "Suspended"},
			done:        true,
		},
		{
			name:        "unavailable by spec",
			ready:       metav1.Condition{Status: no},
			progressing: metav1.Condition{Status: no, Reason: "UserSpecifiedUnavailable"},
			done:        true,
		},
		{
			name:        "blocked",
			ready:       metav1.Condition{Status: no, Reason: "BlobTooLarge"},
			progressing: metav1.Condition{Status: no, Reason: "Blocked"},
			failed:      true,
		},
		{
			name:        "all packages invalid",
			ready:       metav1.Condition{Status: no, Reason: "InvalidPackages"},
			progressing: metav1.Condition{Status: yes, Reason: "Succeeded"},
			failed:      true,
		},
		{
			name:        "image not found",
			ready:       metav1.Condition{Status: no, Reason: "ImageNotFound"},
			progressing: metav1.Condition{Status: yes, Reason: "Retrying"},
			failed:      true,
		},
		{
			name:        "registry unreachable",
			ready:       metav1.Condition{Status: no, Reason: "RegistryUnreachable"},
			progressing: metav1.Condition{Status: yes, Reason: "Retrying"},
			stage:       "Retrying",
		},
		{
			name:        "not published",
			ready:       metav1.Condition{Status: no, Reason: "SyncFailed"},
			progressing: metav1.Condition{Status: yes, Reason: "Succeeded"},
			stage:       "Retrying",
		},
		{
			name:   "removed",
			ready:  metav1.Condition{Status: yes},
			edit:   func(c *status.Catalog) { c.DeletionTimestamp = &deleted },
			failed: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &status.Catalog{}
			c.Generation, c.Status.ObservedGeneration = 2, 2
			tt.ready.Type, tt.progressing.Type = v1beta1.ReadyCondition, v1beta1.ProgressingCondition
			c.Status.Conditions = []metav1.Condition{tt.ready, tt.progressing}
			if tt.edit != nil {
				tt.edit(c)
			}
			got := readiness(c)
			if got.done != tt.done || (got.err != nil) != tt.failed || got.stage != tt.stage {
				t.Errorf("got %+v", got)
			}
		})
	}
	if readiness(nil).err == nil {
		t.Error("readiness waits for a missing catalog")
	}
}

func TestWaitFailsIfCatalogIsRecreated(t *testing.T) {
	for _, tt := range []struct {
		name     string
		waitsFor types.UID
		c        *status.Catalog
		done     bool
	}{
		{"the same", "1", &status.Catalog{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, true},
		{"another", "1", &status.Catalog{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, false},
		{"any", "", &status.Catalog{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, true},
		{"deleted", "1", nil, true},
	} {
		w := waitRequest{name: "sample", uid: tt.waitsFor, check: func(*status.Catalog) progress { return progress{done: true} }}
		got := w.progress(tt.c)
		if got.done != tt.done || (got.err == nil) != tt.done {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// A Secret that was created just before the catalog may reach catalogd later.
func TestReadinessToleratesLateSecret(t *testing.T) {
	c := &status.Catalog{}
	c.Status.Conditions = []metav1.Condition{
		{Type: v1beta1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1beta1.AccessInvalidReason},
		{Type: v1beta1.ProgressingCondition, Status: metav1.ConditionFalse, Reason: v1beta1.BlockedReason},
	}
	if got := readiness(c); got.grace == 0 || got.err == nil {
		t.Errorf("got %+v", got)
	}
}

func TestPhase(t *testing.T) {
	const mib = 1 << 20
	now := time.Unix(0, 0)
	m := &output.Rate{Now: func() time.Time { return now }}
	steps := []struct {
		after    time.Duration
		progress v1beta1.CatalogProgress
		want     string
	}{
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressResolving}, "Resolving the image: "},
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading}, "Downloading: 0 B"},
		{
			time.Second,
			v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: mib, TotalBytes: 8 * mib},
			"Downloading: 1.0 MiB of 8.0 MiB (12%), 1.0 MiB/s",
		},
		{
			time.Second,
			v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: mib, TotalBytes: 8 * mib},
			"Downloading: 1.0 MiB of 8.0 MiB (12%), 1.0 MiB/s",
		},
		{
			time.Second,
			v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: 5 * mib, TotalBytes: 8 * mib},
			"Downloading: 5.0 MiB of 8.0 MiB (62%), 2.0 MiB/s",
		},
		// restarted
		{
			time.Second,
			v1beta1.CatalogProgress{Phase: v1beta1.ProgressDownloading, Bytes: mib, TotalBytes: 8 * mib},
			"Downloading: 1.0 MiB of 8.0 MiB (12%)",
		},
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressIndexing}, "Indexing: "},
		{0, v1beta1.CatalogProgress{Phase: v1beta1.ProgressPublishing, Packages: 7, TotalPackages: 319}, "Publishing: 7 of 319 packages"},
		{0, v1beta1.CatalogProgress{Phase: "Dancing"}, "Dancing: "},
	}
	for _, s := range steps {
		now = now.Add(s.after)
		stage, detail := phase(m, s.progress)
		if diff := cmp.Diff(s.want, stage+": "+detail); diff != "" {
			t.Error(diff)
		}
	}
}

// status.progress replaces the stage of an unobserved change, but not the end of a wait.
func TestRefine(t *testing.T) {
	c := &status.Catalog{}
	c.Status.Progress = &v1beta1.CatalogProgress{Phase: v1beta1.ProgressIndexing}
	if got := refine(output.NewRate(), c, readiness(c)); got.stage != "Indexing" || got.hint != "" {
		t.Errorf("got %+v", got)
	}
	if got := refine(output.NewRate(), c, progress{done: true}); !got.done || got.stage != "" {
		t.Errorf("got %+v", got)
	}
}

func TestFailedAddMentionsCreatedCatalog(t *testing.T) {
	failed := errors.New("connection refused")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want bool
	}{
		{t.Context(), failed, true},
		{t.Context(), exit.NotFoundf("removed"), false},
		{t.Context(), session.Recreated("mine"), false},
		{done, failed, false},
	} {
		if got := addError(test.ctx, "mine", test.err); !errors.Is(got, test.err) ||
			strings.Contains(got.Error(), "kubectl catalog remove mine") != test.want {
			t.Errorf("of %v: %v", test.err, got)
		}
	}
}
