package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
)

// apiServer is one that has catalogs, and says where they are served.
func apiServer(t *testing.T, bases map[string]string) string {
	t.Helper()
	var all v1beta1.CatalogSourceList
	for name, base := range bases {
		c := v1beta1.CatalogSource{}
		c.Name, c.Status.URLs = name, &v1beta1.CatalogSourceURLs{Base: base}
		all.Items = append(all.Items, c)
	}
	server := httptest.NewServer(withoutClusterCatalogs(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("watch") {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // nothing changes
			return
		}
		if path.Base(r.URL.Path) == "catalogsources" {
			_ = json.NewEncoder(w).Encode(all)
			return
		}
		for _, c := range all.Items {
			if c.Name == path.Base(r.URL.Path) {
				_ = json.NewEncoder(w).Encode(c)
				return
			}
		}
		none := apierrors.NewNotFound(schema.GroupResource{
			Group: v1beta1.GroupVersion.Group, Resource: "catalogsources",
		}, path.Base(r.URL.Path)).Status()
		none.APIVersion, none.Kind = "v1", "Status"
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(none)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A catalog that is not served and an unreachable service do not hide the others.
func TestCommandsTolerateUnusableServices(t *testing.T) {
	serves := contentServiceOf(t, map[string]string{
		"/api/v1/graphql": `{"data":{"packages":{"nodes":[{"name":"etcd","version":"1.0.0","catalog":{"name":"fine"}}],"pageInfo":{}}}}`,
		"/api/v1/search":  `{"results":[{"catalog":"fine","name":"etcd","score":5}],"total":1}`,
	}) + "/catalogs/fine"
	const away, wrong = "http://127.0.0.1:1/catalogs/away", "ftp://wrong"
	commands := map[string][]string{"get": {"get", "packages"}, "search": {"search", "etcd"}}
	for name, tt := range map[string]struct {
		bases   map[string]string
		args    []string
		found   bool
		stderrs []string
	}{
		"one fails": {
			map[string]string{"fine": serves, "away": away, "wrong": wrong},
			nil,
			true,
			[]string{
				`warning: some catalogs are missing from the result: reading status.urls.base of catalog "wrong"`,
				"warning: some catalogs are missing from the result: the content service at http://127.0.0.1:1 cannot be reached",
			},
		},
		"the one named": {
			map[string]string{"fine": serves, "away": away, "wrong": wrong},
			[]string{"--catalog", "away"},
			false,
			[]string{"error: the content service at http://127.0.0.1:1 cannot be reached"},
		},
		"another named": {map[string]string{"fine": serves, "away": away, "wrong": wrong}, []string{"--catalog", "fine"}, true, nil},
		"none is left":  {map[string]string{"away": away}, nil, false, []string{"error: the content service"}},
		"all are wrong": {map[string]string{"wrong": wrong}, nil, false, []string{"error: reading status.urls.base of catalog"}},
	} {
		server := apiServer(t, tt.bases)
		for command, args := range commands {
			t.Run(name+"/"+command, func(t *testing.T) {
				code, stdout, stderr := run(t, append(append(args, "--server", server), tt.args...)...)
				if (code == exit.OK) != tt.found || strings.Contains(stdout, "etcd") != tt.found {
					t.Errorf("exit code %d: %s", code, stdout)
				}
				if got := strings.Count(stderr, "\n"); got != len(tt.stderrs) {
					t.Errorf("%d lines on stderr, want %d: %s", got, len(tt.stderrs), stderr)
				}
				for _, want := range tt.stderrs {
					if !strings.Contains(stderr, want) {
						t.Errorf("stderr lacks %q: %s", want, stderr)
					}
				}
			})
		}
		t.Run(name+"/place", func(t *testing.T) {
			s := sessiontest.New(t, io.Discard, "--server", server)
			catalog := ""
			if len(tt.args) > 0 {
				catalog = tt.args[1]
			}
			places, err := lookup.ExistingPackages(t.Context(), s, "etcd", catalog)
			if (err == nil) != tt.found || tt.found && (len(places) != 1 || places[0].Service == nil) {
				t.Errorf("found %v, %v", places, err)
			}
		})
	}
}
