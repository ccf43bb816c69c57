package page

import (
	"net/http"
	"strings"
	"testing"
)

func TestAlwaysReadsSecrets(t *testing.T) {
	secrets := rule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	named, other, write := secrets, secrets, secrets
	named.ResourceNames, other.APIGroups, write.Verbs = []string{"one"}, []string{"apps"}, []string{"create"}
	for name, tt := range map[string]struct {
		account, scope string
		rule           rule
		want           bool
	}{
		"in the cluster":         {"sa", "Cluster", secrets, true},
		"everything":             {"sa", "Cluster", rule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, true},
		"in namespaces":          {"sa", "Namespace", secrets, false},
		"role without a binding": {"", "Cluster", secrets, false},
		"one Secret":             {"sa", "Cluster", named, false},
		"another group":          {"sa", "Cluster", other, false},
		"write only":             {"sa", "Cluster", write, false},
	} {
		p := permissions{ServiceAccounts: []account{{Name: tt.account, Grants: []grant{{Scope: tt.scope, Rules: []rule{tt.rule}}}}}}
		if got := p.AlwaysReadsSecrets(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestCatalogStates(t *testing.T) {
	ready := func(status, reason string) []condition {
		return []condition{{Type: "Serving"}, {Type: "Ready", Status: status, Reason: reason}}
	}
	for _, tt := range []struct {
		catalog     catalog
		mark, state string
	}{
		{catalog{Digest: "sha256:a"}, good, "Ready"},
		{catalog{Digest: "sha256:a", Conditions: ready("True", "Succeeded")}, good, "Ready"},
		{catalog{Digest: "sha256:a", Packages: 3, InvalidPackages: 1, Conditions: ready("True", "Succeeded")}, pending, "Served without 1 invalid package"},
		{catalog{Digest: "sha256:a", Conditions: ready("False", "RegistryUnreachable")}, bad, "Update failed, serving the previous content"},
		{catalog{Conditions: ready("False", "Unpacking")}, pending, "Unpacking"},
		{catalog{Conditions: ready("False", "ImageNotFound")}, bad, "Not served"},
		{catalog{}, pending, "Not reconciled yet"},
	} {
		if mark, state := tt.catalog.Mark(), tt.catalog.State(); mark != tt.mark || state != tt.state {
			t.Errorf("%+v: %s, %q; want %s, %q", tt.catalog, mark, state, tt.mark, tt.state)
		}
	}
}

func TestHelpOfSecretURL(t *testing.T) {
	api := newAPI(t, sampleCatalog)
	for private, want := range map[bool]string{true: "Do not share it", false: "You can share every URL"} {
		h := New(Config{Source: func(r *http.Request) Source { return Inside(api, r) }, Private: private})
		if _, body := get(t, h, "/help"); !strings.Contains(string(body), want) {
			t.Errorf("private %v: the help lacks %q", private, want)
		}
	}
}
