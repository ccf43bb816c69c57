// Command push-catalog pushes a directory with a file-based catalog to a registry as a catalog image.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/operator-catalogs/catalogd/hack/push-catalog/catalogimage"
)

const usage = `push-catalog pushes a directory with a file-based catalog to a registry as a catalog image.

Usage:
  go run ./hack/push-catalog DIR IMAGE

DIR is the directory that a catalog image has at /configs: usually one directory for each package.
IMAGE is where to push it, by tag (without one: latest). Loopback registries are spoken to in plain HTTP; for others the
credentials of "docker login" are used.

The digest reference of the pushed image is printed on standard output, progress on standard error. The same files always
give the same digest.

Example:
  go run ./hack/push-catalog ./my-catalog 127.0.0.1:5005/catalogs/mine:latest
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "push-catalog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("push-catalog", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(stdout, usage)
		return err
	case err != nil:
		return fmt.Errorf("%w; see --help", err)
	case flags.NArg() != 2:
		return fmt.Errorf("got %d arguments, want two: DIR and IMAGE; see --help", flags.NArg())
	}
	digest, err := catalogimage.Push(ctx, flags.Arg(0), flags.Arg(1), stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}
