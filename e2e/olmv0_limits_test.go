package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// manyBundles returns a catalog with a package whose channel has many bundles, 4 kB each as messages of ListBundles.
func manyBundles(count int) map[string][]byte {
	var b strings.Builder
	var entries []string
	long := strings.Repeat("x", 4000)
	for i := range count {
		entries = append(entries, fmt.Sprintf(`{"name":"many.v%d","replaces":"many.v%d"}`, i+1, i))
		fmt.Fprintf(&b, `{"schema":"olm.bundle","package":"many","name":"many.v%d","image":"example.com/many:v%[1]d","properties":[
			{"type":"olm.package","value":{"packageName":"many","version":"%[1]d.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"Many"}},{"type":"example.com","value":%q}]}`, i+1, long)
	}
	fmt.Fprintf(&b, `{"schema":"olm.package","name":"many","defaultChannel":"stable"}
		{"schema":"olm.channel","package":"many","name":"stable","entries":[%s]}`, strings.Join(entries, ","))
	return map[string][]byte{"many.json": []byte(b.String())}
}

// newManyWorld serves manyBundles to OLM v0.
func newManyWorld(t *testing.T, count int) (w *world, address string) {
	t.Helper()
	address = system.FreeAddress(t)
	w = newWorld(t, shared, "--grpc-bind-address", address)
	ref, digest := w.registry.push(t, "many", filesImage(t, manyBundles(count)))
	w.createCatalog(t, "many", ref, nil)
	w.waitReady(t, "many", digest)
	return w, address
}

// TestRegistryAPIInterrupted stops catalogd while a client is in the middle of ListBundles. The client must not take what it
// has for the whole.
func TestRegistryAPIInterrupted(t *testing.T) {
	const count = 1900 // more than the client's window
	for name, stop := range map[string]func(*world, *testing.T){
		"killed":   func(w *world, t *testing.T) { w.kill(t) },
		"shutdown": func(w *world, t *testing.T) { w.signal(t, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			w, address := newManyWorld(t, count)
			client := dialRegistry(t, address, "many")
			stream, err := client.ListBundles(t.Context(), &api.ListBundlesRequest{})
			must.Succeed(t, err)
			n := 0
			for err == nil {
				if _, err = stream.Recv(); err == nil {
					n++
				}
				if n == 10 {
					stop(w, t)
				}
			}
			switch code := status.Code(err); {
			case errors.Is(err, io.EOF) && n == count:
			case errors.Is(err, io.EOF):
				t.Errorf("the client takes %d of %d bundles for all", n, count)
			case code != codes.Unavailable:
				t.Errorf("got %v after %d bundles, want Unavailable", err, n)
			}
			t.Logf("%d bundles, then %v", n, err)
			if name == "shutdown" {
				w.wait(t, patience)
			}
			w.start(t)
			again := dialRegistry(t, address, "many")
			_, err = again.health.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			must.Succeed(t, err)
			bundles := answersOf(again.ListBundles(t.Context(), &api.ListBundlesRequest{}))
			if len(bundles) != count {
				t.Errorf("after a restart, there are %d bundles, want %d: %.200s", len(bundles), count, bundles)
			}
		})
	}
}

// TestRegistryAPIParallel asks as packageserver does: about all packages at once.
func TestRegistryAPIParallel(t *testing.T) {
	_, address := newManyWorld(t, 50)
	client := dialRegistry(t, address, "many")
	group, ctx := errgroup.WithContext(t.Context())
	for range 500 {
		group.Go(func() error {
			p, err := client.GetPackage(ctx, &api.GetPackageRequest{Name: "many"})
			if err != nil {
				return err
			}
			//nolint:staticcheck // packageserver calls it
			b, err := client.GetBundleForChannel(ctx, &api.GetBundleInChannelRequest{PkgName: "many", ChannelName: p.GetDefaultChannelName()})
			if err == nil && b.GetCsvName() != "many.v50" {
				err = fmt.Errorf("got %s", b.GetCsvName())
			}
			return err
		})
	}
	must.Succeed(t, group.Wait())
}

// TestRegistryAPIFlood has 10,000 clients that connect and say nothing, and connect again when they are cut. Requests over
// gRPC and over HTTP are answered meanwhile.
func TestRegistryAPIFlood(t *testing.T) {
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Max < lorises+1000 {
		t.Skipf("it needs %d open files, and may have %d (ulimit -Hn)", lorises+1000, limit.Max)
	}
	w, address := newManyWorld(t, 50)
	before := w.memory(t, "VmRSS")
	ctx, stop := context.WithCancel(t.Context())
	var silent sync.WaitGroup
	defer silent.Wait()
	defer stop()
	var opened sync.WaitGroup
	opened.Add(lorises)
	for range lorises {
		silent.Go(func() {
			first := sync.OnceFunc(opened.Done)
			defer first()
			for ctx.Err() == nil {
				beSilent(ctx, address, first)
			}
		})
	}
	opened.Wait()
	for i := range 20 {
		client := dialRegistry(t, address, "many") // a new connection
		bundles := answersOf(client.ListBundles(t.Context(), &api.ListBundlesRequest{}))
		if len(bundles) != 50 {
			t.Errorf("request %d: %d answers: %.200s", i, len(bundles), bundles)
		}
		must.Succeed(t, w.answers(w.contentURL("many", "/api/v1/metas?schema=olm.package"), 200))
	}
	peak := w.memory(t, "VmHWM")
	t.Logf("memory: %d MiB before, at most %d MiB", before>>20, peak>>20)
	if peak > before+memoryBound {
		t.Errorf("the memory grew from %d MiB to %d MiB, by more than %d MiB", before>>20, peak>>20, memoryBound>>20)
	}
}

// beSilent holds a connection until the server cuts it.
func beSilent(ctx context.Context, address string, connected func()) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	connected()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = io.Copy(io.Discard, conn)
	select {
	case <-ctx.Done():
	case <-time.After(lorisRest):
	}
}
