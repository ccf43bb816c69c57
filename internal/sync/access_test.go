package sync

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// newNamespace runs the reconciler in a new namespace.
func (w *world) newNamespace() {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "catalogd-"}}
	must.Succeed(w.t, w.api.Create(w.t.Context(), namespace))
	w.Config.Namespace = namespace.Name
}

// putSecret creates or replaces a Secret in the reconciler's namespace.
func (w *world) putSecret(name string, data map[string]string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Config.Namespace, Name: name}, StringData: data}
	if err := w.api.Create(w.t.Context(), secret); err != nil {
		secret.ResourceVersion = ""
		must.Succeed(w.t, w.api.Update(w.t.Context(), secret))
	}
}

func (w *world) putConfigMap(name string, data map[string]string) {
	w.t.Helper()
	must.Succeed(w.t, w.api.Create(w.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Config.Namespace, Name: name}, Data: data,
	}))
}

// readAccess reads the objects that the spec of a CatalogSource names.
func (w *world) readAccess(spec *v1beta1.RegistryAccess) (registry.Access, []string, error) {
	src := w.kind.Source(&v1beta1.CatalogSource{Spec: v1beta1.CatalogSourceSpec{Registry: spec}})
	return w.accessReader().Read(w.t.Context(), src.Access)
}

// dockerConfig is the content of a pull Secret.
func dockerConfig(entries ...string) map[string]string { // host or repository, password, and so on
	var auths []string
	for i := 0; i < len(entries); i += 2 {
		auths = append(auths, fmt.Sprintf(`%q:{"username":"admin","password":%q}`, entries[i], entries[i+1]))
	}
	return map[string]string{corev1.DockerConfigJsonKey: `{"auths":{` + strings.Join(auths, ",") + `}}`}
}

// selfSigned is a certificate and its key, in PEM form.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must.Succeed(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must.Succeed(t, err)
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", encoded)
}

// Errors name the unusable object and the remedy, but none of its content.
func TestReadAccessErrors(t *testing.T) {
	w := newWorld(t)
	w.newNamespace()
	certificate, key := selfSigned(t)
	otherCertificate, _ := selfSigned(t)
	w.putSecret("opaque", map[string]string{"password": "s3cret"})
	w.putSecret("no-json", map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"x":{"password":"s3cret"`})
	w.putConfigMap("empty", map[string]string{"ca.crt": "s3cret"})
	w.putSecret("pair", map[string]string{corev1.TLSCertKey: otherCertificate, corev1.TLSPrivateKeyKey: key})
	w.putSecret("good-pair", map[string]string{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key})
	w.putSecret("proxy-user", map[string]string{"address": "http://admin:s3cret@proxy.example:3128"})
	w.putSecret("proxy-socks", map[string]string{"address": "socks5://proxy.example:1080"})
	w.putSecret("proxy-path", map[string]string{"address": "proxy.example:3128"})
	secret := func(name string) *v1beta1.SecretReference { return &v1beta1.SecretReference{Name: name} }
	pull := func(name string) v1beta1.RegistryAccess {
		return v1beta1.RegistryAccess{PullSecrets: []v1beta1.SecretReference{{Name: name}}}
	}
	bundle := func(kind, name, key string) v1beta1.RegistryAccess {
		return v1beta1.RegistryAccess{CABundle: &v1beta1.BundleReference{Kind: kind, Name: name, Key: key}}
	}
	const proxyRemedy = ` of spec.registry.proxy has no valid proxy address at key "address": set it to http://host:port; user name ` +
		`and password belong at "username" and "password"`
	for _, test := range []struct {
		name string
		spec v1beta1.RegistryAccess
		want string
	}{
		{
			"no pull secret",
			pull("gone"),
			"Secret gone of spec.registry.pullSecrets not found in namespace NAMESPACE: create it, or correct the name",
		},
		{"pull secret of another type", pull("opaque"), "Secret opaque of spec.registry.pullSecrets has no key .dockerconfigjson: " +
			"create it with `kubectl create secret docker-registry`"},
		{"pull secret not JSON", pull("no-json"), "no-json"},
		{
			"no ConfigMap",
			bundle("ConfigMap", "gone", "ca.crt"),
			"ConfigMap gone of spec.registry.caBundle not found in namespace NAMESPACE: create it, or correct the name",
		},
		{
			"no Secret",
			bundle("Secret", "gone", "ca.crt"),
			"Secret gone of spec.registry.caBundle not found in namespace NAMESPACE: create it, or correct the name",
		},
		{
			"no PEM",
			bundle("ConfigMap", "empty", "ca.crt"),
			`ConfigMap empty of spec.registry.caBundle has no certificate in PEM form at key "ca.crt": put the CA certificates there`,
		},
		{
			"no key",
			bundle("Secret", "good-pair", "ca.crt"),
			`Secret good-pair of spec.registry.caBundle has no key "ca.crt": put the CA certificates there, or correct the key`,
		},
		{
			"no key of a ConfigMap",
			bundle("ConfigMap", "empty", "other"),
			`ConfigMap empty of spec.registry.caBundle has no key "other": put the CA certificates there, or correct the key`,
		},
		{
			"a key that is no certificate",
			bundle("Secret", "good-pair", "tls.key"),
			`Secret good-pair of spec.registry.caBundle has no certificate in PEM form at key "tls.key": put the CA certificates there`,
		},
		{
			"no client certificate",
			v1beta1.RegistryAccess{ClientCertificate: secret("gone")},
			"Secret gone of spec.registry.clientCertificate not found in namespace NAMESPACE",
		},
		{
			"a certificate with another's key",
			v1beta1.RegistryAccess{ClientCertificate: secret("pair")},
			"Secret pair of spec.registry.clientCertificate has no valid key pair at tls.crt and tls.key",
		},
		{"no proxy", v1beta1.RegistryAccess{Proxy: secret("gone")}, "Secret gone of spec.registry.proxy not found in namespace NAMESPACE"},
		{"a proxy without a scheme", v1beta1.RegistryAccess{Proxy: secret("proxy-path")}, "Secret proxy-path" + proxyRemedy},
		{"a SOCKS proxy", v1beta1.RegistryAccess{Proxy: secret("proxy-socks")}, "Secret proxy-socks" + proxyRemedy},
		{"a proxy without address", v1beta1.RegistryAccess{Proxy: secret("opaque")}, "Secret opaque" + proxyRemedy},
		{"a user in the address", v1beta1.RegistryAccess{Proxy: secret("proxy-user")}, "Secret proxy-user" + proxyRemedy},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := w.readAccess(&test.spec)
			want := strings.ReplaceAll(test.want, "NAMESPACE", w.Config.Namespace)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("got error\n %v, want\n %s", err, want)
			}
			if !fault.NeedsPerson(err) || !fault.IsRetryable(err) || fault.Reason(err) != v1beta1.AccessInvalidReason {
				t.Errorf("needs a person: %t, is retried: %t, reason %q", fault.NeedsPerson(err), fault.IsRetryable(err), fault.Reason(err))
			}
		})
	}
}

func TestReadAccess(t *testing.T) {
	w := newWorld(t)
	w.newNamespace()
	certificate, key := selfSigned(t)
	w.putConfigMap("ca", map[string]string{"ca.crt": certificate})
	w.putSecret("client", map[string]string{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key})
	w.putSecret("proxy", map[string]string{"address": "http://proxy.example:3128", "username": "me", "password": "p:w/d"})
	access, _, err := w.readAccess(&v1beta1.RegistryAccess{
		CABundle:          &v1beta1.BundleReference{Kind: "ConfigMap", Name: "ca", Key: "ca.crt"},
		ClientCertificate: &v1beta1.SecretReference{Name: "client"},
		Proxy:             &v1beta1.SecretReference{Name: "proxy"},
		Insecure:          true,
		Mirrors:           []v1beta1.RegistryMirror{{Source: "quay.io", Location: "mirror.example", PullFrom: "digest-only", Insecure: true}},
	})
	must.Succeed(t, err)
	if string(access.RootCAs) != certificate || access.Certificate == nil || !access.Insecure {
		t.Errorf("got %d bytes of CAs, certificate %t, insecure %t", len(access.RootCAs), access.Certificate != nil, access.Insecure)
	}
	if password, _ := access.Proxy.User.Password(); access.Proxy.Host != "proxy.example:3128" ||
		access.Proxy.User.Username() != "me" || password != "p:w/d" {
		t.Errorf("the proxy is %s", access.Proxy.Redacted())
	}
	if m := access.Mirrors[0]; len(access.Mirrors) != 1 ||
		m.Source != "quay.io" || m.Location != "mirror.example" || m.PullFrom != "digest-only" || !m.Insecure {
		t.Errorf("mirrors are %+v", access.Mirrors)
	}
}

// Credentials come from the catalog, then the ServiceAccount, then --pull-secret; the most specific entry wins.
func TestCredentialsOrder(t *testing.T) {
	w := newWorld(t)
	w.newNamespace()
	const registry, repository = "registry.example", "registry.example/ns/repo"
	w.putSecret("one", dockerConfig(registry, "one"))
	w.putSecret("two", dockerConfig(registry, "two"))
	w.putSecret("specific", dockerConfig(registry+"/ns", "specific"))
	w.putSecret("account", dockerConfig(registry, "account"))
	w.putSecret("broken", map[string]string{corev1.DockerConfigJsonKey: "{"})
	w.putSecret("global", dockerConfig(registry, "global", "other.example", "global"))
	account := &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: w.Config.Namespace, Name: "catalogd"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "gone"}, {Name: "broken"}, {Name: "account"}},
	}
	password := func(repository string, secrets ...string) string {
		t.Helper()
		var refs []v1beta1.SecretReference
		for _, s := range secrets {
			refs = append(refs, v1beta1.SecretReference{Name: s})
		}
		access, _, err := w.readAccess(&v1beta1.RegistryAccess{PullSecrets: refs})
		must.Succeed(t, err)
		target, err := name.NewRepository(repository)
		must.Succeed(t, err)
		auth, err := access.Credentials.Resolve(target)
		must.Succeed(t, err)
		found, err := authn.Authorization(t.Context(), auth)
		must.Succeed(t, err)
		return found.Password
	}
	want := func(what, want, got string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got the password of %q, want %q", what, got, want)
		}
	}
	want("nothing", "", password(repository))
	w.Config.PullSecret = types.NamespacedName{Namespace: w.Config.Namespace, Name: "global"}
	want("global", "global", password(repository))
	must.Succeed(t, w.api.Create(t.Context(), account))
	want("of the account", "account", password(repository))
	want("only global has it", "global", password("other.example/x"))
	want("of the catalog", "one", password(repository, "one", "two"))
	want("in the order of the catalog", "two", password(repository, "two", "one"))
	want("most specific", "specific", password(repository, "one", "specific"))
	want("specific to another", "one", password(registry+"/nsother/repo", "one", "specific"))
}

// A catalog without valid credentials retries at once with the new ones when its Secret changes.
func TestChangedSecretRetriesAtOnce(t *testing.T) {
	w := newWorld(t)
	w.newNamespace()
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.registry.wantPassword("right")
	w.create(ref, func(c *v1beta1.CatalogSource) {
		c.Spec.Registry = &v1beta1.RegistryAccess{PullSecrets: []v1beta1.SecretReference{{Name: "pull"}}}
	})
	w.reconcile()
	w.reconcile()
	c := w.source()
	missing := "Secret pull of spec.registry.pullSecrets not found in namespace " + w.Config.Namespace + ": create it, or correct the name."
	wantCondition(t, c, "Ready", "False AccessInvalid: "+missing)
	wantCondition(t, c, "Progressing", "False Blocked: "+missing)
	wantEqual(t, "requests without the Secret", nil, w.registry.take())

	w.putSecret("pull", dockerConfig(w.registry.host, "wr0ng"))
	w.reconcile() // the Secret's event; the clock stands
	c = w.source()
	refused := "Finding the digest of " + ref + ": registry " + w.registry.host + " requires credentials for repository catalog (401 " +
		"Unauthorized), and rejects those of Secret pull. " +
		"Correct Secret pull, or grant its user access."
	wantCondition(t, c, "Ready", "False Unauthorized: "+refused)
	wantCondition(t, c, "Progressing", "False Blocked: "+refused)
	w.registry.take()
	w.requests.take()
	if next := w.reconcile(); next <= 0 || next > 10*time.Minute {
		t.Errorf("the next pass is in %v", next)
	}
	wantEqual(t, "requests before the backoff is over", nil, w.registry.take())
	wantEqual(t, "writes", nil, w.requests.take())

	w.putSecret("pull", dockerConfig(w.registry.host, "right"))
	w.reconcile()
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
	if w.servedDigest() != digest {
		t.Errorf("serves %q, want %s", w.servedDigest(), digest)
	}

	w.registry.wantPassword("rotated")
	w.putSecret("pull", dockerConfig(w.registry.host, "rotated"))
	w.clock.SetTime(start.Add(time.Hour))
	w.reconcile()
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
	for _, event := range w.events() {
		for _, secret := range []string{"wr0ng", "right\"", "rotated"} {
			if strings.Contains(event, secret) {
				t.Errorf("an event has the password: %s", event)
			}
		}
	}
}

// A registry that sent Retry-After gets no requests until then, from any catalog. Other registries are still polled.
func TestRetryAfter(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	sibling := w.another() // on the same host
	sibling.create(ref, nil)
	sibling.settle()
	elsewhere := w.another()
	elsewhere.registry = newImageRegistry(t)
	other, _ := elsewhere.registry.push("latest", catalogOf(pkg{name: "bar"}))
	elsewhere.create(other, nil)
	elsewhere.settle()

	limited := start.Add(time.Hour)
	w.clock.SetTime(limited)
	w.registry.limit("30")
	next := w.reconcile()
	wantEqual(t, "requests that were refused", []string{"HEAD manifests"}, w.registry.take())
	if next < 30*time.Second || next > 40*time.Second {
		t.Errorf("the next pass is in %v, want it when the registry asked, or a little later", next)
	}
	limitedMessage := "False RateLimited: Finding the digest of " + ref + ": registry " + w.registry.host +
		" is rate limiting requests (429 Too Many Requests). catalogd retries when the registry allows it. The previous content is still served."
	wantCondition(t, w.source(), "Ready", limitedMessage)
	wantCondition(t, w.source(), "Serving", "True Available: Serving the content of "+w.servedDigest()+".")

	w.registry.respond(nil)
	for second := time.Duration(1); second < 30; second += 7 { // nor does a person who cannot wait get through
		w.clock.SetTime(limited.Add(second * time.Second))
		w.reconcile()
		w.requestPoll(fmt.Sprint(second))
		w.reconcile()
		sibling.reconcile()
		wantCondition(t, w.source(), "Ready", limitedMessage)
		if poll := w.source().Status.Poll; poll.Requested != "" {
			t.Errorf("the request %s is answered, though no poll was made", poll.Requested)
		}
		wantEqual(t, "requests after "+fmt.Sprint(second)+" s", nil, w.registry.take())
	}
	wantCondition(t, sibling.source(), "Ready", "True Succeeded: 1 package is published.") // nothing is known to be amiss
	elsewhere.reconcile()
	wantEqual(t, "requests to another host meanwhile", []string{"HEAD manifests"}, elsewhere.registry.take())

	w.clock.SetTime(limited.Add(40 * time.Second))
	w.reconcile()
	wantEqual(t, "requests afterwards", []string{"HEAD manifests"}, w.registry.take())
	if poll := w.source().Status.Poll; poll.Requested != "29ns" {
		t.Errorf("the request that is answered is %q", poll.Requested)
	}
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
}

// A Secret or ConfigMap requeues the catalogs that name it.
func TestCatalogsOf(t *testing.T) {
	w := newWorld(t)
	w.newNamespace()
	w.Config.PullSecret = types.NamespacedName{Namespace: "elsewhere", Name: "global"}
	worlds := map[string]*world{}
	for kind, access := range map[string]*v1beta1.RegistryAccess{
		"none":  nil,
		"pull":  {PullSecrets: []v1beta1.SecretReference{{Name: "other"}, {Name: "a"}}},
		"proxy": {Proxy: &v1beta1.SecretReference{Name: "a"}},
		"cert":  {ClientCertificate: &v1beta1.SecretReference{Name: "a"}},
		"ca":    {CABundle: &v1beta1.BundleReference{Kind: "ConfigMap", Name: "a", Key: "ca.crt"}},
		"caSec": {CABundle: &v1beta1.BundleReference{Kind: "Secret", Name: "a", Key: "ca.crt"}},
	} {
		worlds[kind] = w.another()
		worlds[kind].create("registry.example/x", func(c *v1beta1.CatalogSource) { c.Spec.Registry = access })
	}
	must.Succeed(t, w.api.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: w.Config.Namespace, Name: "catalogd"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "of-account"}},
	}))
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	const all = "none pull proxy cert ca caSec"
	for _, test := range []struct {
		object client.Object
		want   string
	}{
		{&corev1.Secret{ObjectMeta: in(w.Config.Namespace, "a")}, "pull proxy cert caSec"},
		{&corev1.Secret{ObjectMeta: in(w.Config.Namespace, "b")}, ""},
		{&corev1.Secret{ObjectMeta: in(w.Config.Namespace, "of-account")}, all},
		{&corev1.Secret{ObjectMeta: in("elsewhere", "global")}, all},
		{&corev1.ConfigMap{ObjectMeta: in(w.Config.Namespace, "a")}, "ca"},
		{&corev1.ConfigMap{ObjectMeta: in(w.Config.Namespace, "b")}, ""},
	} {
		concerned := map[string]bool{}
		list := w.requestsOfConfigMap
		if _, ok := test.object.(*corev1.Secret); ok {
			list = w.requestsOfSecret
		}
		for _, request := range list(t.Context(), test.object) {
			concerned[request.Name] = true
		}
		for kind, other := range worlds {
			want := strings.Contains(" "+test.want+" ", " "+kind+" ")
			if concerned[other.catalog] != want {
				t.Errorf("%T %s/%s concerns the catalog %q: %t, want %t", test.object, test.object.GetNamespace(), test.object.GetName(), kind, !want,
					want)
			}
		}
	}
}
