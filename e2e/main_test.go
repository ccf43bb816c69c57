package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

const namespace = system.Namespace

// shared is the control plane of all tests that do not stop theirs.
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
	if os.Getenv("CATALOGD_BIN") == "" || os.Getenv("CATALOGD_NEXT") == "" || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New("CATALOGD_BIN (the built catalogd), CATALOGD_NEXT (one whose store has another layout) and " +
			"KUBEBUILDER_ASSETS (a directory with etcd, kube-apiserver, kubectl) must be set: run `make e2e`")
	}
	log.SetLogger(logr.Discard())
	shared, err = system.StartControlPlane("..")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	if err := errors.Join(shared.InstallOLMv1(context.Background(), ".."), shared.PermitOLMv0(context.Background(), "..")); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, checkRights(code == 0 && everythingRan())
}

// unneeded maps rights that no request of catalogd needs to the reason to keep them.
var unneeded = map[string]string{
	"update catalogsources/finalizers.catalogd.operatorframework.io": "the API server asks for it itself when a package names the " +
		"catalog that it goes with (OwnerReferencesPermissionEnforcement)",

	"update clustercatalogs/finalizers.olm.operatorframework.io": "the same for packages of ClusterCatalogs",

	`list configmaps "extension-apiserver-authentication" in namespace kube-system`:  "the role is Kubernetes' own",
	`watch configmaps "extension-apiserver-authentication" in namespace kube-system`: "the role is Kubernetes' own",
}

// checkRights checks that config/rbac grants catalogd every right it needed and, after a complete run, no other
// right.
func checkRights(all bool) error {
	requests, err := requestsTo(shared)
	if err != nil {
		return err
	}
	if err := denied(requests); err != nil || !all {
		return err
	}
	rights, err := boundRights(context.Background(), shared)
	if err != nil {
		return err
	}
	if len(rights) == 0 {
		return errors.New("catalogd's account has no rights: are its bindings found?")
	}
	return unusedRights(rights, requests, unneeded)
}

// separate matches the tests of the plugin and of the page, which `make e2e` runs separately. They need no right that the
// others do not need.
const separate = "^Test(Plugin|Page)"

// everythingRan reports whether no flag excluded a test of catalogd.
func everythingRan() bool {
	set := func(name string) bool {
		f := flag.Lookup("test." + name)
		return f != nil && f.Value.String() != f.DefValue && (name != "skip" || f.Value.String() != separate)
	}
	return !set("run") && !set("skip") && !set("short") && !set("list")
}
