package cli

import (
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"show foo 1.8.0", 2, "unexpected argument 1.8.0: specify one package; did you mean kubectl catalog show foo --version 1.8.0?"},
		{"graph foo stable", 2, "did you mean kubectl catalog graph foo --channel stable?"},
		{"lint . ..", 2, "unexpected argument ..: specify one catalog"},
		{"push . x.example/y z", 2, "unexpected argument z: specify one directory or file, and one image"},
		{"diff a b c", 2, "unexpected argument c: specify two catalogs"},
		{"list a -l b=c", 2, "specify names, or --selector"},
		{"list a --watch --field-selector metadata.name=b", 2, "specify names, or --selector"},
		{"list -l =", 2, "--selector \"=\": "},
		{"list --field-selector x", 2, "--field-selector \"x\": "},
		{"get packages --selector =", 2, "--selector \"=\": "},
		{"get packages --channel stable", 2, "kubectl catalog get channels stable --all"},
		{"get packages --channel stable --watch", 2, "--channel does not apply to packages"},
		{"get packages foo --raw /catalogs", 2, "unexpected argument packages foo: --raw takes a path only"},
		{"list --request-timeout soon", 2, "--request-timeout \"soon\": "},
		{"lint nosuch", 3, "directory or file nosuch not found (an image reference needs a registry)"},
		{"diff nosuch/a nosuch/b", 3, "directory or file nosuch/a not found (an image reference needs a registry)"},
		{"push x.example/y:z ./cli", 2, "the directory comes first: kubectl catalog push ./cli x.example/y:z"},
		{"push . https://quay.io/foo/bar:v1", 2, "write registry/repository:tag, without https://"},
		{"push . http://127.0.0.1:5/x/y:v1 --insecure", 2, "write registry/repository:tag, without http://"},
		{"push . ./x", 2, "\"./x\" is not a valid image reference: write registry/repository:tag"},
		{"push . foo", 2, "\"foo\" has no registry: write registry/repository:tag"},
		{"push . quay.io/foo/bar@sha256:" + strings.Repeat("0", 64), 2, "has a digest, but a push needs a tag"},
		{"lint https://quay.io/foo/bar:v1", 2, "without https://"},
		{"lint docker://quay.io/foo/bar/", 2, "without docker://"},
		{"diff testdata https://quay.io/foo/bar:v1 --server-url http://127.0.0.1:1", 2, "without https://"},
		{"diff a b -o name", 2, "unknown format \"name\"; valid formats are "},
		{"version --client -o name", 2, "unknown format \"name\"; valid formats are "},
		{"info foo", 2, "show"},
		{"update", 2, "refresh"},
		{"get argocd-operator", 2, "kubectl catalog get package argocd-operator"},
		{"list -A --server http://127.0.0.1:1", 1, "127.0.0.1:1"},
		{"help show", 0, "Show the details of a package"},
		{"help nosuch", 2, "unknown command \"nosuch\""},
		{"package kepe x", 2, "unknown command \"kepe\": did you mean keep? kubectl catalog package --help lists all commands"},
		{"init Foo -c stable", 2, "package name \"Foo\" is invalid"},
		{"--version", 0, "version test"},
		{"get packages -o yml --server-url http://127.0.0.1:1", 2, "did you mean yaml?"},
		{"get packages -o jsonpath={.a --server-url http://127.0.0.1:1", 2, "--output: "},
		{"get packages -o jsonpath= --server-url http://127.0.0.1:1", 2, "--output: "},
		{"list -o custom-columns=A --server http://127.0.0.1:1", 2, "--output: "},
		{"list -o custom-columns=A:{.b --server http://127.0.0.1:1", 2, "--output: "},
		{"list -o custom-columns=A:.b[ --server http://127.0.0.1:1", 2, "--output: "},
		{"list -o custom-columns= --server http://127.0.0.1:1", 2, "--output: "},
		{"version -o go-template={{.x --server http://127.0.0.1:1", 2, "--output: "},
		{"show foo -o go-template= --server-url http://127.0.0.1:1", 2, "--output: "},
		{"add mine x --server http://127.0.0.1:1 -o jsonpath={.a", 2, "--output: "},
		{"suspend mine --server http://127.0.0.1:1 -o go-template={{.x", 2, "--output: "},
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

func TestGetListsExistingAndFailsForOthers(t *testing.T) {
	url := contentService(t, func(string, map[string]any) string {
		return `{"data":{"packages":{"nodes":[{"name":"a","catalog":{"name":"c"},"version":"1.0.0"},{"name":"b",` +
			`"catalog":{"name":"c"}}],"pageInfo":{}}}}`
	})
	code, stdout, stderr := run(t, "get", "packages", "a", "nope", "b", "--no-headers", "-o", "custom-columns=N:.name", "--server-url", url)
	if code != exit.NotFound || stdout != "a\nb\n" ||
		stderr != "error: package \"nope\" not found; kubectl catalog search WORDS finds packages\n" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr = run(t, "get", "packages", "-o", "yml", "--server-url", url)
	if code != exit.Usage || !strings.Contains(stderr, "did you mean yaml?") {
		t.Errorf("-o yml: exit code %d, %s", code, stderr)
	}
}
