// Command krew builds the release archives of the plugin, and the manifest with which krew
// (https://krew.sigs.k8s.io) installs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/blang/semver/v4"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"

	"github.com/operator-catalogs/catalogd/hack/reproducible"
)

const usage = `krew builds the archives of the plugin kubectl-catalog for several platforms, and the manifest by which krew installs
it from them.

Usage, in the root of the repository:
  go run ./hack/krew --version v1.2.3 [flags]

It writes DIR/kubectl-catalog_VERSION_OS_ARCH.tar.gz (.zip for windows) and DIR/catalog.yaml. The same commit, built with the same Go, gives
the same bytes. To try what was built: kubectl krew install --manifest=DIR/catalog.yaml --archive=DIR/ARCHIVE

Flags:
%s`

// options are the values of the flags.
type options struct {
	out       string
	platforms []string
	version   string
	url       string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var opts options
	flags := pflag.NewFlagSet("krew", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.version, "version", "", "version of the plugin: v1.2.3")
	flags.StringVar(&opts.out, "out", "bin/plugin", "`DIR` to write to")
	flags.StringSliceVar(&opts.platforms, "platforms", defaultPlatforms, "target platforms")
	flags.StringVar(&opts.url, "url", "", "base `URL` of the published archives (default "+releases+"VERSION)")
	flags.Usage = func() { fmt.Fprintf(stdout, usage, flags.FlagUsages()) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w; see --help", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	bare, prefixed := strings.CutPrefix(opts.version, "v")
	if _, err := semver.Parse(bare); err != nil || !prefixed {
		return fmt.Errorf("--version: krew takes versions like v1.2.3, not %q", opts.version)
	}
	if opts.url == "" {
		opts.url = releases + opts.version
	}
	return build(ctx, opts, stderr)
}

// build compiles and packs the plugin for each platform, and writes the manifest.
func build(ctx context.Context, opts options, stderr io.Writer) error {
	var platforms []*v1.Platform
	for _, text := range opts.platforms {
		p, err := parsePlatform(text)
		if err != nil {
			return fmt.Errorf("--platforms: %w", err)
		}
		platforms = append(platforms, p)
	}
	with, err := besides(os.DirFS("."))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "catalogd-plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(opts.out, 0o755); err != nil {
		return err
	}
	var archives []archive
	for _, p := range platforms {
		fmt.Fprintf(stderr, "compiling for %s\n", p)
		binary := filepath.Join(dir, plugin)
		if err := reproducible.Compile(ctx, plugin, p.OS, p.Architecture, opts.version, binary, stderr); err != nil {
			return err
		}
		program, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		a, err := pack(opts, p, program, with)
		if err != nil {
			return err
		}
		archives = append(archives, a)
	}
	return writeManifest(opts, archives)
}
