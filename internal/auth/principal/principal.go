// Package principal has the types with which services use package auth. It does not import clients of the API server.
package principal

import (
	"crypto/x509"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Header is the header for a token issued for Audience; see package auth.
const (
	Header   = "Catalogd-Authorization"
	Audience = "catalogd.operatorframework.io"
)

// User is an authenticated user.
type User = user.Info

// Anonymous is the user of requests without credentials; see package auth. An authenticated user can have the same name, so compare
// with ==.
var Anonymous User = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// Credentials are the credentials of a client, for any protocol.
type Credentials struct {
	Authorization []string            // values of the header or metadata key Authorization
	Own           []string            // values of Header
	Certificates  []*x509.Certificate // the unverified chain of the client's TLS certificate
}

// None reports whether a client sends no credentials, not even invalid ones.
func (c Credentials) None() bool {
	return c.Authorization == nil && c.Own == nil && len(c.Certificates) == 0
}

// Question asks whether a user may apply a verb to a path.
type Question struct {
	User User
	Verb string // as in RBAC: "get" for every request that only reads
	Path string
}

// Decision answers a Question.
type Decision struct {
	Allowed bool
	Reason  string // often empty
}
