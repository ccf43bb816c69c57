package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// script is an API server with fixed lists and watches.
type script struct {
	lists   [][]v1beta1.CatalogSource
	watches [][]watch.Event
}

func (s *script) List(_ context.Context, _ string, list kube.List, _ metav1.ListOptions) error {
	list.(*v1beta1.CatalogSourceList).Items = s.lists[0]
	s.lists = s.lists[1:]
	return nil
}

func (s *script) Watch(context.Context, string, kube.List, metav1.ListOptions) (watch.Interface, error) {
	events := watch.NewFakeWithChanSize(10, false)
	for _, e := range s.watches[0] {
		events.Action(e.Type, e.Object)
	}
	s.watches = s.watches[1:]
	events.Stop()
	return events, nil
}

func catalogAt(name, uid, version string) v1beta1.CatalogSource {
	c := v1beta1.CatalogSource{}
	c.Name, c.UID, c.ResourceVersion = name, types.UID(uid), version
	return c
}

// A list reports the changes between two watches.
func TestRunReportsMissedChanges(t *testing.T) { synctest.Test(t, testRunReportsMissedChanges) }

func testRunReportsMissedChanges(t *testing.T) {
	newer, expired := catalogAt("a", "1", "2"), metav1.Status{Reason: metav1.StatusReasonExpired, Code: 410}
	s := &script{
		lists: [][]v1beta1.CatalogSource{
			{catalogAt("a", "1", "1"), catalogAt("b", "2", "1")},
			{catalogAt("a", "1", "2"), catalogAt("c", "3", "3")},
			{catalogAt("a", "9", "5"), catalogAt("c", "3", "4")},
		},
		watches: [][]watch.Event{{{Type: watch.Modified, Object: &newer}}, {{Type: watch.Error, Object: &expired}}},
	}
	var got []string
	syncs := 0
	f := &Catalogs{API: s, Kinds: status.Kinds[:1]}
	f.Each = func(event watch.EventType, c *status.Catalog) error {
		got = append(got, fmt.Sprintf("%s %s/%s@%s", event, c.Name, c.UID, c.ResourceVersion))
		return nil
	}
	f.Synced = func() error {
		if syncs++; syncs == 3 {
			return ErrDone
		}
		return nil
	}
	if err := f.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ADDED a/1@1", "ADDED b/2@1", "MODIFIED a/1@2",
		"ADDED c/3@3", "DELETED b/2@1",
		"DELETED a/1@2", "ADDED a/9@5", "MODIFIED c/3@4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunReturnsErrorOfCallback(t *testing.T) {
	s := &script{lists: [][]v1beta1.CatalogSource{{catalogAt("a", "1", "1")}}}
	failed := errors.New("the pipe is closed")
	f := &Catalogs{
		API: s, Kinds: status.Kinds[:1], Each: func(watch.EventType, *status.Catalog) error { return failed },
	}
	if err := f.Run(t.Context()); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}

// bothKinds is an API server with a catalog of each kind. The first watch of ClusterCatalogs ends, and one is missed.
type bothKinds struct {
	forbidden bool // ClusterCatalogs
	lists     int
}

func (s *bothKinds) List(_ context.Context, _ string, list kube.List, _ metav1.ListOptions) error {
	switch list := list.(type) {
	case *v1beta1.CatalogSourceList:
		s.lists++
		list.Items = []v1beta1.CatalogSource{catalogAt("a", "1", "1")}
	case *olmv1.ClusterCatalogList:
		if s.forbidden {
			return apierrors.NewForbidden(olmv1.GroupVersion.WithResource("clustercatalogs").GroupResource(), "", nil)
		}
		var c, mirror olmv1.ClusterCatalog
		c.Name, c.UID, c.ResourceVersion, mirror.Name = "a", "2", strconv.Itoa(s.lists), "mirror"
		mirror.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource", Name: "mirror", Controller: ptr.To(true),
		}}
		list.Items = []olmv1.ClusterCatalog{c, mirror}
	}
	return nil
}

func (s *bothKinds) Watch(ctx context.Context, _ string, list kube.List, _ metav1.ListOptions) (watch.Interface, error) {
	events := watch.NewFake()
	if _, ok := list.(*olmv1.ClusterCatalogList); ok || s.forbidden {
		events.Stop()
	} else {
		context.AfterFunc(ctx, events.Stop) // when the other one ends
	}
	return events, nil
}

func TestRunFollowsBothKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		forbidden bool
		want      []string
	}{
		"both":      {false, []string{"CatalogSource/a@1", "ClusterCatalog/a@1", "ClusterCatalog/a@2"}},
		"forbidden": {true, []string{"CatalogSource/a@1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &bothKinds{forbidden: tt.forbidden}
				var got []string
				f := &Catalogs{API: s}
				f.Each = func(_ watch.EventType, c *status.Catalog) error {
					got = append(got, fmt.Sprintf("%s/%s@%s", c.Kind, c.Name, c.ResourceVersion))
					return nil
				}
				f.Synced = func() error {
					if s.lists == 2 {
						return ErrDone
					}
					return nil
				}
				if err := f.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
