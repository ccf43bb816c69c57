package system

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// daemonUser is the user name of catalogd.
const daemonUser = "system:serviceaccount:" + Namespace + ":" + ServiceAccount

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + daemonUser + `"]
- level: None
`

// audit makes the API server log each request of catalogd to a file in dir before it answers.
func audit(server *envtest.APIServer, dir string) error {
	policy := filepath.Join(dir, "audit-policy.yaml")
	server.Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(dir, "audit.log")).
		Set("audit-log-mode", "blocking")
	return os.WriteFile(policy, []byte(auditPolicy), 0o600)
}
