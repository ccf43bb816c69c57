// Command image builds the container image of catalogd and pushes it, without Docker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"

	"github.com/operator-catalogs/catalogd/hack/reproducible"
)

const usage = `image builds the container image of catalogd for several platforms, or pushes the one that was built.

Usage:
  go run ./hack/image [flags] build
  go run ./hack/image [flags] push IMAGE

build writes an OCI image layout to DIR/image, and the same as an archive to DIR/image.tar (ctr images import, podman load, docker
load, skopeo copy oci-archive:). The same commit, built with the same Go, gives the same digest.
push takes the layout to IMAGE, by tag (without one: latest). Loopback registries are spoken to in plain HTTP; for others the
credentials of "docker login" are used.
Either prints the digest, or the digest reference, on standard output.

Flags:
%s`

// options are the values of the flags.
type options struct {
	out       string
	platforms []string
	release   release
}

// release describes the source of the image.
type release struct {
	version  string
	revision string    // the commit, "" if unknown
	created  time.Time // of the commit: the time of the build would change the digest
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var opts options
	flags := pflag.NewFlagSet("image", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.StringVar(&opts.out, "out", "bin", "`DIR` of the layout and the archive")
	flags.StringSliceVar(&opts.platforms, "platforms", []string{
		"linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x",
	}, "target platforms")
	flags.StringVar(&opts.release.version, "version", "unknown", "version of catalogd")
	flags.StringVar(&opts.release.revision, "revision", "", "commit it is built from")
	flags.Usage = func() { fmt.Fprintf(stdout, usage, flags.FlagUsages()) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w; see --help", err)
	}
	var err error
	if opts.release.created, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	switch words := flags.Args(); {
	case len(words) == 1 && words[0] == "build":
		return build(ctx, opts, stdout, stderr)
	case len(words) == 2 && words[0] == "push":
		return push(ctx, filepath.Join(opts.out, "image"), words[1], stdout)
	default:
		return fmt.Errorf("unexpected arguments %q: want build, or push IMAGE; see --help", words)
	}
}

// sourceDate returns SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch), or 1970 without
// it.
func sourceDate(text string) (time.Time, error) {
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("parsing SOURCE_DATE_EPOCH %q: expected seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// build compiles catalogd for each platform and writes the image index.
func build(ctx context.Context, opts options, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "catalogd-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries := map[string]string{}
	for _, text := range opts.platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil || platform.OS != "linux" || platform.Architecture == "" {
			return fmt.Errorf("--platforms: invalid platform %q; use the form linux/arm64", text)
		}
		fmt.Fprintf(stderr, "compiling for %s\n", text)
		binaries[text] = filepath.Join(dir, strings.ReplaceAll(text, "/", "-"))
		if err := reproducible.Compile(ctx, "catalogd", platform.OS, platform.Architecture, opts.release.version, binaries[text],
			stderr); err != nil {
			return err
		}
	}
	index, err := assemble(binaries, opts.release)
	if err != nil {
		return err
	}
	if err := save(index, opts); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}
