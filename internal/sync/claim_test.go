package sync

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/sync/clustercatalog"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// pair reads a CatalogSource and a ClusterCatalog, as a cache has them.
type pair struct {
	source  *v1beta1.CatalogSource
	cluster *olmv1.ClusterCatalog
}

func (p pair) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *v1beta1.CatalogSource:
		if p.source != nil {
			p.source.DeepCopyInto(into)
			return nil
		}
	case *olmv1.ClusterCatalog:
		if p.cluster != nil {
			p.cluster.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (p pair) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	var items []runtime.Object
	switch into.(type) {
	case *v1beta1.CatalogSourceList:
		if p.source != nil {
			items = append(items, p.source)
		}
	case *olmv1.ClusterCatalogList:
		if p.cluster != nil {
			items = append(items, p.cluster)
		}
	}
	return meta.SetList(into, items)
}

// A name that objects of both kinds have belongs to the older one, in a pass and in what is served.
func TestNameBelongsToOlder(t *testing.T) {
	kinds := []Kind{catalogsource.Kind{}, clustercatalog.Kind{}}
	at := func(second int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(start.Add(time.Duration(second) * time.Second))}
	}
	for _, test := range []struct {
		name            string
		source, cluster int // the second of the creation
		want            string
	}{
		{"the CatalogSource is older", 1, 2, "CatalogSource"},
		{"the ClusterCatalog is older", 2, 1, "ClusterCatalog"},
		{"the same second", 1, 1, "CatalogSource"},
	} {
		both := pair{&v1beta1.CatalogSource{ObjectMeta: at(test.source)}, &olmv1.ClusterCatalog{ObjectMeta: at(test.cluster)}}
		engine := &Engine{kinds: kinds}
		if got := (names{engine, kinds[0]}).belongTo(namesake{both.cluster, kinds[1]}, both.source); got != (test.want == "ClusterCatalog") {
			t.Errorf("%s: the name of the CatalogSource belongs to the other: %t", test.name, got)
		}
		if got := (names{engine, kinds[1]}).belongTo(namesake{both.source, kinds[0]}, both.cluster); got != (test.want == "CatalogSource") {
			t.Errorf("%s: the name of the ClusterCatalog belongs to the other: %t", test.name, got)
		}
		sources, err := List(t.Context(), both, kinds...)
		must.Succeed(t, err)
		if len(sources) != 1 || sources[0].Kind.Kind != test.want {
			t.Errorf("%s: the list is %v", test.name, sources)
		}
		src, err := Get(t.Context(), both, "a", kinds...)
		must.Succeed(t, err)
		if src.Kind.Kind != test.want {
			t.Errorf("%s: got a %s", test.name, src.Kind.Kind)
		}
	}

	mirror := &olmv1.ClusterCatalog{ObjectMeta: at(1)}
	mirror.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "a"}, v1beta1.GroupVersion.WithKind("CatalogSource")),
	}
	if sources, err := List(t.Context(), pair{nil, mirror}, kinds...); err != nil || len(sources) > 0 {
		t.Errorf("a mirror is listed: %v %v", sources, err)
	}
	if _, err := Get(t.Context(), pair{nil, mirror}, "a", kinds...); !apierrors.IsNotFound(err) {
		t.Errorf("a mirror is a catalog: %v", err)
	}
}
