package fbc

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

const csvMetadata = `{"type":"olm.csv.metadata","value":{
	"annotations":{"capabilities":"Basic"},"labels":{"l":"v"},"displayName":"Foo","description":"from the metadata",
	"keywords":["k"],"maturity":"alpha","minKubeVersion":"1.20.0","provider":{"name":"Example","url":"https://example.com"},
	"links":[{"name":"l","url":"https://example.com"}],"maintainers":[{"name":"m","email":"m@example.com"}],
	"installModes":[{"type":"AllNamespaces","supported":true}],
	"crdDescriptions":{"owned":[{"name":"foos.example.com","kind":"Foo","version":"v1"}]},
	"apiServiceDefinitions":{"owned":[{"name":"v1","kind":"Bar","group":"example.com","version":"v1"}]},
	"nativeAPIs":[{"group":"apps","version":"v1","kind":"Deployment"}]}}`

// csvObject is an olm.bundle.object property with a manifest.
func csvObject(manifest string) string {
	return `{"type":"olm.bundle.object","value":{"data":"` + base64.StdEncoding.EncodeToString([]byte(manifest)) + `"}}`
}

const csvManifest = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo.v1-object, annotations: {a: b}}
spec:
  displayName: Foo
  version: 1.2.3
  icon: [{base64data: aGVsbG8=, mediatype: image/png}]
  relatedImages: [{name: own, image: quay.io/example/own}]
  install:
    strategy: deployment
    spec:
      deployments:
      - name: d
        spec:
          template:
            spec:
              initContainers: [{name: i, image: quay.io/example/init}]
              containers: [{name: a, image: quay.io/example/z}, {name: b, image: quay.io/example/a}]
`

func withRelatedImages(bundle string, images ...string) string {
	var list []string
	for _, image := range images {
		list = append(list, `{"name":"n","image":"`+image+`"}`)
	}
	return strings.TrimSuffix(bundle, "}") + `,"relatedImages":[` + strings.Join(list, ",") + "]}"
}

func TestCSVOfMetadata(t *testing.T) {
	bundle := withRelatedImages(bundleBlob("foo", "foo.v1", "1.2.3-rc.1", csvMetadata), "quay.io/example/r")
	csv, err := CSV([]byte(bundle), "of the package")
	if err != nil {
		t.Fatal(err)
	}
	if csv.Name != "foo.v1" || csv.Annotations["capabilities"] != "Basic" || csv.Labels["l"] != "v" {
		t.Errorf("got metadata %+v", csv.ObjectMeta)
	}
	spec := csv.Spec
	if got := spec.Version.String(); got != "1.2.3-rc.1" {
		t.Errorf("got version %q, want that of the olm.package property", got)
	}
	if spec.Description != "from the metadata" || spec.DisplayName != "Foo" || spec.Maturity != "alpha" || spec.MinKubeVersion != "1.20.0" {
		t.Errorf("got spec %+v", spec)
	}
	if diff := cmp.Diff([]v1alpha1.RelatedImage{{Name: "n", Image: "quay.io/example/r"}}, spec.RelatedImages); diff != "" {
		t.Errorf("related images, -want +got:\n%s", diff)
	}
	for what, n := range map[string]int{
		"keywords": len(spec.Keywords), "links": len(spec.Links), "maintainers": len(spec.Maintainers), "install modes": len(spec.InstallModes),
		"CRDs": len(spec.CustomResourceDefinitions.Owned), "API services": len(spec.APIServiceDefinitions.Owned),
		"native APIs": len(spec.NativeAPIs),
	} {
		if n != 1 {
			t.Errorf("got %d %s, want 1", n, what)
		}
	}
	if spec.Provider.Name != "Example" || spec.CustomResourceDefinitions.Owned[0].Name != "foos.example.com" {
		t.Errorf("got provider %+v, CRDs %+v", spec.Provider, spec.CustomResourceDefinitions)
	}
}

func TestCSVOfObject(t *testing.T) {
	secret := csvObject(`{"apiVersion":"v1","kind":"Secret"}`)
	bundle := withRelatedImages(bundleBlob("foo", "foo.v1", "9.9.9", secret, csvObject(csvManifest)), "quay.io/example/z",
		"quay.io/example/r", "")
	csv, err := CSV([]byte(bundle), "of the package")
	if err != nil {
		t.Fatal(err)
	}
	if csv.Name != "foo.v1-object" || csv.Spec.Version.String() != "1.2.3" || csv.Spec.Description != "" {
		t.Errorf("got name %q, version %s, description %q; want those of the object", csv.Name, csv.Spec.Version, csv.Spec.Description)
	}
	if csv.Spec.Icon != nil {
		t.Error("the CSV has an icon")
	}
	want := []string{"quay.io/example/a", "quay.io/example/init", "quay.io/example/own", "quay.io/example/z"}
	if diff := cmp.Diff(want, Images(csv)); diff != "" {
		t.Errorf("images, -want +got:\n%s", diff)
	}
}

func TestCSVPrefersObjectToMetadata(t *testing.T) {
	for _, properties := range [][]string{{csvMetadata, csvObject(csvManifest)}, {csvObject(csvManifest), csvMetadata}} {
		csv, err := CSV([]byte(bundleBlob("foo", "foo.v1", "9.9.9", properties...)), "")
		if err != nil {
			t.Fatal(err)
		}
		if csv.Name != "foo.v1-object" || csv.Spec.Version.String() != "1.2.3" {
			t.Errorf("got name %q, version %s; want those of the object", csv.Name, csv.Spec.Version)
		}
	}
	csv, err := CSV([]byte(bundleBlob("foo", "foo.v1", "9.9.9", csvMetadata, csvObject("kind: Secret"))), "")
	if err != nil || csv.Name != "foo.v1" {
		t.Errorf("got %+v, %v; want the metadata, because no object is a ClusterServiceVersion", csv, err)
	}
}

func TestCSVDescriptionOfThePackage(t *testing.T) {
	csv, err := CSV([]byte(bundleBlob("foo", "v1", "1.0.0", `{"type":"olm.csv.metadata","value":{}}`)), "of the package")
	if err != nil {
		t.Fatal(err)
	}
	if csv.Spec.Description != "of the package" {
		t.Errorf("got description %q", csv.Spec.Description)
	}
	if got := Images(csv); len(got) != 0 {
		t.Errorf("got images %q, want none", got)
	}
}

func TestCSVErrors(t *testing.T) {
	for name, c := range map[string]struct {
		bundle, want string
		noCSV        bool
	}{
		"neither": {bundleBlob("foo", "v1", "1.0.0"), "neither an olm.csv.metadata property nor", true},
		"objects without a CSV": {
			bundleBlob("foo", "v1", "1.0.0", csvObject("kind: Secret")), "neither an olm.csv.metadata property nor", true,
		},
		"object that is no manifest": {bundleBlob("foo", "v1", "1.0.0", csvObject("[1]")), "neither an olm.csv.metadata property nor", true},
		"two metadata": {
			bundleBlob("foo", "v1", "1.0.0", csvMetadata, csvMetadata), "2 properties of type olm.csv.metadata, expected at most one", false,
		},
		"metadata of the wrong type": {
			bundleBlob("foo", "v1", "1.0.0", `{"type":"olm.csv.metadata","value":[]}`), `parse property[1] of type "olm.csv.metadata"`, false,
		},
		"no semver": {bundleBlob("foo", "v1", "one", csvMetadata), "reading the version: ", false},
		"two package properties": {
			bundleBlob("foo", "v1", "1.0.0", csvMetadata, `{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}`),
			"2 properties of type olm.package, expected one",
			false,
		},
		"CSV of the wrong type": {
			bundleBlob("foo", "v1", "1.0.0", csvObject("kind: ClusterServiceVersion\nspec: 7")), "reading the ClusterServiceVersion: ", false,
		},
		"no bundle": {`{"schema":"olm.bundle","properties":7}`, "parse bundle: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CSV([]byte(c.bundle), "")
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNoCSV) != c.noCSV {
				t.Errorf("got error %v, want one with %q (ErrNoCSV: %v)", err, c.want, c.noCSV)
			}
		})
	}
}

// FuzzCSVOfObjects compares the ClusterServiceVersion of a bundle with that of operator-registry.
func FuzzCSVOfObjects(f *testing.F) {
	const kind = `ClusterServiceVersion`
	for _, seed := range []string{
		csvManifest, `{"kind":"` + kind + `"}`, `{"kind":"\u0043lusterServiceVersion"}`, `{"kind":"\u00e9","a":"\n\"\\"}`,
		`{kind: "\x43lusterServiceVersion"}`,
		"{kind: \"Cluster\\\nServiceVersion\"}", `{kind: !!binary Q2x1c3RlclNlcnZpY2VWZXJzaW9u}`, `{"kind":"Role","a":"!"}`,
		`{"kind":"Cluster\`, "a: b", "{\n", "",
		`{"kind":"` + kind + `","spec":{"<<":1}}`, `{"kind":"` + kind + `","spec":{"a":"\ud83d\ude00"}}`,
		`{"kind":"` + kind + `","spec":{"a":"\/\b"}}`,
		`{"kind":"` + kind + `","spec":{"` + strings.Repeat("k", 2000) + `":1}}`,
		`{"kind":"` + kind + `","spec":{"a":"` + "\x7f\u0085\u2028\ufeff" + `"}}`,
		`{"kind":"` + kind + `","spec":{"a":[1e400,-0,{"b":null,"b":"’"}]},"items":[{}],"metadata":[]}`,
		`{"apiVersion":"a/b/c","kind":"` + kind + `","spec":{}}`,
		`{"kind":"` + kind + `","spec":{"a"` + "\n" + `:1}}`,
		`{"kind":"` + kind + `","spec":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	} {
		f.Add(seed, `{"kind":"`+kind+`","metadata":{"name":"second"}}`)
		f.Add(`{"kind":"Role"}`, seed)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		bundle := []byte(bundleBlob("foo", "v1", "1.0.0", csvObject(one), csvObject(two)))
		cfg, upstream := declcfg.LoadSlice([]*declcfg.Meta{{Schema: SchemaBundle, Blob: bundle}})
		got, err := CSV(bundle, "")
		if upstream != nil || cfg.Bundles[0].CsvJSON == "" {
			if err == nil {
				t.Fatalf("got %v, want none: %v", got, upstream)
			}
			return
		}
		want, wantErr := csvOfObject(cfg.Bundles[0].CsvJSON)
		if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (err == nil) {
			t.Fatalf("got error %v, want %v; -want +got:\n%s", err, wantErr, diff)
		}
	})
}
