package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// bothKinds starts an API server with the CatalogSources mine, shared and mirrored, and with the ClusterCatalogs a.b, shared and
// mirrored. The last is that of the CatalogSource.
func bothKinds(t *testing.T) string {
	t.Helper()
	sources := []v1beta1.CatalogSource{missingImage("")}
	catalogs := []olmv1.ClusterCatalog{{}}
	catalogs[0].Name = "a.b"
	for _, name := range []string{"shared", "mirrored"} {
		s, c := v1beta1.CatalogSource{}, olmv1.ClusterCatalog{}
		s.Name, c.Name = name, name
		sources, catalogs = append(sources, s), append(catalogs, c)
	}
	catalogs[2].OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource", Name: "mirrored", Controller: ptr.To(true),
	}}
	objects := map[string]any{
		"catalogsources": v1beta1.CatalogSourceList{Items: sources}, "clustercatalogs": olmv1.ClusterCatalogList{Items: catalogs},
	}
	for i := range sources {
		objects["catalogsources/"+sources[i].Name] = sources[i]
	}
	for i := range catalogs {
		catalogs[i].Annotations = map[string]string{v1beta1.ClaimedByAnnotation: "catalogd-system"}
		objects["clustercatalogs/"+catalogs[i].Name] = catalogs[i]
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, name, _ := strings.Cut(r.URL.Path[len("/apis/"):], "/v")
		_, name, _ = strings.Cut(name, "/")
		if object, ok := objects[name]; ok {
			_ = json.NewEncoder(w).Encode(object)
			return
		}
		none := apierrors.NewNotFound(schema.GroupResource{Resource: path.Dir(name)}, path.Base(name)).Status()
		none.APIVersion, none.Kind = "v1", "Status"
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(none)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestNamesOfBothKinds(t *testing.T) {
	server := bothKinds(t)
	const ambiguous = `catalog "shared" is ambiguous: specify catalogsource/shared or clustercatalog/shared`
	for _, tt := range []struct {
		args, says string
		code       int
	}{
		{"list -o name", "clustercatalog.olm.operatorframework.io/a.b\ncatalogsource.catalogd.operatorframework.io/mine\n" +
			"catalogsource.catalogd.operatorframework.io/mirrored\ncatalogsource.catalogd.operatorframework.io/shared\n" +
			"clustercatalog.olm.operatorframework.io/shared\n", exit.OK},
		{"list", "NAME       KIND ", exit.OK},
		{"list catd/shared clustercatalogs.olm.operatorframework.io/shared", "shared   ClusterCatalog", exit.OK},
		{"list shared", ambiguous, exit.Usage},
		{"suspend shared", ambiguous, exit.Usage},
		{"remove shared --yes", ambiguous, exit.Usage},
		{"watch shared", ambiguous, exit.Usage},
		{"describe clustercatalog/mine", `catalog "clustercatalog/mine" not found`, exit.NotFound},
		{"describe clustercatalog/mirrored", "specify catalogsource/mirrored", exit.Usage},
		{"describe pod/mine", `unknown type "pod"; valid types are catalogsource, clustercatalog`, exit.Usage},
		{"get packages -c pod/mine", `unknown type "pod"`, exit.Usage},
		{"get packages -c clustercatalog/a.b", `catalog "a.b" is not served yet`, exit.Failure},
		{"export clustercatalog/shared -o json", `catalog "shared" is not served yet`, exit.Failure},
		{"migrate shared --to clustercatalog --same-name", ambiguous, exit.Usage},
		{"migrate a.b --to clustercatalog", "it is a ClusterCatalog already", exit.Usage},
		{"migrate mine --to clustercatalog", "specify --name NEW", exit.Usage},
		{"migrate mine --to pod", `--to: unknown type "pod"`, exit.Usage},
		{"migrate a.b mine --to catalogsource --name x", "--name is for one catalog", exit.Usage},
		{"migrate mine -f x --to catalogsource", "not both", exit.Usage},
		{"migrate mine", "specify the kind", exit.Usage},
		{"migrate --to catalogsource", "specify the catalogs", exit.Usage},
	} {
		code, stdout, stderr := run(t, append(strings.Fields(tt.args), "--server", server)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s%s", tt.args, code, tt.code, tt.says, stdout, stderr)
		}
	}
}

// A cluster without ClusterCatalogs, or a user without the right to them, costs one request and no message.
func TestClusterCatalogsCostOneRequest(t *testing.T) {
	plain := cluster(t, nil, missingImage(""))
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"no CRD": http.NotFound,
		"forbidden": func(w http.ResponseWriter, _ *http.Request) {
			status := apierrors.NewForbidden(olmv1.GroupVersion.WithResource("clustercatalogs").GroupResource(), "", nil).Status()
			status.APIVersion, status.Kind = "v1", "Status"
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(status)
		},
	} {
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/apis/"+olmv1.GroupName) {
				asked.Add(1)
				answer(w, r)
				return
			}
			http.Redirect(w, r, plain+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		}))
		for args, want := range map[string]int32{
			"list": 1, "list mine": 1, "describe mine": 1, "describe catd/mine": 1, "get packages": 1, "list catalogsource/mine -o yaml": 0,
			"refresh none": 1, "describe clustercatalog/mine": 1, "add x r.example/a:b --kind=clustercatalog": 1,
		} {
			asked.Store(0)
			typed := strings.Contains(args, "clustercatalog")
			_, stdout, stderr := run(t, append(strings.Fields(args), "--server", server.URL)...)
			says := strings.Contains(strings.ToLower(stderr), "clustercatalog")
			if got := asked.Load(); got != want || says != typed || stdout == "" && strings.Contains(args, "list") {
				t.Errorf("%s: %s: %d requests, want %d: %s%s", name, args, got, want, stdout, stderr)
			}
		}
		server.Close()
	}
}

// Flags without a counterpart in a ClusterCatalog are refused.
func TestAddRefusesFlagsForClusterCatalogs(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for args, want := range map[string]string{
		"x r.example/a:b --schedule @daily":                   "ClusterCatalogs have no schedule: omit --schedule, or set --interval",
		"x r.example/a:b --interval 90s":                      "--interval 1m30s: ClusterCatalogs are polled at intervals of whole minutes",
		"x r.example/a" + digest + " --interval 1h":           "no counterpart of --interval: omit it (an image with a digest is never polled)",
		"x r.example/a:b --publisher me":                      "ClusterCatalogs have no counterpart of --publisher: omit it\n",
		"x r.example/a:b --pull-secret s":                     "the flags for the registry, such as --pull-secret",
		"x r.example/a:b --config-dir d":                      "no counterpart of --config-dir",
		"x --image-template r.example/a:{kube_minor_version}": "--image-template is not resolved",
		"x_y r.example/a:b":                                   `invalid name "x_y": use at most 63 lower-case letters, digits, '-' and '.'`,
	} {
		code, stdout, stderr := runPlugin(t, append([]string{"add", "--kind", "clustercatalog", "--dry-run=client"}, strings.Fields(args)...)...)
		if code != exit.Usage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want %q in %s%s", args, code, want, stdout, stderr)
		}
	}
}
