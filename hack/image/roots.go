package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// roots are the CA certificates that Mozilla trusts, in PEM format. They come from a Go module rather than from the
// building machine, so builds agree, and updates arrive like those of other dependencies. As a file rather than
// compiled in, they cost no startup time, and users can mount others in their place. Certificates with constraints
// are left out, as a file cannot state these.
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
		return nil, errors.New("no CA certificates found")
	}
	return file.Bytes(), nil
}
