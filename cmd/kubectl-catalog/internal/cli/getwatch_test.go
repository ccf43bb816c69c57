package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/content"
)

func TestListWatch(t *testing.T) {
	versions := ""
	url := contentService(t, func(string, map[string]any) string {
		var nodes []string
		for _, pair := range strings.Fields(versions) {
			name, version, _ := strings.Cut(pair, "=")
			nodes = append(nodes, fmt.Sprintf(`{"name":%q,"catalog":{"name":"main"},"version":%q}`, name, version))
		}
		return `{"data":{"packages":{"nodes":[` + strings.Join(nodes, ",") + `],"pageInfo":{}}}}`
	})
	at, err := content.ParseAddress(url, "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := content.Direct(&rest.Config{}, at, content.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	p := &listWatch{kind: packageKind, known: map[string]map[string]listed{}, show: func(rows []row) error {
		for _, r := range rows {
			got = append(got, strings.TrimSpace(r.cells[0]+" "+r.cells[4]+" "+r.cells[5]))
		}
		return nil
	}}
	versions = "a=1 b=1 c=1"
	found, err := listPackages(t.Context(), service, p.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.first(found); err != nil {
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
		if err := p.changed(t.Context(), service, step.event); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s at %q (-want +got):\n%s", step.event.Type, step.versions, diff)
		}
	}
}

func TestListWatchUsage(t *testing.T) {
	for _, args := range []string{"get channels --watch", "get packages --watch -l a=b"} {
		if code, _, stderr := run(t, strings.Fields(args)...); code != exitUsage || (!strings.Contains(stderr, "--watch") && !strings.Contains(stderr, "--package")) {
			t.Errorf("%s: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

func TestRemovedRow(t *testing.T) {
	for _, k := range allKinds {
		r := row{cells: make([]string, len(k.columns))}
		if got := k.removed(r); !slices.Contains(got.cells, "removed") || slices.Contains(r.cells, "removed") {
			t.Errorf("%s: %q, of %q", k.names[0], got.cells, r.cells)
		}
	}
}
