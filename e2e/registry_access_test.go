package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// accessWorld is a world with a registry of each kind, each with an image of its own, and an authenticating proxy.
type accessWorld struct {
	*world
	registries map[registryKind]*distribution
	images     map[registryKind]accessImage
	authority  authority // of every registry with TLS, and of its clients
	stranger   authority // trusted by no registry or client

	clientPair, strangersPair keyPair // client certificates, signed by authority and by stranger

	proxy       *forwardProxy
	stopped     *forwardProxy // starts when faults are mended
	wrongSecret string        // a wrong password
}

type registryKind struct {
	auth authentication
	tls  encryption
}

type accessImage struct {
	ref, digest string
	blobs       []blob
}

// way is a row of the table: a kind of registry, reached directly or through the proxy.
type way struct {
	registryKind
	proxied bool
}

func (r way) String() string {
	if r.proxied {
		return fmt.Sprintf("%s, %s, proxy", r.auth, r.tls)
	}
	return fmt.Sprintf("%s, %s, direct", r.auth, r.tls)
}

// objectNameOf turns a description into the name of a CatalogSource.
func objectNameOf(description string) string {
	return strings.NewReplacer(", ", "-", ": ", "-", " ", "-").Replace(strings.ToLower(description))
}

// fault is an error in the Secrets and ConfigMaps of a CatalogSource that prevents access to its registry.
type fault struct {
	name    string
	applies func(way) bool
	spoil   func(*accessWorld, *credentials)
	says    []string // parts of the message: cause and remedy; {catalog}, {registry} and {stopped} are replaced by names
}

func needsPassword(r way) bool    { return r.auth != noAuth }
func needsAuthority(r way) bool   { return r.tls != plainHTTP }
func needsCertificate(r way) bool { return r.tls == mutualTLS }
func needsProxy(r way) bool       { return r.proxied }

var faults = []fault{
	{"wrong password", needsPassword, func(w *accessWorld, c *credentials) { c.password = w.wrongSecret },
		[]string{"{registry}", "{catalog}-pull", "401"}},
	{"no pull secret", needsPassword, func(_ *accessWorld, c *credentials) { c.password = "" },
		[]string{"{catalog}-pull", "Secret", namespace}},
	{"unknown CA", needsAuthority, func(w *accessWorld, c *credentials) { c.ca = w.stranger.pem },
		[]string{"{registry}", "authority", "caBundle"}},
	{"no CA bundle", needsAuthority, func(_ *accessWorld, c *credentials) { c.ca = nil },
		[]string{"{catalog}-ca", "ConfigMap", namespace}},
	{"no client certificate", needsCertificate, func(_ *accessWorld, c *credentials) { c.client = keyPair{} },
		[]string{"{catalog}-client", "Secret", namespace}},
	{"client certificate of a stranger", needsCertificate, func(w *accessWorld, c *credentials) { c.client = w.strangersPair },
		[]string{"{registry}", "clientCertificate"}},
	{"proxy down", needsProxy, func(w *accessWorld, c *credentials) { c.proxy = w.stopped },
		[]string{"proxy", "{stopped}"}},
	{"wrong proxy password", needsProxy, func(w *accessWorld, c *credentials) { c.proxyPassword = w.wrongSecret },
		[]string{"proxy", "{catalog}-proxy", "407"}},
}

// twin is a catalog of a way, with a fault.
type twin struct {
	way
	fault
	catalog string
}

// TestRegistryAccess reaches the nine kinds of registries, directly and through a proxy, without faults and with
// each fault. The message names the fault and its remedy. The catalog recovers once Secrets, ConfigMaps and the
// proxy are mended, without a restart and without a change of the CatalogSource. In the end, no output contains a
// secret.
func TestRegistryAccess(t *testing.T) {
	w := newAccessWorld(t)
	var ways []way
	for kind := range w.registries {
		ways = append(ways, way{kind, false}, way{kind, true})
	}
	slices.SortFunc(ways, func(a, b way) int { return strings.Compare(a.String(), b.String()) })
	began, twins := time.Now(), []twin(nil)
	for _, r := range ways {
		w.createAccess(t, r, objectNameOf(r.String()), w.goodCredentials(r))
		for _, f := range faults {
			if f.applies(r) {
				tw := twin{r, f, objectNameOf(r.String() + ": " + f.name)}
				bad := w.goodCredentials(r)
				f.spoil(w, &bad)
				w.createAccess(t, r, tw.catalog, bad)
				twins = append(twins, tw)
			}
		}
	}
	w.waitTogether()
	for _, r := range ways {
		t.Run(r.String(), func(t *testing.T) { w.checkServed(t, r, objectNameOf(r.String())) })
	}
	for _, tw := range twins {
		t.Run(tw.way.String()+": "+tw.name, func(t *testing.T) { w.checkNamed(t, tw) })
	}
	w.stopped.start(t)
	for _, tw := range twins {
		good := w.goodCredentials(tw.way)
		if tw.name == "proxy down" {
			good.proxy = w.stopped // its start is the only change
		}
		w.writeCredentials(t, tw.catalog, good)
	}
	w.waitTogether()
	// catalogd gets no event when a proxy works again, so it finds out at the next attempt. Each pause is about
	// twice the one before.
	w.deadline = w.deadline.Add(3 * time.Since(began))
	for _, tw := range twins {
		t.Run(tw.way.String()+": "+tw.name+", mended", func(t *testing.T) { w.checkServed(t, tw.way, tw.catalog) })
	}
	t.Run("no secret is told", func(t *testing.T) { w.checkSecrets(t, w.secrets()) })
}

func newAccessWorld(t *testing.T) *accessWorld {
	t.Helper()
	w := &accessWorld{
		registries: map[registryKind]*distribution{}, images: map[registryKind]accessImage{},
		authority: newAuthority(t, "e2e authority"), stranger: newAuthority(t, "e2e stranger"),
		proxy:   newProxy(t, proxyUser, proxyPassword),
		stopped: newProxy(t, proxyUser, proxyPassword), wrongSecret: "wr0ng-e2e-pAssw0rd",
	}
	for _, auth := range []authentication{noAuth, basicAuth, bearerAuth} {
		for _, tls := range []encryption{plainHTTP, ownCA, mutualTLS} {
			kind := registryKind{auth, tls}
			w.registries[kind] = newDistribution(t, distributionConfig{auth: auth, tls: tls, authority: w.authority})
			dir := soundWith(t, fmt.Sprintf("%s, %s", auth, tls))
			blobs, err := readCatalog(dir)
			must.Succeed(t, err)
			ref, digest := w.registries[kind].push(t, "ns/catalog", catalogImage(t, dir))
			w.images[kind] = accessImage{ref, digest, blobs}
		}
	}
	w.clientPair, w.strangersPair = w.authority.issue(t, "e2e client"), w.stranger.issue(t, "e2e stranger's client")
	w.proxy.start(t)
	w.world = newWorld(t, shared)
	return w
}

func (w *accessWorld) createAccess(t *testing.T, r way, catalog string, c credentials) {
	t.Helper()
	w.writeCredentials(t, catalog, c)
	w.createCatalog(t, catalog, w.images[r.registryKind].ref, func(object *unstructured.Unstructured) {
		registry := map[string]any{}
		if needsPassword(r) {
			registry["pullSecrets"] = []any{map[string]any{"name": catalog + "-pull"}}
		}
		if needsAuthority(r) {
			registry["caBundle"] = map[string]any{"name": catalog + "-ca"}
		}
		if needsCertificate(r) {
			registry["clientCertificate"] = map[string]any{"name": catalog + "-client"}
		}
		if needsProxy(r) {
			registry["proxy"] = map[string]any{"name": catalog + "-proxy"}
		}
		if len(registry) > 0 {
			must.Succeed(t, unstructured.SetNestedMap(object.Object, registry, "spec", "registry"))
		}
	})
}

// checkServed requires that the catalog is Ready with the content of its registry, fetched through the proxy if
// there is one.
func (w *accessWorld) checkServed(t *testing.T, r way, catalog string) {
	image := w.images[r.registryKind]
	w.waitReady(t, catalog, image.digest)
	checkContent(t, w.world, catalog, image.blobs)
	if host := w.registries[r.registryKind].address; r.proxied && w.proxy.seen(host) == 0 {
		t.Errorf("the proxy was not asked for %s", host)
	}
}

// checkNamed requires the fault and its remedy in the message, and no served content.
func (w *accessWorld) checkNamed(t *testing.T, tw twin) {
	names := strings.NewReplacer("{catalog}", tw.catalog, "{registry}", w.registries[tw.registryKind].address, "{stopped}", w.stopped.address)
	w.eventuallyCatalog(t, tw.catalog, "known as not to be had", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "Ready")
		if got.status != "False" {
			return fmt.Errorf("Ready is %+v", got)
		}
		for _, part := range tw.says {
			if part = names.Replace(part); !strings.Contains(got.message, part) {
				return fmt.Errorf("the message %q does not say %q", got.message, part)
			}
		}
		return nil
	})
}

// soundWith is soundDir with a blob that makes its image unique.
func soundWith(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(soundDir)))
	writeFile(t, dir, "text.json", fmt.Appendf(nil, `{"schema":"example.com.text","name":"text","text":%q}`, text))
	return dir
}
