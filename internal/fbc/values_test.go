package fbc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// list returns a JSON list of n values.
func list(n int, value string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
}

// Content that would grow excessively on decoding makes the package invalid, however it is hidden.
func TestValuesAreBounded(t *testing.T) {
	owned := func(n int) string {
		return `{"type":"olm.csv.metadata","value":{"crdDescriptions":{"owned":` + list(n, "{}") + `}}}`
	}
	manifest := func(deployments string) string {
		return `{"kind":"ClusterServiceVersion","spec":{"version":"1.0.0","install":{"spec":{"deployments":` + deployments + `}}}}`
	}
	valid := bundleBlob("foo", "v1", "1.0.0")
	related := strings.TrimSuffix(valid, "}") + `,"relatedImages":` + list(maxValues, "{}") + "}"
	large := manifest(`[{"name":"` + strings.Repeat("x", maxManifestBytes) + `"}]`)
	aliases := "a: &a " + list(maxValues/3, "{}") + "\nb: " + list(3, "*a") + "\nkind: ClusterServiceVersion\n"
	for name, c := range map[string]struct{ bundle, invalid, csv string }{
		"as many as are accepted": {bundle: bundleBlob("foo", "v1", "1.0.0", owned(maxValues-20))},
		"of a CSV's metadata": {
			bundle:  bundleBlob("foo", "v1", "1.0.0", owned(maxValues)),
			invalid: `120016 JSON values in olm.bundle "v1" exceed the limit of 120000`,
		},
		"related images": {bundle: related, invalid: `120012 JSON values in olm.bundle "v1"`},
		"of a manifest": {
			bundle:  bundleBlob("foo", "v1", "1.0.0", csvObject(manifest(list(maxValues, "{}")))),
			invalid: `120007 values in a manifest of olm.bundle "v1"`,
		},
		"of a manifest in YAML": {
			bundle:  bundleBlob("foo", "v1", "1.0.0", csvObject("- "+manifest(list(maxValues, "{}")))),
			invalid: `values in a manifest of olm.bundle "v1"`,
		},
		"lists in lists of YAML": {
			bundle:  bundleBlob("foo", "v1", "1.0.0", csvObject(strings.Repeat("- ", maxValues)+"a")),
			invalid: `values in a manifest of olm.bundle "v1"`,
		},
		"under a duplicate key": {
			bundle:  strings.Replace(bundleBlob("foo", "v1", "1.0.0", csvObject(manifest(list(maxValues, "{}")))), `]}`, `],"Properties":[]}`, 1),
			invalid: `120007 values in a manifest`,
		},
		"a large manifest": {
			bundle:  bundleBlob("foo", "v1", "1.0.0", csvObject(large)),
			invalid: fmt.Sprintf(`a manifest of %d bytes in olm.bundle "v1" exceeds the limit of 6291456`, len(large)),
		},
		"aliases": {
			bundle: bundleBlob("foo", "v1", "1.0.0", csvObject(aliases)),
			csv:    "JSON values in its ClusterServiceVersion exceed the limit of 60000",
		},
		"of a ClusterServiceVersion": {
			bundle: bundleBlob("foo", "v1", "1.0.0", csvObject(manifest(list(maxCSVValues, "{}")))),
			csv:    "60007 JSON values in its ClusterServiceVersion",
		},
		"a version": {
			bundle:  bundleBlob("foo", "v1", "1.0.0-"+strings.Repeat("a.", scan.MaxKeyBytes)+"a", `{"type":"olm.csv.metadata","value":{}}`),
			invalid: "a version of 8199 bytes exceeds the limit of 4096",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadPackage("foo", sequence(pkgBlob("foo", "stable"), channelBlob("foo", "stable", "v1"), c.bundle))
			wantReason(t, err, c.invalid)
			_, err = CSV([]byte(c.bundle), "")
			want := c.invalid + c.csv
			if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" && err != nil {
				t.Errorf("CSV: got error %v, want %q", err, want)
			}
		})
	}
}

func wantReason(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
		return
	}
	var invalid *InvalidPackageError
	if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, want) {
		t.Errorf("got %v, want an *InvalidPackageError with %q", err, want)
	}
}

// The limit applies to all schemas but custom ones, which are never decoded.
func TestValuesOfEverySchemaAreBounded(t *testing.T) {
	for schema, want := range map[string]string{
		SchemaPackage:      `JSON values in olm.package "n" exceed the limit of`,
		SchemaChannel:      `JSON values in olm.channel "n" exceed the limit of`,
		SchemaDeprecations: `JSON values in olm.deprecations "n" exceed the limit of`,
		"example.com":      `olm.package blob not found`,
	} {
		_, err := LoadPackage("foo", sequence(fmt.Sprintf(`{"schema":%q,"name":"n","package":"foo","x":%s}`, schema, list(maxValues, "{}"))))
		wantReason(t, err, want)
	}
}

func TestSkipRangesAreBounded(t *testing.T) {
	load := func(skipRange string) error {
		channel := `{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"v1","skipRange":"` + skipRange + `"}]}`
		_, err := LoadPackage("foo", sequence(pkgBlob("foo", "stable"), channel, bundleBlob("foo", "v1", "1.0.0")))
		return err
	}
	longest := strings.TrimSpace(strings.Repeat("!9.9.9 ", (maxRangeBytes+1)/7))
	wantReason(t, load(longest), "")
	wantReason(t, load(longest+" !9.9.9"),
		fmt.Sprintf(`channel "stable": the skipRange of entry "v1" has %d bytes, which exceeds the limit of 4096`, len(longest)+7))
}
