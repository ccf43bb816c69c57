package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Permissions are the rights that a bundle asks for, in the order of its objects.
type Permissions struct {
	ServiceAccounts    []ServiceAccount `json:"serviceAccounts"`    // sorted by name
	Webhooks           []Webhook        `json:"webhooks,omitempty"` // of the ClusterServiceVersion
	ClusterWideSecrets bool             `json:"clusterWideSecrets"` // it can read every Secret, if installed for all namespaces
	Risks              []string         `json:"risks,omitempty"`    // of all rules and webhooks, sorted

	FromCatalog bool     `json:"fromCatalog,omitempty"` // as Content.FromCatalog
	Faults      []string `json:"faults,omitempty"`      // paths of manifests that cannot be read, which may ask for more
}

// ServiceAccount is an account of an operator. The name is empty for roles that nothing in the bundle binds. Users and groups
// have names such as "Group system:authenticated".
type ServiceAccount struct {
	Name   string  `json:"name"`
	Grants []Grant `json:"grants"`
}

// Grant is a list of rules of one origin.
type Grant struct {
	From  string `json:"from"`  // such as "clusterPermissions of ClusterServiceVersion foo.v1.0.0"
	Scope Scope  `json:"scope"` // where the rules hold
	Rules []Rule `json:"rules"`

	// Unknown reports that rules are missing: the bundle does not contain the role, or the role aggregates others.
	Unknown bool `json:"unknown,omitempty"`
}

// Scope is where rules hold.
type Scope string

// The scopes. OLM grants the namespaced rules of a ClusterServiceVersion in every namespace that the OperatorGroup selects, which
// can be all; those of a Role only in the namespace of the operator.
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
	RiskTokens      = "serviceaccounts/token: acts as other accounts"
	RiskUnknown     = "rules outside the bundle"
	RiskWebhook     = "webhook over all namespaces"
)

// csv is the part of a ClusterServiceVersion that is read here.
type csv struct {
	Metadata named `json:"metadata"`
	Spec     struct {
		Install struct {
			Spec struct {
				Permissions        []v1alpha1.StrategyDeploymentPermissions `json:"permissions"`
				ClusterPermissions []v1alpha1.StrategyDeploymentPermissions `json:"clusterPermissions"`
			} `json:"spec"`
		} `json:"install"`
		InstallModes       []v1alpha1.InstallMode `json:"installModes"`
		WebhookDefinitions []struct {
			Type         string `json:"type"`
			GenerateName string `json:"generateName"`
			Rules        []struct {
				APIGroups []string `json:"apiGroups"`
				Resources []string `json:"resources"`
			} `json:"rules"`
		} `json:"webhookdefinitions"`
	} `json:"spec"`
}

type named struct {
	Name string `json:"name"`
}

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	Kind     string           `json:"kind"`
	RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	Subjects []rbacv1.Subject `json:"subjects"`
}

// role is a Role or a ClusterRole.
type role struct {
	Kind            string                  `json:"kind"`
	Metadata        named                   `json:"metadata"`
	Rules           []rbacv1.PolicyRule     `json:"rules"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
}

// roleKey names a role.
type roleKey struct{ kind, name string }

// clusterAdmin is the role of every cluster that gives every right.
var clusterAdmin = role{Rules: []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}}

// maxPermissions limits the memory of permissions in bytes: a small bundle can combine its roles, bindings and groups to any
// size. Large operators have some hundred rules.
const maxPermissions = 8 << 20

// PermissionsOf reads the permissions of objects, each in JSON, such as Archive.Objects returns. Faulty objects are errors.
func PermissionsOf(objects [][]byte) (Permissions, error) {
	c := collector{byAccount: map[string][]Grant{}, left: maxPermissions, roles: map[roleKey][]role{}}
	for _, object := range objects {
		if err := c.add(object); err != nil {
			return Permissions{}, err
		}
	}
	return c.result()
}

// Permissions returns what the bundle asks for. A faulty object is an *Error.
func (a *Archive) Permissions() (Permissions, error) {
	objects, err := a.Objects("", "")
	if err != nil {
		return Permissions{}, err
	}
	p, err := PermissionsOf(objects)
	if err != nil {
		return Permissions{}, &Error{Reason: Invalid, Text: err.Error(), Cause: err}
	}
	p.FromCatalog, p.Faults = a.Content.FromCatalog, a.Content.Faults()
	return p, nil
}

// collector collects what objects say of permissions.
type collector struct {
	byAccount map[string][]Grant
	webhooks  []Webhook
	roles     map[roleKey][]role
	order     []roleKey // of roles
	bindings  []binding
	secrets   bool // Permissions.ClusterWideSecrets
	left      int  // of maxPermissions
}

// spend counts bytes of the result.
func (c *collector) spend(bytes int) error {
	if c.left -= bytes; c.left < 0 {
		return fmt.Errorf("the permissions of the bundle exceed the limit of %d bytes", maxPermissions)
	}
	return nil
}

func (c *collector) add(object []byte) error {
	var head struct {
		metav1.TypeMeta
		Metadata named `json:"metadata"`
	}
	if err := utiljson.Unmarshal(object, &head); err != nil {
		return err
	}
	group, _, _ := strings.Cut(head.APIVersion, "/")
	var err error
	switch {
	case head.Kind == v1alpha1.ClusterServiceVersionKind && group == v1alpha1.GroupName:
		err = c.addCSV(object)
	case (head.Kind == "Role" || head.Kind == "ClusterRole") && group == rbacv1.GroupName:
		var r role
		err = utiljson.Unmarshal(object, &r)
		key := roleKey{r.Kind, r.Metadata.Name}
		c.roles[key] = append(c.roles[key], r)
		c.order = append(c.order, key)
	case (head.Kind == "RoleBinding" || head.Kind == "ClusterRoleBinding") && group == rbacv1.GroupName:
		var b binding
		err = utiljson.Unmarshal(object, &b)
		c.bindings = append(c.bindings, b)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", head.Kind, head.Metadata.Name, err)
	}
	return nil
}

func (c *collector) addCSV(object []byte) error {
	var v csv
	if err := utiljson.Unmarshal(object, &v); err != nil {
		return err
	}
	of := " of ClusterServiceVersion " + v.Metadata.Name
	all := slices.ContainsFunc(v.Spec.InstallModes, func(m v1alpha1.InstallMode) bool {
		return m.Type == v1alpha1.InstallModeTypeAllNamespaces && m.Supported
	})
	for _, p := range v.Spec.Install.Spec.Permissions {
		if err := c.grant(p.ServiceAccountName, Grant{From: "permissions" + of, Scope: ScopeNamespace}, p.Rules, all); err != nil {
			return err
		}
	}
	for _, p := range v.Spec.Install.Spec.ClusterPermissions {
		if err := c.grant(p.ServiceAccountName, Grant{From: "clusterPermissions" + of, Scope: ScopeCluster}, p.Rules, true); err != nil {
			return err
		}
	}
	for _, d := range v.Spec.WebhookDefinitions {
		webhook := Webhook{Name: d.GenerateName, Type: d.Type, AllNamespaces: all && d.Type != string(v1alpha1.ConversionWebhook)}
		for _, rule := range d.Rules {
			suffix := strings.Join(rule.APIGroups, ",")
			if suffix != "" {
				suffix = "." + suffix
			}
			if err := c.spend(len(rule.Resources)*(16+len(suffix)) + len(object)/100); err != nil {
				return err
			}
			for _, resource := range rule.Resources {
				webhook.Resources = append(webhook.Resources, resource+suffix)
			}
		}
		c.webhooks = append(c.webhooks, webhook)
	}
	return nil
}

// grant gives rules to an account. everywhere tells that they may hold in all namespaces.
func (c *collector) grant(account string, g Grant, rules []rbacv1.PolicyRule, everywhere bool) error {
	g.Rules = make([]Rule, 0, len(rules))
	if err := c.spend((1 + len(rules)) * 256); err != nil {
		return err
	}
	for _, rule := range rules {
		for _, texts := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs} {
			for _, text := range texts {
				if err := c.spend(16 + len(text)); err != nil {
					return err
				}
			}
		}
		g.Rules = append(g.Rules, Rule{rule, risksOf(rule)})
		c.secrets = c.secrets || everywhere && account != "" && readsSecrets(rule)
	}
	c.byAccount[account] = append(c.byAccount[account], g)
	return nil
}

// result binds the roles.
func (c *collector) result() (Permissions, error) {
	bound := map[roleKey]bool{}
	for _, b := range c.bindings {
		key := roleKey{b.RoleRef.Kind, b.RoleRef.Name}
		bound[key] = bound[key] || len(b.Subjects) > 0
		for _, subject := range b.Subjects {
			account := subject.Name
			if subject.Kind != rbacv1.ServiceAccountKind {
				account = subject.Kind + " " + subject.Name
			}
			if err := c.bind(account, key, b.Kind == "ClusterRoleBinding"); err != nil {
				return Permissions{}, err
			}
		}
	}
	for _, key := range c.order {
		if !bound[key] {
			bound[key] = true
			if err := c.bind("", key, key.kind == "ClusterRole"); err != nil {
				return Permissions{}, err
			}
		}
	}
	out := Permissions{ServiceAccounts: []ServiceAccount{}, Webhooks: c.webhooks, ClusterWideSecrets: c.secrets}
	for _, name := range slices.Sorted(maps.Keys(c.byAccount)) {
		out.ServiceAccounts = append(out.ServiceAccounts, ServiceAccount{name, c.byAccount[name]})
	}
	out.collectRisks()
	return out, nil
}

// bind gives the rules of a role to an account, "" if nothing binds it.
func (c *collector) bind(account string, key roleKey, everywhere bool) error {
	g := Grant{From: key.kind + " " + key.name, Scope: ScopeNamespace}
	if everywhere {
		g.Scope = ScopeCluster
	}
	roles := c.roles[key]
	if key == (roleKey{"ClusterRole", "cluster-admin"}) {
		roles = []role{clusterAdmin}
	}
	if len(roles) == 0 {
		g.Unknown = true
		return c.grant(account, g, nil, everywhere)
	}
	for _, r := range roles {
		g.Unknown = r.AggregationRule != nil
		if err := c.grant(account, g, r.Rules, everywhere); err != nil {
			return err
		}
	}
	return nil
}

// collectRisks sets the risks of all rules and webhooks.
func (p *Permissions) collectRisks() {
	risks := map[string]bool{}
	for _, account := range p.ServiceAccounts {
		for _, grant := range account.Grants {
			if grant.Unknown {
				risks[RiskUnknown] = true
			}
			for _, rule := range grant.Rules {
				for _, risk := range rule.Risks {
					risks[risk] = true
				}
			}
		}
	}
	if slices.ContainsFunc(p.Webhooks, func(w Webhook) bool { return w.AllNamespaces }) {
		risks[RiskWebhook] = true
	}
	p.Risks = slices.Sorted(maps.Keys(risks))
}

// covers reports whether a list of a rule has a value, or the wildcard.
func covers(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// coversSub reports whether resources of a rule have a subresource.
func coversSub(resources []string, resource, sub string) bool {
	return covers(resources, resource+"/"+sub) || slices.Contains(resources, "*/"+sub)
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
		{RiskAnyURL, has(rule.NonResourceURLs, "*") || has(rule.NonResourceURLs, "/*")},
		{RiskEscalate, rbac && covers(rule.Verbs, "escalate")},
		{RiskBind, rbac && covers(rule.Verbs, "bind")},
		{RiskImpersonate, covers(rule.Verbs, "impersonate") && impersonates(rule)},
		{RiskSecrets, core && covers(rule.Resources, "secrets")},
		{RiskNodesProxy, core && (coversSub(rule.Resources, "nodes", "proxy") || has(rule.Resources, "nodes/*"))},
		{RiskTokens, core && covers(rule.Verbs, "create") && coversSub(rule.Resources, "serviceaccounts", "token")},
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
