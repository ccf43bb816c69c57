package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upgradesService serves package foo of catalogs a and b. Channel fast has an entry that stable lacks. Texts contain escape sequences.
func upgradesService(t *testing.T) string {
	channels := map[string]string{
		"stable": `{"name":"stable","deprecation":null,"head":{"name":"foo.v1.2.0"},"entries":[
			{"name":"foo.v1.0.0","version":"1.0.0","replaces":null,"skips":[],"skipRange":null,"deprecation":{"message":"too\nold\u001b[2J"}},
			{"name":"foo.v1.1.0","version":"1.1.0","replaces":"foo.v1.0.0","skips":[],"skipRange":null,"deprecation":{"message":"it \u001b[31mleaks"}},
			{"name":"foo.v1.2.0","version":"1.2.0","replaces":"foo.v1.1.0","skips":["foo.v1.1.1\u001b[8m"],"skipRange":null,"deprecation":null}]}`,
		"same": `{"name":"same","deprecation":{"message":"gone"},"head":{"name":"foo.v1.1.0"},"entries":[
			{"name":"foo.v1.0.0","version":"1.0.0","replaces":null,"skips":[],"skipRange":null,"deprecation":null},
			{"name":"foo.v1.1.0","version":"1.1.0","replaces":"foo.v1.0.0","skips":[],"skipRange":null,"deprecation":{"message":"it \u001b[31mleaks"}}]}`,
		"fast": `{"name":"fast","deprecation":null,"head":{"name":"foo.v3.0.0"},"entries":[
			{"name":"foo.v3.0.0","version":"3.0.0","replaces":null,"skips":[],"skipRange":">=1.0.0 <3.0.0","deprecation":null}]}`,
	}
	return contentService(t, func(query string, variables map[string]any) string {
		switch {
		case strings.Contains(query, "packages("):
			filter, _ := variables["filter"].(map[string]any)
			if names, _ := filter["names"].([]any); !slices.Contains(names, "foo") {
				return `{"data":{"packages":{"nodes":[],"pageInfo":{}}}}`
			}
			return `{"data":{"packages":{"nodes":[{"name":"foo","version":"1.2.0","defaultChannel":{"name":"stable"},"catalog":{"name":"b","priority":1}},
				{"name":"foo","version":"1.2.0","defaultChannel":{"name":"stable"},"catalog":{"name":"a","priority":2}}],"pageInfo":{}}}}`
		case strings.Contains(query, "invalidPackages"):
			return `{"data":{"catalogs":[{"name":"b","invalidPackages":[]},{"name":"a","invalidPackages":[{"name":"broken","reason":"no head"}]}]}}`
		case variables["catalog"] != "a":
			t.Errorf("catalog %v is asked, want a", variables["catalog"])
			return `{"data":{"package":null}}`
		}
		return fmt.Sprintf(`{"data":{"package":{"defaultChannel":{"name":"stable"},"channels":[%s,%s,%s]}}}`,
			channels["fast"], channels["same"], channels["stable"])
	})
}

const alsoInB = "Using package foo of catalog a; other catalogs with this package (see --catalog): b.\n"

func TestGraph(t *testing.T) {
	url := upgradesService(t)
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{args: "foo", stdout: `Channel stable (default) of package foo in catalog a: 3 versions
● 1.2.0  head  skips foo.v1.1.1�[8m
○ 1.1.0  deprecated
○ 1.0.0  deprecated
`, stderr: alsoInB},
		{args: "foo --ascii --channel fast", stdout: `Channel fast of package foo in catalog a: 1 version
* 3.0.0  head  from >=1.0.0 <3.0.0
`, stderr: alsoInB},
		{args: "foo --all-channels -o text", stdout: `Channel stable (default) of package foo in catalog a: 3 versions
● 1.2.0  head  skips foo.v1.1.1�[8m
○ 1.1.0  deprecated
○ 1.0.0  deprecated

Channel fast of package foo in catalog a: 1 version
● 3.0.0  head  from >=1.0.0 <3.0.0

Channel same (deprecated) of package foo in catalog a: 2 versions
● 1.1.0  head  deprecated
○ 1.0.0
`, stderr: alsoInB},
		{args: "foo --channel fast -o mermaid", stdout: "flowchart BT\n  b0[\"3.0.0 (head)\"]\n  style b0 stroke-width:3px\n", stderr: alsoInB},
		{args: "foo -o jsonpath={.edges[0]}", stdout: `{"from":"foo.v1.1.0","reasons":[{"kind":"replaces"}],"to":"foo.v1.2.0"}`, stderr: alsoInB},
		{args: "foo --all-channels -o jsonpath={.items[*].isDefault}", stdout: "true false false", stderr: alsoInB},
		{
			args:   "foo --channel fats",
			code:   3,
			stderr: "error: channel \"fats\" not found in package \"foo\" in catalog \"a\": did you mean \"fast\"?\n",
		},
		{args: "broken", code: 3, stderr: "error: package \"broken\" of catalog \"a\" is invalid: no head; see kubectl catalog describe a\n"},
		{args: "broken.a", code: 3, stderr: "error: package \"broken\" of catalog \"a\" is invalid: no head; see kubectl catalog describe a\n"},
		{args: "bar", code: 3, stderr: "error: package \"bar\" not found; kubectl catalog search WORDS finds packages\n"},
		{args: "", code: 2, stderr: "error: specify a package: kubectl catalog graph PACKAGE; kubectl catalog get packages lists all packages\n"},
		{args: "foo --all-channels --channel fast", code: 2, stderr: "error: specify --channel or --all-channels, not both\n"},
		{args: "foo --all-channels -o dot", code: 2, stderr: "error: -o dot draws one channel: use --channel, or -o text for all channels\n"},
	} {
		code, stdout, stderr := run(t, append([]string{"graph", "--server-url", url}, strings.Fields(c.args)...)...)
		if code != c.code {
			t.Errorf("graph %s: exit code %d, want %d", c.args, code, c.code)
		}
		if diff := cmp.Diff(c.stdout+c.stderr, stdout+stderr); diff != "" {
			t.Errorf("graph %s (-want +got):\n%s", c.args, diff)
		}
	}
	if code, _, stderr := run(t, "graph", "--server-url", url, "foo", "-o", "xml"); code != 2 ||
		!strings.Contains(stderr, "valid formats are text, dot, mermaid, svg, json, yaml") {
		t.Errorf("-o xml: exit code %d, %s", code, stderr)
	}
}

func TestPath(t *testing.T) {
	url := upgradesService(t)
	const to110 = `OLM takes 1 step from 1.0.0 to 1.1.0:
  1. 1.0.0 -> 1.1.0
     1.1.0 replaces 1.0.0
     1.1.0 is deprecated: it �[31mleaks
`
	const unknown = `"9.0.0" not found in channel "stable" of package "foo": no entry has this name or version, replaces or skips ` +
		`it, or has a skipRange that covers it; the nearest is 1.2.0`
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		// Of all channels the default one is first, then the shortest.
		{args: "foo --from foo.v1.0.0", stdout: `Channel stable (default) of package foo in catalog a
OLM takes 2 steps from 1.0.0 to 1.2.0:
  1. 1.0.0 -> 1.1.0
     1.1.0 replaces 1.0.0
     1.1.0 is deprecated: it �[31mleaks
  2. 1.1.0 -> 1.2.0
     1.2.0 replaces 1.1.0

Channel fast of package foo in catalog a
Note: foo.v1.0.0 is not an entry of the channel; assuming version 1.0.0, as in its name.
OLM takes 1 step from 1.0.0 to 3.0.0:
  1. 1.0.0 -> 3.0.0
     the skipRange of 3.0.0, ">=1.0.0 <3.0.0", covers 1.0.0

Channel same (deprecated) of package foo in catalog a
` + to110, stderr: alsoInB},
		// Channels with the same path are listed once.
		{args: "foo --from 1.0.0 --to v1.1.0", stdout: "Channel stable (default) of package foo in catalog a\n" + to110 +
			"Same in: same (deprecated)\n", stderr: alsoInB},
		{args: "foo --from 1.0.0 --channel same", stdout: "Channel same (deprecated) of package foo in catalog a\n" + to110, stderr: alsoInB},
		// The default channel is listed even without a path.
		{args: "foo --from 1.2.0", stdout: `Channel stable (default) of package foo in catalog a
Nothing to do: 1.2.0 is already the head of channel "stable" of package "foo".

Channel fast of package foo in catalog a
Note: 1.2.0 is not an entry of the channel; skipRanges cover it.
OLM takes 1 step from 1.2.0 to 3.0.0:
  1. 1.2.0 -> 3.0.0
     the skipRange of 3.0.0, ">=1.0.0 <3.0.0", covers 1.2.0
`, stderr: alsoInB},
		{args: "foo --from 1.0.0 --to 1.1.0 -o jsonpath={.items[*].shortest[*].reasons[*].kind}", stdout: "replaces replaces", stderr: alsoInB},
		{
			args:   "foo --from 1.2.0 -o jsonpath={.items[0].notes}",
			stdout: `["nothing to do: 1.2.0 is already the head of channel \"stable\" of package \"foo\""]`,
			stderr: alsoInB,
		},
		{args: "foo --from 1.0.0 --channel same -o jsonpath={.olm[0].to.deprecation.message}", stdout: "it \x1b[31mleaks", stderr: alsoInB},

		{args: "foo --from 9.0.0", code: 1, stderr: alsoInB + "error: no upgrade path: " + unknown + "\n"},
		// Who is there already has nothing to do.
		{args: "foo --from 1.2.0 --channel stable", stdout: "Channel stable (default) of package foo in catalog a\n" +
			"Nothing to do: 1.2.0 is already the head of channel \"stable\" of package \"foo\".\n", stderr: alsoInB},
		{args: "foo --from 1.2.0 --channel stable -o jsonpath={.olm}", stdout: "[]", stderr: alsoInB},
		{
			args:   "foo 1.0.0",
			code:   2,
			stderr: "error: unexpected argument 1.0.0: specify one package; did you mean kubectl catalog path foo --from 1.0.0?\n",
		},
		{args: "foo 1.0.0 1.1.0", code: 2, stderr: "error: unexpected argument 1.0.0 1.1.0: specify one package; did you mean kubectl " +
			"catalog path foo --from 1.0.0 --to 1.1.0?\n"},
		{args: "foo 1 2 3", code: 2, stderr: "error: unexpected argument 1 2 3: specify one package\n"},
		{args: "foo --from 1.1.0 --to 1.0.0", code: 1, stderr: alsoInB +
			"error: no upgrade path: 1.1.0 is newer than 1.0.0, and no upgrade leads back\n"},
		{args: "foo", code: 2, stderr: "error: specify the installed version: kubectl catalog path foo --from VERSION\n"},
		{
			args:   "--from 1.0.0",
			code:   2,
			stderr: "error: specify a package: kubectl catalog path PACKAGE --from VERSION; kubectl catalog get packages lists all packages\n",
		},
		{
			args:   "foo --from 1.0.0 --channel fats",
			code:   3,
			stderr: "error: channel \"fats\" not found in package \"foo\" in catalog \"a\": did you mean \"fast\"?\n",
		},
	} {
		code, stdout, stderr := run(t, append([]string{"path", "--server-url", url}, strings.Fields(c.args)...)...)
		if code != c.code {
			t.Errorf("path %s: exit code %d, want %d", c.args, code, c.code)
		}
		if diff := cmp.Diff(c.stdout+c.stderr, stdout+stderr); diff != "" {
			t.Errorf("path %s (-want +got):\n%s", c.args, diff)
		}
	}
}
