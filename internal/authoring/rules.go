package authoring

import (
	"strings"
	"unicode"
)

// Rule is a requirement that Lint checks.
type Rule struct {
	Severity Severity // of violations
	Asks     string
}

// Rules has all rules by name. Names never change, because pipelines use them.
var Rules = map[string]Rule{
	"image":          {Error, "An image contains a catalog that catalogd can read."},
	"empty":          {Error, "A catalog has files."},
	"no-package":     {Warning, "A catalog has packages."},
	"not-a-file":     {Error, "A catalog consists of files and directories; catalogd follows no links."},
	"indexignore":    {Error, "The .indexignore files do not exceed the size limit."},
	"syntax":         {Error, "A file is a stream of JSON or YAML objects with unambiguous keys."},
	"blob-size":      {Error, "A blob does not exceed the size limit."},
	"no-schema":      {Error, "Each blob has a schema."},
	"unknown-schema": {Warning, "Schemas with the prefix \"olm.\" are defined by OLM."},
	"blob-malformed": {Error, "A blob has the fields and types of its schema."},
	"package-no-csv": {
		Warning, "The head of at least one channel of a package has olm.csv.metadata; an OperatorPackage needs it.",
	},
	"package-invalid":            {Error, "A package passes the validation of operator-registry."},
	"package-name":               {Error, "A package has a name, which is a DNS label."},
	"package-duplicate":          {Error, "Names of olm.package blobs are unique."},
	"package-unknown":            {Error, "Channels, bundles and deprecations name an existing package."},
	"default-channel":            {Error, "The default channel of a package is one of its channels."},
	"default-channel-deprecated": {Warning, "The default channel is not deprecated."},
	"channel-name":               {Error, "A channel has a name."},
	"channel-duplicate":          {Error, "Channel names are unique in a package."},
	"channel-empty":              {Error, "A channel has entries."},
	"channel-head":               {Error, "A channel has exactly one entry that no other replaces or skips."},
	"channel-cycle":              {Error, "The replaces edges of a channel have no cycle."},
	"channel-stranded":           {Error, "Each entry of a channel is skipped, or on the path of replaces from the head."},
	"entry-downgrade":            {Warning, "An entry replaces a lower version."},
	"entry-duplicate":            {Error, "A channel lists each bundle once."},
	"entry-unknown-bundle":       {Error, "Each entry of a channel is a bundle of the package."},
	"entry-skips":                {Error, "The skips of an entry have no empty names."},
	"entry-skip-range":           {Error, "A skipRange is a range of semantic versions."},
	"bundle-name":                {Error, "A bundle has a name; with a release, it is PACKAGE-vVERSION-RELEASE."},
	"bundle-duplicate":           {Error, "Bundle names are unique in a package."},
	"bundle-no-channel":          {Error, "Each bundle is an entry of a channel."},
	"bundle-package":             {Error, "A bundle has one olm.package property, which names its package."},
	"bundle-version":             {Error, "The version of a bundle is a semantic version."},
	"version-duplicate":          {Error, "Bundle versions are unique in a package."},
	"bundle-image":               {Error, "A bundle has an image."},
	"image-reference":            {Error, "Image references are valid."},
	"image-tag":                  {Warning, "Images are referenced by digest. Reported once per catalog."},
	"property-malformed":         {Error, "The value of a property is valid for its type."},
	"deprecation-duplicate":      {Error, "A package has at most one olm.deprecations blob, without duplicate entries."},
	"deprecation-reference":      {Error, "A deprecation refers to the package, or to a channel or bundle of it."},
	"deprecation-message":        {Error, "A deprecation has a message."},
	"no-csv":                     {Warning, "The head of each channel has olm.csv.metadata. OperatorPackages show its values."},
	"no-icon":                    {Warning, "A package has an icon, which is an image."},
	"no-description":             {Warning, "A package has a description."},
	"olmv0-csv-metadata":         {Error, "With `--target olmv0`: a bundle has olm.csv.metadata at most once."},
	"olmv0-schema":               {Error, "With `--target olmv0`: schemas consist of letters, digits, `.`, `_` and `-`."},
	"olmv0-stranded": {
		Error, "With `--target olmv0`: each entry of a channel can be upgraded to an entry that no other skips.",
	},
	"olmv1-api-service":  {Error, "With `--target olmv1`: the head of each channel has no APIService."},
	"olmv1-dependency":   {Error, "With `--target olmv1`: the head of each channel has no dependencies."},
	"olmv1-install-mode": {Error, "With `--target olmv1`: the head of each channel supports the install mode AllNamespaces."},
	"openshift-format": {
		Error, "With `--target 4.16`: bundles have olm.bundle.object, and no olm.csv.metadata. From 4.17 on, the reverse.",
	},
	"bundle-objects": {Warning, "Bundles have olm.csv.metadata instead of olm.bundle.object."},
}

// printable removes control characters, which could affect a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
