//go:build !unix

package ui

import (
	"context"
	"errors"
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// directory is not supported, because the store needs file locks and syncs of directories.
type directory struct{ api http.Handler }

func openDirectory(context.Context, *session.Session, string) (*directory, error) {
	return nil, errors.New("opening a directory: not supported on this operating system; push the catalog and open it on a cluster")
}

func (*directory) follow(context.Context) {}
func (*directory) problem() string        { return "" }
func (*directory) close() error           { return nil }
