package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		none := apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: "catalogsources"}, path.Base(r.URL.Path)).Status()
		none.APIVersion, none.Kind = "v1", "Status"
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(none)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A catalog that is not served as it should be, and a service that is away, do not keep anybody from the others.
func TestOneServiceForAll(t *testing.T) {
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
		"one fails":     {map[string]string{"fine": serves, "away": away, "wrong": wrong}, nil, true, []string{`warning: not all catalogs are looked at: where catalog "wrong"`, "warning: not all catalogs are looked at: the content service at http://127.0.0.1:1 cannot be reached"}},
		"the one named": {map[string]string{"fine": serves, "away": away, "wrong": wrong}, []string{"--catalog", "away"}, false, []string{"error: the content service at http://127.0.0.1:1 cannot be reached"}},
		"another named": {map[string]string{"fine": serves, "away": away, "wrong": wrong}, []string{"--catalog", "fine"}, true, nil},
		"none is left":  {map[string]string{"away": away}, nil, false, []string{"error: the content service"}},
		"all are wrong": {map[string]string{"wrong": wrong}, nil, false, []string{"error: where catalog"}},
	} {
		server := apiServer(t, tt.bases)
		for command, args := range commands {
			t.Run(name+"/"+command, func(t *testing.T) {
				code, stdout, stderr := run(t, append(append(args, "--server", server), tt.args...)...)
				if (code == exitDone) != tt.found || strings.Contains(stdout, "etcd") != tt.found {
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
			e := newEnv(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" }, "test")
			e.kube.APIServer = &server
			catalog := ""
			if len(tt.args) > 0 {
				catalog = tt.args[1]
			}
			places, err := e.place(t.Context(), "etcd", catalog)
			if (err == nil) != tt.found || tt.found && (len(places) != 1 || places[0].service == nil) {
				t.Errorf("found %v, %v", places, err)
			}
		})
	}
}

// A command makes one token for all that it asks of a content service.
func TestOneTokenForAll(t *testing.T) {
	tokens := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/token"):
			tokens++
			_, _ = w.Write([]byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"known"}}`))
		case r.Header.Get(content.TokenHeader) != "Bearer known":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"catalogs":[]}`))
		}
	}))
	defer server.Close()
	e := newEnv(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" }, "test")
	e.kube.APIServer = &server.URL
	for range 2 {
		for _, catalog := range []string{"a", "b"} {
			service, err := e.open("http://catalogd.ns.svc/catalogs/"+catalog, catalog)
			if err != nil {
				t.Fatal(err)
			}
			var answer any
			if err := service.JSON(t.Context(), "/catalogs", nil, &answer); err != nil {
				t.Error(err)
			}
		}
	}
	if tokens != 1 {
		t.Errorf("%d tokens were made", tokens)
	}
	other, err := e.open("http://catalogd.other.svc/catalogs/c", "c")
	if err != nil || len(e.opened) != 2 {
		t.Errorf("of another installation: %v, %v", other, err)
	}
	e.serverURL = "http://catalogd.ns.svc"
	direct, err := e.direct()
	if again, _ := e.direct(); err != nil || direct != again || len(e.opened) != 3 {
		t.Errorf("of --server-url: %v, %v", direct, err)
	}
}
