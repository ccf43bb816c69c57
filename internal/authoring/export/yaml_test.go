package export

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// readBack reads YAML as catalogd does, in which key order and the spelling of numbers are kept.
func readBack(t *testing.T, text []byte) string {
	t.Helper()
	var got []byte
	err := scan.ReadFile(fstest.MapFS{"catalog.yaml": {Data: text}}, "catalog.yaml", 0, func(b scan.Blob) error {
		got = bytes.Clone(b.JSON)
		return nil
	})
	if err != nil {
		t.Fatalf("%v; the YAML is\n%s", err, text)
	}
	return string(got)
}

func TestYAML(t *testing.T) {
	for name, object := range map[string]string{
		"key order": `{"schema":"olm.bundle","z":1,"a":2}`,
		"numbers":   `{"schema":"x","n":[0,-1,1.0,1.50,9007199254740993,123456789012345678901234567890,0.1,1e3,-2.5e-7]}`,
		"values":    `{"schema":"x","n":[true,false,null,{},[],"",[[]],[{}]]}`,
		"texts like values": `{"schema":"x","n":["true","no","Yes","null","~","1","1.0","0x10","1e3","1:30","2026-11-22",".inf","NaN",` +
			`"=","<<","-","- a","a: b","a #b","#","*a","&a","!a","%","@a","` + "`" + `"]}`,
		"keys like values": `{"schema":"x","true":1,"1":2,"<<":3,"":4,"null":5,"a: b":6,"y":7}`,
		"spaces":           `{"schema":"x","n":[" a","a "," ","a  b","\t","a\tb"]}`,
		"lines": `{"schema":"x","n":["a\nb","a\nb\n","a\n\n\nb\n\n","\na"," a\nb","a \nb","a\n b\n  ` +
			`c\n","a\r\nb","\n","a\n\tb","# a\n---\n- b\n...\nc: d"]}`,
		"characters":        `{"schema":"x","n":["é","😀","\u0001","\u0085a","a\u2028b\nc","\ufeffa\nb","\u007f","\\","\"","'"]}`,
		"long":              `{"schema":"x","n":"` + strings.Repeat("word ", 100) + `end","` + strings.Repeat("k", 1500) + `":1}`,
		"like images":       `{"schema":"x","image":"quay.io/a/b@sha256:0123","n":"a:b: c"}`,
		"deep":              `{"schema":"x","n":[[[{"a":[{"b":"c\nd"}]}]]]}`,
		"lines under lists": `{"schema":"x","n":[{"a":"x\ny","b":["x\ny",{"c":"x\ny\n"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			text, err := YAML([]byte(object))
			if err != nil {
				t.Fatal(err)
			}
			// Escapes of JSON may be others, so both are brought to one form; numbers stay as they are.
			if diff := cmp.Diff(oneForm(t, object), oneForm(t, readBack(t, text))); diff != "" {
				t.Errorf("%s; the YAML is\n%s", diff, text)
			}
		})
	}
}

// oneForm has each text of JSON escaped in the same way, and leaves all else.
func oneForm(t *testing.T, object string) string {
	t.Helper()
	var b bytes.Buffer
	decoder := json.NewDecoder(bytes.NewReader([]byte(object)))
	decoder.UseNumber()
	for decoder.More() || b.Len() > 0 {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		text, _ := json.Marshal(token)
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// The result is the same for catalogd and for a YAML 1.1 reader.
func FuzzYAMLString(f *testing.F) {
	for _, text := range []string{
		"", "yes", "1:30", "a: b", "a\n b\n", "- a", "\u2028", "a\n\n", "0b1", "1_000", "=", "é\n", "a #b", "\ufeff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object, err := json.Marshal(map[string]string{"a" + text: text, "schema": "x"})
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := YAML(object)
		if err != nil {
			t.Fatal(err)
		}
		var want, got, other any
		if err := json.Unmarshal(object, &want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(encoded, &other); err != nil {
			t.Fatalf("%v; the YAML is %q", err, encoded)
		}
		if err := json.Unmarshal([]byte(readBack(t, encoded)), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, other); diff != "" {
			t.Errorf("sigs.k8s.io/yaml: %s; the YAML is %q", diff, encoded)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("catalogd: %s; the YAML is %q", diff, encoded)
		}
	})
}

func TestYAMLRefusesDuplicateKeys(t *testing.T) {
	if _, err := YAML([]byte(`{"schema":"x","n":{"a":1,"a":2}}`)); err == nil {
		t.Error("duplicate key")
	}
}
