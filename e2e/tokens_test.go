package e2e

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	tokenIssuer  = "e2e token server"
	tokenService = "e2e registry"
)

// tokenServer issues tokens for user and password, as https://distribution.github.io/distribution/spec/auth/token/
// specifies: JSON Web Tokens signed with ES256, with the certificate to verify them in their header (x5c).
type tokenServer struct {
	realm    string    // the realm that registries announce
	signer   authority // its certificate is the registry's rootcertbundle
	password string

	mu     sync.Mutex
	issued []string
}

// newTokenServer starts a token server on loopback: over HTTPS with the certificate, over HTTP without one. Its
// host is localhost, as clients do not follow a realm with a private address.
func newTokenServer(t *testing.T, password string, certificate *keyPair) *tokenServer {
	t.Helper()
	s := &tokenServer{signer: newAuthority(t, "e2e token signer"), password: password}
	server := httptest.NewUnstartedServer(s)
	t.Cleanup(server.Close)
	scheme := "http"
	if certificate == nil {
		server.Start()
	} else {
		scheme = "https"
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.tls(t)}}
		server.StartTLS()
	}
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must.Succeed(t, err)
	s.realm = scheme + "://localhost:" + port + "/token"
	return s
}

// tokens returns all issued tokens.
func (s *tokenServer) tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.issued...)
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, password, _ := r.BasicAuth()
	if user != registryUser || password != s.password {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	token, err := s.token(user, r.URL.Query()["scope"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.issued = append(s.issued, token)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": 300})
}

// token grants the requested scopes, each "repository:NAME:ACTION,ACTION".
func (s *tokenServer) token(user string, scopes []string) (string, error) {
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	granted := []access{}
	for _, scope := range scopes {
		if parts := strings.SplitN(scope, ":", 3); len(parts) == 3 {
			granted = append(granted, access{parts[0], parts[1], strings.Split(parts[2], ",")})
		}
	}
	chain, _ := pem.Decode(s.signer.pem)
	header, err := json.Marshal(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(chain.Bytes)}})
	if err != nil {
		return "", err
	}
	now := time.Now()
	claims, err := json.Marshal(map[string]any{"iss": tokenIssuer, "sub": user, "aud": tokenService, "jti": rand.Text(), "access": granted,
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix()})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	x, y, err := ecdsa.Sign(rand.Reader, s.signer.key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64) // RFC 7518, 3.4: two numbers of 32 bytes
	x.FillBytes(signature[:32])
	y.FillBytes(signature[32:])
	return signed + "." + encode(signature), nil
}
