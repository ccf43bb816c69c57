package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	proxyUser     = "traveller"
	proxyPassword = "e2e-pAssw0rd-of-the-pr0xy"
)

// credentials are a catalog's credentials for its registry, in Secrets and a ConfigMap named after the catalog.
// Empty ones are not written.
type credentials struct {
	registry, password string // registry: the key in the dockerconfigjson
	ca                 []byte
	client             keyPair
	proxy              *forwardProxy
	proxyPassword      string
}

// goodCredentials are the valid credentials of a way.
func (w *accessWorld) goodCredentials(r way) (c credentials) {
	if needsPassword(r) {
		c.registry, c.password = w.registries[r.registryKind].address, registryPassword
	}
	if needsAuthority(r) {
		c.ca = w.authority.pem
	}
	if needsCertificate(r) {
		c.client = w.clientPair
	}
	if needsProxy(r) {
		c.proxy, c.proxyPassword = w.proxy, proxyPassword
	}
	return c
}

func (w *world) writeCredentials(t *testing.T, catalog string, c credentials) {
	t.Helper()
	if c.password != "" {
		w.writePullSecret(t, catalog+"-pull", map[string]string{c.registry: c.password})
	}
	if c.ca != nil {
		w.writeConfigMap(t, catalog+"-ca", map[string]string{"ca.crt": string(c.ca)})
	}
	if c.client.key != nil {
		w.writeSecret(t, catalog+"-client", corev1.SecretTypeTLS, map[string][]byte{"tls.crt": c.client.certificate, "tls.key": c.client.key})
	}
	if c.proxy != nil {
		w.writeSecret(t, catalog+"-proxy", corev1.SecretTypeOpaque, map[string][]byte{
			"address": []byte("http://" + c.proxy.address), "username": []byte(proxyUser), "password": []byte(c.proxyPassword)})
	}
}

// writePullSecret writes a dockerconfigjson with the password of registryUser for each registry[/path].
func (w *world) writePullSecret(t *testing.T, name string, passwords map[string]string) {
	t.Helper()
	auths := map[string]any{}
	for registry, password := range passwords {
		auths[registry] = map[string]string{"auth": basicForm(registryUser, password)}
	}
	content, err := json.Marshal(map[string]any{"auths": auths})
	must.Succeed(t, err)
	w.writeSecret(t, name, corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: content})
}

func basicForm(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// writeSecret creates or updates the Secret in catalogd's namespace, and deletes it when the test ends.
func (w *world) writeSecret(t *testing.T, name string, kind corev1.SecretType, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.write(t, secret, func() { secret.Type, secret.Data = kind, data })
}

func (w *world) writeConfigMap(t *testing.T, name string, data map[string]string) {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.write(t, config, func() { config.Data = data })
}

func (w *world) write(t *testing.T, object client.Object, change func()) {
	t.Helper()
	result, err := controllerutil.CreateOrUpdate(context.WithoutCancel(t.Context()), w.Client, object, func() error { change(); return nil })
	if err != nil {
		t.Fatalf("writing %T %s: %v", object, object.GetName(), err)
	}
	if result == controllerutil.OperationResultCreated {
		t.Cleanup(func() {
			if err := w.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				t.Errorf("cleaning up: %v", err)
			}
		})
	}
}

// secrets are all confidential values, in every form in which they occur on the wire or in a Secret.
func (w *accessWorld) secrets() []string {
	found := []string{basicForm(proxyUser, proxyPassword), basicForm(proxyUser, w.wrongSecret), proxyPassword}
	for _, password := range []string{registryPassword, w.wrongSecret} {
		found = append(found, password, basicForm(registryUser, password), base64.StdEncoding.EncodeToString([]byte(password)))
	}
	for _, registry := range w.registries {
		if registry.tokens != nil {
			found = append(found, registry.tokens.tokens()...)
		}
	}
	for _, pair := range []keyPair{w.clientPair, w.strangersPair} {
		block, _ := pem.Decode(pair.key)
		found = append(found, base64.StdEncoding.EncodeToString(block.Bytes)[:60]) // PEM lines have 64 characters
	}
	return found
}

// checkSecrets searches all output of catalogd for secrets: log, events, objects, metrics and the list of catalogs.
func (w *world) checkSecrets(t *testing.T, secrets []string) {
	t.Helper()
	told := map[string]string{
		"the log":   w.log.String(),
		"/metrics":  string(get(t, "http://"+w.metrics+"/metrics").body),
		"/catalogs": string(get(t, "http://"+w.content+"/catalogs").body),
	}
	for _, kind := range []string{"events", "catalogsources", "operatorpackages"} {
		out, err := w.Kubectl(t.Context(), "get", kind, "-A", "-o", "json")
		must.Succeed(t, err)
		told["the "+kind] = out
	}
	for where, text := range told {
		if len(text) == 0 {
			t.Errorf("%s: nothing to look at", where)
		}
		for _, secret := range secrets {
			if secret == "" {
				t.Fatal("an empty secret is everywhere")
			}
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has a secret: %.300s", where, text[max(0, at-150):])
			}
		}
	}
}
