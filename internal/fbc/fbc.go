// Package fbc reads a file-based catalog (FBC) as data: a tree of JSON and YAML files in, a stream of blobs in
// stable order out; and, of the blobs of one package, whether they are sound and what they say.
//
// It knows no Kubernetes, no image and no disk layout. The format is described at
// https://olm.operatorframework.io/docs/reference/file-based-catalogs/; where that page is silent, the readers of
// operator-registry (declcfg, model) decide what is accepted.
package fbc

import "github.com/operator-framework/operator-registry/alpha/declcfg"

// The schemas that OLM defines. A blob of any other schema is custom: kept and served, never interpreted.
const (
	SchemaPackage      = declcfg.SchemaPackage
	SchemaChannel      = declcfg.SchemaChannel
	SchemaBundle       = declcfg.SchemaBundle
	SchemaDeprecations = declcfg.SchemaDeprecation
)

// IsCustom tells whether a schema is none that OLM defines.
func IsCustom(schema string) bool {
	switch schema {
	case SchemaPackage, SchemaChannel, SchemaBundle, SchemaDeprecations:
		return false
	}
	return true
}
