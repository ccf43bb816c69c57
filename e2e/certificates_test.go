package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// keyPair is a certificate and its private key, both in PEM format.
type keyPair struct{ certificate, key []byte }

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := certificateTemplate(t, name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	certificate, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return authority{certificate, key, encodePEM("CERTIFICATE", der)}
}

// issue signs a certificate for servers with these host names and addresses, and for clients.
func (a authority) issue(t *testing.T, name string, hosts ...string) keyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := certificateTemplate(t, name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	must.Succeed(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(t, err)
	return keyPair{encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", private)}
}

func certificateTemplate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must.Succeed(t, err)
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (p keyPair) tls(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.certificate, p.key)
	must.Succeed(t, err)
	return pair
}

// TestDamagedAuthorityIsReplaced damages the Secret and the ConfigMap of catalogd's own authority: it creates and publishes
// another one.
func TestDamagedAuthorityIsReplaced(t *testing.T) {
	w := newProtectedWorld(t)
	w.authority(t)
	damage := base64.StdEncoding.EncodeToString([]byte("damaged"))
	for _, patch := range [][]string{
		{"secret", "catalogd-serving-ca", fmt.Sprintf(`{"data":{"tls.crt":%q,"tls.key":%[1]q}}`, damage)},
		{"configmap", "catalogd-ca", `{"data":{"ca.crt":"damaged"}}`},
	} {
		_, err := w.Kubectl(t.Context(), "-n", namespace, "patch", patch[0], patch[1], "--type=merge", "-p", patch[2])
		must.Succeed(t, err)
	}
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	w.start(t)
	w.authority(t)
}
