package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// plugin runs the built kubectl-catalog in the cluster's network, with the administrator's kubeconfig, which has a client certificate.
func (c *cluster) plugin(ctx context.Context, args ...string) (stdout, stderr string, code int, err error) {
	network, err := c.namespace("node1", "net")
	if err != nil {
		return "", "", 0, err
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + network, "--", os.Getenv("KUBECTL_CATALOG_BIN")}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), complaint.String(), exit.ExitCode(), nil
	}
	return out.String(), complaint.String(), 0, err
}

// TestPlugin reads content through the service proxy of the API server, with and without the right to.
func TestPlugin(t *testing.T) {
	waitUntil(t, "all replicas and catalogs are ready", installed.allReady)
	var out string
	// packages of a deleted catalog are deleted later
	waitUntil(t, "the plugin lists the packages that are published", func(ctx context.Context) (err error) {
		packages := list("OperatorPackage")
		if err := installed.List(ctx, packages); err != nil {
			return err
		}
		var want, got []string
		for _, p := range packages.Items {
			want = append(want, p.GetName())
		}
		var complaint string
		var code int
		out, complaint, code, err = installed.plugin(ctx, "get", "packages", "--no-headers", "-o", "custom-columns=:.name,:.catalog.name")
		if err != nil || code != 0 {
			return fmt.Errorf("exit code %d: %w: %s", code, err, complaint)
		}
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) == 2 {
				got = append(got, strings.Join(fields, "."))
			}
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
			return fmt.Errorf("packages (-want +got):\n%s", diff)
		}
		return nil
	})

	const user = "catalog-user"
	bind := func(kind, name string) {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
		to := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
		meta := metav1.ObjectMeta{Name: "e2e-" + user}
		var object client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: to}
		if kind == "Role" {
			meta.Namespace = namespace
			object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: to}
		}
		must.Succeed(t, installed.Create(t.Context(), object))
		t.Cleanup(func() { _ = installed.Delete(context.Background(), object) })
	}
	_, complaint, code, err := installed.plugin(t.Context(), "get", "packages", "--as", user)
	if must.Succeed(t, err); code != 1 || !strings.Contains(complaint, "catalogd-packages-viewer") {
		t.Errorf("without rights: exit code %d, %s", code, complaint)
	}
	bind("ClusterRole", "catalogd-packages-viewer")
	_, complaint, code, err = installed.plugin(t.Context(), "get", "packages", "--as", user)
	if must.Succeed(t, err); code != 1 || !strings.Contains(complaint, "catalogd-cli-user") {
		t.Errorf("without a right to the content: exit code %d, %s", code, complaint)
	}
	bind("Role", "catalogd-cli-user")
	waitUntil(t, "the user may read", func(ctx context.Context) error {
		now, complaint, code, err := installed.plugin(ctx, "get", "packages", "--no-headers", "-o", "custom-columns=:.name,:.catalog.name",
			"--as", user)
		if err == nil && (code != 0 || now != out) {
			err = errors.New("exit code, or list of packages: " + complaint)
		}
		return err
	})
}

// TestKubectlOfCluster runs the plugin with the kubectl that hack/node/up.sh writes, which gives it the kubeconfig.
func TestKubectlOfCluster(t *testing.T) {
	kubectl := exec.CommandContext(t.Context(), filepath.Join(installed.dir, "kubectl"), "catalog", "list")
	if out, err := kubectl.CombinedOutput(); err != nil || !strings.Contains(string(out), "NAME") {
		t.Errorf("%v: %s", err, out)
	}
}
