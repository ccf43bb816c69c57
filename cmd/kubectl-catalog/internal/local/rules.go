package local

import (
	"strconv"
	"strings"
	"unicode"
)

// Rules says of each rule what it asks. Their names never change, as pipelines go by them.
var Rules = map[string]string{
	"image":                      "An image is one that catalogd can read a catalog from.",
	"empty":                      "A catalog has files, and packages in them.",
	"not-a-file":                 "A catalog consists of files and directories; catalogd follows no links.",
	"indexignore":                "The .indexignore files are of a sane size.",
	"syntax":                     "A file is a stream of JSON or YAML objects with unambiguous keys.",
	"blob-size":                  "A blob is small enough to be read.",
	"no-schema":                  "Each blob has a schema.",
	"unknown-schema":             "Names of schemas that begin with \"olm.\" are those that OLM defines.",
	"blob-malformed":             "A blob can be decoded as what its schema says.",
	"package-invalid":            "A package keeps all rules of operator-registry.",
	"package-name":               "A package has a name, which is a DNS label.",
	"package-duplicate":          "There is one olm.package blob of each name.",
	"package-unknown":            "What belongs to a package names one that there is.",
	"default-channel":            "A package names one of its channels as its default.",
	"default-channel-deprecated": "The default channel is not deprecated.",
	"channel-name":               "A channel has a name.",
	"channel-duplicate":          "A package has one channel of each name.",
	"channel-empty":              "A channel has entries.",
	"channel-head":               "A channel has exactly one entry that no other replaces or skips.",
	"channel-cycle":              "No entry of a channel replaces itself, directly or by way of others.",
	"channel-stranded":           "Each entry of a channel is skipped, or replaced on the way from the head.",
	"entry-duplicate":            "A channel lists each bundle once.",
	"entry-unknown-bundle":       "Entries of channels are bundles of the package.",
	"entry-skips":                "What an entry skips has a name.",
	"entry-skip-range":           "A skipRange is a range of semantic versions.",
	"bundle-name":                "A bundle has a name; with a release, the one that this asks for.",
	"bundle-duplicate":           "A package has one bundle of each name.",
	"bundle-no-channel":          "Each bundle is an entry of a channel.",
	"bundle-package":             "A bundle has one olm.package property, which names its package.",
	"bundle-version":             "The version of a bundle is a semantic version.",
	"version-duplicate":          "No two bundles of a package have the same version.",
	"bundle-image":               "A bundle has an image.",
	"image-reference":            "References of images are well-formed.",
	"image-tag":                  "Images are named by digest.",
	"property-malformed":         "The value of a property is what its type asks for.",
	"deprecation-duplicate":      "A package has one olm.deprecations blob, and in it one entry for each thing that is deprecated.",
	"deprecation-reference":      "What is deprecated is there: the package, a channel of it, or a bundle.",
	"deprecation-message":        "A deprecation says why.",
	"no-csv":                     "The head of each channel carries olm.csv.metadata, from which OperatorPackages are made.",
	"no-icon":                    "A package has an icon, which is an image.",
	"no-description":             "A package has a description.",
	"bundle-objects":             "Bundles carry olm.csv.metadata, and not whole manifests as olm.bundle.object.",
}

func quote(s string) string { return strconv.Quote(s) }

// printable keeps what a catalog says from moving the cursor of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// oneLine is the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
