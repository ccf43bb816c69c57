package fbc

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
)

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
