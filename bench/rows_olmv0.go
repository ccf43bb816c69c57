package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/prometheus/procfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const noOPM = skip("requires --opm PATH; hack/opm/build.sh builds one")

// listBundles measures ListBundles of the whole catalog, by a client that does not decode the messages.
func listBundles(ctx context.Context, e *env) (row Row, err error) {
	row = Row{
		What:      "ListBundles of OLM v0's registry API",
		Figure:    Series{What: "catalogd: request -> end of the stream", Unit: "ms"},
		Yardstick: Series{What: "opm serve, with its cache made", Unit: "ms"},
	}
	row.atMost(0.5)
	if e.opm == "" {
		return row, noOPM
	}
	d, address, err := e.servingOLMv0(ctx, e.base)
	if err != nil {
		return row, err
	}
	defer d.discard()
	opm, err := e.startOPM(ctx, e.base.dir)
	if err != nil {
		return row, err
	}
	defer opm.discard()
	var counts [2]int
	list := func(i int, address, catalog string) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			began := time.Now()
			n, err := drainBundles(ctx, address, catalog)
			counts[i] = n
			return float64(time.Since(began).Microseconds()) / 1000, err
		}
	}
	figure, yardstick := list(0, address, benchCatalog), list(1, opm.address, "")
	if err := e.alternate(ctx, &row, e.runs, figure, yardstick); err != nil {
		return row, err
	}
	row.check(counts[0] == counts[1] && counts[0] > 0, "%d messages, and %d of opm", counts[0], counts[1])
	own, err := peakMemory(d.PID())
	if err != nil {
		return row, err
	}
	peer, err := peakMemory(opm.PID())
	if err != nil {
		return row, err
	}
	row.check(own <= 0.3*peer, "peak memory since the start %.0f MiB beside %.0f MiB: %.2fx (limit 0.3x)", own, peer, own/peer)
	row.note("both have read the catalog since they started: catalogd unpacked the image, opm made its cache of the files")
	return row, nil
}

// startOLMv0 measures the time from the start of a process until it answers ListPackages.
func startOLMv0(ctx context.Context, e *env) (row Row, err error) {
	row = Row{
		What:      "process start -> first answer of OLM v0's registry API",
		Figure:    Series{What: "catalogd, with the catalog on its volume: first package of ListPackages", Unit: "s"},
		Yardstick: Series{What: "opm serve, with the files of the catalog and no cache: the same", Unit: "s"},
	}
	row.atMost(0.02)
	if e.opm == "" {
		return row, noOPM
	}
	d, _, err := e.servingOLMv0(ctx, e.base)
	if err != nil {
		return row, err
	}
	d.Kill()
	defer os.RemoveAll(d.dataDir)
	figure := func(ctx context.Context) (float64, error) {
		addresses, err := process.FreeAddresses(1)
		if err != nil {
			return 0, err
		}
		if err := flush(ctx); err != nil {
			return 0, err
		}
		began := time.Now()
		d, err := e.startDaemon(d.dataDir, e.cluster.DaemonKubeconfig, "--grpc-bind-address", addresses[0])
		if err != nil {
			return 0, err
		}
		defer d.Kill()
		err = firstPackage(ctx, d.Child, addresses[0], benchCatalog)
		return time.Since(began).Seconds(), err
	}
	yardstick := func(ctx context.Context) (float64, error) {
		if err := flush(ctx); err != nil {
			return 0, err
		}
		began := time.Now()
		opm, err := e.startOPM(ctx, e.base.dir)
		if err != nil {
			return 0, err
		}
		defer opm.discard()
		return time.Since(began).Seconds(), nil
	}
	return row, e.alternate(ctx, &row, min(e.runs, 3), figure, yardstick)
}

// fiftyCatalogs measures the memory of a catalogd that serves 50 catalogs, beside 50 opm that serve one each.
func fiftyCatalogs(ctx context.Context, e *env) (row Row, err error) {
	const count = 50
	row = Row{
		What:      "memory with 50 catalogs for OLM v0, after ListBundles of each",
		Figure:    Series{What: "one catalogd: proportional set size", Unit: "MiB"},
		Yardstick: Series{What: "50 opm serve: sum of their proportional set sizes", Unit: "MiB"},
	}
	if e.opm == "" {
		return row, noOPM
	}
	small, err := e.generated(ctx, catalogs.Scaled(300))
	if err != nil {
		return row, err
	}
	d, address, err := e.servingOLMv0(ctx, small)
	if err != nil {
		return row, err
	}
	defer d.discard()
	var peers []*opmServer
	defer func() {
		for _, p := range peers {
			p.discard()
		}
	}()
	for i := range count {
		if err := e.addVariant(ctx, d, small, i, address); err != nil {
			return row, err
		}
		opm, err := e.startOPM(ctx, small.dir)
		if err != nil {
			return row, err
		}
		peers = append(peers, opm)
		if _, err := drainBundles(ctx, opm.address, ""); err != nil {
			return row, err
		}
	}
	var sum float64
	for _, p := range peers {
		size, err := proportional(p.PID())
		if err != nil {
			return row, err
		}
		sum += size
	}
	own, err := proportional(d.PID())
	if err != nil {
		return row, err
	}
	row.compare([]float64{own}, []float64{sum})
	row.note("catalogs of %d packages and %d bundles, %.1f MB, which differ in one blob", small.stats.Packages, small.stats.Bundles,
		float64(small.stats.Bytes)/1e6)
	return row, nil
}

// addVariant adds a variant of a catalog to catalogd, and lists its bundles over gRPC.
func (e *env) addVariant(ctx context.Context, d *daemon, c *catalog, number int, address string) error {
	name := fmt.Sprintf("v0-%d", number)
	variant, err := e.changed(c, number)
	if err != nil {
		return err
	}
	ref, _, err := e.registry.publish(ctx, "bench/"+name, variant)
	if err == nil {
		err = e.cluster.create(ctx, name, ref, neverPoll)
	}
	if err == nil {
		err = e.cluster.waitFor(ctx, d, name, "Ready")
	}
	if err == nil {
		_, err = drainBundles(ctx, address, name)
	}
	return err
}

// proportional returns the memory of a process in MiB, of which it has its part of shared pages (smaps_rollup).
func proportional(pid int) (float64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	rollup, err := p.ProcSMapsRollup()
	return float64(rollup.Pss) / (1 << 20), err
}

// servingOLMv0 starts catalogd with a catalog, which it serves to OLM v0.
func (e *env) servingOLMv0(ctx context.Context, c *catalog) (d *daemon, address string, err error) {
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	d, ref, err := e.emptyDaemon(ctx, "bench/olmv0", c, "--grpc-bind-address", addresses[0])
	if err != nil {
		return nil, "", err
	}
	err = e.cluster.create(ctx, benchCatalog, ref, neverPoll)
	if err == nil {
		err = e.cluster.waitFor(ctx, d, benchCatalog, "Ready")
	}
	if err == nil {
		err = d.compressed(ctx, benchCatalog)
	}
	if err != nil {
		d.discard()
		return nil, "", err
	}
	return d, addresses[0], nil
}

// opmServer is a running opm.
type opmServer struct {
	*process.Child
	address, dir string
}

func (o *opmServer) discard() {
	o.Kill()
	_ = os.RemoveAll(o.dir) // the directory of the run is removed at its end
}

// startOPM starts opm on the files of a catalog, without a cache, and waits until it answers.
func (e *env) startOPM(ctx context.Context, configs string) (*opmServer, error) {
	dir, err := os.MkdirTemp(e.dir, "opm-")
	if err != nil {
		return nil, err
	}
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, err
	}
	child, err := process.Start("opm", filepath.Join(dir, "opm.log"), e.opm, "serve", configs, "--port", port,
		"--cache-dir", filepath.Join(dir, "cache"), "--cache-enforce-integrity=false", "--pprof-addr", "",
		"--termination-log", filepath.Join(dir, "termination.log"))
	if err != nil {
		return nil, err
	}
	o := &opmServer{child, addresses[0], dir}
	if err := firstPackage(ctx, child, o.address, ""); err != nil {
		o.discard()
		return nil, err
	}
	return o, nil
}

// firstPackage waits until a server answers ListPackages.
func firstPackage(ctx context.Context, server *process.Child, address, catalog string) error {
	return process.Every(ctx, 4*time.Millisecond, func() (bool, error) {
		conn, err := net.Dial("tcp", address) // gRPC would wait longer and longer
		if err != nil {
			return false, server.Ended()
		}
		_ = conn.Close()
		client, end, err := dialOLMv0(address, catalog)
		if err != nil {
			return false, err
		}
		stream, err := client.ListPackages(ctx, &api.ListPackageRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err == nil, errors.Join(end(), server.Ended())
	})
}

// dialOLMv0 returns a client of OLM v0's registry API; catalog is the authority, if it is not empty.
func dialOLMv0(address, catalog string, more ...grpc.DialOption) (client api.RegistryClient, end func() error, err error) {
	options := append(more, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(catalog))
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return nil, nil, err
	}
	return api.NewRegistryClient(conn), conn.Close, nil
}

// drainBundles calls ListBundles on a new connection, and returns the number of messages.
func drainBundles(ctx context.Context, address, catalog string) (n int, err error) {
	client, end, err := dialOLMv0(address, catalog, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(discarding{encoding.GetCodecV2("proto")})))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	stream, err := client.ListBundles(ctx, &api.ListBundlesRequest{})
	for err == nil {
		if err = stream.RecvMsg(&api.Bundle{}); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// discarding is a codec that does not decode.
type discarding struct{ encoding.CodecV2 }

func (discarding) Unmarshal(mem.BufferSlice, any) error { return nil }
