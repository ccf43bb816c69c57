package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	checkGap    = 100 * time.Millisecond // between two checks of a state
	patience    = 3 * time.Minute        // time limit for a state
	dialTimeout = 2 * time.Second
)

// installed is the installation that all tests use, one after another. Each test leaves it as it was.
var installed *installation

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/node:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if os.Getenv("CATALOGD_IMAGE") == "" {
		return 1, errors.New("CATALOGD_IMAGE (the OCI layout of the built image) must be set: run `make e2e-node`")
	}
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // programs may have to be built first
	defer cancel()
	cluster, err := startCluster(ctx)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.stop()) }()
	installed, err = install(ctx, cluster)
	if err != nil {
		return 1, err
	}
	code = m.Run()
	if code != 0 {
		installed.explain(context.Background(), os.Stderr)
	}
	return code, nil
}

// waitUntil fails the test if check still returns an error at the end of patience.
func waitUntil(t *testing.T, state string, check func(ctx context.Context) error) {
	t.Helper()
	must.Succeed(t, await(t.Context(), state, check))
}

func await(ctx context.Context, what string, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := eventually.Within(ctx, patience, func() error { return check(ctx) }); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}
