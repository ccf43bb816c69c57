package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// inCluster resolves names as Pods do: by the DNS of the cluster.
func inCluster(ctx context.Context, host string) ([]string, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return installed.dial(ctx, network, "10.99.0.1:53")
	}}
	return resolver.LookupHost(ctx, host)
}

// dialOLMv0 connects as OLM v0 does, to the address of a CatalogSource.
func dialOLMv0(t *testing.T, address string) (api.RegistryClient, *grpc.ClientConn) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			found, err := inCluster(ctx, host+".cluster.local.")
			if err != nil {
				return nil, err
			}
			return installed.dial(ctx, "tcp", net.JoinHostPort(found[0], port))
		}))
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return api.NewRegistryClient(conn), conn
}

// countBundles calls ListBundles, and waits until there is a connection.
func countBundles(ctx context.Context, registry api.RegistryClient) (n int, err error) {
	stream, err := registry.ListBundles(ctx, &api.ListBundlesRequest{}, grpc.WaitForReady(true))
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		return n, nil
	}
	return n, err
}

// TestOLMv0 installs the component olm-v0. OLM v0 finds a catalog by the Service that catalogd makes, gets whole responses while
// the leader is replaced and another image is rolled out, and is made to connect again when there is new content.
func TestOLMv0(t *testing.T) {
	const name = "v0"
	ctx := t.Context()
	_, err := installed.kubectl(ctx, "create", "namespace", "olm")
	must.Succeed(t, err)
	crd, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crds.CatalogSource())
	must.Succeed(t, err)
	must.Succeed(t, installed.Create(ctx, &unstructured.Unstructured{Object: crd}))
	t.Cleanup(func() {
		if err := installed.roll(context.Background(), currentTag); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, installed.roll(ctx, currentTag, "olm-v0"))
	waitUntil(t, "every replica has the component", installed.allReady)

	push := func(seed uint64) string {
		dir := filepath.Join(t.TempDir(), name)
		shape := catalogs.Shape{Packages: 20, Channels: 40, Bundles: 400 + int(seed), Bytes: 4_000_000, Seed: seed}
		must.Succeed(t, writeCatalog(ctx, shape, dir))
		digest, err := installed.pushCatalog(ctx, name, dir)
		must.Succeed(t, err)
		return digest
	}
	digest := push(1)
	source := catalogSource(name)
	source.Object["spec"].(map[string]any)["olmv0"] = map[string]any{"namespaces": []any{"olm"}}
	must.Succeed(t, installed.Create(ctx, source))
	waitUntil(t, "the catalog is served", func(ctx context.Context) error { return serves(ctx, name, digest) })
	waitUntil(t, "the catalog is offered", func(ctx context.Context) error {
		if err := installed.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(source.Object, "status", "conditions")
		if !holds(conditions, "OLMv0Synced") {
			return fmt.Errorf("the conditions are %v", conditions)
		}
		return nil
	})
	registry, conn := dialOLMv0(t, name+".olm.svc:50051")
	var first int
	waitUntil(t, "OLM v0 reads it", func(ctx context.Context) (err error) {
		first, err = countBundles(ctx, registry)
		return err
	})
	if first < 400 {
		t.Fatalf("got %d bundles", first)
	}

	former, err := installed.leader(ctx)
	must.Succeed(t, err)
	whileListing(t, first, func() {
		must.Succeed(t, installed.Delete(ctx, former))
		waitUntil(t, "the deleted Pod is replaced", replaced(former.Name, former.UID))
		must.Succeed(t, installed.roll(ctx, otherTag, "olm-v0"))
		_, err := installed.kubectl(ctx, "-n", namespace, "rollout", "status", "statefulset/"+service, "--timeout=170s")
		must.Succeed(t, err)
	})

	n, err := countBundles(ctx, registry)
	must.Succeed(t, err)
	if state := conn.GetState(); n != first || state != connectivity.Ready {
		t.Fatalf("%d bundles, want %d; the connection is %v", n, first, state)
	}
	digest = push(2)
	must.Succeed(t, requestPoll(ctx, name))
	waitUntil(t, "the new content is served", func(ctx context.Context) error { return serves(ctx, name, digest) })
	served := time.Now()
	waitUntil(t, "the connection is closed", func(context.Context) error {
		if state := conn.GetState(); state == connectivity.Ready {
			return fmt.Errorf("it is %v", state)
		}
		return nil
	})
	t.Logf("the connection was closed %v after the leader served the new content", time.Since(served).Round(100*time.Millisecond))
	for range 10 { // each from any replica
		again, _ := dialOLMv0(t, name+".olm.svc:50051")
		if n, err = countBundles(ctx, again); err != nil || n == first {
			t.Errorf("after that, a replica lists %d bundles, %v; the former content has %d", n, err, first)
		}
	}
	must.Succeed(t, installed.Delete(ctx, source))
	waitUntil(t, "the name is gone", func(ctx context.Context) error {
		found, err := inCluster(ctx, name+".olm.svc.cluster.local.")
		if err == nil {
			return fmt.Errorf("it is %v", found)
		}
		return nil
	})
}

// whileListing calls ListBundles over and over while do works. Each response is whole, or ends with a code that clients retry.
func whileListing(t *testing.T, want int, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			registry, _ := dialOLMv0(t, "v0.olm.svc:50051")
			whole, cut := 0, 0
			for ctx.Err() == nil {
				n, err := countBundles(ctx, registry)
				switch {
				case err == nil && n == want:
					whole++
				case err == nil:
					t.Errorf("a response has %d of %d bundles, and no error", n, want)
				case status.Code(err) == codes.Unavailable:
					cut++
				case ctx.Err() == nil:
					t.Errorf("after %d bundles: %v", n, err)
				}
				pause(ctx, 20*time.Millisecond)
			}
			t.Logf("%d whole responses, %d cut off", whole, cut)
		})
	}
	do()
	stop()
	readers.Wait()
}
