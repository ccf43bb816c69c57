package content

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A redirect target receives neither the credentials of the user nor the token for catalogd.
func TestRedirectsAreNotFollowed(t *testing.T) {
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer elsewhere.Close()
	server := httptest.NewTLSServer(http.RedirectHandler(elsewhere.URL+"/catalogs", http.StatusTemporaryRedirect))
	defer server.Close()
	config := &rest.Config{Host: server.URL, BearerToken: "the user's own", TLSClientConfig: rest.TLSClientConfig{CAData: authority(server)}}
	mint := func(context.Context) (string, error) { return "for catalogd", nil }

	proxied, err := Proxied(config, address(t, "https://catalogd.catalogd-system.svc/catalogs/sample"), mint)
	if err != nil {
		t.Fatal(err)
	}
	authorityFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authorityFile, authority(server), 0o600); err != nil {
		t.Fatal(err)
	}
	direct, err := Direct(config, address(t, server.URL), Options{CAFile: authorityFile, Credentials: true, Mint: mint})
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range map[string]*Service{"proxied": proxied, "direct": direct} {
		_, err := service.Get(t.Context(), "/catalogs", nil, nil)
		if err == nil || !strings.Contains(err.Error(), elsewhere.URL) || reached {
			t.Errorf("%s: error %v, followed: %t", name, err, reached)
		}
	}
}

func TestCredentialsNeedTLS(t *testing.T) {
	var sent http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	mint := func(context.Context) (string, error) { return "for catalogd", nil }
	service, err := Direct(&rest.Config{BearerToken: "the user's own"}, address(t, server.URL), Options{Credentials: true, Mint: mint})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.Get(t.Context(), "/catalogs", nil, nil); err == nil || sent.Get("Authorization")+sent.Get(TokenHeader) != "" {
		t.Errorf("error %v, sent %v", err, sent)
	}
}

func TestParseAddress(t *testing.T) {
	for _, test := range []struct{ base, url, name, namespace string }{
		{"https://catalogd.ns.svc/catalogs/sample", "https://catalogd.ns.svc", "catalogd", "ns"},
		{"https://catalogd.ns.svc.cluster.local:8443/catalogs/sample", "https://catalogd.ns.svc.cluster.local:8443", "catalogd", "ns"},
		{"https://catalogs.example/team/catalogs/sample/", "https://catalogs.example/team", "", ""},
		{"https://catalogd.ns.svc/../../../secrets/catalogs/sample", "", "", ""},
		{"https://catalogd.ns.svc/%2e%2e/catalogs/sample", "", "", ""},
		{"ftp://catalogd.ns.svc/catalogs/sample", "", "", ""},
		{"catalogd", "", "", ""},
	} {
		got, err := ParseAddress(test.base, "sample")
		if (err != nil) != (test.url == "") {
			t.Errorf("%s: error %v", test.base, err)
		} else if err == nil && (got.URL.String() != test.url || got.Name != test.name || got.Namespace != test.namespace) {
			t.Errorf("%s: %s, %q in %q", test.base, got.URL, got.Name, got.Namespace)
		}
	}
}

func address(t *testing.T, base string) Address {
	t.Helper()
	a, err := ParseAddress(base, "sample")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// authority is what the certificate of a test server is signed by, in PEM form.
func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
