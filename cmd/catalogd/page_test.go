package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// --page adds the page to the content port. It has a login only if the API server authenticates readers.
func TestPage(t *testing.T) {
	st, err := store.Open(filledStore(t), store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	for name, test := range map[string]struct {
		cfg  contentConfig
		want map[string]int // statuses of paths
	}{
		"off": {contentConfig{auth: authNone}, map[string]int{
			"/ui/": http.StatusNotFound, "/ui": http.StatusNotFound, "/": http.StatusNotFound, "/catalogs": http.StatusOK,
		}},
		"open": {contentConfig{auth: authNone, page: true}, map[string]int{
			"/ui/catalogs": http.StatusOK, "/ui": http.StatusSeeOther, "/": http.StatusSeeOther, "/ui/login": http.StatusNotFound,
			"/catalogs": http.StatusOK, "/nothing": http.StatusNotFound,
		}},
		"authenticated": {contentConfig{auth: authKubernetes, page: true}, map[string]int{
			"/ui/catalogs": http.StatusSeeOther, "/ui": http.StatusSeeOther, "/ui/login": http.StatusOK, "/ui/watch": http.StatusOK, // an event has the error
			"/ui/catalogs/sample/raw/foo": http.StatusUnauthorized, "/catalogs": http.StatusUnauthorized, "/nothing": http.StatusUnauthorized,
		}},
	} {
		test.cfg.plainHTTP, test.cfg.maxQueries = true, 1
		cfg := config{content: test.cfg}
		cfg.sync.Namespace = "here"
		port, _, err := contentPort(cfg, &rest.Config{}, serve.Config{
			Catalogs: st, Metrics: prometheus.NewRegistry(), Logger: quiet,
			Polls:    func(string) (last, next time.Time) { return last, next },
			Priority: func(string) int32 { return 0 },
			Awaited:  func(string) serve.Awaited { return serve.Awaited{} },
			Expected: func() []string { return nil },
		})
		must.Succeed(t, err)
		got := map[string]int{}
		for path := range test.want {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Accept", "text/html")
			r.Header.Set("Cookie", "__Host-catalogd=a.b.c") // the API ignores it
			if strings.HasPrefix(path, "/ui") {
				r.Header.Del("Cookie")
			}
			w := httptest.NewRecorder()
			port.Handler.ServeHTTP(w, r)
			got[path] = w.Code
			if path == "/ui/login" && w.Code == http.StatusOK && !strings.Contains(w.Body.String(), "create token catalogd-cli --namespace=here ") {
				t.Errorf("the form does not name the namespace:\n%s", w.Body)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: statuses (-want +got):\n%s", name, diff)
		}
	}
}
