package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// logIn returns a client that keeps cookies, and the response of a login with a token.
func logIn(t *testing.T, base, token string, config *tls.Config) (*http.Client, reply) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must.Succeed(t, err)
	client := &http.Client{Timeout: patience, Jar: jar, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return client, send(t, client, http.MethodPost, base+"/ui/login?next=catalogs%2Fsecond", url.Values{"token": {token}}.Encode())
}

// send sends a form, or none, and follows redirects.
func send(t *testing.T, client *http.Client, method, url, form string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
	must.Succeed(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := client.Do(r)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return reply{response.StatusCode, response.Header, body}
}

// A reader logs in with a token for catalogd, and sees what its account may read. The cookie is nothing for the API.
func TestPageAccess(t *testing.T) {
	w := newProtectedWorld(t, "--page")
	config := &tls.Config{RootCAs: w.authority(t)}
	ref, digest := w.registry.push(t, "second", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "second", ref, nil)
	w.waitReady(t, "second", digest)
	_, err := w.Kubectl(t.Context(), "create", "clusterrole", "second-reader", "--verb=get", "--non-resource-url=/catalogs/second",
		"--non-resource-url=/catalogs/second/*")
	must.Succeed(t, err)
	t.Cleanup(func() { _, _ = w.Kubectl(context.Background(), "delete", "clusterrole", "second-reader") })
	base := "https://" + w.content

	ofAPIServer := w.serviceAccountToken(t, "page-all", "catalogd-content-reader")
	w.serviceAccountToken(t, "page-second", "second-reader")
	tokenOf := func(account string) string {
		out, err := w.Kubectl(t.Context(), "-n", namespace, "create", "token", account, "--audience=catalogd.operatorframework.io")
		must.Succeed(t, err)
		return strings.TrimSpace(out)
	}
	client, got := logIn(t, base, ofAPIServer, config)
	if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "A token for the API server is refused here") {
		t.Errorf("a token for the API server: status %d:\n%s", got.status, got.body)
	}
	if got := send(t, client, http.MethodGet, base+"/ui/catalogs", ""); !strings.Contains(string(got.body), "create token catalogd-cli") {
		t.Errorf("without a login: status %d:\n%s", got.status, got.body)
	}
	for account, want := range map[string]map[string]int{
		"page-all": {
			"/ui/catalogs": http.StatusOK, "/ui/catalogs/sample": http.StatusOK, "/ui/catalogs/second": http.StatusOK,
			"/ui/catalogs/sample/raw/skupper-operator": http.StatusOK, "/ui/catalogs/absent": http.StatusNotFound,
			"/catalogs": http.StatusUnauthorized, "/catalogs/second/api/v1/all": http.StatusUnauthorized, "/api/v1/graphql?query={catalogs{name}}": http.StatusUnauthorized,
		},
		"page-second": {
			"/ui/catalogs": http.StatusForbidden, "/ui/catalogs/sample": http.StatusForbidden, "/ui/catalogs/second": http.StatusOK,
			"/ui/catalogs/sample/raw/skupper-operator": http.StatusForbidden, "/ui/catalogs/second/raw/skupper-operator": http.StatusOK,
			"/ui/catalogs/absent": http.StatusForbidden, "/catalogs/second/api/v1/all": http.StatusUnauthorized,
		},
	} {
		client, got := logIn(t, base, tokenOf(account), config)
		if got.status != http.StatusOK || !strings.Contains(string(got.body), digest) {
			t.Errorf("%s: after the login: status %d:\n%s", account, got.status, got.body)
		}
		for path, status := range want {
			if got := send(t, client, http.MethodGet, base+path, ""); got.status != status {
				t.Errorf("%s: %s: status %d, want %d: %s", account, path, got.status, status, got.body)
			}
		}
		send(t, client, http.MethodPost, base+"/ui/logout", "")
		if got := send(t, client, http.MethodGet, base+"/ui/catalogs/second", ""); !strings.Contains(string(got.body), "create token catalogd-cli") {
			t.Errorf("%s: after the logout: status %d:\n%s", account, got.status, got.body)
		}
	}
}
