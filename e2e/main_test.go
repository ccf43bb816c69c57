package e2e

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

const namespace = system.Namespace

// shared is the control plane of every test that does not stop its own.
var shared *system.ControlPlane

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if os.Getenv("CATALOGD_BIN") == "" || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New("CATALOGD_BIN (the built catalogd) and KUBEBUILDER_ASSETS (a directory with etcd, kube-apiserver, kubectl) must be set: run `make e2e`")
	}
	log.SetLogger(logr.Discard())
	shared, err = system.StartControlPlane("..")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	return m.Run(), nil
}
