package olmv0

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/operator-catalogs/catalogd/internal/listen"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// volume is a store in a directory.
type volume struct {
	*testing.T
	*store.Store
	dir string
}

func newVolume(t *testing.T) volume {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, st.Close()) })
	return volume{t, st, dir}
}

// commit serves blobs as the content of a catalog; version is its number.
func (v volume) commit(catalog string, version int, blobs ...string) *store.Snapshot {
	v.Helper()
	stage, err := v.Stage(catalog, "")
	must.Succeed(v.T, err)
	must.Succeed(v.T, stage.Root().WriteFile("catalog.json", []byte(strings.Join(blobs, "\n")), 0o644))
	snap, err := stage.Commit(v.Context(), store.Source{Image: "example.com/" + catalog, Digest: fmt.Sprintf("sha256:%064d", version)})
	must.Succeed(v.T, err)
	must.Succeed(v.T, stage.Discard())
	return snap
}

// file returns the path of the derived file of a snapshot.
func (v volume) file(snap *store.Snapshot) string {
	return filepath.Join(v.dir, "snapshots", snap.Key(), store.OLMv0File)
}

// operator returns the blobs of a package with some bundles, the last of which is the head of its channel; properties are
// added to each bundle.
func operator(name string, bundles int, properties string) []string {
	out := []string{fmt.Sprintf(`{"schema":"olm.package","name":%q,"defaultChannel":"stable"}`, name)}
	var entries []string
	for i := 1; i <= bundles; i++ {
		entry := fmt.Sprintf(`{"name":"%s.v%d"}`, name, i)
		if i > 1 {
			entry = fmt.Sprintf(`{"name":"%s.v%d","replaces":"%[1]s.v%[3]d"}`, name, i, i-1)
		}
		entries = append(entries, entry)
		out = append(out, fmt.Sprintf(`{"schema":"olm.bundle","package":%q,"name":"%[1]s.v%d","image":"example.com/%[1]s:v%[2]d",
			"properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":"%[2]d.0.0"}}%[3]s]}`, name, i, properties))
	}
	return append(out, fmt.Sprintf(`{"schema":"olm.channel","package":%q,"name":"stable","entries":[%s]}`, name, strings.Join(entries, ",")))
}

// port serves the registry API of a store.
type port struct {
	*Server
	listener *listen.Server
}

func (v volume) serve(awaited ...string) port {
	v.Helper()
	s := New(Config{
		Store: v.Store, Logger: slog.New(slog.NewTextHandler(v.Output(), nil)),
		Awaited: func(catalog string) bool { return slices.Contains(awaited, catalog) },
	})
	listener, err := listen.Listen(listen.Config{
		Name: "grpc", Address: "127.0.0.1:0", Handler: s, HTTP2: true, Stall: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	must.Succeed(v.T, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- listener.Serve(ctx) }()
	v.Cleanup(func() {
		stop()
		must.Succeed(v.T, <-done)
	})
	return port{s, listener}
}

// dial returns a client, whose connections it counts.
func (p port) dial(t *testing.T, authority string) (api.RegistryClient, *grpc.ClientConn) {
	t.Helper()
	conn, err := grpc.NewClient(p.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(authority), grpc.WithInitialWindowSize(64<<10)) // so that it does not grow
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return api.NewRegistryClient(conn), conn
}

// bundles calls ListBundles.
func bundles(t *testing.T, client api.RegistryClient) (names []string, err error) {
	t.Helper()
	stream, err := client.ListBundles(t.Context(), &api.ListBundlesRequest{})
	must.Succeed(t, err)
	for {
		b, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return names, err
		}
		names = append(names, b.GetCsvName())
	}
}

// wantBundles checks the response of ListBundles: names, and a part of the error.
func wantBundles(t *testing.T, client api.RegistryClient, want []string, code codes.Code, text string) {
	t.Helper()
	got, err := bundles(t, client)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bundles (-want +got):\n%s", diff)
	}
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("got error %v, want %v: %s", err, code, text)
	}
}

func TestAuthority(t *testing.T) {
	v := newVolume(t)
	for i, name := range []string{"one", "two", "two.dots"} {
		snap := v.commit(name, i+1, operator(strings.ReplaceAll(name, ".", "-"), 1, "")...)
		must.Succeed(t, v.serve().Prepare(t.Context(), snap))
	}
	v.commit("raw", 4, operator("raw", 1, "")...)
	p := v.serve("coming")
	for authority, want := range map[string]struct {
		bundles []string
		code    codes.Code
		text    string
	}{
		"one":                             {bundles: []string{"one.v1"}},
		"one:50051":                       {bundles: []string{"one.v1"}},
		"one.olm.svc:50051":               {bundles: []string{"one.v1"}},
		"two.olm.svc.cluster.local:50051": {bundles: []string{"two.v1"}},
		"two.dots:50051":                  {bundles: []string{"two-dots.v1"}},
		"raw.olm.svc:50051":               {code: codes.Unavailable, text: "catalog raw is being prepared; retry later"},
		"coming.olm.svc:50051":            {code: codes.Unavailable, text: "catalog coming is being unpacked; retry later"},
		"three.olm.svc:50051":             {code: codes.NotFound, text: `"three" not found; the first label of the authority names one of: one, raw, two, two.dots`},
		p.listener.Addr().String():        {code: codes.NotFound, text: `catalog "127" not found`},
	} {
		t.Run(authority, func(t *testing.T) {
			client, _ := p.dial(t, authority)
			wantBundles(t, client, want.bundles, want.code, want.text)
		})
	}
}

// TestChange changes the content of a catalog: clients get the former until the new is prepared.
func TestChange(t *testing.T) {
	v := newVolume(t)
	p := v.serve()
	must.Succeed(t, p.Prepare(t.Context(), v.commit("cat", 1, operator("a", 1, "")...)))
	client, _ := p.dial(t, "cat")
	wantBundles(t, client, []string{"a.v1"}, codes.OK, "")
	snap := v.commit("cat", 2, operator("a", 2, "")...)
	wantBundles(t, client, []string{"a.v1"}, codes.OK, "")
	must.Succeed(t, p.Prepare(t.Context(), snap))
	wantBundles(t, client, []string{"a.v1", "a.v2"}, codes.OK, "")
	must.Succeed(t, v.Remove("cat"))
	wantBundles(t, client, nil, codes.NotFound, "(no catalog is served)")
}

// TestDamage damages each part of the file. A response is whole or an error that makes clients retry, and the file is
// written again.
func TestDamage(t *testing.T) {
	v := newVolume(t)
	snap := v.commit("cat", 1, operator("a", 3, "")...)
	must.Succeed(t, v.serve().Prepare(t.Context(), snap))
	intact, err := os.ReadFile(v.file(snap))
	must.Succeed(t, err)
	for at := range intact {
		damaged := slices.Clone(intact)
		damaged[at] ^= 1
		must.Succeed(t, os.WriteFile(v.file(snap), damaged, 0o644))
		s := New(Config{Store: v.Store, Logger: slog.New(slog.DiscardHandler)})
		must.Succeed(t, s.Prepare(t.Context(), snap))
		current, _ := v.Catalog("cat")
		view, err := s.viewOf(current)
		must.Succeed(t, err)
		for _, err := range view.file.messages() {
			if err != nil {
				if code := status.Code(s.unavailable(view, err)); code != codes.Unavailable {
					t.Fatalf("byte %d: got %v, want Unavailable", at, code)
				}
			}
		}
		if now, err := os.ReadFile(v.file(snap)); err != nil || !slices.Equal(now, intact) {
			t.Fatalf("byte %d: the file is not written again: %v", at, err)
		}
	}
	for size := range intact {
		must.Succeed(t, os.WriteFile(v.file(snap), intact[:size], 0o644))
		if _, err := open(snap); !errors.Is(err, errDamaged) {
			t.Fatalf("cut to %d bytes: got %v, want that it is damaged", size, err)
		}
	}
}

// inChannels adds channels with the same entries as stable to the blobs of an operator.
func inChannels(blobs string, count int) string {
	channel := blobs[strings.LastIndex(blobs, "\n"):]
	for n := range count {
		blobs += strings.Replace(channel, `"stable"`, fmt.Sprintf(`"c%d"`, n), 1)
	}
	return blobs
}

// TestOthers serves packages beside those that clients do not get.
func TestOthers(t *testing.T) {
	v := newVolume(t)
	p := v.serve()
	p.maxMessage = 40_000
	object := func(size int) string {
		return fmt.Sprintf(`,{"type":"olm.bundle.object","value":{"data":%q}}`, strings.Repeat("eHh4", size/4))
	}
	blobs := slices.Concat(operator("sound", 1, ""),
		operator("large", 1, object(80_000)), // with an image, so that it is listed
		[]string{strings.ReplaceAll(strings.Join(operator("objects", 1, object(80_000)), "\n"), `"image":"example.com/objects:v1",`, "")},
		operator("medium", 1, object(10_000)),
		[]string{`{"schema":"olm.bundle","package":"alone","name":"alone.v1","image":"example.com/alone"}`},
		[]string{inChannels(strings.Join(operator("many", 1, fmt.Sprintf(`,{"type":"example.com","value":%q}`, strings.Repeat("x", 9_000))), "\n"), 200)},
		operator("twice", 1, strings.Repeat(`,{"type":"olm.csv.metadata","value":{}}`, 2)))
	report, err := p.Report(t.Context(), v.commit("cat", 1, blobs...))
	must.Succeed(t, err)
	for i := range report.Large {
		if report.Large[i].Bytes < 60_000 {
			t.Errorf("%s has %d bytes", report.Large[i].Bundle, report.Large[i].Bytes)
		}
		report.Large[i].Bytes = 0
	}
	want := Report{LeftOut: []LeftOut{
		{Package: "many", Reason: "its bundles, in all channels together, take more than 1475024 bytes"},
		{Package: "twice", Reason: `bundle "twice.v1": parse properties: expected at most 1 property of type "olm.csv.metadata", found 2`}}, Large: []Large{{Package: "large", Bundle: "large.v1"}, {Package: "objects", Bundle: "objects.v1"}}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	client, _ := p.dial(t, "cat")
	wantBundles(t, client, []string{"large.v1", "medium.v1", "sound.v1"}, codes.OK, "")
	for name, want := range map[string]codes.Code{
		"sound": codes.OK, "medium": codes.OK, "large": codes.ResourceExhausted, "objects": codes.ResourceExhausted, "alone": codes.Unknown,
	} {
		_, err := client.GetBundle(t.Context(), &api.GetBundleRequest{PkgName: name, ChannelName: "stable", CsvName: name + ".v1"},
			grpc.MaxCallRecvMsgSize(p.maxMessage))
		if status.Code(err) != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

// count returns the number of time series.
func count(c prometheus.Collector) (n int) {
	metrics := make(chan prometheus.Metric)
	go func() {
		c.Collect(metrics)
		close(metrics)
	}()
	for range metrics {
		n++
	}
	return n
}

// TestUnreadStream cuts a client that does not read the response of ListBundles, which must not seem whole.
func TestUnreadStream(t *testing.T) {
	t.Parallel()
	v := newVolume(t)
	p := v.serve()
	long := fmt.Sprintf(`,{"type":"example.com","value":%q}`, strings.Repeat("x", 10_000))
	must.Succeed(t, p.Prepare(t.Context(), v.commit("cat", 1, operator("a", 500, long)...)))
	client, _ := p.dial(t, "cat")
	stream, err := client.ListBundles(t.Context(), &api.ListBundlesRequest{})
	must.Succeed(t, err)
	_, err = stream.Recv()
	must.Succeed(t, err)
	eventually.Holds(t, "the server ends the stream", func() bool { return count(p.metrics.requests) > 0 })
	for err == nil {
		_, err = stream.Recv()
	}
	if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled && code != codes.Internal {
		t.Errorf("got %v", err)
	}
	wantOther, _ := p.dial(t, "cat")
	if names, err := bundles(t, wantOther); err != nil || len(names) != 500 {
		t.Errorf("another client got %d bundles, %v", len(names), err)
	}
}

// TestReconnect has two replicas, one of which is behind.
func TestReconnect(t *testing.T) {
	t.Parallel()
	first, second := newVolume(t), newVolume(t)
	volumes, ports := []volume{first, second}, []port{first.serve(), second.serve()}
	commit := func(replica, version int) {
		snap := volumes[replica].commit("cat", version, operator("a", version, "")...)
		must.Succeed(t, ports[replica].Prepare(t.Context(), snap))
	}
	commit(0, 1)
	commit(1, 1)
	client, conn := ports[0].dial(t, "cat")
	wantBundles(t, client, []string{"a.v1"}, codes.OK, "")
	var asked atomic.Int32
	r := Reconnect{
		Server: ports[0].Server, Drain: ports[0].listener.Drain, Interval: 10 * time.Millisecond, Patience: time.Hour,
		Replicas: func(context.Context) ([]string, error) {
			if asked.Add(1) == 1 {
				return nil, errors.New("the API server does not answer")
			}
			return []string{ports[0].listener.Addr().String(), ports[1].listener.Addr().String()}, nil
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		stop()
		must.Succeed(t, <-done)
	}()
	eventually.Holds(t, "Run knows the first content", func() bool { return asked.Load() == 0 && conn.GetState().String() == "READY" })
	commit(0, 2)
	eventually.Holds(t, "the replicas are asked", func() bool { return asked.Load() > 3 })
	if state := conn.GetState(); state.String() != "READY" {
		t.Errorf("the connection is %v before the second replica serves the new content", state)
	}
	commit(1, 2)
	eventually.Holds(t, "the connection is closed", func() bool { return conn.GetState().String() != "READY" })
	wantBundles(t, client, []string{"a.v1", "a.v2"}, codes.OK, "")
}
