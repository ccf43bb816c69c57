package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// leaseTimes shorten the time until another replica takes over the lease.
var leaseTimes = []string{
	"--leader-elect", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
}

// fleet is several catalogds of one installation. The daemon of its world is the first of them.
type fleet struct {
	*world
	replicas []*replica
}

// replica is a catalogd that reaches the API server through the test.
type replica struct {
	*daemon
	api *apiGate
	out atomic.Bool // removed from the Service, as before a Pod ends: clients must not rely on it
}

func newFleet(t *testing.T, size int, args ...string) *fleet {
	t.Helper()
	f := &fleet{world: &world{ControlPlane: shared, registry: newRegistry(t)}}
	for range size {
		gate := newAPIGate(t, shared.DaemonKubeconfig)
		r := &replica{daemon: newDaemon(t, gate.kubeconfig), api: gate}
		r.args = append(r.args, append(append(args, leaseTimes...), "--external-url=http://catalogs.example")...)
		f.replicas = append(f.replicas, r)
		r.start(t)
	}
	f.daemon = f.replicas[0].daemon
	t.Cleanup(func() { f.close(t) })
	for i, r := range f.replicas {
		eventually.Succeeds(t, fmt.Sprintf("replica %d is ready", i), r.ready)
	}
	return f
}

func (f *fleet) close(t *testing.T) {
	if err := f.DeleteCatalogs(context.Background(), patience/2); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	for i, r := range f.replicas {
		if r.alive() {
			r.signal(t, syscall.SIGTERM)
			r.wait(t, patience)
		}
		if t.Failed() {
			t.Logf("last log lines of replica %d:\n%s", i, r.log.tail(40))
		}
	}
}

// leave removes a replica from the service and stops it.
func (r *replica) leave(t *testing.T, end func(*testing.T)) {
	t.Helper()
	r.out.Store(true)
	end(t)
}

// rejoin restarts a replica and adds it to the service once it is ready.
func (r *replica) rejoin(t *testing.T) {
	t.Helper()
	r.start(t)
	eventually.Succeeds(t, "the replica is ready again", r.ready)
	r.out.Store(false)
}

// endInPeace stops a replica gracefully and waits until it has exited.
func (r *replica) endInPeace(t *testing.T) {
	t.Helper()
	r.signal(t, syscall.SIGTERM)
	if code := r.wait(t, patience); code != 0 {
		t.Errorf("its exit code is %d", code)
	}
}

// leader waits until exactly one of the running replicas leads, and none of the excluded ones.
func (f *fleet) leader(t *testing.T, not ...*replica) (leads *replica, others []*replica) {
	t.Helper()
	eventually.Succeeds(t, "one replica leads", func() error {
		leads, others = nil, nil
		for _, r := range f.replicas {
			switch leading, err := r.metric("catalogd_leading"); {
			case !r.alive() || err != nil || leading == "0": // a stopped process does not answer
				others = append(others, r)
			case leads != nil:
				return errors.New("two lead")
			default:
				leads = r
			}
		}
		if leads == nil || slices.Contains(not, leads) {
			return errors.New("none leads of those that may")
		}
		return nil
	})
	return leads, others
}

func (r *replica) ready() error {
	if !r.alive() {
		return errEnded
	}
	reply, err := tryGet("http://" + r.health + "/readyz")
	if err == nil && reply.status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", reply.status, reply.body)
	}
	return err
}

// metric reads a series by its name and labels, in the exposition format.
func (r *replica) metric(series string) (string, error) {
	reply, err := tryGetBriefly("http://" + r.metrics + "/metrics")
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(reply.body) {
		if value, ok := bytes.CutPrefix(line, []byte(series+" ")); ok {
			return string(bytes.TrimSpace(value)), nil
		}
	}
	return "", fmt.Errorf("there is no %s", series)
}

// serves reports whether a replica serves this version of a catalog completely.
func (r *replica) serves(catalog, digest string, all []byte) error {
	if !r.alive() {
		return errEnded
	}
	reply, err := tryGet("http://" + r.content + "/catalogs/" + catalog + "/api/v1/all")
	switch {
	case err != nil:
		return err
	case reply.status != http.StatusOK || reply.header.Get("Catalogd-Digest") != digest:
		return fmt.Errorf("status %d, digest %q, want 200 and %s", reply.status, reply.header.Get("Catalogd-Digest"), digest)
	case all != nil && !bytes.Equal(reply.body, all):
		return fmt.Errorf("%d bytes of something else, want %d", len(reply.body), len(all))
	}
	return nil
}

// hopper is a client that reads from one replica after the other.
type hopper struct {
	stop func() (replies int, problems []error)
	seen func(digest string) bool
}

// hop reads a catalog from all replicas in turn, until it is stopped. Every reply must be a complete version: each
// digest has the same bytes on every replica. A replica out of service need not answer.
func (f *fleet) hop(catalog string) *hopper {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	sums, replies, problems := map[string][sha256.Size]byte{}, 0, []error(nil)
	ask := func(r *replica) {
		out := r.out.Load()
		reply, err := tryGetBriefly("http://" + r.content + "/catalogs/" + catalog + "/api/v1/all")
		mu.Lock()
		defer mu.Unlock()
		switch digest := reply.header.Get("Catalogd-Digest"); {
		case (err != nil || reply.status != http.StatusOK) && (out || r.out.Load()):
		case err != nil:
			problems = append(problems, err)
		case reply.status != http.StatusOK:
			problems = append(problems, fmt.Errorf("status %d: %.200s", reply.status, reply.body))
		default:
			sum := sha256.Sum256(reply.body)
			if known, ok := sums[digest]; ok && known != sum {
				problems = append(problems, fmt.Errorf("two contents of %s", digest))
			}
			sums[digest] = sum
			replies++
		}
	}
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			ask(f.replicas[i%len(f.replicas)])
		}
	})
	return &hopper{
		stop: func() (int, []error) {
			cancel()
			done.Wait()
			return replies, problems
		},
		seen: func(digest string) bool {
			mu.Lock()
			defer mu.Unlock()
			_, ok := sums[digest]
			return ok
		},
	}
}

// end stops the client and requires that it saw no error.
func (h *hopper) end(t *testing.T) {
	t.Helper()
	replies, problems := h.stop()
	if replies == 0 {
		t.Error("no reply at all")
	}
	for i, p := range problems {
		if i == 5 {
			t.Errorf("and %d more problems", len(problems)-i)
			break
		}
		t.Errorf("of %d replies: %v", replies+len(problems), p)
	}
}

// apiGate stands between a replica and the API server.
type apiGate struct {
	kubeconfig string
	forward    *httputil.ReverseProxy

	mu   sync.Mutex
	rule func(*http.Request) gateVerdict // nil: all requests pass
}

// gateVerdict decides about a request: it passes, once wait is closed if that is set, or its connection breaks.
type gateVerdict struct {
	wait   <-chan struct{}
	breaks bool
}

func newAPIGate(t *testing.T, kubeconfig string) *apiGate {
	t.Helper()
	forward, err := system.ForwardTo(kubeconfig)
	must.Succeed(t, err)
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	g := &apiGate{forward: forward, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server := httptest.NewUnstartedServer(g)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // for connections that break on purpose
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections() // watches
		server.Close()
	})
	must.Succeed(t, system.WriteKubeconfig(g.kubeconfig, server.URL))
	return g
}

func (g *apiGate) set(rule func(*http.Request) gateVerdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rule = rule
}

func (g *apiGate) verdict(r *http.Request) gateVerdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rule == nil {
		return gateVerdict{}
	}
	return g.rule(r)
}

// ServeHTTP implements http.Handler. A delayed request continues after its client has gone, as in a slow network.
func (g *apiGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := g.verdict(r)
	if v.breaks {
		panic(http.ErrAbortHandler)
	}
	if v.wait != nil {
		<-v.wait
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	g.forward.ServeHTTP(w, r)
}

// packagesAt writes a catalog of packages with one bundle each, at a version.
func packagesAt(t *testing.T, version string, packages ...string) string {
	t.Helper()
	var b strings.Builder
	for _, p := range packages {
		bundle := p + ".v" + version
		fmt.Fprintf(&b, `{"schema":"olm.package","name":%q,"defaultChannel":"stable"}
{"schema":"olm.channel","name":"stable","package":%q,"entries":[{"name":%q}]}
{"schema":"olm.bundle","name":%q,"package":%q,"image":"registry.example/bundle:1","properties":[
  {"type":"olm.package","value":{"packageName":%q,"version":%q}},
  {"type":"olm.csv.metadata","value":{"displayName":%q,"installModes":[{"type":"AllNamespaces","supported":true}]}}]}
`, p, p, bundle, bundle, p, p, version, p)
	}
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(b.String()), 0o600))
	return dir
}
