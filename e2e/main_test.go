package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	namespace      = "catalogd-system"
	serviceAccount = "catalogd"
)

// shared is the control plane of every test that does not stop its own.
var shared *controlPlane

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
	shared, err = startControlPlane()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.stop()) }()
	return m.Run(), nil
}

// controlPlane is an etcd and a kube-apiserver with catalogd's CRDs and RBAC installed. It has no controllers: nothing
// collects garbage or deletes dependents there but catalogd itself.
type controlPlane struct {
	env *envtest.Environment
	client.Client
	dir              string
	kubeconfig       string // an administrator's
	daemonKubeconfig string // kubeconfig of catalogd's service account: the rights that config/rbac gives, and no other
}

func startControlPlane() (*controlPlane, error) {
	dir, err := os.MkdirTemp("", "catalogd-e2e-")
	if err != nil {
		return nil, err
	}
	p := &controlPlane{env: &envtest.Environment{}, dir: dir}
	p.env.ControlPlane.GetAPIServer().CertDir = dir // not envtest's own, which would not outlive a restart
	config, err := p.env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), os.RemoveAll(dir))
	}
	if err := p.prepare(config); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *controlPlane) prepare(config *rest.Config) (err error) {
	if p.Client, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	p.kubeconfig, err = p.addUser(config, "admin", envtest.User{Name: "e2e", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	p.daemonKubeconfig, err = p.addUser(config, "catalogd", envtest.User{
		Name: "system:serviceaccount:" + namespace + ":" + serviceAccount,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace,
			"system:authenticated"},
	})
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-k", filepath.Join("..", "config", "crd")},
		{"apply", "-k", filepath.Join("..", "config", "rbac")},
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
	} {
		if _, err := p.kubectl(context.Background(), args...); err != nil {
			return err
		}
	}
	return nil
}

func (p *controlPlane) addUser(config *rest.Config, file string, user envtest.User) (string, error) {
	u, err := p.env.AddUser(user, config)
	if err != nil {
		return "", fmt.Errorf("adding user %s: %w", user.Name, err)
	}
	content, err := u.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("making the kubeconfig of %s: %w", user.Name, err)
	}
	path := filepath.Join(p.dir, file+".kubeconfig")
	return path, os.WriteFile(path, content, 0o600)
}

// kubectl runs the kubectl of the control plane as an administrator and returns its standard output.
func (p *controlPlane) kubectl(ctx context.Context, args ...string) (string, error) {
	bin := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	cmd := exec.CommandContext(ctx, bin, append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %q: %w: %s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func (p *controlPlane) stop() error {
	return errors.Join(p.env.Stop(), os.RemoveAll(p.dir))
}
