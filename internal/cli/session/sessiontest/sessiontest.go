// Package sessiontest opens sessions for tests.
package sessiontest

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// New returns a session with these flags. It reads "stdin" from standard input and writes both outputs to out.
func New(t *testing.T, out io.Writer, args ...string) *session.Session {
	t.Helper()
	streams := genericiooptions.IOStreams{In: strings.NewReader("stdin"), Out: out, ErrOut: out}
	s := session.New(streams, func(string) string { return "" }, "test")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}
