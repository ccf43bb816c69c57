package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

var (
	seedFlag     = flag.Uint64("soak.seed", 0, "`seed` of everything that is random; 0 takes one and prints it")
	durationFlag = flag.Duration("soak.duration", time.Minute, "how long TestSoak makes trouble; starting and settling come on top")
	killsFlag    = flag.Int("soak.kills", 25, "how often TestKills kills catalogd")
)

// shared is the control plane of both tests; nil if the environment names no binaries.
var shared *system.ControlPlane

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	flag.Parse()
	if *seedFlag == 0 {
		*seedFlag = uint64(time.Now().UnixNano())
	}
	if os.Getenv("CATALOGD_BIN") == "" || os.Getenv("KUBEBUILDER_ASSETS") == "" || testing.Short() {
		return m.Run(), nil // the tests are skipped with the reason
	}
	log.SetLogger(logr.Discard())
	shared, err = system.StartControlPlane(filepath.Join("..", ".."))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	return m.Run(), nil
}

func requireBinaries(t *testing.T) {
	t.Helper()
	if shared == nil {
		t.Skip("it takes minutes, and needs CATALOGD_BIN (the built catalogd) and KUBEBUILDER_ASSETS (a directory with etcd, " +
			"kube-apiserver, kubectl): run `make soak`")
	}
}

// untilInterrupted returns the context of a test that also ends on Ctrl-C, so that the test fails and cleans up.
func untilInterrupted(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	return ctx
}

// random returns a generator for one part of a test, independent of other parts. Not safe for concurrent use.
func random(part string) *rand.Rand {
	var key [32]byte
	copy(key[:], fmt.Sprintf("%d %s", *seedFlag, part))
	return rand.New(rand.NewChaCha8(key))
}

// between returns a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
