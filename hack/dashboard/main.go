// Command dashboard prints catalogd's Grafana dashboard, which `make generate` keeps in config/prometheus/dashboard.json: panels.go says what
// is on it, and the e2e tests ask a real Prometheus each of its queries.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(newDashboard(rows)); err != nil {
		fmt.Fprintf(os.Stderr, "dashboard: %v\n", err)
		os.Exit(1)
	}
}
