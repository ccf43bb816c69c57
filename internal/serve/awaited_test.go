package serve

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Content that only other replicas serve yet is unavailable, not missing.
func TestContentOfOtherReplicasIsUnavailable(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	cfg.Awaited = func(catalog string) Awaited {
		digest := map[string]string{"new": digestOf("7"), "small": digestOf("8"), "icons": digestOf("2")}[catalog]
		return Awaited{Exists: digest != "", Digest: digest}
	}
	url := startServer(t, New(cfg))
	small := "/catalogs/small/digests/"
	for path, want := range map[string]int{
		"/catalogs/new/api/v1/all": http.StatusServiceUnavailable,
		"/catalogs/new":            http.StatusServiceUnavailable,
		"/catalogs/new/digests/" + digestOf("7") + "/api/v1/all":            http.StatusServiceUnavailable,
		"/catalogs/none/api/v1/all":                                         http.StatusNotFound,
		small + digestOf("8") + "/api/v1/all":                               http.StatusServiceUnavailable,
		small + digestOf("8") + "-01234567/api/v1/all":                      http.StatusServiceUnavailable,
		small + digestOf("9") + "/api/v1/all":                               http.StatusNotFound,
		small + digestOf("1") + "/api/v1/all":                               http.StatusOK,
		"/catalogs/icons/digests/" + digestOf("2") + "-01234567/api/v1/all": http.StatusNotFound, // of a directory that is not served
		"/catalogs/small/api/v1/all":                                        http.StatusOK,
	} {
		resp, body := do(t, http.MethodGet, url+path, "")
		if resp.StatusCode != want {
			t.Errorf("%s: got %d: %s", path, resp.StatusCode, body)
		}
		if waits := resp.StatusCode == http.StatusServiceUnavailable; waits != (resp.Header.Get("Retry-After") == "1") ||
			waits != strings.Contains(body, "is not served by this replica yet") {
			t.Errorf("%s: got %d, Retry-After %q: %s", path, resp.StatusCode, resp.Header.Get("Retry-After"), body)
		}
	}
}

// Responses about all catalogs name the missing ones.
func TestMissingCatalogsAreNamed(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	expected := []string{"small", "new", "another"}
	cfg.Expected = func() []string { return slices.Clone(expected) }
	url := startServer(t, New(cfg))
	for _, path := range []string{"/catalogs", "/api/v1/search?q=a", "/api/v1/graphql?query={catalogs{name}}"} {
		for _, test := range []struct {
			expected []string
			want     string
		}{{[]string{"small", "new", "another"}, "another, new"}, {[]string{"small"}, ""}, {nil, ""}} {
			expected = test.expected
			resp, _ := do(t, http.MethodGet, url+path, "")
			if got := resp.Header.Get(MissingHeader); resp.StatusCode != http.StatusOK || got != test.want {
				t.Errorf("%s with %q to be served: %d, %s %q, want %q", path, expected, resp.StatusCode, MissingHeader, got, test.want)
			}
		}
	}
}

// A catalog that exists and has no content yet is unavailable, not missing, and so is any catalog before the cache has them all.
func TestCatalogsWithoutContentAreUnavailable(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	awaited := Awaited{}
	cfg.Awaited = func(catalog string) Awaited {
		if catalog == "new" {
			return awaited
		}
		return Awaited{}
	}
	url := startServer(t, New(cfg))
	for _, test := range []struct {
		awaited    Awaited
		status     int
		retryAfter string
		text       string
	}{
		{Awaited{}, http.StatusNotFound, "", `catalog "new" not found; GET /catalogs lists the served catalogs`},
		{Awaited{Exists: true}, http.StatusServiceUnavailable, "5", `catalog "new" has no content yet`},
		{Awaited{Unknown: true}, http.StatusServiceUnavailable, "5", "the API server has not said yet whether it exists"},
		{Awaited{Exists: true, Digest: digestOf("7")}, http.StatusServiceUnavailable, "1", "is not served by this replica yet"},
	} {
		awaited = test.awaited
		for _, path := range []string{
			"/catalogs/new", "/catalogs/new/api/v1/all", "/catalogs/new/api/v1/metas?schema=olm.package", "/catalogs/new/api/v1/watch",
			"/catalogs/new/digests/" + digestOf("7"), "/catalogs/new/digests/" + digestOf("7") + "/api/v1/all",
			"/api/v1/search?q=a&catalog=new",
		} {
			resp, body := do(t, http.MethodGet, url+path, "")
			if resp.StatusCode != test.status || resp.Header.Get("Retry-After") != test.retryAfter || !strings.Contains(body, test.text) {
				t.Errorf("%+v: %s: got %d, Retry-After %q: %s", test.awaited, path, resp.StatusCode, resp.Header.Get("Retry-After"), body)
			}
		}
	}
	awaited = Awaited{Exists: true}
	if resp, body := do(t, http.MethodGet, url+"/catalogs/small/api/v1/all", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("a served catalog: got %d: %s", resp.StatusCode, body)
	}
}
