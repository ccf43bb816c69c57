package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

// accessRight is a permission of an RBAC rule: a verb on a resource, or on a path.
type accessRight struct {
	Verb      string
	Group     string
	Resource  string // with its subresource, such as "catalogsources/status"; "" if the right is about Path
	Name      string // "" means every name
	Namespace string // "" means every namespace and cluster scope
	Path      string
}

// String returns text such as `update configmaps "catalogd-ca" in namespace catalogd-system`.
func (r accessRight) String() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += fmt.Sprintf(" %q", r.Name)
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// covers reports whether the right allows a wanted right. A star matches anything; at the end of a path, any
// suffix.
func (r accessRight) covers(asked accessRight) bool {
	is := func(allowed, asked string) bool { return allowed == rbacv1.VerbAll || allowed == asked }
	if r.Resource == "" {
		beginning, open := strings.CutSuffix(r.Path, "*")
		return is(r.Verb, asked.Verb) && asked.Resource == "" && (asked.Path == r.Path || open && strings.HasPrefix(asked.Path, beginning))
	}
	return is(r.Verb, asked.Verb) && is(r.Group, asked.Group) && is(r.Resource, asked.Resource) &&
		(r.Name == "" || r.Name == asked.Name) && (r.Namespace == "" || r.Namespace == asked.Namespace)
}

// wanted returns the right that a request needs.
func wanted(request auditv1.Event) accessRight {
	right := accessRight{Verb: request.Verb}
	ref := request.ObjectRef
	if ref == nil {
		right.Path, _, _ = strings.Cut(request.RequestURI, "?")
		return right
	}
	right.Group, right.Resource, right.Name, right.Namespace = ref.APIGroup, ref.Resource, ref.Name, ref.Namespace
	if ref.Subresource != "" {
		right.Resource += "/" + ref.Subresource
	}
	return right
}

// requestsTo returns the requests of catalogd to the API server so far, from its audit log.
func requestsTo(p *system.ControlPlane) ([]auditv1.Event, error) {
	files, err := filepath.Glob(filepath.Join(p.Dir, "audit*.log")) // a large log is split
	if err != nil {
		return nil, err
	}
	var events []auditv1.Event
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		decoder := json.NewDecoder(bytes.NewReader(log))
		for {
			var event auditv1.Event
			err := decoder.Decode(&event)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last event is incomplete
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading the audit log %s: %w", file, err)
			}
			events = append(events, event)
		}
	}
	return events, nil
}

// rightsOf returns the rights of rules. namespace is that of the binding, or "" if they apply everywhere.
func rightsOf(rules []rbacv1.PolicyRule, namespace string) (rights []accessRight) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				rights = append(rights, accessRight{Verb: verb, Path: path})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						rights = append(rights, accessRight{Verb: verb, Group: group, Resource: resource, Name: name, Namespace: namespace})
					}
				}
			}
		}
	}
	return rights
}

// boundRights returns the rights of the roles bound to catalogd's account, each with its role. Rights of every account
// are left out.
func boundRights(ctx context.Context, p *system.ControlPlane) (map[accessRight]string, error) {
	isDaemon := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == system.Namespace && s.Name == system.ServiceAccount
	}
	var everywhere rbacv1.ClusterRoleBindingList
	var inNamespaces rbacv1.RoleBindingList
	if err := errors.Join(p.List(ctx, &everywhere), p.List(ctx, &inNamespaces)); err != nil {
		return nil, err
	}
	rights := map[accessRight]string{}
	add := func(ref rbacv1.RoleRef, namespace string) error {
		rules, err := rulesOf(ctx, p, ref, namespace)
		for _, right := range rightsOf(rules, namespace) {
			rights[right] = ref.Kind + " " + ref.Name
		}
		return err
	}
	for _, binding := range everywhere.Items {
		if slices.ContainsFunc(binding.Subjects, isDaemon) {
			if err := add(binding.RoleRef, ""); err != nil {
				return nil, err
			}
		}
	}
	for _, binding := range inNamespaces.Items {
		if slices.ContainsFunc(binding.Subjects, isDaemon) {
			if err := add(binding.RoleRef, binding.Namespace); err != nil {
				return nil, err
			}
		}
	}
	return rights, nil
}

func rulesOf(ctx context.Context, p *system.ControlPlane, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "Role" {
		var role rbacv1.Role
		err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &role)
		return role.Rules, err
	}
	var role rbacv1.ClusterRole
	err := p.Get(ctx, client.ObjectKey{Name: ref.Name}, &role)
	return role.Rules, err
}

// unboundNamespace is one in which catalogd has no rights, on purpose.
const unboundNamespace = "unbound"

// denied returns an error that names each request of catalogd that the API server forbade, or nil.
func denied(requests []auditv1.Event) error {
	refusals := map[string]error{}
	for _, request := range requests {
		if request.ResponseStatus == nil || request.ResponseStatus.Code != http.StatusForbidden ||
			(request.ObjectRef != nil && request.ObjectRef.Namespace == unboundNamespace) {
			continue
		}
		right := wanted(request).String()
		refusals[right] = fmt.Errorf("catalogd was refused: %s (%s %s): %s", right, request.Verb, request.RequestURI,
			request.ResponseStatus.Message)
	}
	var errs []error
	for _, right := range slices.Sorted(maps.Keys(refusals)) {
		errs = append(errs, refusals[right])
	}
	return errors.Join(errs...)
}

// unusedRights returns an error that names each right, and its role, that no request needed, or nil. excused maps rights
// that no request needs to the reason to keep them; it is an error if one is not granted, or is used.
func unusedRights(rights map[accessRight]string, requests []auditv1.Event, excused map[string]string) error {
	var faults []string
	given := map[string]bool{}
	for right, role := range rights {
		text := right.String()
		_, isExcused := excused[text]
		given[text] = true
		used := slices.ContainsFunc(requests, func(request auditv1.Event) bool { return right.covers(wanted(request)) })
		switch {
		case used && isExcused:
			faults = append(faults, fmt.Sprintf("%s: this right is excused and used: remove the excuse", text))
		case !used && !isExcused:
			faults = append(faults,
				fmt.Sprintf("%s: %s gives this right, and catalogd did not use it: remove the rule, or let a test need it", text, role))
		}
	}
	for text := range excused {
		if !given[text] {
			faults = append(faults, fmt.Sprintf("%s: this right is excused and given by no role: remove the excuse", text))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return errors.New(strings.Join(faults, "\n"))
}
