package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli"
	"github.com/operator-catalogs/catalogd/internal/page"
)

// plugin runs `kubectl catalog` and returns its output.
func plugin(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv("KUBECONFIG", "testdata/none")
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	if code := cli.Run(t.Context(), args, streams, "test"); code != 0 {
		t.Fatalf("kubectl catalog %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout.String()
}

func parsed(t *testing.T, h http.Handler, url string) *html.Node {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	doc, err := html.Parse(w.Body)
	if w.Code != http.StatusOK || err != nil {
		t.Fatalf("GET %s: %d, %v", url, w.Code, err)
	}
	return doc
}

// The page of a kind and `kubectl catalog providers` name the same packages.
func TestAPIPageAgreesWithPlugin(t *testing.T) {
	api := page.NewAPI(t, page.SampleCatalog)
	server := httptest.NewServer(api)
	defer server.Close()
	handler := page.New(page.Config{Source: func(r *http.Request) page.Source { return page.Inside(api, r) }})
	for _, kind := range []string{"DBaaSInventory.dbaas.redhat.com", "DeviceConfig.k8s.aws", "syndesis.syndesis.io", "Kafka.kafka.strimzi.io"} {
		var users []struct {
			Package  struct{ Name string }
			API      struct{ Version string }
			From, To string
		}
		var list struct{ Items json.RawMessage }
		out := plugin(t, "providers", kind, "-o", "json", "--server-url", server.URL)
		if err := json.Unmarshal([]byte(out), &list); err != nil || json.Unmarshal(list.Items, &users) != nil {
			t.Fatalf("%v in %s", err, out)
		}
		var want []string
		for _, u := range users {
			versions := u.From
			if u.From != u.To {
				versions += " to " + u.To
			}
			want = append(want, strings.Join([]string{u.Package.Name, u.API.Version, versions}, " "))
		}
		slices.Sort(want)
		name, group, _ := strings.Cut(kind, ".")
		got := usersOn(parsed(t, handler, "/apis/"+group+"/"+name))
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s (-plugin +page):\n%s", kind, diff)
		}
	}
}

// usersOn returns the packages on the page of a kind with the version of the API and their versions, sorted.
func usersOn(doc *html.Node) (users []string) {
	for row := range doc.Descendants() {
		if row.Data != "tr" || row.Parent.Data != "tbody" {
			continue
		}
		var cells []string
		for cell := range row.ChildNodes() {
			cells = append(cells, text(cell))
		}
		versions, _, _ := strings.Cut(cells[3], " (")
		users = append(users, strings.Join([]string{cells[0], cells[2], versions}, " "))
	}
	slices.Sort(users)
	return users
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// The help names commands and flags that exist.
func TestHelpNamesCommandsOfPlugin(t *testing.T) {
	handler := page.New(page.Config{Source: func(r *http.Request) page.Source { return page.Inside(http.NotFoundHandler(), r) }})
	count := 0
	for code := range parsed(t, handler, "/help").Descendants() {
		command, ok := strings.CutPrefix(text(code), "kubectl catalog ")
		if code.Data != "code" || !ok {
			continue
		}
		count++
		words := strings.Fields(command)
		isArgument := func(w string) bool { return w != strings.ToLower(w) || strings.HasPrefix(w, "--") }
		end := slices.IndexFunc(words, isArgument)
		if end < 0 {
			end = len(words)
		}
		help := plugin(t, append(slices.Clone(words[:end]), "--help")...)
		if !strings.Contains(help, "kubectl catalog "+words[0]) {
			t.Errorf("kubectl catalog %s: no such command:\n%s", command, help)
		}
		for _, word := range words {
			if strings.HasPrefix(word, "--") && !strings.Contains(help, word) {
				t.Errorf("kubectl catalog %s: no flag %s", command, word)
			}
		}
	}
	if count < 10 {
		t.Errorf("the help has %d commands", count)
	}
}
