package e2e

import (
	"errors"
	"fmt"
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

// TestPullSecretSources puts the password of a registry in each of the places that catalogd reads, one after the
// other. The entry of a repository takes precedence over that of its registry, wherever they are.
func TestPullSecretSources(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: basicAuth, tls: plainHTTP})
	ref, digest := registry.push(t, "ns/catalog", catalogImage(t, soundDir))
	host, repository := registry.address, registry.address+"/ns/catalog"
	for name, test := range map[string]struct {
		spec, account, global map[string]string // passwords by registry[/path]
		refused               bool
	}{
		"spec":             {spec: map[string]string{host: registryPassword}},
		"service account":  {account: map[string]string{host: registryPassword}},
		"flag":             {global: map[string]string{host: registryPassword}},
		"spec before flag": {spec: map[string]string{host: registryPassword}, global: map[string]string{host: "wrong"}},
		"flag, the service account's wrong": {
			account: map[string]string{host: "wrong"}, global: map[string]string{host: registryPassword}, refused: true,
		},
		"repository before registry": {spec: map[string]string{host: "wrong"}, global: map[string]string{repository: registryPassword}},
		"another repository": {
			spec: map[string]string{repository + "-other": "wrong"}, global: map[string]string{host: registryPassword},
		},
		"no credentials": {refused: true},
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

// setImagePullSecrets sets the imagePullSecrets of catalogd's ServiceAccount until the test ends.
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

// TestPasswordRotation changes the password at the registry of a served catalog. The catalog stays served, reports
// the cause, and recovers as soon as its Secret has the new password.
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
	w.checkSecrets(t, []string{
		registryPassword, basicForm(registryUser, registryPassword), rotatedPassword, basicForm(registryUser, rotatedPassword),
	})
}
