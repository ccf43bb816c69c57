package registry

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shared is the content of the files of Config.
type shared struct {
	sum  digest // of all files
	conf *conf  // nil: no ConfFile
	cas  []*x509.Certificate
}

// content is a file and its bytes.
type content struct {
	path string
	data []byte
}

// readShared reads the files of cfg. It returns known if they are unchanged. Errors name the file.
func readShared(cfg Config, known shared) (shared, error) {
	cas, err := readCADir(cfg.CADir)
	if err != nil {
		return shared{}, err
	}
	files := cas
	if cfg.ConfFile != "" {
		data, err := os.ReadFile(cfg.ConfFile)
		if err != nil {
			return shared{}, fmt.Errorf("reading --registries-conf: %w", err)
		}
		files = append(files, content{cfg.ConfFile, data})
	}
	next := shared{sum: digestOf(files)}
	if next.sum == known.sum {
		return known, nil
	}
	for _, file := range cas {
		certificates, err := parseCertificates(file.data)
		if err != nil {
			return shared{}, fmt.Errorf("reading --registry-ca-dir: file %s %w", file.path, err)
		}
		next.cas = append(next.cas, certificates...)
	}
	next.conf, err = readConf(cfg.ConfFile)
	return next, err
}

// readCADir returns the *.crt and *.pem files of dir, by name. It follows links: Kubernetes mounts a ConfigMap
// as a directory of links.
func readCADir(dir string) ([]content, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading --registry-ca-dir: %w", err)
	}
	var files []content
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if extension := filepath.Ext(path); entry.IsDir() || extension != ".crt" && extension != ".pem" {
			continue
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the meantime, or a dangling link
		}
		if err != nil {
			return nil, fmt.Errorf("reading --registry-ca-dir: %w", err)
		}
		files = append(files, content{path, data})
	}
	return files, nil
}

// parseCertificates returns the certificates of a PEM file (RFC 7468) and ignores other blocks and text. Unlike
// x509.CertPool it fails on damaged certificates. Errors continue a sentence that begins with the file.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has an invalid certificate (number %d): %w", len(certificates)+1, err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("has no PEM certificate (\"-----BEGIN CERTIFICATE-----\")")
	}
	return certificates, nil
}

// tlsConfig trusts the authorities of the system, cas, and the PEM bundle of access.
func tlsConfig(access Access, cas []*x509.Certificate) (*tls.Config, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificate authorities: %w", err)
	}
	if len(access.RootCAs) > 0 {
		own, err := parseCertificates(access.RootCAs)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog's own certificate authorities: the bundle %w", err)
		}
		cas = slices.Concat(cas, own)
	}
	for _, ca := range cas {
		pool.AddCert(ca)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if access.Certificate != nil {
		config.Certificates = []tls.Certificate{*access.Certificate}
	}
	return config, nil
}

// untrusted returns the fault of a certificate; "" if err is of another kind.
func untrusted(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "it is signed by an unknown authority"
	}
	if mismatch, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("it is not valid for %s, only for %s", mismatch.Host, names(mismatch.Certificate))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return invalidity(invalid)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "it cannot be verified"
	}
	return ""
}

func invalidity(err x509.CertificateInvalidError) string {
	switch {
	case err.Reason == x509.Expired && strings.Contains(err.Detail, "is before"): // one reason stands for both
		return "it is not valid yet, or the clock of catalogd is wrong"
	case err.Reason == x509.Expired:
		return "it has expired"
	case err.Reason == x509.IncompatibleUsage:
		return "it is not a server certificate"
	case err.Reason == x509.NotAuthorizedToSign:
		return "it is signed by a certificate that is not an authority"
	default:
		return "it is not valid"
	}
}

// maxNames limits the certificate names in a message; large sites have hundreds.
const maxNames = 3

func names(certificate *x509.Certificate) string {
	all := slices.Clone(certificate.DNSNames)
	for _, ip := range certificate.IPAddresses {
		all = append(all, ip.String())
	}
	slices.Sort(all)
	all = slices.Compact(all)
	switch more := len(all) - maxNames; {
	case len(all) == 0:
		return "no name (the common name is ignored)"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNames], ", "), more)
	default:
		return strings.Join(all, ", ")
	}
}
