package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

const diffBefore = `
{"schema":"olm.package","name":"same","defaultChannel":"c"}
{"schema":"olm.channel","package":"same","name":"c","entries":[{"name":"same.v1"}]}
{"schema":"olm.bundle","package":"same","name":"same.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"same","version":"1.0.0"}}]}
{"schema":"olm.package","name":"gone","defaultChannel":"c"}
{"schema":"olm.channel","package":"gone","name":"c","entries":[{"name":"gone.v1"}]}
{"schema":"olm.bundle","package":"gone","name":"gone.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"gone","version":"1.0.0"}}]}
{"schema":"olm.package","name":"moved","defaultChannel":"a"}
{"schema":"olm.channel","package":"moved","name":"a","entries":[{"name":"moved.v1"}]}
{"schema":"olm.channel","package":"moved","name":"b","entries":[{"name":"moved.v1"}]}
{"schema":"olm.channel","package":"moved","name":"old","entries":[{"name":"moved.v1"}]}
{"schema":"olm.bundle","package":"moved","name":"moved.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"moved","version":"1.0.0"}}]}
{"schema":"olm.package","name":"painted","defaultChannel":"c"}
{"schema":"olm.channel","package":"painted","name":"c","entries":[{"name":"painted.v1"}]}
{"schema":"olm.bundle","package":"painted","name":"painted.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"painted","version":"1.0.0"}}]}
`

const diffAfter = `
{"schema":"olm.package","name":"same","defaultChannel":"c"}
{"schema":"olm.channel","package":"same","name":"c","entries":[{"name":"same.v1"}]}
{"schema":"olm.bundle","package":"same","name":"same.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"same","version":"1.0.0"}}]}
{"schema":"olm.package","name":"new","defaultChannel":"c"}
{"schema":"olm.channel","package":"new","name":"c","entries":[{"name":"new.v1"}]}
{"schema":"olm.bundle","package":"new","name":"new.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"new","version":"1.0.0"}}]}
{"schema":"olm.package","name":"moved","defaultChannel":"b"}
{"schema":"olm.channel","package":"moved","name":"a","entries":[{"name":"moved.v1"},{"name":"moved.v10","replaces":"moved.v1"}]}
{"schema":"olm.channel","package":"moved","name":"b","entries":[{"name":"moved.v1","skips":["moved.v0"]}]}
{"schema":"olm.channel","package":"moved","name":"fresh","entries":[{"name":"moved.v9"}]}
{"schema":"olm.bundle","package":"moved","name":"moved.v1","image":"j",
	"properties":[{"type":"olm.package","value":{"packageName":"moved","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"moved","name":"moved.v10","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"moved","version":"10.0.0"}}]}
{"schema":"olm.bundle","package":"moved","name":"moved.v9","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"moved","version":"9.0.0"}}]}
{"schema":"olm.deprecations","package":"moved","name":"whatever",
	"entries":[{"reference":{"schema":"olm.channel","name":"a"},"message":"use b"},{"reference":{"schema":"olm.package"},"message":"all of it"}]}
{"schema":"olm.package","name":"painted","defaultChannel":"c","icon":{"base64data":"AAAA","mediatype":"image/png"}}
{"schema":"olm.channel","package":"painted","name":"c","entries":[{"name":"painted.v1"}]}
{"schema":"olm.bundle","package":"painted","name":"painted.v1","image":"i",
	"properties":[{"type":"olm.package","value":{"packageName":"painted","version":"1.0.0"}}]}
`

const wantDiff = `./a -> ./b: packages: 1 added, 2 changed, 1 removed

- gone

~ moved
    ~ default channel: a -> b
    ~ channel a: head moved.v1 -> moved.v10
        + moved.v10: replaces moved.v1
    ~ channel b: same head moved.v1
        ~ moved.v1: skips moved.v0
    + channel fresh: head moved.v9
    - channel old: head was moved.v1
    ~ bundle moved.v1 (1.0.0)
    + bundle moved.v9 (9.0.0)
    + bundle moved.v10 (10.0.0)
    + deprecation of channel a: use b
    + deprecation of package: all of it

+ new
    channels: 1, bundles: 1; new.v1 in the default channel c

~ painted
    channels, bundles and deprecations are equal; its icon, its description, blobs of other schemas or the order of blobs differ
`

// A package that catalogd would omit is marked, as in a served catalog.
func TestDiffMarksInvalidPackages(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"a.json": diffBefore,
		"b.json": strings.Replace(diffBefore, `"name":"gone","defaultChannel":"c"`, `"name":"gone","defaultChannel":"stabel"`, 1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"./a.json ./b.json": "./a.json -> ./b.json: packages: 0 added, 1 changed, 0 removed; 1 invalid\n\n! gone\n    invalid: ",
		"./b.json ./a.json": "./b.json -> ./a.json: packages: 0 added, 1 changed, 0 removed\n\n~ gone\n    valid now; it was invalid before: ",
	} {
		stdout, stderr, code := runIn(t, append([]string{"diff"}, strings.Fields(args)...)...)
		if reason, ok := strings.CutPrefix(stdout, want); !ok || !strings.Contains(reason, "stabel") || code != 0 {
			t.Errorf("diff %s: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
}

// runIn runs the plugin, without a cluster.
func runIn(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errs}, "test")
	return out.String(), errs.String(), code
}

func TestDiffOfDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	for dir, text := range map[string]string{"a": diffBefore, "b": diffAfter, "broken": "{"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, code := runIn(t, "diff", "./a", "./broken"); code != 1 || stderr == "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	stdout, stderr, code := runIn(t, "diff", "./a", "./b")
	if diff := cmp.Diff(wantDiff, stdout); diff != "" || code != 0 {
		t.Errorf("exit code %d: %s%s", code, diff, stderr)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"./a", "./a", "--exit-code"}, 0},
		{[]string{"./a", "./b", "--exit-code"}, 1},
		{[]string{"./a", "./b", "--exit-code", "-p", "same"}, 0},
		{[]string{"./a", "./b", "--exit-code", "-p", "moved,same"}, 1},
		{[]string{"./a", "./b", "-o", "json", "--exit-code"}, 1},
		{[]string{"./a", "./b", "-p", "nope"}, 3},
		{[]string{"./a"}, 2},
		{[]string{"./a", "./nope"}, 3},
		{[]string{"./a", "./nope", "--exit-code"}, 3},
		{[]string{"./a", "--exit-code"}, 2},
		{[]string{"./a", "./broken", "--exit-code"}, 4},
	} {
		stdout, stderr, code := runIn(t, append([]string{"diff"}, c.args...)...)
		if code != c.code || (code == 1 && stderr != "") {
			t.Errorf("%q: exit code %d, want %d; %s%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

func TestInterruptedDiffReportsNoDifference(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := exit.Code(ctx, exit.AsTrouble(ctx.Err()), true); code != exit.Interrupted {
		t.Errorf("exit code %d", code)
	}
}
