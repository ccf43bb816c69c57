package fbc

import (
	"bytes"

	"go.podman.io/image/v5/docker/reference"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// images are names of images that were found to be valid, without their digests: the bundles of a package share most of theirs, and
// the check is costly.
type images struct{ names map[string]bool }

const (
	maxImages     = 1000
	maxImageBytes = 512
)

// validImage stands for any valid name of an image where only that matters.
const validImage = "image"

// skip skips the name of an image at i in compact, valid JSON, and tells whether that is empty: the model lets that pass, and real
// catalogs have it. Of what is no valid name, or only perhaps, the index is -1.
func (im *images) skip(b []byte, i int) (end int, empty bool) {
	end = scan.SkipString(b, i)
	if b[i] != '"' || !im.has(b[i+1:end-1]) {
		return -1, false
	}
	return end, end-i == len(`""`)
}

func (im *images) has(name []byte) bool {
	name = withoutDigest(name)
	if len(name) == 0 || im.names[string(name)] {
		return true
	}
	if len(name) > maxImageBytes {
		return false
	}
	if _, err := reference.ParseNormalizedNamed(string(name)); err != nil {
		return false
	}
	if im.names == nil || len(im.names) == maxImages {
		im.names = map[string]bool{}
	}
	im.names[string(name)] = true
	return true
}

// withoutDigest cuts off a SHA-256 digest that is as it has to be. If what is left is valid, the whole is.
func withoutDigest(name []byte) []byte {
	const hexDigits = 64
	cut := len(name) - hexDigits - len("@sha256:")
	if cut <= 0 || !bytes.HasPrefix(name[cut:], []byte("@sha256:")) || bytes.IndexByte(name[:cut], '@') >= 0 {
		return name
	}
	for _, c := range name[len(name)-hexDigits:] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return name
		}
	}
	return name[:cut]
}
