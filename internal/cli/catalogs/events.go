package catalogs

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

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// maxEvents is how many events are shown.
const maxEvents = 10

// lastEvents returns the last events of a catalog. Those of a cluster-scoped object are in the namespace default.
func lastEvents(ctx context.Context, s *session.Session, c *v1beta1.CatalogSource) ([]eventsv1.Event, error) {
	api, err := s.Client()
	if err != nil {
		return nil, err
	}
	var list eventsv1.EventList
	about := fmt.Sprintf("regarding.kind=CatalogSource,regarding.name=%s,regarding.uid=%s", c.Name, c.UID)
	opts := &client.ListOptions{Namespace: metav1.NamespaceDefault, Raw: &metav1.ListOptions{FieldSelector: about}}
	if err := api.List(ctx, &list, opts); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	return list.Items[max(0, len(list.Items)-maxEvents):], nil
}

func (d *description) printEvents(to *output.Terminal) error {
	table := output.Table{Columns: []output.Column{
		{Name: "last seen"},
		{Name: "type", Drop: 1, Style: output.ByValue(map[string]output.Style{"Warning": output.Yellow})},
		{Name: "reason", Drop: 2}, {Name: "message", Least: 20},
	}}
	for _, e := range d.events {
		seen := d.ago(lastSeen(e))
		if e.Series != nil {
			seen += fmt.Sprintf(" (x%d over %s)", e.Series.Count, duration.HumanDuration(d.now.Sub(e.EventTime.Time)))
		}
		table.Rows = append(table.Rows, []string{seen, e.Type, e.Reason, e.Note})
	}
	return printTable(to, "Events", table)
}

func lastSeen(e eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.DeprecatedLastTimestamp.Time
}

// replicas returns how many replicas of catalogd are ready at a URL in the cluster. It is empty if that is unknown.
func replicas(ctx context.Context, s *session.Session, catalog, base string) string {
	at, err := content.ParseAddress(base, catalog)
	if err != nil || at.Name == "" {
		return ""
	}
	api, err := s.Client()
	if err != nil {
		return ""
	}
	var endpoints discoveryv1.EndpointSliceList
	labels := client.MatchingLabels{discoveryv1.LabelServiceName: at.Name}
	if err := api.List(ctx, &endpoints, client.InNamespace(at.Namespace), labels); err != nil {
		return ""
	}
	pods, ready := map[string]bool{}, 0
	for _, slice := range endpoints.Items {
		for _, endpoint := range slice.Endpoints {
			name := ptr.Deref(endpoint.TargetRef, corev1.ObjectReference{}).Name
			if name == "" || pods[name] {
				continue // its address of the other IP family
			}
			pods[name] = true
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				ready++
			}
		}
	}
	return fmt.Sprintf("%d of %d ready", ready, len(pods))
}
