package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"show foo 1.8.0", 2, "1.8.0 is too much: one package at a time; did you mean kubectl catalog show foo --version 1.8.0?"},
		{"graph foo stable", 2, "did you mean kubectl catalog graph foo --channel stable?"},
		{"lint . ..", 2, ".. is too much: one catalog at a time"},
		{"push . x.example/y z", 2, "z is too much: one directory or file to one image"},
		{"diff a b c", 2, "c is too much: two catalogs"},
		{"list a -l b=c", 2, "name catalogs, or select them"},
		{"list a --watch --field-selector metadata.name=b", 2, "name catalogs, or select them"},
		{"list -l =", 2, "--selector \"=\": "},
		{"list --field-selector x", 2, "--field-selector \"x\": "},
		{"get packages --selector =", 2, "--selector \"=\": "},
		{"get packages --channel stable", 2, "kubectl catalog get channels stable --all"},
		{"get packages --channel stable --watch", 2, "packages are in no channel"},
		{"get packages foo --raw /catalogs", 2, "packages foo is too much: --raw prints what is at its path"},
		{"list --request-timeout soon", 2, "--request-timeout \"soon\": "},
		{"lint nosuch", 3, "there is no directory or file nosuch (an image is named with its registry)"},
		{"diff nosuch/a nosuch/b", 3, "there is no directory or file nosuch/a (an image is named with its registry)"},
		{"push x.example/y:z ./cli", 2, "what to push comes first: kubectl catalog push ./cli x.example/y:z"},
		{"push . https://quay.io/foo/bar:v1", 2, "write registry/repository:tag, without https://"},
		{"push . http://127.0.0.1:5/x/y:v1 --insecure", 2, "write registry/repository:tag, without http://"},
		{"push . ./x", 2, "\"./x\" is no image reference: write registry/repository:tag"},
		{"push . foo", 2, "\"foo\" names no registry: write registry/repository:tag"},
		{"push . quay.io/foo/bar@sha256:" + strings.Repeat("0", 64), 2, "is by digest"},
		{"lint https://quay.io/foo/bar:v1", 2, "without https://"},
		{"lint docker://quay.io/foo/bar/", 2, "without docker://"},
		{"diff testdata https://quay.io/foo/bar:v1 --server-url http://127.0.0.1:1", 2, "without https://"},
		{"diff a b -o name", 2, "there is no format \"name\": use one of "},
		{"version --client -o name", 2, "there is no format \"name\": use one of "},
		{"info foo", 2, "show"},
		{"update", 2, "refresh"},
		{"get argocd-operator", 2, "kubectl catalog get package argocd-operator"},
		{"list -A --server http://127.0.0.1:1", 1, "127.0.0.1:1"},
		{"install foo --channel stable", 2, "there is no install: catalogd keeps catalogs"},
		{"uninstall foo", 2, "there is no uninstall"},
		{"help show", 0, "Show a page about a package"},
		{"help nosuch", 2, "there is no command \"nosuch\""},
		{"--version", 0, "version test"},
		{"get packages -o yml --server-url http://127.0.0.1:1", 1, "127.0.0.1:1"},
		{"__complete add x ", 0, "ShellCompDirectiveNoFileComp"},
		{"__complete add --interval ", 0, "ShellCompDirectiveNoFileComp"},
		{"__complete add --ca-file ", 0, "ShellCompDirectiveDefault"},
		{"__complete diff ./", 0, "ShellCompDirectiveDefault"},
	} {
		args := strings.Split(test.args, " ")
		code, stdout, stderr := run(t, args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s%s", test.args, code, test.code, test.says, stdout, stderr)
		}
	}
}

// TestGetSomeOfThese lists what there is of several names, and fails for the others.
func TestGetSomeOfThese(t *testing.T) {
	url := contentService(t, func(string, map[string]any) string {
		return `{"data":{"packages":{"nodes":[{"name":"a","catalog":{"name":"c"},"version":"1.0.0"},{"name":"b","catalog":{"name":"c"}}],"pageInfo":{}}}}`
	})
	code, stdout, stderr := run(t, "get", "packages", "a", "nope", "b", "--no-headers", "-o", "custom-columns=N:.name", "--server-url", url)
	if code != exitNotFound || stdout != "a\nb\n" || stderr != "error: there is no package \"nope\": kubectl catalog search WORDS finds packages\n" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr = run(t, "get", "packages", "-o", "yml", "--server-url", url)
	if code != exitUsage || !strings.Contains(stderr, "did you mean yaml?") {
		t.Errorf("-o yml: exit code %d, %s", code, stderr)
	}
}

func TestSortByVersion(t *testing.T) {
	for _, by := range []string{".version", "{.version}", ".head.version"} {
		var rows []row
		for _, version := range []string{"1.10.0", "1.9.0", "", "1.9.0-rc.1", "v2"} {
			object := map[string]any{"version": version, "head": map[string]any{"version": version}}
			rows = append(rows, row{cells: []string{version}, object: &unstructured.Unstructured{Object: object}})
		}
		if err := sortRows(rows, by); err != nil {
			t.Fatal(err)
		}
		var sorted []string
		for r := range slices.Values(rows) {
			sorted = append(sorted, r.cells[0])
		}
		if diff := cmp.Diff([]string{"", "v2", "1.9.0-rc.1", "1.9.0", "1.10.0"}, sorted); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
	}
}
