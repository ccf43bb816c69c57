package page

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// permissions is the response of the API for the permissions that a bundle requests.
type permissions struct {
	ServiceAccounts []account `json:"serviceAccounts"`
	Webhooks        []struct {
		Name          string   `json:"name"`
		Type          string   `json:"type"`
		Resources     []string `json:"resources"`
		AllNamespaces bool     `json:"allNamespaces"`
	} `json:"webhooks"`
	ClusterWideSecrets bool     `json:"clusterWideSecrets"`
	Risks              []string `json:"risks"`
	FromCatalog        bool     `json:"fromCatalog"`
	Faults             []string `json:"faults"`
}

// account is a ServiceAccount of an operator. The name is empty for roles without a binding in the bundle.
type account struct {
	Name   string  `json:"name"`
	Grants []grant `json:"grants"`
}

// AlwaysReadsSecrets reports whether an account can read every Secret, however the operator is installed.
func (p permissions) AlwaysReadsSecrets() bool {
	for _, a := range p.ServiceAccounts {
		for _, g := range a.Grants {
			if a.Name != "" && g.Scope == "Cluster" && slices.ContainsFunc(g.Rules, rule.readsSecrets) {
				return true
			}
		}
	}
	return false
}

// readsSecrets reports whether a rule permits reading every Secret where it applies.
func (r rule) readsSecrets() bool {
	has := func(list []string, values ...string) bool {
		return slices.ContainsFunc(list, func(v string) bool { return slices.Contains(values, v) })
	}
	return has(r.Verbs, "get", "list", "watch", "*") && has(r.APIGroups, "", "*") &&
		has(r.Resources, "secrets", "*") && len(r.ResourceNames) == 0
}

// risks returns the number of risky rules.
func (a account) risks() (n int) {
	for _, g := range a.Grants {
		for _, r := range g.Rules {
			n += min(1, len(r.Risks))
		}
	}
	return n
}

// grant has the rules of one role.
type grant struct {
	From    string `json:"from"`
	Scope   string `json:"scope"`
	Rules   []rule `json:"rules"`
	Unknown bool   `json:"unknown"`
}

// rule is an RBAC rule.
type rule struct {
	Verbs           []string `json:"verbs"`
	APIGroups       []string `json:"apiGroups"`
	Resources       []string `json:"resources"`
	ResourceNames   []string `json:"resourceNames"`
	NonResourceURLs []string `json:"nonResourceURLs"`
	Risks           []string `json:"risks"`
}

// What returns the resources of the rule with their groups, or its URL paths.
func (r rule) What() string {
	if len(r.NonResourceURLs) > 0 {
		return strings.Join(r.NonResourceURLs, ", ")
	}
	text := strings.Join(r.Resources, ", ")
	if text == "*" {
		text = "all resources"
	}
	groups := strings.Join(r.APIGroups, ", ")
	switch groups {
	case "":
	case "*":
		text += " of all API groups"
	default:
		text += " of " + groups
	}
	if len(r.ResourceNames) > 0 {
		text += " named " + strings.Join(r.ResourceNames, ", ")
	}
	return text
}

// Verb returns the verbs as text.
func (r rule) Verb() string {
	if len(r.Verbs) == 1 && r.Verbs[0] == "*" {
		return "all verbs"
	}
	return strings.Join(r.Verbs, ", ")
}

// unknownRights returns why permissions are unknown. A preview has no flag that enables the reading of bundle images.
func (r *request) unknownRights(text string) string {
	if r.page.Preview != nil && strings.Contains(text, "--bundle-content") {
		return "the catalog has no manifests of this version, and a preview does not read bundle images"
	}
	return text
}

// loadPermissions reads the permissions of the shown bundle, or sets NoRight if the API refuses them.
func (p *packagePage) loadPermissions(r *request) error {
	if p.Bundle == nil {
		return nil
	}
	path := "packages/" + url.PathEscape(p.At.Package) + "/bundles/" + url.PathEscape(p.Bundle.Name) + "/permissions"
	var rights permissions
	err := r.api.get(viewPath(p.At.Catalog, p.Catalog.Version, path), nil, &rights)
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Status != 401 {
		p.NoRight = r.unknownRights(refused.Text)
		return nil
	}
	slices.SortStableFunc(rights.ServiceAccounts, func(a, b account) int { // unbound roles grant nothing, so they are last
		return cmp.Or(cmp.Compare(min(1, len(b.Name)), min(1, len(a.Name))), b.risks()-a.risks())
	})
	p.Rights = &rights
	return err
}
