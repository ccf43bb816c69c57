package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// contentService answers GraphQL queries with answer, which gets the query and its variables.
func contentService(t *testing.T, answer func(query string, variables map[string]any) string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		variables := map[string]any{}
		if text := r.FormValue("variables"); text != "" {
			if err := json.Unmarshal([]byte(text), &variables); err != nil {
				t.Error(err)
			}
		}
		_, _ = w.Write([]byte(answer(r.FormValue("query"), variables)))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// contentServiceOf answers with these texts, by path.
func contentServiceOf(t *testing.T, texts map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// run runs the plugin without a cluster.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const config = `{"apiVersion":"v1","kind":"Config","contexts":[{"name":"here","context":{"cluster":"a"}},{"name":"there",` +
		`"context":{"cluster":"b"}}],"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}},{"name":"b",` +
		`"cluster":{"server":"http://127.0.0.1:1"}}],"current-context":"here"}`
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	var out, errOut bytes.Buffer
	code = Run(context.Background(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, "test")
	return code, out.String(), errOut.String()
}

func TestComplete(t *testing.T) {
	url := contentService(t, func(query string, variables map[string]any) string {
		switch {
		case strings.Contains(query, "packages("):
			if variables["after"] == nil {
				return `{"data":{"packages":{"nodes":[{"name":"etcd","displayName":"etcd, ` +
					`\u001b[31mthe\tstore"},{"name":"etcd","displayName":"of another catalog"}],"pageInfo":{"hasNextPage":true,"endCursor":"x"}}}}`
			}
			return `{"data":{"packages":{"nodes":[{"name":"event-bus","displayName":"event-bus"},{"name":"grafana",` +
				`"displayName":"Grafana"}],"pageInfo":{}}}}`
		case strings.Contains(query, "channels("):
			return `{"data":{"channels":{"nodes":[{"name":"of-` + variables["package"].(string) + `","head":{"name":"head"}}],"pageInfo":{}}}}`
		case strings.Contains(query, "bundles("):
			name, _ := json.Marshal([]any{variables["catalog"], variables["package"], variables["channel"]})
			quoted, _ := json.Marshal(string(name))
			return `{"data":{"bundles":{"nodes":[{"name":` + string(quoted) + `,"version":"1.2.3"}],"pageInfo":{}}}}`
		}
		return `{"errors":[{"message":"unexpected"}]}`
	})
	const names, fixed = ":36\n", ":4\n" // what tells the shell: no files; keep the order
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"get", ""}, "packages\nchannels\nbundles\ndeprecations\n" + fixed},
		{[]string{"get", "nothing", ""}, fixed},
		{[]string{"get", "packages", ""}, "etcd\tetcd, \ufffd[31mthe store\nevent-bus\ngrafana\tGrafana\n" + names},
		{[]string{"get", "pkg", "e"}, "etcd\tetcd, \ufffd[31mthe store\nevent-bus\n" + names},
		{[]string{"get", "pkg", "etcd", "e"}, "event-bus\n" + names},
		{[]string{"get", "channels", "--package", "g"}, "grafana\tGrafana\n" + names},
		{[]string{"get", "channels", "-p", "etcd", ""}, "of-etcd\thead\n" + names},
		{[]string{"get", "bundles", "-p", "etcd", "--channel", ""}, "of-etcd\thead\n" + names},
		{[]string{"get", "bundles", "-p", "etcd", "-c", "main", "--channel", "beta", ""}, `["main","etcd","beta"]` + "\t1.2.3\n" + names},
		{[]string{"get", "bundles", ""}, `[null,null,null]` + "\t1.2.3\n" + names},
		{[]string{"get", "packages", "--context", ""}, "here\nthere\n" + fixed},
		{[]string{"diff", "main", "./dir", "--package", "g"}, "grafana\tGrafana\n" + names},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"__complete", "--server-url", url}, test.args...)...)
			if diff := cmp.Diff(test.want, stdout); diff != "" || code != 0 {
				t.Errorf("exit code %d, stderr %q, completions (-want +got):\n%s", code, stderr, diff)
			}
		})
	}
}

func TestCommandsCompleteCatalogs(t *testing.T) {
	server := cluster(t, nil, missingImage(""))
	for _, command := range []string{
		"list", "describe", "refresh", "suspend", "resume", "remove", "watch", "export", "diff", "diff ./dir", "get packages --catalog",
	} {
		args := append([]string{"__complete", "--server", server}, strings.Fields(command)...)
		code, stdout, stderr := run(t, append(args, "mi")...)
		if want := "mine\tregistry.example/mine:v1\n:36\n"; code != 0 || stdout != want {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", command, code, stdout, stderr)
		}
	}
}

// Without a cluster, there are no completions and no errors.
func TestCompleteWithoutCluster(t *testing.T) {
	for _, args := range [][]string{
		{"list", ""}, {"get", "packages", ""}, {"get", "channels", "--catalog", ""}, {"get", "bundles", "--catalog", "x", ""},
	} {
		code, stdout, stderr := run(t, append([]string{"__complete"}, args...)...)
		if code != 0 || stdout != ":36\n" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
