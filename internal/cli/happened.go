package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// lastEvents is how many events are shown.
const lastEvents = 10

// events lists the last that happened to the catalog, as `kubectl events` does. Those of a cluster-scoped object are in namespace default.
func (d *description) events(ctx context.Context) error {
	api, err := d.client()
	if err != nil {
		return err
	}
	var list eventsv1.EventList
	about := fmt.Sprintf("regarding.kind=CatalogSource,regarding.name=%s,regarding.uid=%s", d.catalog.Name, d.catalog.UID)
	opts := &client.ListOptions{Namespace: metav1.NamespaceDefault, Raw: &metav1.ListOptions{FieldSelector: about}}
	if err := api.List(ctx, &list, opts); err != nil {
		d.warn("the events are not shown: %v", err)
		return nil
	}
	if len(list.Items) == 0 {
		return nil
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return seen(a).Compare(seen(b)) })
	table := term.Table{Columns: []term.Column{
		{Name: "last seen"}, {Name: "type", Drop: 1, Style: term.ByValue(map[string]term.Style{"Warning": term.Yellow})}, {Name: "reason", Drop: 2},
		{Name: "message", Least: 20},
	}}
	for _, event := range list.Items[max(0, len(list.Items)-lastEvents):] {
		table.Rows = append(table.Rows, []string{d.when(event), event.Type, event.Reason, event.Note})
	}
	if err := d.title("Events"); err != nil {
		return err
	}
	return d.stdout.Print(table, term.Options{})
}

// seen is when an event was observed last.
func seen(event eventsv1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.DeprecatedLastTimestamp.Time
}

func (d *description) when(event eventsv1.Event) string {
	text := d.ago(seen(event))
	if event.Series != nil {
		text += fmt.Sprintf(" (x%d over %s)", event.Series.Count, duration.HumanDuration(d.now.Sub(event.EventTime.Time)))
	}
	return text
}

// replicas counts those of catalogd that answer at a URL in the cluster; empty where that is not known.
func (d *description) replicas(ctx context.Context, base string) string {
	at, err := content.ParseAddress(base, d.catalog.Name)
	if err != nil || at.Name == "" {
		return ""
	}
	api, err := d.client()
	if err != nil {
		return ""
	}
	var slicesOf discoveryv1.EndpointSliceList
	if err := api.List(ctx, &slicesOf, client.InNamespace(at.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: at.Name}); err != nil {
		return ""
	}
	pods, ready := map[string]bool{}, 0
	for _, slice := range slicesOf.Items {
		for _, endpoint := range slice.Endpoints {
			name := ptr.Deref(endpoint.TargetRef, corev1.ObjectReference{}).Name
			if name == "" || pods[name] {
				continue // an address of another family
			}
			pods[name] = true
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				ready++
			}
		}
	}
	return fmt.Sprintf("%d of %d ready", ready, len(pods))
}
