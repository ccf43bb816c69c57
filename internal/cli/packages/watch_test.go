package packages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

func TestListWatch(t *testing.T) {
	versions := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var nodes []string
		for _, pair := range strings.Fields(versions) {
			name, version, _ := strings.Cut(pair, "=")
			nodes = append(nodes, fmt.Sprintf(`{"name":%q,"catalog":{"name":"main"},"version":%q}`, name, version))
		}
		fmt.Fprint(w, `{"data":{"packages":{"nodes":[`+strings.Join(nodes, ",")+`],"pageInfo":{}}}}`)
	}))
	defer server.Close()
	at, err := content.ParseAddress(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := content.Direct(&rest.Config{}, at, content.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	p := &listWatch{req: getRequest{kind: packageKind}, selected: func(
		context.Context, getRequest, content.Event,
	) (map[[2]string]bool, error) {
		return nil, nil
	}, known: map[string]map[string]item{}, write: func(rows []output.Row) error {
		for _, r := range rows {
			got = append(got, strings.TrimSpace(r.Cells[0]+" "+r.Cells[4]+" "+r.Cells[5]))
		}
		return nil
	}}
	versions = "a=1 b=1 c=1"
	found, err := listPackages(t.Context(), service, p.req)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.first(found, ""); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		versions string
		event    content.Event
		want     []string
	}{
		{versions, content.Event{Type: content.Digest}, nil},
		{"a=1 b=2 c=1", content.Event{Type: content.Digest}, []string{"b 2"}},
		{"a=1 b=2 c=1", content.Event{Type: content.Digest, Changes: &content.Changes{Changed: []string{"b", "c"}}}, []string{"b 2", "c 1"}},
		{"b=2 c=1 d=1", content.Event{Type: content.Digest, Changes: &content.Changes{Removed: []string{"a"}}}, []string{"d 1", "a 1 removed"}},
		{"never asked=1", content.Event{Type: content.Removed}, []string{"b 2 removed", "c 1 removed", "d 1 removed"}},
		{"a=3", content.Event{Type: content.Digest}, []string{"a 3"}},
	} {
		versions, got = step.versions, nil
		step.event.Catalog = "main"
		show, err := p.event(t.Context(), service, step.event)
		if err == nil {
			err = show()
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s at %q (-want +got):\n%s", step.event.Type, step.versions, diff)
		}
	}
}

func TestRemovedRow(t *testing.T) {
	for _, k := range allKinds {
		i := item{name: "a", Row: output.Row{Cells: make([]string, len(k.columns))}}
		var rows []output.Row
		w := &listWatch{req: getRequest{kind: k}, known: map[string]map[string]item{"": {i.key(): i}}}
		w.write = func(printed []output.Row) error { rows = printed; return nil }
		if err := w.print(content.Event{}, nil); err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", err, rows)
		}
		if !slices.Contains(rows[0].Cells, "removed") || slices.Contains(i.Cells, "removed") {
			t.Errorf("%s: %q, of %q", k.names[0], rows[0].Cells, i.Cells)
		}
	}
}

func TestIsPublished(t *testing.T) {
	at := time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)
	event := content.Event{LastModified: at.Add(300 * time.Millisecond)}
	published := func(changed time.Time, synced metav1.ConditionStatus) *status.Catalog {
		return &status.Catalog{Status: v1beta1.CatalogSourceStatus{
			Poll:       &v1beta1.PollStatus{LastChangeTime: &metav1.Time{Time: changed}},
			Conditions: []metav1.Condition{{Type: v1beta1.PackagesSyncedCondition, Status: synced}},
		}}
	}
	for name, test := range map[string]struct {
		c    *status.Catalog
		want bool
	}{
		"nothing yet":        {&status.Catalog{}, false},
		"the version before": {published(at.Add(-time.Second), metav1.ConditionTrue), false},
		"this one":           {published(at, metav1.ConditionTrue), true},
		"not whole":          {published(at, metav1.ConditionFalse), false},
		"a later one":        {published(at.Add(time.Minute), metav1.ConditionTrue), true},
	} {
		if got := isPublished(test.c, event); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
