// Package controlplane starts a real etcd and kube-apiserver for tests, with catalogd's CRDs and RBAC installed.
package controlplane

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	namespace = "catalogd-system"
	account   = "system:serviceaccount:" + namespace + ":catalogd"
)

// Plane is a running control plane. It has no controllers: only catalogd collects garbage or deletes dependents there.
type Plane struct {
	Env              *envtest.Environment
	Admin            *rest.Config // without rate limit
	Daemon           *rest.Config // of catalogd's service account: only the rights that config/rbac grants
	Kubeconfig       string       // a file, the administrator's
	DaemonKubeconfig string
	Dir              string // files of the control plane, deleted by Stop
}

// Main runs the tests of a package beside a control plane, and exits. root is the root of the repository.
// prepare gets the control plane before the first test. Fuzzing starts no control plane, as each worker would.
func Main(m *testing.M, root string, prepare func(*Plane) error) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run())
	}
	code, err := run(m, root, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, root string, prepare func(*Plane) error) (code int, err error) {
	p, err := Start(root, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := prepare(p); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// Start starts the binaries of KUBEBUILDER_ASSETS. configure, if not nil, may change the environment before; root is the
// root of the repository.
func Start(root string, configure func(*Plane) error) (*Plane, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("these tests need a kube-apiserver: run `make test`, " +
			"or set KUBEBUILDER_ASSETS=$(hack/controlplane/build.sh)")
	}
	dir, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		return nil, err
	}
	p := &Plane{Env: &envtest.Environment{}, Dir: dir}
	p.Env.ControlPlane.GetAPIServer().CertDir = dir // envtest's own directory does not outlive a restart of the server
	if configure != nil {
		err = configure(p)
	}
	if err == nil {
		p.Admin, err = p.Env.Start()
	}
	if err == nil {
		p.Admin.QPS = -1
		err = p.install(root)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), p.Stop())
	}
	return p, nil
}

func (p *Plane) install(root string) (err error) {
	if _, p.Kubeconfig, err = p.addUser("admin", "system:masters"); err != nil {
		return err
	}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	if p.Daemon, p.DaemonKubeconfig, err = p.addUser(account, groups...); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-k", filepath.Join(root, "config", "crd")},
		{"apply", "-k", filepath.Join(root, "config", "rbac")},
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
	} {
		if _, err := p.Kubectl(context.Background(), args...); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plane) addUser(name string, groups ...string) (config *rest.Config, kubeconfig string, err error) {
	user, err := p.Env.AddUser(envtest.User{Name: name, Groups: groups}, p.Admin)
	if err != nil {
		return nil, "", fmt.Errorf("adding user %s: %w", name, err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		return nil, "", fmt.Errorf("making the kubeconfig of %s: %w", name, err)
	}
	kubeconfig = filepath.Join(p.Dir, name+".kubeconfig")
	return user.Config(), kubeconfig, os.WriteFile(kubeconfig, content, 0o600)
}

// Stop ends the control plane and deletes its files.
func (p *Plane) Stop() error { return errors.Join(p.Env.Stop(), os.RemoveAll(p.Dir)) }

// Kubectl runs the kubectl of KUBEBUILDER_ASSETS as an administrator and returns its standard output.
func (p *Plane) Kubectl(ctx context.Context, args ...string) (string, error) {
	bin := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	cmd := exec.CommandContext(ctx, bin, append([]string{"--kubeconfig", p.Kubeconfig}, args...)...) //nolint:gosec // tests run what they name
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %q: %w: %s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
