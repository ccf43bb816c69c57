package bundle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Permissions are the rights that a bundle asks for, in the order of its objects.
type Permissions struct {
	ServiceAccounts    []ServiceAccount `json:"serviceAccounts"`    // sorted by name
	Webhooks           []Webhook        `json:"webhooks,omitempty"` // of the ClusterServiceVersion
	ClusterWideSecrets bool             `json:"clusterWideSecrets"` // it can read every Secret of the cluster
	Risks              []string         `json:"risks,omitempty"`    // of all rules and webhooks, sorted
}

// ServiceAccount is an account of an operator. The name is empty for roles that nothing in the bundle binds to an account.
type ServiceAccount struct {
	Name   string  `json:"name"`
	Grants []Grant `json:"grants"`
}

// Grant is a list of rules of one origin.
type Grant struct {
	From  string `json:"from"`  // such as "clusterPermissions of ClusterServiceVersion foo.v1.0.0"
	Scope Scope  `json:"scope"` // where the rules hold
	Rules []Rule `json:"rules"`
}

// Scope is where rules hold.
type Scope string

// The scopes. OLM gives the rules of ScopeNamespace in each namespace that an OperatorGroup selects, which may be all.
const (
	ScopeCluster   Scope = "Cluster"
	ScopeNamespace Scope = "Namespace"
)

// Rule is a rule with its risks.
type Rule struct {
	rbacv1.PolicyRule
	Risks []string `json:"risks,omitempty"`
}

// Webhook is a webhook that the API server calls.
type Webhook struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"` // ValidatingAdmissionWebhook, MutatingAdmissionWebhook or ConversionWebhook
	Resources     []string `json:"resources,omitempty"`
	AllNamespaces bool     `json:"allNamespaces"` // the operator can be installed for all namespaces
}

// The risks.
const (
	RiskAnyVerb     = "any verb"
	RiskAnyResource = "any resource"
	RiskAnyGroup    = "any API group"
	RiskAnyURL      = "any URL"
	RiskEscalate    = "escalate: gives itself any right"
	RiskBind        = "bind: gives others any right"
	RiskImpersonate = "impersonate: acts as others"
	RiskSecrets     = "secrets"
	RiskNodesProxy  = "nodes/proxy: runs commands in every Pod"
	RiskWebhook     = "webhook over all namespaces"
)

// csv is the part of a ClusterServiceVersion that is read here.
type csv struct {
	Metadata struct{ Name string }
	Spec     struct {
		Install struct {
			Spec struct {
				Permissions        []v1alpha1.StrategyDeploymentPermissions
				ClusterPermissions []v1alpha1.StrategyDeploymentPermissions
			}
		}
		InstallModes       []v1alpha1.InstallMode
		WebhookDefinitions []struct {
			Type         string
			GenerateName string
			Rules        []struct{ APIGroups, Resources []string }
		}
	}
}

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	Kind     string
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

// role is a Role or a ClusterRole.
type role struct {
	Kind     string
	Metadata struct{ Name string }
	Rules    []rbacv1.PolicyRule
	size     int // of the JSON
}

// maxPermissions limits the bytes of the rules that a role gives, once for each account that it is bound to, and of the resources
// of webhooks: a small bundle can combine its roles, bindings and groups to any size.
const maxPermissions = 4 << 20

// PermissionsOf reads the permissions of objects, each in JSON, such as Archive.Objects returns. Faulty objects are errors.
func PermissionsOf(objects [][]byte) (Permissions, error) {
	c := collector{byAccount: map[string][]Grant{}, left: maxPermissions}
	for _, object := range objects {
		if err := c.add(object); err != nil {
			return Permissions{}, err
		}
	}
	return c.result()
}

// collector collects what objects say of permissions.
type collector struct {
	byAccount map[string][]Grant
	webhooks  []Webhook
	roles     []role
	bindings  []binding
	left      int // of maxPermissions
}

// spend counts bytes of the result.
func (c *collector) spend(bytes int) error {
	if c.left -= bytes; c.left < 0 {
		return fmt.Errorf("the permissions of the bundle have more than %d bytes", maxPermissions)
	}
	return nil
}

func (c *collector) add(object []byte) error {
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
	}
	if err := json.Unmarshal(object, &head); err != nil {
		return err
	}
	group, _, _ := strings.Cut(head.APIVersion, "/")
	var err error
	switch {
	case head.Kind == v1alpha1.ClusterServiceVersionKind && group == v1alpha1.GroupName:
		err = c.addCSV(object)
	case (head.Kind == "Role" || head.Kind == "ClusterRole") && group == rbacv1.GroupName:
		var r role
		err = json.Unmarshal(object, &r)
		r.size = len(object)
		c.roles = append(c.roles, r)
	case (head.Kind == "RoleBinding" || head.Kind == "ClusterRoleBinding") && group == rbacv1.GroupName:
		var b binding
		err = json.Unmarshal(object, &b)
		c.bindings = append(c.bindings, b)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", head.Kind, head.Metadata.Name, err)
	}
	return nil
}

func (c *collector) addCSV(object []byte) error {
	var v csv
	if err := json.Unmarshal(object, &v); err != nil {
		return err
	}
	of := " of ClusterServiceVersion " + v.Metadata.Name
	for _, p := range v.Spec.Install.Spec.Permissions {
		c.grant(p.ServiceAccountName, "permissions"+of, ScopeNamespace, p.Rules)
	}
	for _, p := range v.Spec.Install.Spec.ClusterPermissions {
		c.grant(p.ServiceAccountName, "clusterPermissions"+of, ScopeCluster, p.Rules)
	}
	all := slices.ContainsFunc(v.Spec.InstallModes, func(m v1alpha1.InstallMode) bool {
		return m.Type == v1alpha1.InstallModeTypeAllNamespaces && m.Supported
	})
	for _, d := range v.Spec.WebhookDefinitions {
		webhook := Webhook{Name: d.GenerateName, Type: d.Type, AllNamespaces: all && d.Type != string(v1alpha1.ConversionWebhook)}
		for _, rule := range d.Rules {
			for _, resource := range rule.Resources {
				if group := strings.Join(rule.APIGroups, ","); group != "" {
					resource += "." + group
				}
				if err := c.spend(len(resource)); err != nil {
					return err
				}
				webhook.Resources = append(webhook.Resources, resource)
			}
		}
		c.webhooks = append(c.webhooks, webhook)
	}
	return nil
}

func (c *collector) grant(account, from string, scope Scope, rules []rbacv1.PolicyRule) {
	g := Grant{From: from, Scope: scope, Rules: []Rule{}}
	for _, rule := range rules {
		g.Rules = append(g.Rules, Rule{rule, risksOf(rule)})
	}
	c.byAccount[account] = append(c.byAccount[account], g)
}

// result binds the roles to accounts.
func (c *collector) result() (Permissions, error) {
	bindings := map[rbacv1.RoleRef][]binding{}
	for _, b := range c.bindings {
		ref := rbacv1.RoleRef{Kind: b.RoleRef.Kind, Name: b.RoleRef.Name}
		bindings[ref] = append(bindings[ref], b)
	}
	for _, r := range c.roles {
		if err := c.bind(r, bindings[rbacv1.RoleRef{Kind: r.Kind, Name: r.Metadata.Name}]); err != nil {
			return Permissions{}, err
		}
	}
	out := Permissions{ServiceAccounts: []ServiceAccount{}, Webhooks: c.webhooks}
	for _, name := range slices.Sorted(maps.Keys(c.byAccount)) {
		out.ServiceAccounts = append(out.ServiceAccounts, ServiceAccount{name, c.byAccount[name]})
	}
	out.sum()
	return out, nil
}

// bind gives the rules of a role to the accounts of its bindings, or to the empty name if there are none.
func (c *collector) bind(r role, bindings []binding) error {
	from, bound := r.Kind+" "+r.Metadata.Name, false
	for _, b := range bindings {
		for _, subject := range b.Subjects {
			if subject.Kind != rbacv1.ServiceAccountKind {
				continue
			}
			if err := c.spend(len(subject.Name) + r.size); err != nil {
				return err
			}
			bound = true
			c.grant(subject.Name, from, scopeOf(b.Kind == "ClusterRoleBinding"), r.Rules)
		}
	}
	if !bound {
		c.grant("", from, scopeOf(r.Kind == "ClusterRole"), r.Rules)
	}
	return nil
}

func scopeOf(isCluster bool) Scope {
	if isCluster {
		return ScopeCluster
	}
	return ScopeNamespace
}

// sum sets what follows from the rules and webhooks.
func (p *Permissions) sum() {
	for _, account := range p.ServiceAccounts {
		for _, grant := range account.Grants {
			for _, rule := range grant.Rules {
				p.Risks = append(p.Risks, rule.Risks...)
				if grant.Scope == ScopeCluster && account.Name != "" && readsSecrets(rule.PolicyRule) {
					p.ClusterWideSecrets = true
				}
			}
		}
	}
	if slices.ContainsFunc(p.Webhooks, func(w Webhook) bool { return w.AllNamespaces }) {
		p.Risks = append(p.Risks, RiskWebhook)
	}
	slices.Sort(p.Risks)
	p.Risks = slices.Compact(p.Risks)
}

// covers reports whether a list of a rule has a value, or the wildcard.
func covers(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// readsSecrets reports whether a rule gives the content of all Secrets where it holds.
func readsSecrets(rule rbacv1.PolicyRule) bool {
	return covers(rule.APIGroups, "") && covers(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 &&
		(covers(rule.Verbs, "get") || covers(rule.Verbs, "list") || covers(rule.Verbs, "watch"))
}

// risksOf returns the risks of a rule, in the order of the constants. A wildcard stands for what it covers.
func risksOf(rule rbacv1.PolicyRule) (risks []string) {
	has := slices.Contains[[]string]
	rbac := covers(rule.APIGroups, rbacv1.GroupName) &&
		(covers(rule.Resources, "roles") || covers(rule.Resources, "clusterroles"))
	core := covers(rule.APIGroups, "")
	for _, r := range []struct {
		risk string
		is   bool
	}{
		{RiskAnyVerb, has(rule.Verbs, "*")},
		{RiskAnyResource, has(rule.Resources, "*")},
		{RiskAnyGroup, has(rule.APIGroups, "*")},
		{RiskAnyURL, has(rule.NonResourceURLs, "*")},
		{RiskEscalate, rbac && covers(rule.Verbs, "escalate")},
		{RiskBind, rbac && covers(rule.Verbs, "bind")},
		{RiskImpersonate, covers(rule.Verbs, "impersonate") && impersonates(rule)},
		{RiskSecrets, core && covers(rule.Resources, "secrets")},
		{RiskNodesProxy, core && (covers(rule.Resources, "nodes/proxy") || has(rule.Resources, "nodes/*"))},
	} {
		if r.is {
			risks = append(risks, r.risk)
		}
	}
	return risks
}

// impersonates reports whether a rule is about users, groups, accounts or their attributes.
func impersonates(rule rbacv1.PolicyRule) bool {
	named := func(resource string) bool {
		resource, _, _ = strings.Cut(resource, "/")
		switch resource {
		case "*", "users", "groups", "serviceaccounts":
			return covers(rule.APIGroups, "")
		case "userextras", "uids":
			return covers(rule.APIGroups, "authentication.k8s.io")
		}
		return false
	}
	return slices.ContainsFunc(rule.Resources, named)
}
