package fbc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummary(t *testing.T) {
	gvk := `{"type":"olm.gvk","value":{"group":"example.com","kind":"Bar","version":"v1beta1"}}`
	metadata := strings.Replace(csvMetadata, `"capabilities":"Basic"`,
		`"capabilities":"Basic","description":"short","categories":"Database, Big Data,,Database "`, 1)
	metadata = strings.Replace(metadata, `["k"]`, `["k"," k","",	"l"]`, 1)
	icon := strings.Replace(pkgBlob("foo", "stable"), "}", `,"icon":{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}}`, 1)
	deprecations := `{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.package"},"message":"use bar"}]}`
	full := Summary{
		Name: "foo", DisplayName: "Foo", ShortDescription: "short", Description: "from the metadata", Provider: "Example",
		Keywords: []string{"k", "l"}, Categories: []string{"Database", "Big Data"}, Capabilities: "Basic",
		Provides: []GVK{{"example.com", "v1beta1", "Bar"}}, DefaultChannel: "stable", Head: "v2", Version: "2.0.0",
		Deprecation: "use bar", HasIcon: true, IconHash: HashOf([]byte("<svg/>")).String(), Channels: []string{"beta", "stable"},
		Architectures: []string{"amd64"}, OperatingSystems: []string{"linux"}, InstallModes: []string{"AllNamespaces"},
	}
	owned := full
	owned.Provides = []GVK{{"example.com", "v1", "Foo"}}
	bare := Summary{
		Name: "foo", Description: "about foo", DefaultChannel: "stable", Head: "v2", Version: "2.0.0",
		Provides: full.Provides, Deprecation: "use bar", HasIcon: true, IconHash: full.IconHash, Channels: full.Channels,
	}
	object := bare
	object.Architectures, object.OperatingSystems = full.Architectures, full.OperatingSystems
	object.DisplayName, object.Provides = "Foo", nil
	for name, c := range map[string]struct {
		properties []string
		want       Summary
	}{
		"metadata":                 {[]string{metadata, gvk}, full},
		"APIs of owned CRDs":       {[]string{metadata}, owned},
		"neither":                  {[]string{gvk}, bare},
		"a ClusterServiceVersion":  {[]string{csvObject(csvManifest)}, object},
		"metadata, twice: no good": {[]string{metadata, metadata, gvk}, bare},
	} {
		t.Run(name, func(t *testing.T) {
			head := bundleBlob("foo", "v2", "2.0.0", c.properties...)
			p, err := LoadPackage("foo", sequence(icon, channelBlob("foo", "stable", "v2 replaces v1", "v1"), channelBlob("foo", "beta", "v1"),
				bundleBlob("foo", "v1", "1.0.0", csvMetadata), head, deprecations))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, NewSummary(p, []byte(head))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Summaries must stay small, however large the package is.
func TestSummaryIsBounded(t *testing.T) {
	long, many := strings.Repeat("ä", 100_000), strings.Repeat(`"x",`, 10)
	for i := range 200 {
		many += `"` + strings.Repeat("k", i+1) + `",`
	}
	metadata := `{"type":"olm.csv.metadata",` +
		`"value":{"annotations":{"description":"` + long + `"},"displayName":"` + long + `","description":"` + long + `","keywords":[` + strings.TrimSuffix(many, ",") + `]}}`
	head := bundleBlob("foo", "v1", "1.0.0", metadata)
	p, err := LoadPackage("foo", sequence(pkgBlob("foo", "a"), channelBlob("foo", "a", "v1"), head))
	if err != nil {
		t.Fatal(err)
	}
	s := NewSummary(p, []byte(head))
	if len(s.Keywords) != maxSummaryList || len(s.DisplayName) > maxSummaryText+3 || len(s.ShortDescription) > maxSummaryText+3 {
		t.Errorf("got %d keywords, a name of %d bytes, a short description of %d", len(s.Keywords), len(s.DisplayName), len(s.ShortDescription))
	}
	if want := long[:maxDescription] + "…"; s.Description != want {
		t.Errorf("got a description of %d bytes, want the first %d and an ellipsis", len(s.Description), maxDescription)
	}
}
