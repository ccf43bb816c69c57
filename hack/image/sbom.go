package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule is the module of the CA certificates; catalogd itself does not import it.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// sbom returns the CycloneDX bill of materials of the image: the modules in the program's build info, Go's standard
// library and the CA certificates. It has no serial number, which would differ between builds.
func sbom(binary string, of release) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading what the program is made of: %w", err)
	}
	components := []cdx.Component{component("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, component(module.Path, module.Version))
	}
	if version := ownModule(rootsModule); version != "" {
		components = append(components, component(rootsModule, version))
	}
	catalogd := component(info.Main.Path, of.version)
	catalogd.Type = cdx.ComponentTypeApplication
	catalogd.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: of.created.Format(time.RFC3339), Component: &catalogd}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: catalogd.BOMRef, Dependencies: refs(components)}}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// component is a Go module, with a package URL (https://github.com/package-url/purl-spec).
func component(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}

func refs(components []cdx.Component) *[]string {
	var all []string
	for _, c := range components {
		all = append(all, c.BOMRef)
	}
	return &all
}

// ownModule returns the version of a module of this program.
func ownModule(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return ""
}

// roots are the CA certificates that Mozilla trusts, in PEM format. They come from a Go module rather than from the
// building machine, so builds agree, and updates arrive like those of other dependencies. As a file rather than
// compiled in, they cost no startup time, and users can mount others in their place. Certificates with constraints
// are left out, as a file cannot state these.
func roots() ([]byte, error) {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&file, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if file.Len() == 0 {
		return nil, errors.New("no CA certificates found")
	}
	return file.Bytes(), nil
}
