package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// sourcePackage has the blobs of a package, decoded as far as an OperatorPackage needs them.
type sourcePackage struct {
	name         string
	pkg          sourceHead
	channels     []sourceChannel
	bundles      map[string]sourceBundle
	deprecations map[reference]string
}

type sourceHead struct {
	DefaultChannel string `json:"defaultChannel"`
	Description    string `json:"description"`
	Icon           icon   `json:"icon"`
}

type sourceChannel struct {
	Name    string `json:"name"`
	Entries []struct {
		Name     string   `json:"name"`
		Replaces string   `json:"replaces"`
		Skips    []string `json:"skips"`
	} `json:"entries"`
}

type sourceBundle struct {
	Properties []struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	} `json:"properties"`
	RelatedImages []struct {
		Image string `json:"image"`
	} `json:"relatedImages"`
}

type reference struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
}

// sourcePackages groups the blobs of a catalog by package.
func sourcePackages(blobs []blob) (map[string]*sourcePackage, error) {
	found := map[string]*sourcePackage{}
	of := func(name string) *sourcePackage {
		if found[name] == nil {
			found[name] = &sourcePackage{name: name, bundles: map[string]sourceBundle{}, deprecations: map[reference]string{}}
		}
		return found[name]
	}
	for _, b := range blobs {
		var err error
		switch b.Schema {
		case "olm.package":
			err = json.Unmarshal(b.raw, &of(b.Name).pkg)
		case "olm.channel":
			var channel sourceChannel
			err = json.Unmarshal(b.raw, &channel)
			of(b.Package).channels = append(of(b.Package).channels, channel)
		case "olm.bundle":
			var bundle sourceBundle
			err = json.Unmarshal(b.raw, &bundle)
			of(b.Package).bundles[b.Name] = bundle
		case "olm.deprecations":
			err = of(b.Package).addDeprecations(b.raw)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", b.file, b.Schema, b.Name, err)
		}
	}
	return found, nil
}

func (p *sourcePackage) addDeprecations(raw []byte) error {
	var blob struct {
		Entries []struct {
			Reference reference `json:"reference"`
			Message   string    `json:"message"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(raw, &blob); err != nil {
		return err
	}
	for _, e := range blob.Entries {
		p.deprecations[e.Reference] = e.Message
	}
	return nil
}

func (p *sourcePackage) deprecation(schema, name string) *deprecation {
	if message, ok := p.deprecations[reference{schema, name}]; ok {
		return &deprecation{message}
	}
	return nil
}

// head returns the only entry that no other entry replaces or skips.
func (c sourceChannel) head() (string, error) {
	behind := map[string]bool{}
	for _, e := range c.Entries {
		behind[e.Replaces] = true
		for _, s := range e.Skips {
			behind[s] = true
		}
	}
	var heads []string
	for _, e := range c.Entries {
		if !behind[e.Name] {
			heads = append(heads, e.Name)
		}
	}
	if len(heads) != 1 {
		return "", fmt.Errorf("heads are %q, want one", heads)
	}
	return heads[0], nil
}

func (b sourceBundle) property(kind string) json.RawMessage {
	for _, p := range b.Properties {
		if p.Type == kind {
			return p.Value
		}
	}
	return nil
}

func (b sourceBundle) version() string {
	var value struct {
		Version string `json:"version"`
	}
	_ = json.Unmarshal(b.property("olm.package"), &value) // no version counts as the empty version
	return value.Version
}

// clusterServiceVersion has the relevant fields of an operators.coreos.com/v1alpha1 ClusterServiceVersion.
type clusterServiceVersion struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		csvText
		Version       string      `json:"version"`
		CRDs          apis        `json:"customresourcedefinitions"`
		APIServices   apis        `json:"apiservicedefinitions"`
		NativeAPIs    []groupKind `json:"nativeAPIs"`
		RelatedImages []container `json:"relatedImages"`
		Install       struct {
			Strategy string `json:"strategy"`
			Spec     struct {
				Deployments []struct {
					Spec struct {
						Template struct {
							Spec struct {
								Containers     []container `json:"containers"`
								InitContainers []container `json:"initContainers"`
							} `json:"spec"`
						} `json:"template"`
					} `json:"spec"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

type container struct {
	Image string `json:"image"`
}

// csv returns the first CSV among the bundle's olm.bundle.objects.
func (b sourceBundle) csv() (csv clusterServiceVersion, ok bool, err error) {
	for _, p := range b.Properties {
		if p.Type != "olm.bundle.object" {
			continue
		}
		var value struct {
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(p.Value, &value); err != nil {
			return csv, false, err
		}
		if !bytes.HasPrefix(bytes.TrimSpace(value.Data), []byte("{")) {
			documents, err := yamlDocuments(value.Data)
			if err != nil || len(documents) != 1 {
				return csv, false, fmt.Errorf("%d documents in an olm.bundle.object: %w", len(documents), err)
			}
			value.Data = documents[0]
		}
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(value.Data, &kind); err != nil {
			return csv, false, err
		}
		if kind.Kind == "ClusterServiceVersion" {
			return csv, true, json.Unmarshal(value.Data, &csv)
		}
	}
	return csv, false, nil
}
