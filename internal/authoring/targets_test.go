package authoring

import (
	"strings"
	"testing"
)

func targetsOf(t *testing.T, names ...string) (targets []Target) {
	t.Helper()
	for _, name := range names {
		target, err := ParseTarget(name)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	return targets
}

// The properties of a bundle in another form than that of fooBundle.
const (
	csvMetadata     = `{"type":"olm.csv.metadata","value":{}}`
	inAllNamespaces = `{"type":"olm.csv.metadata","value":{"installModes":[{"type":"AllNamespaces","supported":true}]}}`
	bundleObject    = `{"type":"olm.bundle.object","value":{"data":"e30="}}` // {}
)

func withProperties(properties string) string {
	return strings.Replace(fooBundle, csvMetadata, properties, 1)
}

// entriesOf returns a channel and its bundles. An entry is "version", "version>replaced" or "version>replaced skipped skipped".
func entriesOf(entries ...string) string {
	channel, bundles := []string{}, ""
	for _, entry := range entries {
		edges := strings.Fields(entry)
		version, replaces, _ := strings.Cut(edges[0], ">")
		text := `{"name":"foo.v` + version + `"`
		if replaces != "" {
			text += `,"replaces":"foo.v` + replaces + `"`
		}
		if len(edges) > 1 {
			text += `,"skips":["foo.v` + strings.Join(edges[1:], `","foo.v`) + `"]`
		}
		channel, bundles = append(channel, text+"}"), bundles+bundleOf(version)
	}
	return strings.Replace(fooChannel, `{"name":"foo.v1"}`, strings.Join(channel, ",\n"), 1) + bundles
}

func TestTargets(t *testing.T) {
	const valid = fooPackage + fooChannel
	object := fooPackage + fooChannel + withProperties(bundleObject)
	for name, test := range map[string]struct {
		targets string
		text    string
		want    string // "line:column rule" each
	}{
		"no target":                              {"", object, ""},
		"4.16 demands objects":                   {"4.16", valid + fooBundle, "3:81 openshift-format"},
		"4.16 forbids metadata":                  {"4.16", valid + withProperties(bundleObject+","+csvMetadata), "3:81 openshift-format"},
		"4.16 with objects":                      {"v4.16", object, ""},
		"4.17 demands metadata":                  {"4.17", valid + withProperties(`{"type":"x","value":1}`), "3:81 openshift-format"},
		"4.17 forbids objects":                   {"4.17", valid + withProperties(bundleObject+","+csvMetadata), "3:81 openshift-format"},
		"4.17 with metadata":                     {"4.17", valid + fooBundle, ""},
		"both formats":                           {"4.16 4.17", valid + fooBundle, "3:81 openshift-format"},
		"the same format is reported once":       {"4.14 4.15 4.16", valid + fooBundle, "3:81 openshift-format"},
		"5.0 forbids objects":                    {"5.0", object, "3:81 openshift-format"},
		"an invalid package":                     {"4.16", strings.Replace(valid, `"a"`, `"b"`, 1) + fooBundle, "1:55 default-channel\n3:81 openshift-format"},
		"olmv0 takes metadata once":              {"olmv0", valid + withProperties(csvMetadata+","+csvMetadata), "3:81 olmv0-csv-metadata"},
		"olmv0 refuses a schema with a slash":    {"olmv0", valid + fooBundle + `{"schema":"example.com/x"}`, "4:11 olmv0-schema"},
		"a schema with a slash":                  {"olmv1 4.17", valid + withProperties(inAllNamespaces) + `{"schema":"example.com/x"}`, ""},
		"olmv0 upgrades along replaces":          {"olmv0", fooPackage + entriesOf("1.0.0", "1.0.1>1.0.0", "1.0.2>1.0.1 1.0.0"), ""},
		"olmv0 does not install skipped entries": {"olmv0", fooPackage + entriesOf("1.0.0", "1.0.1>1.0.0 1.0.0", "1.0.2>1.0.1 1.0.1"), "2:71 olmv0-stranded"},
		"without a target it may":                {"", fooPackage + entriesOf("1.0.0", "1.0.1>1.0.0 1.0.0", "1.0.2>1.0.1 1.0.1"), ""},
		"olmv0 upgrades by a skipRange": {
			"olmv0", strings.Replace(fooPackage+entriesOf("1.0.0", "1.0.1>1.0.0 1.0.0", "1.0.2>1.0.1 1.0.1"), `"replaces":"foo.v1.0.1"`,
				`"replaces":"foo.v1.0.1","skipRange":"<1.0.2"`, 1), "",
		},
		"olmv1 installs in all namespaces": {"olmv1", valid + withProperties(inAllNamespaces), ""},
		"olmv1 needs AllNamespaces":        {"olmv1", valid + fooBundle, "3:81 olmv1-install-mode"},
		"olmv1 takes no dependencies": {"olmv1", valid + withProperties(inAllNamespaces+`,{"type":"olm.package.required",`+
			`"value":{"packageName":"bar","versionRange":">=1.0.0"}}`), "3:81 olmv1-dependency"},
		"olmv1 takes no APIService": {"olmv1", valid + withProperties(strings.Replace(inAllNamespaces, `"installModes"`,
			`"apiServiceDefinitions":{"owned":[{"name":"x","group":"g","version":"v1","kind":"K"}]},"installModes"`, 1)), "3:81 olmv1-api-service"},
		"olmv1 of an older bundle": {"olmv1", fooPackage + strings.Replace(entriesOf("1.0.0", "1.0.1>1.0.0"), `"1.0.1"}},`+csvMetadata,
			`"1.0.1"}},`+inAllNamespaces, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeTree(t, map[string]string{"foo/c.json": test.text})
			got := judge(t, dir, lintDir(t, dir, targetsOf(t, strings.Fields(test.targets)...)...)).errors
			if got = strings.ReplaceAll(got, "foo/c.json:", ""); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestMessageOfFormat(t *testing.T) {
	dir := writeTree(t, map[string]string{"foo/c.json": fooPackage + entriesOf("1.0.0", "1.0.1>1.0.0")})
	faults := lintDir(t, dir, targetsOf(t, "4.16")...).Faults
	const want = `2 of 2 bundles of package "foo" are not in the format of OpenShift 4.16, which demands olm.bundle.object and forbids ` +
		`olm.csv.metadata: render them again with kubectl catalog render --target 4.16`
	for _, f := range faults {
		if f.Rule == "openshift-format" && f.Message == want {
			return
		}
	}
	t.Errorf("got %+v, want %q", faults, want)
}

func TestTargetWantsObjects(t *testing.T) {
	dir := writeTree(t, map[string]string{"foo/c.json": fooPackage + fooChannel + withProperties(bundleObject)})
	for target, want := range map[string]int{"4.16": 0, "olmv0": 1} {
		got := 0
		for _, f := range lintDir(t, dir, targetsOf(t, target)...).Faults {
			if f.Rule == "bundle-objects" {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d warnings about objects, want %d", target, got, want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, objects := range map[string]bool{"4.9": true, "v4.16": true, "4.17": false, "v4.20": false, "5.1": false, "olmv0": false, "olmv1": false} {
		if target, err := ParseTarget(text); err != nil || target.BundleObjects() != objects {
			t.Errorf("%s: got %+v, %v, want BundleObjects %t", text, target, err, objects)
		}
	}
	for _, text := range []string{"", "4", "3.11", "4.17.1", "4.x", "olm", "OLMv1", "v", "4.017", "99999999999999999999.1"} {
		if target, err := ParseTarget(text); err == nil {
			t.Errorf("%q: got %+v", text, target)
		}
	}
}
