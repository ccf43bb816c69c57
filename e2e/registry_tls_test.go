package e2e

import (
	"strings"
	"testing"
)

// TestRegistryCADir adds the missing authority to --registry-ca-dir while catalogd runs.
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

// TestInsecureRegistry uses a registry with an untrusted certificate. It works only with spec.registry.insecure, and
// catalogd reports that.
func TestInsecureRegistry(t *testing.T) {
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
	if !strings.Contains(metrics, `catalogd_insecure{catalog="insecure"} 1`) ||
		strings.Contains(metrics, `catalogd_insecure{catalog="secure"} 1`) {
		t.Errorf("/metrics does not report the insecure catalog:\n%s", catalogdLines(metrics))
	}
}
