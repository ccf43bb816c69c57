package lookup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names of catalogs may have dots, those of packages do not.
func TestPossibleNames(t *testing.T) {
	for name, want := range map[string][]string{
		"etcd": {"etcd"}, "etcd.sample": {"etcd.sample", "etcd"}, "etcd.sample.v1": {"etcd.sample.v1", "etcd"},
	} {
		if diff := cmp.Diff(want, PossibleNames(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if !Matches("etcd.sample.v1", "etcd", "sample.v1") || Matches("etcd.sample.v1", "etcd", "v1") {
		t.Error("a name is not split at the first dot")
	}
}
