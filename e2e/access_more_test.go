package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// withRegistry sets fields of spec.registry.
func withRegistry(t *testing.T, fields map[string]any) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedMap(c.Object, fields, "spec", "registry"))
	}
}

// waitMessage waits until condition Ready is False and its message has all parts.
func (w *world) waitMessage(t *testing.T, catalog string, parts ...string) {
	t.Helper()
	w.eventuallyCatalog(t, catalog, "not Ready, and says why", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "Ready")
		if got.status != "False" {
			return fmt.Errorf("Ready is %+v", got)
		}
		for _, part := range parts {
			if !strings.Contains(got.message, part) {
				return fmt.Errorf("the message %q does not say %q", got.message, part)
			}
		}
		return nil
	})
}

// TestPullSecretSources has a registry whose password stands in each of the places where catalogd looks, one after the other.
// The entry of the repository counts before that of its registry, wherever they stand.
func TestPullSecretSources(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: basicAuth, tls: plainHTTP})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	host, repository := registry.address, registry.address+"/ns/catalog"
	for name, test := range map[string]struct {
		spec, account, global map[string]string // passwords by registry[/path]
		refused               bool
	}{
		"spec":                              {spec: map[string]string{host: registryPassword}},
		"service account":                   {account: map[string]string{host: registryPassword}},
		"flag":                              {global: map[string]string{host: registryPassword}},
		"spec before flag":                  {spec: map[string]string{host: registryPassword}, global: map[string]string{host: "wrong"}},
		"flag, the service account's wrong": {account: map[string]string{host: "wrong"}, global: map[string]string{host: registryPassword}, refused: true},
		"repository before registry":        {spec: map[string]string{host: "wrong"}, global: map[string]string{repository: registryPassword}},
		"another repository":                {spec: map[string]string{repository + "-other": "wrong"}, global: map[string]string{host: registryPassword}},
		"nobody's":                          {refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shared, "--pull-secret", namespace+"/global", "--service-account", system.ServiceAccount)
			fields := map[string]any{}
			if test.spec != nil {
				w.writePullSecret(t, "spec", test.spec)
				fields["pullSecrets"] = []any{map[string]any{"name": "spec"}}
			}
			if test.account != nil {
				w.writePullSecret(t, "account", test.account)
				w.setImagePullSecrets(t, "account")
			}
			if test.global == nil {
				test.global = map[string]string{"registry.example": "unused"}
			}
			w.writePullSecret(t, "global", test.global)
			w.createCatalog(t, "private", ref, withRegistry(t, fields))
			if test.refused {
				w.waitMessage(t, "private", host, "401")
				return
			}
			w.waitReady(t, "private", digest)
		})
	}
}

// setImagePullSecrets sets those of catalogd's ServiceAccount until the test ends.
func (w *world) setImagePullSecrets(t *testing.T, names ...string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: system.ServiceAccount}}
	set := func(names ...string) {
		w.write(t, account, func() {
			account.ImagePullSecrets = nil
			for _, name := range names {
				account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
		})
	}
	set(names...)
	t.Cleanup(func() { set() })
}

// TestPasswordRotation changes the password at the registry of a catalog that is served: the catalog stays served, says what
// is wrong, and recovers as soon as its Secret has the new password.
func TestPasswordRotation(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: basicAuth, tls: plainHTTP})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	w := newWorld(t, shared)
	w.writePullSecret(t, "rotated", map[string]string{registry.address: registryPassword})
	w.createCatalog(t, "private", ref, withRegistry(t, map[string]any{"pullSecrets": []any{map[string]any{"name": "rotated"}}}))
	w.waitReady(t, "private", digest)

	must.Succeed(t, os.WriteFile(registry.users, []byte(registryUser+":"+rotatedHash+"\n"), 0o600))
	w.askForPoll(t, "private", "rotated")
	w.waitMessage(t, "private", registry.address, "rotated", "401")
	c := w.catalog(t, "private")
	if err := errors.Join(wantCondition(c, "Serving", "True"), w.answers(w.contentURL("private", "/api/v1/all"), http.StatusOK)); err != nil {
		t.Error(err)
	}
	w.writePullSecret(t, "rotated", map[string]string{registry.address: rotatedPassword})
	w.waitReady(t, "private", digest)
	w.checkSecrets(t, []string{registryPassword, basicForm(registryUser, registryPassword), rotatedPassword, basicForm(registryUser, rotatedPassword)})
}

// TestRegistryCADir has catalogd read the authority that it lacks while it runs, for all catalogs.
func TestRegistryCADir(t *testing.T) {
	authority, dir := newAuthority(t, "e2e authority"), t.TempDir()
	registry := newDistribution(t, distributionConfig{auth: noAuth, tls: ownCA, authority: authority})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	w := newWorld(t, shared, "--registry-ca-dir", dir)
	w.createCatalog(t, "trusted", ref, nil)
	w.waitMessage(t, "trusted", registry.address, "authority", "caBundle")
	writeFile(t, dir, "ca.crt", authority.pem)
	w.askForPoll(t, "trusted", "the authority is there")
	w.waitReady(t, "trusted", digest)
}

// TestInsecure has a registry that nobody vouches for: it will do where that is asked for, and catalogd says so.
func TestInsecure(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: noAuth, tls: ownCA, authority: newAuthority(t, "e2e authority")})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	w := newWorld(t, shared)
	w.createCatalog(t, "secure", ref, nil)
	w.createCatalog(t, "insecure", ref, withRegistry(t, map[string]any{"insecure": true}))
	w.waitReady(t, "insecure", digest)
	w.waitMessage(t, "secure", registry.address, "authority")
	if c, _ := conditionOf(w.catalog(t, "insecure"), "Ready"); !strings.Contains(c.message, "insecure") {
		t.Errorf("Ready does not say that the registry is insecure: %q", c.message)
	}
	metrics := string(get(t, "http://"+w.metrics+"/metrics").body)
	if !strings.Contains(metrics, `catalogd_insecure{catalog="insecure"} 1`) || strings.Contains(metrics, `catalogd_insecure{catalog="secure"} 1`) {
		t.Errorf("/metrics does not tell who is insecure:\n%s", catalogdLines(metrics))
	}
}

// TestProxyOfEnvironment has a registry whose name only the proxy knows, and one that NO_PROXY names.
func TestProxyOfEnvironment(t *testing.T) {
	const host, unproxied = "registry.e2e.test", "127.0.0.1"
	authority := newAuthority(t, "e2e authority")
	registry := newDistribution(t, distributionConfig{auth: noAuth, tls: ownCA, authority: authority, hosts: []string{host}})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	_, port, err := net.SplitHostPort(registry.address)
	must.Succeed(t, err)
	named := net.JoinHostPort(host, port)
	proxy := newProxy(t, "", "")
	proxy.names = map[string]string{named: registry.address}
	proxy.start(t)
	t.Setenv("HTTPS_PROXY", "http://"+proxy.address)
	t.Setenv("NO_PROXY", unproxied)
	dir := t.TempDir()
	writeFile(t, dir, "ca.pem", authority.pem)
	w := newWorld(t, shared, "--registry-ca-dir", dir)
	w.createCatalog(t, "proxied", strings.Replace(ref, registry.address, named, 1), nil)
	w.createCatalog(t, "direct", ref, nil)
	w.waitReady(t, "proxied", digest)
	w.waitReady(t, "direct", digest)
	if proxy.seen(named) == 0 || proxy.seen(registry.address) > 0 {
		t.Errorf("the proxy saw %d requests for %s and %d for %s, want some and none", proxy.seen(named), named, proxy.seen(registry.address), registry.address)
	}
}
