// Package fbc is the model of a file-based catalog (FBC): it validates packages and computes their summaries.
// Package scan reads the files.
//
// The format is described at
// https://olm.operatorframework.io/docs/reference/file-based-catalogs/. Where that page is silent, operator-registry
// (declcfg, model) is authoritative.
package fbc

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/version"
)

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

// HashSize is the number of bytes kept of a SHA-256.
const HashSize = sha256.Size / 2

// Hash is the first half of a SHA-256: of the compact JSON of a blob, of the bytes of a file, or of the hashes
// of several blobs. Clients compare the hashes of a service with those of local catalogs.
type Hash [HashSize]byte

// HashOf returns the hash of the compact JSON of a blob, or of the bytes of a file.
func HashOf(b []byte) Hash {
	sum := sha256.Sum256(b)
	return Hash(sum[:HashSize])
}

// HashOfBlobs returns the hash of blobs, such as those of a package in catalog order: that of their hashes.
func HashOfBlobs(blobs iter.Seq[Hash]) Hash {
	sum := sha256.New()
	for h := range blobs {
		sum.Write(h[:])
	}
	return Hash(sum.Sum(nil)[:HashSize])
}

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// CompareVersions is version.Compare.
func CompareVersions(a, b string) int { return version.Compare(a, b) }
