package e2e

// bare is a catalog with a valid package foo that lacks what publishing needs: like upstream's packageserver,
// catalogd drops a channel whose head has neither an olm.csv.metadata property nor a CSV, and a package without
// channels.
func bare() verdict { return without("foo", "olm.csv.metadata") }

// A file that cannot be parsed to its end makes the whole image invalid, and the message names file and line: the
// number of lost blobs is unknown. Only an invalid package is dropped alone. What opm accepts is published.
var directoryVerdicts = map[string]verdict{
	"00-control":           bare(),
	"deprecations-control": bare(),

	// Unparsable files.
	"invalid-yaml":          refused("foo/catalog.yaml:"),
	"truncated-json":        refused("foo/catalog.json:"),
	"truncated-second-file": refused("foo/catalog.json:"),
	"garbage-after-json":    refused("foo/catalog.json:"),
	"top-level-array":       refused("foo/catalog.json:"),
	"top-level-scalar":      refused("foo/catalog.json:"),
	"readme-in-catalog":     refused("README.md:", "schema", ".indexignore"),
	"utf16":                 refused("foo/catalog.json", "UTF-16"),
	"nul-byte":              refused("foo/catalog.json:"),
	"yaml-alias-bomb":       refused("foo/bomb.yaml:"),
	"deep-nesting-json":     refused("foo/deep.json:", "depth"),
	"deep-nesting-yaml":     refused("foo/deep.yaml:", "depth"),
	"no-schema":             refused("foo/catalog.json:", "schema"),
	"empty-schema":          refused("foo/catalog.json:", "schema"),
	"schema-not-string":     refused("foo/catalog.json:", "schema"),
	"name-wrong-type":       refused("foo/catalog.json:", "name"),

	// Unusual, but unambiguous.
	"empty-file":         bare(),
	"only-comments":      bare(),
	"empty-catalog":      {packages: []string{besidePackage}},
	"non-utf8":           bare(),
	"utf8-bom":           bare(),
	"lone-surrogate":     bare(),
	"deep-nesting-9000":  bare(),
	"unknown-olm-schema": bare(),

	// Duplicate keys: clients would disagree on the one that counts.
	"duplicate-json-key": refused("foo/catalog.json:", "duplicate key", "name"),
	"yaml-duplicate-key": refused("foo/catalog.yaml:", "name"),

	// Packages.
	"duplicate-package":        without("foo", "duplicate package"),
	"package-without-name":     without("foo", "unknown package").and("", "name"),
	"package-bad-name":         without("../Foo Bar", "invalid package name"),
	"missing-default-channel":  without("foo", "default channel must be set"),
	"unknown-default-channel":  without("foo", "beta"),
	"package-without-channels": without("foo", "default channel"),
	"bad-icon-base64":          without("foo", "base64"),
	"bad-icon-mediatype":       bare(),
	"icon-mediatype-mismatch":  bare(),
	"icon-svg-script":          bare(),
	"icon-no-mediatype":        bare(),

	// Channels.
	"channel-unknown-package":    bare().and("nosuch", "unknown package"),
	"channel-without-package":    without("foo", "default channel").and("", "package"),
	"duplicate-channel":          without("foo", "duplicate channel"),
	"empty-channel":              without("foo", "channel must contain at least one bundle"),
	"entries-wrong-type":         without("foo", "entries"),
	"entry-unknown-bundle":       without("foo", "foo.v0.9.0"),
	"duplicate-entry":            without("foo", "duplicate entry"),
	"cyclic-replaces":            without("foo", "no channel head"),
	"cyclic-replaces-below-head": without("foo", "cycle"),
	"self-replaces":              without("foo", "stranded"),
	"multiple-heads":             without("foo", "multiple channel heads"),
	"stranded-bundle":            without("foo", "stranded"),
	"invalid-skiprange":          without("foo", "skipRange"),
	"tail-replaces-missing":      bare(),

	// Bundles.
	"duplicate-bundle":                without("foo", "duplicate bundle"),
	"duplicate-version":               without("foo", "duplicate versions"),
	"bundle-unknown-package":          bare().and("nosuch", "unknown package"),
	"bundle-in-no-channel":            without("foo", "foo.v0.3.0"),
	"bundle-without-package-property": without("foo", "olm.package"),
	"two-package-properties":          without("foo", "olm.package"),
	"package-property-mismatch":       without("foo", "bar"),
	"invalid-semver":                  without("foo", "1.two.3"),
	"semver-v-prefix":                 without("foo", "v0.2.0"),
	"bundle-without-image":            without("foo", "bundle image must be set"),
	"bad-image-reference":             without("foo", "oci://"),
	"bad-related-image":               without("foo", "relatedImages"),
	"property-without-type":           bare(),
	"property-without-value":          without("foo", "example.com.thing"),
	"gvk-value-string":                without("foo", "olm.gvk"),
	"bundle-object-bad-base64":        without("foo", "base64"),
	"bundle-object-ref":               bare(),
	"csv-metadata-wrong-type":         without("foo", "olm.csv.metadata"),

	// Deprecations.
	"deprecations-unknown-reference": without("foo", "foo.v9.9.9"),
	"deprecations-unknown-package":   bare().and("nosuch", "unknown package"),
	"deprecations-twice":             without("foo", "one deprecation"),
	"deprecations-no-package":        bare().and("", "package"),
	"deprecations-bad-schema":        without("foo", "olm.nonsense"),
}

// Every archive but the last two holds the valid package foo, and something unusual or hostile.
var archiveVerdicts = map[string]verdict{
	"control.tar.gz":         bare(),
	"path-traversal.tar.gz":  refused("evil.txt"),
	"absolute-path.tar.gz":   bare(), // absolute paths in an image are relative to its root: beside the catalog
	"symlink-escape.tar.gz":  refused("configs/bar", "link"),
	"symlink-read.tar.gz":    refused("configs/foo/more.json", "link"),
	"symlink-inside.tar.gz":  refused("configs/foo/same.json", "link"),
	"symlink-loop.tar.gz":    refused("configs/foo/loop", "link"),
	"hardlink-escape.tar.gz": refused("configs/foo/more.json", "link"),
	"fifo.tar.gz":            refused("configs/foo/pipe.json"),
	"device.tar.gz":          refused("configs/foo/zero.json", "device"),
	"duplicate-entry.tar.gz": bare(), // the later entry wins, as in any tar
	"truncated.tar.gz":       refused("layer"),
	"not-gzip.tar.gz":        refused("layer"),
}
