package content

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Responses of the service are forwarded as they are; errors of other servers get the form of the service's.
func TestDo(t *testing.T) {
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send := func(code int, text string) {
			w.WriteHeader(code)
			fmt.Fprint(w, text)
		}
		switch r.URL.Path {
		case "/base/catalogs/a/api/v1/all":
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				send(http.StatusNotModified, "")
				return
			}
			send(http.StatusOK, r.Method+" "+r.URL.RawQuery)
		case "/base/catalogs/a/b/api/v1/all":
			send(http.StatusOK, r.URL.EscapedPath())
		case "/base/absent":
			w.Header().Set("Catalogd-X", "y")
			send(http.StatusNotFound, "404 Not Found\nno such catalog\n")
		case "/base/busy":
			if attempts++; attempts == 1 {
				w.Header().Set("Retry-After", "1")
				send(http.StatusTooManyRequests, "429 Too Many Requests\nretry\n")
				return
			}
			send(http.StatusOK, "done")
		case "/base/forbidden":
			send(http.StatusForbidden, `{"kind":"Status","message":"jane cannot get services/proxy"}`)
		case "/base/redirect":
			http.Redirect(w, r, "https://elsewhere.example", http.StatusFound)
		case "/base/api/v1/graphql":
			body, _ := io.ReadAll(r.Body)
			if r.URL.Query().Get("query") == "{bad}" {
				send(http.StatusUnprocessableEntity, `{"errors":[{"message":"bad","extensions":{"code":"X"}}]}`)
				return
			}
			send(http.StatusOK, r.Method+" "+r.URL.Query().Get("query")+r.URL.Query().Get("variables")+fmt.Sprint(len(body)))
		}
	}))
	defer server.Close()
	at, err := ParseAddress(server.URL+"/base", "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := Direct(&rest.Config{Host: server.URL}, at, Options{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", maxURL)
	for _, test := range []struct {
		method, path, body, header string
		code                       int
		want                       string // part of the response
	}{
		{path: "/catalogs/a/api/v1/all?b=c", code: 200, want: "GET b=c"},
		{path: "/catalogs/a%2Fb/api/v1/all", code: 200, want: "/base/catalogs/a%2Fb/api/v1/all"},
		{path: "/catalogs/a/api/v1/all", header: `"1"`, code: 304},
		{path: "/absent", code: 404, want: "404 Not Found\nno such catalog\n"},
		{path: "/busy", code: 200, want: "done"},
		{path: "/forbidden", code: 403, want: "403 Forbidden\nreaching the content service at " + server.URL},
		{path: "/forbidden", code: 403, want: "Role catalogd-cli-user"},
		{path: "/redirect", code: 502, want: "502 Bad Gateway\nthe content service at"},
		{method: "POST", path: "/api/v1/graphql", body: `{"query":"{a}","variables":{"b":1}}`, code: 200, want: `GET {a}{"b":1}0`},
		{method: "POST", path: "/api/v1/graphql", body: `{"query":"{bad}"}`, code: 422, want: `{"errors":[{"message":"bad"`},
		{method: "POST", path: "/api/v1/graphql", body: `{"query":"` + long + `"}`, code: 200, want: fmt.Sprintf("POST %d", maxURL+12)},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.body == "" {
			r.Body, r.GetBody, r.ContentLength = nil, nil, 0
		}
		if test.header != "" {
			r.Header.Set("If-None-Match", test.header)
		}
		resp, err := service.Do(r)
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.code || !strings.Contains(string(body), test.want) {
			t.Errorf("%s: %d %s, want %d %s", test.path, resp.StatusCode, body, test.code, test.want)
		}
	}
	for _, path := range []string{"/catalogs/../../../secrets", "/catalogs/%2e%2e/x", "/a/.."} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := service.Do(r); err == nil {
			resp.Body.Close()
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

func TestDoThroughAPIServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.RequestURI()) }))
	defer server.Close()
	at, err := ParseAddress("https://catalogd.ns.svc/catalogs/a", "a")
	if err != nil {
		t.Fatal(err)
	}
	service, err := Proxied(&rest.Config{Host: server.URL}, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/catalogs/a/api/v1/all?b=c", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := service.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if want := "/api/v1/namespaces/ns/services/https:catalogd:443/proxy/catalogs/a/api/v1/all?b=c"; string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}
