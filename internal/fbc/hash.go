package fbc

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
)

// HashSize is how many bytes of a SHA-256 are kept.
const HashSize = sha256.Size / 2

// Hash tells content apart: it is the first half of a SHA-256, of the compact JSON of a blob, of the bytes of a file, or of the hashes of
// several blobs. Clients compare those that a service tells with those of catalogs they have at hand.
type Hash [HashSize]byte

// HashOf is the hash of the compact JSON of a blob, or of the bytes of a file.
func HashOf(b []byte) Hash {
	sum := sha256.Sum256(b)
	return Hash(sum[:HashSize])
}

// HashOfBlobs is the hash of some blobs, such as those of a package in the order in which they stand in the catalog: that of their hashes.
func HashOfBlobs(blobs iter.Seq[Hash]) Hash {
	sum := sha256.New()
	for h := range blobs {
		sum.Write(h[:])
	}
	return Hash(sum.Sum(nil)[:HashSize])
}

// String is hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }
