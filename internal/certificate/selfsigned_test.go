package certificate

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	day     = 24 * time.Hour
	nextDue = authorityLife * 8 / 12 // age at which the next is made
)

// Each day of a year and a half, with the rights of config/rbac, clients that read the bundle in the last 30 days can connect to both
// replicas.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newRealWorld(t)
	replicas := []*SelfSigned{w.replica(plane.Daemon), w.replica(plane.Daemon)}
	var bundles []string // by day
	var versions, authorities, certificates []string
	note := func(list *[]string, value string) {
		if len(*list) == 0 || (*list)[len(*list)-1] != value {
			*list = append(*list, value)
		}
	}
	for range 550 {
		for _, replica := range replicas {
			must.Succeed(t, replica.reconcile(t.Context()))
		}
		bundles = append(bundles, w.bundle())
		note(&versions, w.secret().ResourceVersion)
		for i, replica := range replicas {
			for read, bundle := range distinct(bundles[max(0, len(bundles)-31):]) {
				state, err := w.connect(replica, bundle, "catalogd.example")
				if err != nil {
					t.Fatalf("day %d: replica %d, with the bundle of %d days ago: %v", len(bundles), i, 30-read, err)
				}
				if i > 0 {
					continue
				}
				leaf := state.PeerCertificates[0]
				if life := leaf.NotAfter.Sub(leaf.NotBefore.Add(skew)); life > 90*day || leaf.NotAfter.Sub(w.clock.Now()) < day {
					t.Fatalf("day %d: the certificate lives for %s, until %s", len(bundles), life, leaf.NotAfter)
				}
				note(&certificates, string(leaf.Raw))
				note(&authorities, leaf.Issuer.CommonName)
			}
		}
		w.clock.Step(day)
	}
	// The Secret is written for the first, when the second and the third are made and when they sign, and when the first has
	// expired. A certificate is renewed every 60 days, and with each authority.
	if len(authorities) != 3 || len(versions) != 6 || len(certificates) != 11 {
		t.Errorf("%d authorities in %d versions made %d certificates, want 3, 6, 11", len(authorities), len(versions), len(certificates))
	}
	if _, err := w.connect(replicas[0], bundles[0], "catalogd.example"); err == nil {
		t.Error("the first bundle is still good")
	}
	if n := strings.Count(bundles[len(bundles)-1], "BEGIN"); n > 3 {
		t.Errorf("the bundle has grown to %d certificates", n)
	}
}

// A provided CA with a shorter lifetime is replaced in time: clients that read the bundle in the last 30 days can connect.
func TestShortLivedCA(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{240 * day, 90 * day, 20 * day, 2 * day} {
		t.Run(life.String(), func(t *testing.T) {
			w := newWorld(t)
			theirs := foreignAuthority(t, start.Add(-time.Minute), start.Add(life), nil)
			w.put(theirs)
			s := w.replica(plane.Admin)
			var bundles []string
			for today := range int(life/day) + 45 {
				must.Succeed(t, s.reconcile(t.Context()))
				if bundles = append(bundles, w.bundle()); today == 0 && !parseBundle(t, bundles[0])[0].Equal(theirs.cert) {
					t.Fatal("the authority that was there does not sign")
				}
				for _, bundle := range distinct(bundles[max(0, len(bundles)-31):]) {
					if _, err := w.connect(s, bundle, "localhost"); err != nil {
						t.Fatalf("day %d: %v", today, err)
					}
				}
				w.clock.Step(day)
			}
			if last := parseBundle(t, bundles[len(bundles)-1]); len(last) != 1 || last[0].Equal(theirs.cert) {
				t.Errorf("at the end there are %d authorities", len(last))
			}
		})
	}
}

// A CA that cannot sign is replaced at once, and that is logged.
func TestUnusableCA(t *testing.T) {
	for _, test := range []struct {
		name, logged string
		authority    *authority
	}{
		{"expired", "the previous one had expired", foreignAuthority(t, start.Add(-90*day), start.Add(-day), nil)},
		{"ends before it begins", "the previous one had expired", foreignAuthority(t, start.Add(-day), start.Add(-2*day), nil)},
		{"may not sign", "not the certificate of a single CA", foreignAuthority(t, start.Add(-day), start.Add(90*day), func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageDigitalSignature
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.put(test.authority)
			s := w.replica(plane.Admin)
			must.Succeed(t, s.reconcile(t.Context()))
			if _, err := w.connect(s, w.bundle(), "localhost"); err != nil {
				t.Error(err)
			}
			if !strings.Contains(w.log.String(), test.logged) {
				t.Errorf("logged, want %q:\n%s", test.logged, w.log.String())
			}
		})
	}
}

// foreignAuthority returns a CA from another source.
func foreignAuthority(t *testing.T, from, until time.Time, change func(*x509.Certificate)) *authority {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.Succeed(t, err)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "theirs"}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	cert, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return &authority{cert: cert, key: key}
}

// put writes a CA into the Secret.
func (w *world) put(a *authority) {
	w.t.Helper()
	cert, key, err := a.encode()
	must.Succeed(w.t, err)
	_, err = w.api.Secrets(w.namespace).Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{signingCertKey: cert, signingKeyKey: key},
	}, metav1.CreateOptions{})
	must.Succeed(w.t, err)
}

// If the objects cannot be written, the CA that they contain is used, also by a new process, and an error is logged.
func TestReadOnly(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *world){
		"Secret": func(t *testing.T, w *world) {
			secret := w.secret()
			secret.Immutable = new(true)
			_, err := w.api.Secrets(w.namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
			must.Succeed(t, err)
		},
		"ConfigMap": func(t *testing.T, w *world) {
			configMap := w.configMap()
			configMap.Immutable = new(true)
			_, err := w.api.ConfigMaps(w.namespace).Update(t.Context(), configMap, metav1.UpdateOptions{})
			must.Succeed(t, err)
		},
		// More than an object may hold, so that it cannot be published.
		"huge": func(t *testing.T, w *world) {
			configMap := w.configMap()
			configMap.Data["theirs"] = strings.Repeat("a", 1<<20-len(configMap.Data[bundleKey])-100)
			_, err := w.api.ConfigMaps(w.namespace).Update(t.Context(), configMap, metav1.UpdateOptions{})
			must.Succeed(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			must.Succeed(t, w.replica(plane.Admin).reconcile(t.Context()))
			change(t, w)
			w.clock.Step(nextDue)
			s := w.replica(plane.Admin)
			err := s.reconcile(t.Context())
			if err == nil || !strings.Contains(err.Error(), w.namespace+"/catalogd-") {
				t.Errorf("got error %v", err)
			}
			if _, err := w.connect(s, w.configMap().Data[bundleKey], "localhost"); err != nil {
				t.Error(err)
			}
		})
	}
}

// distinct returns the first index of each value.
func distinct(values []string) map[int]string {
	first, seen := map[int]string{}, map[string]bool{}
	for i, value := range values {
		if !seen[value] {
			first[i], seen[value] = value, true
		}
	}
	return first
}

func TestNames(t *testing.T) {
	w := newWorld(t)
	s := w.replica(plane.Admin)
	must.Succeed(t, s.reconcile(t.Context()))
	for name, want := range map[string]bool{
		"catalogd.example": true, "localhost": true, "127.0.0.1": true, "::1": true, "other.example": false,
	} {
		if _, err := w.connect(s, w.bundle(), name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	authority := parseBundle(t, w.bundle())[0]
	leaf := s.serving.Load().Leaf
	if !authority.IsCA || leaf.IsCA || authority.NotAfter.Sub(start) != 365*day || !leaf.NotBefore.Before(start) {
		t.Errorf("authority until %s (CA: %t), certificate from %s (CA: %t)", authority.NotAfter, authority.IsCA, leaf.NotBefore, leaf.IsCA)
	}
}

func parseBundle(t *testing.T, bundle string) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		must.Succeed(t, err)
		all = append(all, cert)
	}
	return all
}

// Concurrent replicas agree on one CA, at each step of its lifetime.
func TestConcurrentReplicas(t *testing.T) {
	w := newWorld(t)
	var replicas []*SelfSigned
	for range 6 {
		replicas = append(replicas, w.replica(plane.Admin))
	}
	for _, step := range []struct {
		name    string
		after   time.Duration
		trusted int // authorities in the bundle
	}{
		{"nothing there", 0, 1},
		{"the next is due", nextDue, 2},
		{"the next signs", publishFor, 2},
		{"the first has expired", authorityLife - nextDue - publishFor + time.Minute, 1},
	} {
		w.clock.Step(step.after)
		var wg sync.WaitGroup
		errs := make([]error, len(replicas))
		for i, replica := range replicas {
			wg.Go(func() { errs[i] = replica.reconcile(t.Context()) })
		}
		wg.Wait()
		must.Succeed(t, errors.Join(errs...))
		bundle := w.bundle()
		if n := len(parseBundle(t, bundle)); n != step.trusted {
			t.Errorf("%s: %d authorities in the bundle, want %d", step.name, n, step.trusted)
		}
		issuers := map[string]bool{}
		for _, replica := range replicas {
			state, err := w.connect(replica, bundle, "localhost")
			must.Succeed(t, err)
			issuers[state.PeerCertificates[0].Issuer.CommonName] = true
		}
		if len(issuers) != 1 {
			t.Errorf("%s: the replicas use several authorities: %v", step.name, issuers)
		}
	}
}

// Manual changes of the two objects are repaired at the next poll.
func TestRepair(t *testing.T) {
	for _, test := range []struct {
		name   string
		due    time.Duration // until what is done to it
		change func(t *testing.T, w *world)
		old    bool   // clients with the old bundle can still connect
		logged string // "" nothing
	}{
		{name: "ConfigMap edited", old: true, change: func(t *testing.T, w *world) {
			configMap := w.configMap()
			configMap.Data = map[string]string{"ca.crt": "mine"}
			_, err := w.api.ConfigMaps(w.namespace).Update(t.Context(), configMap, metav1.UpdateOptions{})
			must.Succeed(t, err)
		}},
		{name: "ConfigMap emptied", old: true, change: func(t *testing.T, w *world) {
			configMap := w.configMap()
			configMap.Data, configMap.BinaryData = nil, map[string][]byte{"ca.crt": {1}}
			_, err := w.api.ConfigMaps(w.namespace).Update(t.Context(), configMap, metav1.UpdateOptions{})
			must.Succeed(t, err)
		}},
		{name: "ConfigMap deleted", old: true, change: func(t *testing.T, w *world) {
			must.Succeed(t, w.api.ConfigMaps(w.namespace).Delete(t.Context(), configMapName, metav1.DeleteOptions{}))
		}},
		{name: "Secret deleted", change: func(t *testing.T, w *world) {
			must.Succeed(t, w.api.Secrets(w.namespace).Delete(t.Context(), secretName, metav1.DeleteOptions{}))
		}, logged: "created a CA"},
		{name: "key damaged", change: edit("tls.key", "garbage"), logged: "replaced a damaged CA"},
		{name: "certificate damaged", change: edit("tls.crt", "garbage"), logged: "tls.crt and tls.key: "},
		{
			name:   "key damaged while the next is published",
			due:    nextDue,
			old:    true,
			change: edit("tls.key", "garbage"),
			logged: "the next CA signs",
		},
		{name: "next damaged", due: nextDue, old: true, change: edit("next.key", "garbage"), logged: "next.crt and next.key: "},
		{
			name:   "bundle damaged",
			old:    true,
			change: edit("ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
			logged: "ca.crt: x509: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.replica(plane.Admin)
			must.Succeed(t, s.reconcile(t.Context()))
			w.clock.Step(test.due)
			must.Succeed(t, s.reconcile(t.Context()))
			old, logged := w.bundle(), w.log.String()
			test.change(t, w)
			must.Succeed(t, s.reconcile(t.Context()))
			if _, err := w.connect(s, w.bundle(), "localhost"); err != nil {
				t.Errorf("with the bundle as it is now: %v", err)
			}
			if _, err := w.connect(s, old, "localhost"); (err == nil) != test.old {
				t.Errorf("with the bundle as it was: %v", err)
			}
			if got := strings.TrimPrefix(w.log.String(), logged); !strings.Contains(got, test.logged) || (test.logged == "" && got != "") {
				t.Errorf("logged, want %q:\n%s", test.logged, got)
			}
			if strings.Contains(w.log.String(), "PRIVATE KEY") {
				t.Error("a key was logged")
			}
		})
	}
}

// edit changes a key of the Secret and adds a foreign one.
func edit(key, value string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		secret := w.secret()
		secret.Data[key] = []byte(value)
		_, err := w.api.Secrets(w.namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
		must.Succeed(t, err)
	}
}

// After a long time without polls, the remaining CA is used as well as possible.
func TestLongAbsence(t *testing.T) {
	for name, absence := range map[string]time.Duration{
		"until just before the end": authorityLife - time.Hour,
		"past the end":              authorityLife + day,
		"for years":                 3 * authorityLife,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			must.Succeed(t, w.replica(plane.Admin).reconcile(t.Context()))
			w.clock.Step(nextDue - day)
			w.clock.Step(absence - nextDue + day)
			s := w.replica(plane.Admin)
			must.Succeed(t, s.reconcile(t.Context()))
			state, err := w.connect(s, w.bundle(), "localhost")
			must.Succeed(t, err)
			if left := state.PeerCertificates[0].NotAfter.Sub(w.clock.Now()); left < day {
				t.Errorf("the certificate ends in %s", left)
			}
		})
	}
	t.Run("with a next", func(t *testing.T) {
		w := newWorld(t)
		s := w.replica(plane.Admin)
		must.Succeed(t, s.reconcile(t.Context()))
		w.clock.Step(nextDue)
		must.Succeed(t, s.reconcile(t.Context()))
		old := w.bundle()
		w.clock.Step(authorityLife - nextDue + day)
		must.Succeed(t, s.reconcile(t.Context()))
		if _, err := w.connect(s, old, "localhost"); err != nil {
			t.Errorf("with the bundle from before: %v", err)
		}
		w.clock.Step(2 * authorityLife)
		must.Succeed(t, s.reconcile(t.Context()))
		if _, err := w.connect(s, w.bundle(), "localhost"); err != nil {
			t.Errorf("with the bundle as it is now: %v", err)
		}
	})
}

// Without the API server there is no certificate, and an error is logged. Once read, the CA renews certificates without the API server.
func TestUnavailableServer(t *testing.T) {
	w := newWorld(t)
	var absent atomic.Bool
	absent.Store(true)
	account := rest.CopyConfig(plane.Admin)
	account.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if absent.Load() {
				return nil, errors.New("connection refused")
			}
			return next.RoundTrip(r)
		})
	})
	s := w.replica(account)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	eventually.Holds(t, "the first look is over", w.clock.HasWaiters)
	_, err := s.GetCertificate(nil)
	if want := "the CA in Secret " + w.namespace + "/catalogd-serving-ca could not be read from the API server"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
	if _, err := handshake(t, TLSConfig(s.GetCertificate, false), &tls.Config{ServerName: "localhost"}); err == nil {
		t.Error("a handshake without a certificate")
	}
	w.clock.Step(firstRetry)
	eventually.Holds(t, "the second look is over", w.clock.HasWaiters)
	absent.Store(false)
	w.clock.Step(firstRetry)
	if _, err := s.GetCertificate(nil); err == nil {
		t.Error("the second retry came as soon as the first")
	}
	w.clock.Step(firstRetry)
	eventually.Holds(t, "there is a certificate", func() bool { _, err := s.GetCertificate(nil); return err == nil })
	eventually.Holds(t, "the third look is over", w.clock.HasWaiters)
	if _, err := w.connect(s, w.bundle(), "localhost"); err != nil {
		t.Error(err)
	}
	absent.Store(true)
	before := s.serving.Load()
	w.clock.Step(servingLife * 2 / 3)
	eventually.Holds(t, "the certificate is renewed", func() bool { return s.serving.Load() != before })
	cancel()
	must.Succeed(t, <-ended)
	if _, err := w.connect(s, w.bundle(), "localhost"); err != nil {
		t.Error(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The account of catalogd can write its two objects, but no other existing Secret or ConfigMap.
func TestRights(t *testing.T) {
	w := newWorld(t)
	api := newClient(t, plane.Daemon)
	other, err := w.api.Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	if _, err := api.Secrets(namespace).Update(t.Context(), other, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("updating another Secret: got error %v, want that it is forbidden", err)
	}
	must.Succeed(t, w.api.Secrets(namespace).Delete(t.Context(), other.Name, metav1.DeleteOptions{}))
	err = w.replica(plane.Daemon).reconcile(t.Context()) // in another namespace
	if want := "the account of catalogd needs the Role in config/rbac"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want that it is forbidden and %q", err, want)
	}
}
