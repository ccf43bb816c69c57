package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// Searches without results suggest names, and those with too many results suggest filters.
func TestSearchHints(t *testing.T) {
	server := namedWorld(t)
	if code, _, stderr := run(t, "search", "fou", "--server", server); code != exit.OK ||
		stderr != "No package matches \"fou\": did you mean \"foo\"?\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, _, stderr := run(t, "search", "else", "--server", server); stderr != "No package matches \"else\"; try fewer words, or "+
		"parts of words\n" {
		t.Errorf("got %s", stderr)
	}
}

func TestSearchRecognizesOtherServers(t *testing.T) {
	url := contentServiceOf(t, map[string]string{"/api/v1/search": "<html></html>"})
	code, _, stderr := run(t, "search", "foo", "--server-url", url)
	if code != exit.Failure || !strings.HasPrefix(stderr, "error: the server at "+url+" is not a content service of catalogd: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// The results of two services are merged, best first.
func TestSearchMergesServices(t *testing.T) {
	url := contentServiceOf(t, map[string]string{"/api/v1/search": `{"results":[
		{"catalog":"a","name":"x","version":"1.0.0","description":"short","score":5},
		{"catalog":"b","name":"y\u001b[31m","version":"2.0.0","deprecation":"old","score":40}],"total":7,"incomplete":["c"]}`})
	code, stdout, stderr := run(t, "search", "--server-url", url, "x")
	want := "NAME     CATALOG   VERSION   DISPLAY NAME   MATCHED       NOTE\n" +
		"y\ufffd[31m   b         2.0.0                    description   deprecated\n" +
		"x        a         1.0.0                    name\n"
	if diff := cmp.Diff(want, stdout); diff != "" || code != 0 {
		t.Errorf("exit code %d, output (-want +got):\n%s", code, diff)
	}
	if want := "Catalog c could not be read completely; some of its packages may be missing.\nShowing 2 of 7 packages; increase " +
		"--limit (up to 100) to see more.\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}

// With -o, a result is the package as get prints it, with the score, once per catalog.
func TestSearchObjects(t *testing.T) {
	packages := `{"name":"x","version":"1.0.0","catalog":{"name":"a"},"defaultChannel":{"name":"stable"}},{"name":"x",` +
		`"version":"2.0.0","catalog":{"name":"b"}}`
	url := contentServiceOf(t, map[string]string{
		"/api/v1/search": `{"results":[{"catalog":"b","name":"x","score":40,"kinds":["X"]},{"catalog":"gone","name":"x","score":6},` +
			`{"catalog":"a","name":"x","score":5}],"total":3}`,
		"/api/v1/graphql": `{"data":{"packages":{"nodes":[` + packages + `],"pageInfo":{}}}}`,
	})
	item := func(n int, args ...string) map[string]any {
		code, stdout, stderr := run(t, append(args, "--server-url", url, "-o", "json")...)
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 || len(list.Items) != 2 {
			t.Fatalf("%v, exit code %d: %s%s", err, code, stdout, stderr)
		}
		return list.Items[n]
	}
	got, want := item(1, "search", "x"), item(0, "get", "packages")
	for field, value := range map[string]any{"score": 5.0, "keywords": []any{}, "kinds": []any{}} {
		if diff := cmp.Diff(value, got[field]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
		delete(got, field)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("search prints something else than get (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{"search", "x"}, {"get", "packages"}} {
		if _, stdout, _ := run(t,
			append(args, "--server-url", url, "-o", "name")...); stdout != "package.content.catalogd.operatorframework.io/x\n" {
			t.Errorf("%s -o name: %q", args[0], stdout)
		}
	}
}

// The newest version of a package comes first. Numbers in channel names are compared as numbers.
func TestListOrder(t *testing.T) {
	for kind, test := range map[string]struct{ node, want string }{
		"bundles": {`{"name":"p.v%s","version":%[1]q,"package":{"name":"p"},"catalog":{"name":"c"}}`,
			"p.v1.10.0 p c <none>\np.v1.9.0 p c <none>\np.v1.2.0 p c <none>\n"},
		"channels": {`{"name":"v%s","package":{"name":"p","catalog":{"name":"c"},"defaultChannel":{"name":"v1.2.0"}}}`,
			"v1.2.0 p c true\nv1.9.0 p c false\nv1.10.0 p c false\n"},
	} {
		var nodes []string
		for _, version := range []string{"1.9.0", "1.10.0", "1.2.0"} {
			nodes = append(nodes, fmt.Sprintf(test.node, version))
		}
		url := contentServiceOf(t, map[string]string{
			"/api/v1/graphql": fmt.Sprintf(`{"data":{%q:{"nodes":[%s],"pageInfo":{}}}}`, kind, strings.Join(nodes, ",")),
		})
		_, stdout, _ := run(t, "get", kind, "-p", "p", "--server-url", url, "--no-headers", "-o",
			"custom-columns=:.name,:.package.name,:.catalog.name,:.isDefault")
		if diff := cmp.Diff(test.want, regexp.MustCompile(` +`).ReplaceAllString(stdout, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}
