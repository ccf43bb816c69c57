package system

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
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

// Requests returns the requests of catalogd to the API server so far.
func (p *ControlPlane) Requests() ([]auditv1.Event, error) {
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
