package olmv0

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"google.golang.org/protobuf/testing/protocmp"
)

// FuzzListed compares the message of ListBundles, for which the manifests of a bundle are not decoded, with that of the whole
// bundle. A bundle that is listed can be read.
func FuzzListed(f *testing.F) {
	for _, properties := range []string{
		``,
		`{"type":"olm.gvk","value":{"group":"g","version":"v","kind":"K"}},{"type":"olm.gvk.required","value":{"group":"g","version":"v","kind":"K"}}`,
		`{"type":"olm.package.required","value":{"packageName":"x","versionRange":">=1 <2"}},{"type":"other","value":{"b":"<\u003e","a":[1e3,1.0]}}`,
		`{"type":"olm.csv.metadata","value":{"displayName":"X","annotations":{"a":"b"},"maintainers":[{"name":"m"}]}}`,
		`{"type":"olm.csv.metadata","value":{}},{"type":"olm.csv.metadata","value":{}}`,
		`{"type":"olm.bundle.object","value":{"data":"eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIn0="}}`,
		`{"type":"olm.bundle.object","value":{"ref":"x"}}`, `{"type":"olm.maxOpenShiftVersion","value":"4.9"}`, `{"type":"x","value":null}`,
	} {
		f.Add(properties, true)
		f.Add(properties, false)
	}
	f.Fuzz(func(t *testing.T, properties string, hasImage bool) {
		image := ""
		if hasImage {
			image = `"image":"example.com/a:v1",`
		}
		blob := fmt.Appendf(nil, `{"schema":"olm.bundle","package":"a","name":"a.v1",%s"properties":[
			{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}%s%s]}`, image, map[bool]string{true: ","}[properties != ""], properties)
		if !json.Valid(blob) {
			return
		}
		frame := frame{pkg: declcfg.Package{Schema: declcfg.SchemaPackage, Name: "a", DefaultChannel: "c"}}
		entry := &declcfg.ChannelEntry{Name: "a.v1"}
		channel := &declcfg.Channel{Schema: declcfg.SchemaChannel, Package: "a", Name: "c", Entries: []declcfg.ChannelEntry{*entry}}
		whole, err := loadBundle(blob)
		if err != nil {
			return
		}
		want, err := frame.convert(whole, channel, entry)
		if err != nil {
			return
		}
		listed, err := loadListed(blob)
		if err != nil {
			t.Fatalf("it cannot be listed: %v", err)
		}
		got, err := frame.convert(listed, channel, entry)
		if err != nil {
			t.Fatalf("it cannot be listed: %v", err)
		}
		if hasImage {
			want.CsvJson, want.Object = "", nil // as operator-registry's ListBundles leaves them out (pkg/cache/cache.go)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("-whole +listed:\n%s", diff)
		}
	})
}
