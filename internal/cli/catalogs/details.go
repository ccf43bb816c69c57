package catalogs

import (
	"cmp"
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

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// maxEvents is how many events are shown.
const maxEvents = 10

// lastEvents returns the last events of a catalog. Those of a cluster-scoped object are in the namespace default.
func lastEvents(ctx context.Context, s *session.Session, c *status.Catalog) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	about := fmt.Sprintf("regarding.kind=%s,regarding.name=%s,regarding.uid=%s", c.Kind, c.Name, c.UID)
	if err := s.List(ctx, metav1.NamespaceDefault, &list, metav1.ListOptions{FieldSelector: about}); err != nil {
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
	var endpoints discoveryv1.EndpointSliceList
	opts := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + at.Name}
	if err := s.List(ctx, at.Namespace, &endpoints, opts); err != nil {
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

// maxLargest is how many of the largest packages are listed.
const maxLargest = 5

func (d *description) printInvalid(to *output.Terminal) error {
	if len(d.invalid) == 0 {
		return nil
	}
	if err := to.Title(fmt.Sprintf("Invalid packages (%d)", d.invalidCount())); err != nil {
		return err
	}
	var pairs [][2]string
	for _, p := range d.invalid {
		pairs = append(pairs, [2]string{output.Line(cmp.Or(p.Name, "(no package)")), cmp.Or(output.Line(p.Reason), "?")})
	}
	return to.Fields(0, pairs...)
}

// A sizedPackage is a package with the size of its bundles, which are nearly all of its content.
type sizedPackage struct {
	name    string
	bundles int
	bytes   int64
}

// largestPackages returns the largest packages of a served catalog, the largest first.
func largestPackages(ctx context.Context, s *session.Session, c *status.Catalog) ([]sizedPackage, error) {
	if c.Status.URLs == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookup.InvalidTime)
	defer cancel()
	sized, err := packageSizes(ctx, s, c)
	slices.SortFunc(sized, func(a, b sizedPackage) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	return sized[:min(len(sized), maxLargest)], err
}

func (d *description) printLargest(to *output.Terminal) error {
	table := output.Table{Columns: []output.Column{{Name: "name"}, {Name: "size", Right: true}, {Name: "bundles", Right: true}}}
	for _, p := range d.largest {
		table.Rows = append(table.Rows, []string{p.name, output.Bytes(p.bytes), fmt.Sprint(p.bundles)})
	}
	return printTable(to, "Largest packages", table)
}

// packageSizes reads the sizes of all bundles: the first hundred of a package with the package, all of them if there are more.
func packageSizes(ctx context.Context, s *session.Session, c *status.Catalog) ([]sizedPackage, error) {
	service, err := lookup.ServiceOf(s, c)
	if err != nil {
		return nil, err
	}
	type bundle struct{ Size int64 }
	type pkg struct {
		Name    string
		Bundles struct {
			TotalCount int
			Nodes      []bundle
		}
	}
	const packages = `query($after: String) { packages(first: 50, after: $after) {
		nodes { name bundles(first: 100) { totalCount nodes { size } } } pageInfo { hasNextPage endCursor } } }`
	const bundles = `query($package: String, $after: String) { bundles(filter: {package: $package}, first: 100, after: $after) {
		nodes { size } pageInfo { hasNextPage endCursor } } }`
	found, err := content.All[pkg](ctx, service, c.Name, "", packages, nil)
	if err != nil {
		return nil, err
	}
	sized := make([]sizedPackage, 0, len(found))
	for _, p := range found {
		if p.Bundles.TotalCount > len(p.Bundles.Nodes) {
			of := map[string]any{"package": p.Name}
			if p.Bundles.Nodes, err = content.All[bundle](ctx, service, c.Name, "", bundles, of); err != nil {
				return nil, err
			}
		}
		size := sizedPackage{name: p.Name, bundles: p.Bundles.TotalCount}
		for _, b := range p.Bundles.Nodes {
			size.bytes += b.Size
		}
		sized = append(sized, size)
	}
	return sized, nil
}
