package auth

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Anonymous is the user of requests without credentials; see the package comment. A user who proves to have that name is
// another one: compare with ==.
var Anonymous User = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// none reports whether a client sends no credentials, not even invalid ones.
func (c Credentials) none() bool {
	return c.Authorization == nil && c.Own == nil && len(c.Certificates) == 0
}

// anonymousPaths returns the paths of which Anonymous must be allowed one to read the requested path. There are none if no
// permission opens that path to Anonymous.
//
// The path for all catalogs is first. If it is allowed, no other question is asked, whatever names strangers invent.
func anonymousPaths(requested string) []string {
	below, ok := strings.CutPrefix(requested, "/catalogs/")
	name, view, _ := strings.Cut(below, "/")
	if !ok || view != "api/v1/all" && view != "api/v1/metas" || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil
	}
	return []string{"/catalogs/*/" + view, requested}
}
