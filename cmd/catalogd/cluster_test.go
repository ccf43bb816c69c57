package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/store"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// catalogList is a cache that holds these CatalogSources, or fails.
type catalogList struct {
	client.Reader
	items []v1beta1.CatalogSource
	err   error
}

func (c catalogList) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1beta1.CatalogSourceList).Items = c.items
	return c.err
}

func (c catalogList) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	for i := range c.items {
		if c.items[i].Name == key.Name {
			c.items[i].DeepCopyInto(object.(*v1beta1.CatalogSource))
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "catalogsources"}, key.Name)
}

func catalogSource(name, digest string) v1beta1.CatalogSource {
	return v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1beta1.CatalogSourceStatus{Digest: digest}}
}

// Until the manager's cache has the CatalogSources, readiness depends on the stored content.
func TestReadyWhileConnecting(t *testing.T) {
	requests := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		requests <- struct{}{}
	}))
	defer server.Close()
	st, err := store.Open(filledStore(t), store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	metrics := catalogsync.NewMetrics(prometheus.NewRegistry())
	c := &cluster{cfg: defaults(), rest: &rest.Config{Host: server.URL}, logger: quiet, store: st, polls: &poll.Log{}, metrics: metrics}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	for range 2 {
		<-requests
		for range 100 {
			if err := c.ready(ctx); err != nil {
				t.Fatalf("not ready: %v", err)
			}
		}
	}
	cancel()
	must.Succeed(t, <-ended)
}
