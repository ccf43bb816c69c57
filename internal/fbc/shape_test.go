package fbc

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/property"
)

type (
	embedded struct{ A string }
	unusual  struct {
		embedded
		B string
	}
	quotedNumber struct {
		A int `json:"a,string"`
	}
	sameName struct {
		A string `json:"B"`
		B string
	}
	chain struct {
		Next *chain            `json:"next"`
		List []chain           `json:"list"`
		Map  map[string]chain  `json:"map"`
		Any  any               `json:"any"`
		Raw  json.RawMessage   `json:"raw"`
		At   time.Time         `json:"at"`
		By   map[int]string    `json:"by"`
		Data []byte            `json:"data"`
		Skip string            `json:"-"`
		Text map[string]string //nolint:tagliatelle // a name of its own
		OK   bool              `json:"ok,omitempty"`
		own  string
	}
)

var shapes = map[string]*shape{
	"chain": shapeOf[chain](), "unusual": shapeOf[unusual](), "quotedNumber": shapeOf[quotedNumber](), "sameName": shapeOf[sameName](),
	"metadata": shapeOf[property.CSVMetadata](),
}

// FuzzShape checks that encoding/json can decode a value that fits a type.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{
		`null`, `{"next":{"list":[{"map":{"a":{"Text":{"b":"c"}}}}]}}`,
		`{"any":[1],"raw":2,"at":"2026-01-02T03:04:05Z","by":{"1":""},"data":"aa=="}`,
		`{"-":1,"own":1,"Skip":1}`, `{"text":{"a":1}}`, `{"A":"","B":""}`, `{"A":1}`, `{"a":"1"}`, `{"a":1}`, `{"ok":1}`, `{"by":{"x":""}}`,
		`{"at":"x"}`, `{"data":"!"}`,
		`{"displayName":"a","displayName":7}`, `{"crdDescriptions":{"owned":[{"specDescriptors":[{"value":1}]}]}}`,
	} {
		f.Add([]byte(seed))
	}
	_ = chain{}.own
	f.Fuzz(func(t *testing.T, text []byte) {
		var compact bytes.Buffer
		if json.Compact(&compact, text) != nil {
			return
		}
		for name, s := range shapes {
			into := map[string]any{
				"chain":        &chain{},
				"unusual":      &unusual{},
				"quotedNumber": &quotedNumber{},
				"sameName":     &sameName{},
				"metadata":     &property.CSVMetadata{},
			}[name]
			err := json.Unmarshal(compact.Bytes(), into)
			if compact.Len() == 0 || s.skip(compact.Bytes(), 0) != compact.Len() {
				continue
			}
			if err != nil {
				t.Fatalf("%s fits %s, but %v", compact.Bytes(), name, err)
			}
		}
	})
}

func TestShapeFits(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `null`: true, `{"x":1,"displayName":"a","labels":{"a":"b"},"maintainers":[{"name":"a","email":"b"}]}`: true,
		`[]`: false, `"a"`: false, `{"DisplayName":"a"}`: false, `{"labels":[]}`: false, `{"maintainers":[1]}`: false, ``: false,
	} {
		if got := text != "" && shapes["metadata"].skip([]byte(text), 0) == len(text); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
