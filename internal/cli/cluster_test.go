package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
)

// cluster starts an API server with these catalogs and those that are created. It calls watched at each watch.
func cluster(t *testing.T, watched func(), catalogs ...v1beta1.CatalogSource) string {
	t.Helper()
	list := v1beta1.CatalogSourceList{Items: catalogs}
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSourceList"))
	server := httptest.NewServer(withoutClusterCatalogs(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Has("watch"):
			watched()
			<-r.Context().Done()
		case r.Method == http.MethodPatch:
			t.Error("a catalog is patched")
		case r.Method == http.MethodPost, len(catalogs) > 0 && strings.HasSuffix(r.URL.Path, "/catalogsources/"+catalogs[0].Name):
			_ = json.NewEncoder(w).Encode(catalogs[0])
		case r.URL.Query().Has("labelSelector"): // none has labels
			_ = json.NewEncoder(w).Encode(v1beta1.CatalogSourceList{TypeMeta: list.TypeMeta})
		case strings.HasSuffix(r.URL.Path, "/catalogsources"):
			_ = json.NewEncoder(w).Encode(list)
		default:
			name := path.Base(r.URL.Path)
			i := slices.IndexFunc(catalogs, func(c v1beta1.CatalogSource) bool { return c.Name == name })
			if i < 0 {
				w.WriteHeader(http.StatusNotFound)
				status := apierrors.NewNotFound(v1beta1.GroupVersion.WithResource("catalogsources").GroupResource(), name).Status()
				status.Kind, status.APIVersion = "Status", "v1"
				_ = json.NewEncoder(w).Encode(status)
				return
			}
			_ = json.NewEncoder(w).Encode(catalogs[i])
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// missingImage is a catalog whose registry cannot be asked, at the moment.
func missingImage(reason string) v1beta1.CatalogSource {
	c := v1beta1.CatalogSource{}
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSource"))
	c.Name, c.UID, c.Spec.Image = "mine", "1", "registry.example/mine:v1"
	c.Status.Conditions = []metav1.Condition{
		{Type: v1beta1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "the registry does not answer:"},
		{Type: v1beta1.ProgressingCondition, Status: metav1.ConditionTrue, Reason: v1beta1.RetryingReason},
	}
	return c
}

func TestInterruptedWaitReportsLastState(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	server := cluster(t, interrupt, missingImage(v1beta1.RegistryUnreachableReason))
	var out, errs bytes.Buffer
	code := Run(ctx, []string{
		"add", "mine", "registry.example/mine:v1", "--wait", "--server", server,
	}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}, "test")
	want := `interrupted: catalog "mine" is not ready yet (Retrying: the registry does not answer:); the catalog was created, and ` +
		`catalogd continues to process it: ` +
		"kubectl catalog describe mine shows its state, kubectl catalog remove mine removes it\n"
	if code != exit.Interrupted || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestImageNotFoundEndsAdd(t *testing.T) {
	server := cluster(t, func() { t.Error("it is waited for") }, missingImage(v1beta1.ImageNotFoundReason))
	code, _, stderr := run(t, "add", "mine", "registry.example/mine:v1", "--wait", "--server", server)
	if code != exit.Failure || stderr != "error: the registry does not answer\n"+"the catalog was created, and catalogd continues to "+
		"process it: kubectl catalog describe mine shows its state, "+
		"kubectl catalog remove mine removes it"+"\n" {
		t.Errorf("exit code %d: %q", code, stderr)
	}
}

func TestEmptyCluster(t *testing.T) {
	server := cluster(t, nil)
	for _, command := range []string{"list", "get packages", "search x", "refresh --all", "suspend --all", "resume --all"} {
		code, stdout, stderr := run(t, append(strings.Fields(command), "--server", server)...)
		if code != exit.OK || stdout != "" || stderr != lookup.EmptyCluster+"\n" {
			t.Errorf("%s: exit code %d: %s%s", command, code, stdout, stderr)
		}
	}
}

func TestListShowsReasonsAndUnreachableService(t *testing.T) {
	c := missingImage(v1beta1.RegistryUnreachableReason)
	c.Status.URLs = &v1beta1.CatalogSourceURLs{Base: "http://127.0.0.1:1/catalogs/mine"}
	code, stdout, stderr := run(t, "list", "--server", cluster(t, nil, c))
	if code != exit.OK || !strings.Contains(stdout, "READY   REASON                LAST") ||
		!strings.Contains(stdout, "False   RegistryUnreachable") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	want := "warning: poll times are unknown: the content service at http://127.0.0.1:1 cannot be reached: dial tcp 127.0.0.1:1: " +
		"connect: connection refused\n"
	if stderr != want {
		t.Errorf("got %q", stderr)
	}
}

// withoutClusterCatalogs answers as an API server that does not have the CRD.
func withoutClusterCatalogs(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/"+olmv1.GroupName+"/") {
			http.NotFound(w, r)
			return
		}
		next(w, r)
	})
}
