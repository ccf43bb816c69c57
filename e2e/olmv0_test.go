package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// A registryClient is a client of OLM v0's registry API.
type registryClient struct {
	api.RegistryClient
	custom api.ExperimentalRegistryClient
	health healthpb.HealthClient
}

// dialRegistry connects to a server; authority names the catalog, "" is the address.
func dialRegistry(t *testing.T, address, authority string) registryClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(authority))
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return registryClient{api.NewRegistryClient(conn), api.NewExperimentalRegistryClient(conn), healthpb.NewHealthClient(conn)}
}

// serveByOPM runs `opm serve` for a catalog in a directory.
func serveByOPM(t *testing.T, dir string) registryClient {
	t.Helper()
	address := system.FreeAddress(t)
	serveByOPMAt(t, dir, address)
	return dialRegistry(t, address, "")
}

func serveByOPMAt(t *testing.T, dir, address string) {
	t.Helper()
	_, port, _ := strings.Cut(address, ":")
	var log logBuffer
	cmd := exec.CommandContext(t.Context(), needed(t, "OPM", "hack/opm/build.sh"), "serve", dir, "--port", port, "--pprof-addr", "",
		"--cache-dir", t.TempDir(), "--cache-enforce-integrity=false", "--termination-log", filepath.Join(t.TempDir(), "termination"))
	cmd.Stderr, cmd.Stdout = &log, &log
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // killed when the test has ended
		if t.Failed() {
			t.Logf("opm's last log lines:\n%s", log.tail(5))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it first makes a cache
	defer cancel()
	_, err := dialRegistry(t, address, "").health.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	must.Succeed(t, err)
}

// answers are the answers to a question, in JSON, and the error after them.
type answers []string

// answersOf collects a stream, or one message.
func answersOf[T proto.Message](stream interface{ Recv() (T, error) }, err error) (out answers) {
	for err == nil {
		var message T
		if message, err = stream.Recv(); err == nil {
			out = append(out, asJSON(message))
		}
	}
	if !errors.Is(err, io.EOF) {
		out = append(out, err.Error())
	}
	return out
}

func answerOf[T proto.Message](message T, err error) answers {
	if err != nil {
		return answers{err.Error()}
	}
	return answers{asJSON(message)}
}

func asJSON(message proto.Message) string {
	text, err := protojson.Marshal(message)
	if err != nil {
		panic(err) // invalid UTF-8, which does not survive the transfer
	}
	return strings.ReplaceAll(string(text), `, "`, `,"`) // protojson adds spaces at random
}

// TestRegistryAPI compares all answers to clients of OLM v0 with those of `opm serve`.
func TestRegistryAPI(t *testing.T) {
	dirs := map[string]string{
		"sample": withoutSlashes(t, sampleCatalog), "sound": soundDir, "corners": filepath.Join("testdata", "corners"),
		"custom": customCatalog(t), "legacy": migratedByOPM(t),
	}
	if dir := os.Getenv("COMMUNITY_CATALOG"); dir != "" {
		dirs["community"] = dir
	}
	address := system.FreeAddress(t)
	w := newWorld(t, shared, "--grpc-bind-address", address)
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			image := catalogImage(t, dir)
			if name == "legacy" {
				image = legacyImage(t)
			}
			ref, digest := w.registry.push(t, name, image)
			w.createCatalog(t, name, ref, nil)
			w.waitReady(t, name, digest)
			compareRegistries(t, serveByOPM(t, dir), dialRegistry(t, address, name+".olm.svc:50051"))
		})
	}
}

const customSchema = "io.openshift.operators.lifecycles.v1alpha1"

// customCatalog returns a catalog with blobs of a custom schema, as OpenShift's console asks for.
func customCatalog(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(soundDir)))
	packages := packagesIn(t, soundDir)
	writeFile(t, dir, "custom.yaml", fmt.Appendf(nil, `---
schema: %s
package: %s
name: first
numbers: [1, 2.5, 12345678901234567890, 1e30]
nested: {"<&>": null, b: [true, {}]}
---
schema: %[1]s
package: %[2]s
---
schema: %[1]s
text: of no package
`, customSchema, packages[0]))
	return dir
}

// withoutSlashes returns a copy of a catalog without the files that opm refuses, since a schema has a slash.
func withoutSlashes(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must.Succeed(t, os.CopyFS(to, os.DirFS(dir)))
	must.Succeed(t, os.Remove(filepath.Join(to, "aws-neuron-operator", "support-matrix.yaml")))
	return to
}

func compareRegistries(t *testing.T, opm, ours registryClient) {
	t.Helper()
	ctx := t.Context()
	compare := func(question string, ask func(registryClient) answers, sorted bool) answers {
		t.Helper()
		want, got := ask(opm), ask(ours)
		if sorted {
			slices.Sort(want)
			slices.Sort(got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-opm +catalogd):\n%.5000s", question, diff)
		}
		return want
	}
	compare("ListPackages", func(c registryClient) answers {
		return answersOf(c.ListPackages(ctx, &api.ListPackageRequest{}))
	}, true)
	compare("ListBundles", func(c registryClient) answers { return answersOf(c.ListBundles(ctx, &api.ListBundlesRequest{})) }, false)

	var bundles []*api.Bundle
	stream, err := opm.ListBundles(ctx, &api.ListBundlesRequest{})
	must.Succeed(t, err)
	for {
		b, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		bundles = append(bundles, b)
	}
	apis := map[string]*api.GroupVersionKind{"absent": {Group: "absent.example", Version: "v1", Kind: "Absent"}, "empty": {}}
	channels, packages := map[[2]string]bool{{"absent", "absent"}: true}, map[string]bool{"absent": true}
	few := every(len(bundles) / 500) // of a large catalog: opm takes a second for some answers
	for _, b := range bundles {
		packages[b.GetPackageName()] = true
		channels[[2]string{b.GetPackageName(), b.GetChannelName()}] = true
		channels[[2]string{b.GetPackageName(), "absent"}] = true
		for _, provided := range b.GetProvidedApis() {
			apis[provided.String()] = provided
		}
		compare("GetBundle "+b.GetCsvName(), func(c registryClient) answers {
			return answerOf(c.GetBundle(ctx, &api.GetBundleRequest{
				PkgName: b.GetPackageName(), ChannelName: b.GetChannelName(), CsvName: b.GetCsvName(),
			}))
		}, false)
		if !few() {
			continue
		}
		compare("GetChannelEntriesThatReplace "+b.GetCsvName(), func(c registryClient) answers {
			return answersOf(c.GetChannelEntriesThatReplace(ctx, &api.GetAllReplacementsRequest{CsvName: b.GetCsvName()}))
		}, true)
		compareReplacing(t, opm, ours, b, bundles)
	}
	for name := range packages {
		compare("GetPackage "+name, func(c registryClient) answers {
			return answerOf(c.GetPackage(ctx, &api.GetPackageRequest{Name: name}))
		}, false)
	}
	for ch := range channels {
		compare(fmt.Sprint("GetBundle of none in ", ch), func(c registryClient) answers {
			return answerOf(c.GetBundle(ctx, &api.GetBundleRequest{PkgName: ch[0], ChannelName: ch[1], CsvName: "absent"}))
		}, false)
		compare(fmt.Sprint("GetBundleForChannel ", ch), func(c registryClient) answers {
			//nolint:staticcheck // packageserver calls it
			return answerOf(c.GetBundleForChannel(ctx, &api.GetBundleInChannelRequest{PkgName: ch[0], ChannelName: ch[1]}))
		}, false)
	}
	few = every(len(apis) / 100)
	for name, a := range apis {
		if !few() {
			continue
		}
		compare("GetChannelEntriesThatProvide "+name, func(c registryClient) answers {
			return answersOf(c.GetChannelEntriesThatProvide(ctx, &api.GetAllProvidersRequest{
				Group: a.GetGroup(), Version: a.GetVersion(), Kind: a.GetKind(),
			}))
		}, true)
		compare("GetLatestChannelEntriesThatProvide "+name, func(c registryClient) answers {
			return answersOf(c.GetLatestChannelEntriesThatProvide(ctx, &api.GetLatestProvidersRequest{
				Group: a.GetGroup(), Version: a.GetVersion(), Kind: a.GetKind(),
			}))
		}, true)
		compare("GetDefaultBundleThatProvides "+name, func(c registryClient) answers {
			return answerOf(c.GetDefaultBundleThatProvides(ctx, &api.GetDefaultProviderRequest{
				Group: a.GetGroup(), Version: a.GetVersion(), Kind: a.GetKind(),
			}))
		}, false)
	}
	acknowledged := metadata.AppendToOutgoingContext(ctx, "x-acknowledge-experimental", "true")
	packages[""] = true
	for _, schema := range []string{"", "a/b", "-x", customSchema, "absent", "olm.bundle"} {
		for pkg := range packages {
			for _, ctx := range []context.Context{ctx, acknowledged} {
				compare("custom schema "+schema+" of "+pkg, func(c registryClient) answers {
					return answersOf(c.custom.ExperimentalListPackageCustomSchemas(ctx,
						&api.ExperimentalListPackageCustomSchemasRequest{Schema: schema, PackageName: pkg}))
				}, false)
			}
		}
	}
}

// every returns a function that returns true at each nth call, and always if n is 0.
func every(n int) func() bool {
	calls := 0
	return func() bool {
		calls++
		return n == 0 || calls%n == 0
	}
}

// compareReplacing compares GetBundleThatReplaces. Of several bundles that replace another, opm returns any.
func compareReplacing(t *testing.T, opm, ours registryClient, b *api.Bundle, all []*api.Bundle) {
	t.Helper()
	request := &api.GetReplacementRequest{CsvName: b.GetCsvName(), PkgName: b.GetPackageName(), ChannelName: b.GetChannelName()}
	var replacing []string
	for _, other := range all {
		if other.GetPackageName() == b.GetPackageName() && other.GetChannelName() == b.GetChannelName() &&
			(other.GetReplaces() == b.GetCsvName() || slices.Contains(other.GetSkips(), b.GetCsvName())) {
			replacing = append(replacing, other.GetCsvName())
		}
	}
	if len(replacing) > 1 {
		got, err := ours.GetBundleThatReplaces(t.Context(), request)
		if err != nil || got.GetCsvName() != slices.Min(replacing) {
			t.Errorf("GetBundleThatReplaces %s: got %s, %v, want one of %v", b.GetCsvName(), got.GetCsvName(), err, replacing)
		}
		return
	}
	want, got := answerOf(opm.GetBundleThatReplaces(t.Context(), request)), answerOf(ours.GetBundleThatReplaces(t.Context(), request))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GetBundleThatReplaces %s (-opm +catalogd):\n%.5000s", b.GetCsvName(), diff)
	}
}
