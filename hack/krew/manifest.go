package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// releases is the default of --url, by version.
const releases = "https://github.com/operator-catalogs/catalogd/releases/download/"

//go:embed krew.yaml
var manifest string

var manifestTemplate = template.Must(template.New("krew.yaml").Parse(manifest))

// writeManifest writes the manifest, named after the plugin.
func writeManifest(opts options, archives []archive) error {
	var text bytes.Buffer
	err := manifestTemplate.Execute(&text, map[string]any{
		"Version": opts.version, "URL": strings.TrimSuffix(opts.url, "/"), "Archives": archives,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(opts.out, "catalog.yaml"), text.Bytes(), 0o644)
}
