package depend

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// maxDepth limits nested constraints.
const maxDepth = 32

// constraint is the value of olm.constraint. The other requirements are constraints of a package or an API.
type constraint struct {
	Package *packageRange    `json:"package"`
	GVK     *fbc.GVK         `json:"gvk"`
	All     *compound        `json:"all"`
	Any     *compound        `json:"any"`
	Not     *compound        `json:"not"`
	CEL     *json.RawMessage `json:"cel"`
}

type compound struct {
	Constraints []constraint `json:"constraints"`
}

type packageRange struct {
	Name  string `json:"packageName"`
	Range string `json:"versionRange"`

	accepts semver.Range
	problem string // with the range
}

// requirementsOf returns the requirements of a bundle.
func requirementsOf(b scan.Blob) (all []constraint) {
	for element := range scan.Elements(b.Properties) {
		var p struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		}
		if json.Unmarshal(element, &p) != nil {
			continue
		}
		var r constraint
		var err error
		switch p.Type {
		case property.TypePackageRequired:
			r.Package = &packageRange{}
			err = json.Unmarshal(p.Value, r.Package)
		case property.TypeGVKRequired:
			r.GVK = &fbc.GVK{}
			err = json.Unmarshal(p.Value, r.GVK)
		case property.TypeConstraint:
			err = json.Unmarshal(p.Value, &r)
		default:
			continue
		}
		if err == nil && r.prepare(0) {
			all = append(all, r)
		}
	}
	return all
}

// prepare parses ranges. It reports whether the constraint is nested no deeper than the limit.
func (r *constraint) prepare(depth int) bool {
	if r.Package != nil {
		var err error
		if r.Package.accepts, err = semver.ParseRange(r.Package.Range); err != nil {
			r.Package.problem = fmt.Sprintf("the range is invalid: %v", err)
		}
	}
	for _, c := range []*compound{r.All, r.Any, r.Not} {
		if c == nil {
			continue
		}
		if depth == maxDepth {
			return false
		}
		for i := range c.Constraints {
			if !c.Constraints[i].prepare(depth + 1) {
				return false
			}
		}
	}
	return true
}

// isSimple reports whether a bundle can fulfill the constraint.
func (r constraint) isSimple() bool { return r.Package != nil || r.GVK != nil }

// matches reports whether a bundle fulfills a constraint of a package or an API.
func (r constraint) matches(b *bundle) bool {
	switch {
	case r.Package != nil:
		return b.pkg == r.Package.Name && b.semver != nil && r.Package.problem == "" && r.Package.accepts(*b.semver)
	case r.GVK != nil:
		for _, g := range b.provides {
			if g == *r.GVK {
				return true
			}
		}
	}
	return false
}

// String returns the constraint for people.
func (r constraint) String() string {
	switch {
	case r.Package != nil && r.Package.Range == "":
		return "package " + r.Package.Name
	case r.Package != nil:
		return "package " + r.Package.Name + " " + r.Package.Range
	case r.GVK != nil:
		return "API " + r.GVK.String()
	case r.All != nil:
		return "all of (" + r.All.String() + ")"
	case r.Any != nil:
		return "any of (" + r.Any.String() + ")"
	case r.Not != nil:
		return "none of (" + r.Not.String() + ")"
	case r.CEL != nil:
		return "CEL expression"
	}
	return "unknown constraint"
}

func (c *compound) String() string {
	var parts []string
	for _, r := range c.Constraints {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, ", ")
}

// list joins names, the first few of them.
func list(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
