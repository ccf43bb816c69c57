package auth

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

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
