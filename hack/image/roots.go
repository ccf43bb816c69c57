package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// roots are the certificates of the authorities that Mozilla trusts, as a PEM file. They come by a Go module, not from the machine
// that builds: so they are the same everywhere, and renewed as other dependencies are. As a file, and not compiled in, they cost a
// start nothing, and whoever has others mounts them there. An authority that is trusted under conditions is left out, as a file
// cannot state them.
func roots() ([]byte, error) {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&file, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if file.Len() == 0 {
		return nil, errors.New("there are no certificates of authorities")
	}
	return file.Bytes(), nil
}
