// Package fbc is the model of a file-based catalog (FBC): it validates packages and computes their summaries.
// Package scan reads the files.
//
// The format is described at
// https://olm.operatorframework.io/docs/reference/file-based-catalogs/. Where that page is silent, operator-registry
// (declcfg, model) is authoritative.
package fbc

import "github.com/operator-framework/operator-registry/alpha/declcfg"

// The schemas that OLM defines. Blobs of other schemas are custom: they are served, but not interpreted.
const (
	SchemaPackage      = declcfg.SchemaPackage
	SchemaChannel      = declcfg.SchemaChannel
	SchemaBundle       = declcfg.SchemaBundle
	SchemaDeprecations = declcfg.SchemaDeprecation
)

// IsCustom reports whether OLM does not define a schema.
func IsCustom(schema string) bool {
	switch schema {
	case SchemaPackage, SchemaChannel, SchemaBundle, SchemaDeprecations:
		return false
	}
	return true
}
