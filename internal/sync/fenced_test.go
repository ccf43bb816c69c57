package sync

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// A pass whose writes were refused for lack of the lease reports no fault: this replica may lead again by then.
func TestRefusedWrites(t *testing.T) {
	w := newWorld(t)
	w.Leadership = leader
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	before := w.settle()
	var packages []pkg
	for i := range 10 {
		packages = append(packages, pkg{name: fmt.Sprintf("bar-%d", i)})
	}
	_, second := w.registry.push("latest", catalogOf(packages...))
	w.requestPoll("now")

	sound := w.Client
	w.Client = interceptor.NewClient(sound.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			if object.GetName() == "bar-7."+w.catalog { // not among the first, which are those that a message names
				return fmt.Errorf("post: %w", errRefused)
			}
			return errors.New("down")
		},
	})
	if _, err := w.tryReconcile(); !errors.Is(err, errRefused) {
		t.Errorf("the pass ended with %v", err)
	}
	wantEqual(t, "conditions", conditions(before), conditions(w.source()))
	wantEqual(t, "digest in the status", before.Status.Digest, w.source().Status.Digest)
	wantEqual(t, "events", nil, w.events())

	w.Client = sound
	w.reconcile()
	c := w.source()
	wantEqual(t, "digest in the status", second, c.Status.Digest)
	wantEqual(t, "packages", len(packages), len(w.packages()))
	if synced := conditions(c)[v1beta1.PackagesSyncedCondition]; synced == "" || len(w.events()) == 0 {
		t.Errorf("the next pass made %s and no events", synced)
	}
}
