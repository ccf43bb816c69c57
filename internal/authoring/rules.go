package local

import (
	"strconv"
	"strings"
	"unicode"
)

// Rule is what Lint asks of a catalog.
type Rule struct {
	Severity Severity // of what breaks it
	Asks     string
}

// Rules are all there are. Their names never change, as pipelines go by them.
var Rules = map[string]Rule{
	"image":                      {Error, "An image is one that catalogd can read a catalog from."},
	"empty":                      {Error, "A catalog has files."},
	"no-package":                 {Warning, "A catalog has packages."},
	"not-a-file":                 {Error, "A catalog consists of files and directories; catalogd follows no links."},
	"indexignore":                {Error, "The .indexignore files are of a sane size."},
	"syntax":                     {Error, "A file is a stream of JSON or YAML objects with unambiguous keys."},
	"blob-size":                  {Error, "A blob is small enough to be read."},
	"no-schema":                  {Error, "Each blob has a schema."},
	"unknown-schema":             {Warning, "Names of schemas that begin with \"olm.\" are those that OLM defines."},
	"blob-malformed":             {Error, "A blob can be decoded as what its schema says."},
	"package-no-csv":             {Warning, "The head of at least one channel of a package carries olm.csv.metadata: else there is no OperatorPackage of it."},
	"package-invalid":            {Error, "A package keeps all rules of operator-registry."},
	"package-name":               {Error, "A package has a name, which is a DNS label."},
	"package-duplicate":          {Error, "There is one olm.package blob of each name."},
	"package-unknown":            {Error, "What belongs to a package names one that there is."},
	"default-channel":            {Error, "A package names one of its channels as its default."},
	"default-channel-deprecated": {Warning, "The default channel is not deprecated."},
	"channel-name":               {Error, "A channel has a name."},
	"channel-duplicate":          {Error, "A package has one channel of each name."},
	"channel-empty":              {Error, "A channel has entries."},
	"channel-head":               {Error, "A channel has exactly one entry that no other replaces or skips."},
	"channel-cycle":              {Error, "No entry of a channel replaces itself, directly or by way of others."},
	"channel-stranded":           {Error, "Each entry of a channel is skipped, or replaced on the way from the head."},
	"entry-downgrade":            {Warning, "What an entry replaces is of a lower version."},
	"entry-duplicate":            {Error, "A channel lists each bundle once."},
	"entry-unknown-bundle":       {Error, "Entries of channels are bundles of the package."},
	"entry-skips":                {Error, "What an entry skips has a name."},
	"entry-skip-range":           {Error, "A skipRange is a range of semantic versions."},
	"bundle-name":                {Error, "A bundle has a name; with a release, the one that this asks for."},
	"bundle-duplicate":           {Error, "A package has one bundle of each name."},
	"bundle-no-channel":          {Error, "Each bundle is an entry of a channel."},
	"bundle-package":             {Error, "A bundle has one olm.package property, which names its package."},
	"bundle-version":             {Error, "The version of a bundle is a semantic version."},
	"version-duplicate":          {Error, "No two bundles of a package have the same version."},
	"bundle-image":               {Error, "A bundle has an image."},
	"image-reference":            {Error, "References of images are well-formed."},
	"image-tag":                  {Warning, "Images are named by digest. Told once of a catalog."},
	"property-malformed":         {Error, "The value of a property is what its type asks for."},
	"deprecation-duplicate":      {Error, "A package has one olm.deprecations blob, and in it one entry for each thing that is deprecated."},
	"deprecation-reference":      {Error, "What is deprecated is there: the package, a channel of it, or a bundle."},
	"deprecation-message":        {Error, "A deprecation says why."},
	"no-csv":                     {Warning, "The head of each channel carries olm.csv.metadata, from which OperatorPackages are made."},
	"no-icon":                    {Warning, "A package has an icon, which is an image."},
	"no-description":             {Warning, "A package has a description."},
	"bundle-objects":             {Warning, "Bundles carry olm.csv.metadata, and not whole manifests as olm.bundle.object."},
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
