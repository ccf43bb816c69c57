package cli

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// Who may not write is not helped by a role to read.
func TestMissingRole(t *testing.T) {
	for _, test := range []struct{ group, resource, verb, want string }{
		{v1beta1.GroupVersion.Group, "catalogsources", "list", "ClusterRole catalogd-packages-viewer"},
		{v1beta1.GroupVersion.Group, "operatorpackages", "watch", "ClusterRole catalogd-packages-viewer"},
		{v1beta1.GroupVersion.Group, "catalogsources", "create", "ClusterRole catalogd-catalogs-editor"},
		{v1beta1.GroupVersion.Group, "catalogsources", "patch", "ClusterRole catalogd-catalogs-editor"},
		{v1beta1.GroupVersion.Group, "catalogsources", "delete", "ClusterRole catalogd-catalogs-editor"},
		{"", "configmaps", "create", ""},
		{"operators.coreos.com", "catalogsources", "list", ""},
	} {
		why := errors.New(`User "jane" cannot ` + test.verb + ` resource "` + test.resource + `" in API group "` + test.group + `" at the cluster scope`)
		got := explain(apierrors.NewForbidden(schema.GroupResource{Group: test.group, Resource: test.resource}, "", why))
		if !strings.Contains(got, test.want) || strings.Contains(got, "ClusterRole") != (test.want != "") {
			t.Errorf("%s %s: %s", test.verb, test.resource, got)
		}
	}
}

// A cluster without catalogd is that for every command, not one that lacks a catalog.
func TestNoGroup(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" || r.URL.Path == "/apis" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
			return
		}
		http.Error(w, "404 page not found", http.StatusNotFound) // as the API server has it
	}))
	defer server.Close()
	for _, command := range []string{
		"list", "list x", "list --watch", "describe x", "add x c", "add x c --dry-run=server", "refresh x", "refresh --all", "suspend x", "remove x --yes",
		"watch", "get packages", "get packages -c x", "get packages -l a=b", "show x", "search x", "graph x", "export x -o -", "query {x}", "version",
	} {
		code, _, stderr := run(t, append(strings.Fields(command), "--server", server.URL)...)
		if code != exitFailure || stderr != "error: "+noGroup+"\n" {
			t.Errorf("%s: exit code %d: %s", command, code, stderr)
		}
	}
}

// Whoever interrupts a command is told that it did not come to its end.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	code := Run(ctx, []string{"get", "packages", "--server-url", "http://127.0.0.1:1"}, genericiooptions.IOStreams{In: &stderr, Out: &stderr, ErrOut: &stderr}, "test")
	if code != exitInterrupted || stderr.String() != "interrupted\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
