// Command dashboard prints catalogd's Grafana dashboard. `make generate` writes it to config/prometheus/dashboard.json. The e2e
// tests send each of its queries to a real Prometheus.
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
