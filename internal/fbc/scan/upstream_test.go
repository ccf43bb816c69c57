package scan

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// decoded is a blob with its JSON decoded. Numbers are float64, as in operator-registry.
type decoded struct {
	Path, Schema, Package, Name string
	Value                       any
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func ours(t *testing.T, fsys fs.FS) []decoded {
	t.Helper()
	files, err := Files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var out []decoded
	for _, name := range files {
		err := ReadFile(fsys, name, 0, func(b Blob) error {
			out = append(out, decoded{name, b.Schema, b.Package, b.Name, decode(t, b.JSON)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func upstreams(t *testing.T, fsys fs.FS) []decoded {
	t.Helper()
	var out []decoded
	err := declcfg.WalkMetasFS(context.Background(), fsys, func(path string, m *declcfg.Meta, err error) error {
		if err != nil {
			return err
		}
		out = append(out, decoded{path, m.Schema, m.Package, m.Name, decode(t, m.Blob)})
		return nil
	}, declcfg.WithConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSmallCatalogIsReadAsUpstreamReadsIt(t *testing.T) {
	fsys := os.DirFS("../testdata/small")
	got := ours(t, fsys)
	if diff := cmp.Diff(upstreams(t, fsys), got); diff != "" {
		t.Errorf("-upstream +ours:\n%s", diff)
	}
	if len(got) != 10+23+44+2+3 {
		t.Errorf("got %d blobs, want 10 packages, 23 channels, 44 bundles, 2 deprecations and 3 others", len(got))
	}
}

// operator-registry loses digits, so numbers are compared with the source.
func TestSmallCatalogKeepsNumbers(t *testing.T) {
	var blobs []string
	for _, name := range []string{"catalog-info.json", "aws-neuron-operator/support-matrix.yaml"} {
		got, err := readAll(os.DirFS("../testdata/small"), name, 0)
		if err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, jsonOf(got)...)
	}
	all := strings.Join(blobs, "\n")
	for _, name := range []string{"catalog-info.json", "aws-neuron-operator/support-matrix.yaml"} {
		source, err := os.ReadFile("../testdata/small/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(source), func(r rune) bool { return !('0' <= r && r <= '9') }) {
			if len(word) > 15 && !strings.Contains(all, word) {
				t.Errorf("the number %s of %s is lost", word, name)
			}
		}
	}
	if !strings.Contains(all, "9007199254740993") {
		t.Error("the catalog has no number beyond 2^53")
	}
}

func TestYAMLIsReadAsUpstreamReadsIt(t *testing.T) {
	scalars := strings.Fields(`
		~ null Null NULL true True TRUE yes Yes YES yEs y Y on On ON false no n N off Off OFF oFF
		0 -0 7 -7 +7 007 010 -010 0o10 0x1F -0x1F +0x1F 0xFFFFFFFFFFFFFFFF 0b101 -0b101 1_000 1__0 0x_1F 9007199254740992
		1.0 1.10 -1.5 +1.5 .5 -.5 1. 1.e2 1e3 1E+3 1e-7 089 08.5 1_0.5 1.2.3 v1.2 1e 1e400 0x 0b2 0o9 - -- +
		2026-08-22 2026-08-22T01:02:03Z 12:30 12:30:45 190:20:30 _1 . .. .e1 = "yes" 'no' "1" !!str,1
		!!bool,yes !!bool,false !!int,0x10 !!float,1 !!binary,aGVsbG8= !!timestamp,2026-08-22 !,12 !,yes !,~ !,null !,1.50 &x,!,12 !,&x,12 !,"12" !,text @`)
	for _, scalar := range scalars {
		if scalar == "-" || scalar == "@" {
			continue // no scalars, but reserved
		}
		scalar = strings.ReplaceAll(scalar, ",", " ")
		t.Run(scalar, func(t *testing.T) {
			fsys := fstest.MapFS{"c.yaml": {Data: []byte("schema: s\nv: " + scalar + "\nl: [" + scalar + "]\n")}}
			if diff := cmp.Diff(upstreams(t, fsys), ours(t, fsys)); diff != "" {
				t.Errorf("-upstream +ours:\n%s", diff)
			}
		})
	}
}
