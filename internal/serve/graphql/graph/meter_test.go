package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/store"
)

func TestJSONValues(t *testing.T) {
	for text, want := range map[string]int64{
		`1`:                            1,
		`{}`:                           1,
		`[]`:                           1,
		`[{},{},{}]`:                   4,
		`{"a":"b"}`:                    2,
		`{"a":[1,2,{"b":null}],"c":3}`: 7,
		`{"a,{[":"\",{[\\","b":"\\"}`:  3,
		`[[[[]]]]`:                     4,
	} {
		if got := jsonValues([]byte(text)); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// FuzzJSONValues holds that the values of a JSON text are counted: all of compact JSON, and no fewer of any other.
func FuzzJSONValues(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{"b":null}],"c":3}`, `[ ]`, `["\\\"",{ }]`, `"`, `"\`, ``, `{"a":{},"a":[[],{}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := jsonValues(text)
		var compact bytes.Buffer
		if json.Compact(&compact, text) != nil {
			return
		}
		want := valuesIn(t, text)
		if got < want {
			t.Errorf("%q: got %d, want %d or more", text, got, want)
		}
		if got := jsonValues(compact.Bytes()); got != want {
			t.Errorf("%q: got %d, want %d", compact.Bytes(), got, want)
		}
	})
}

// valuesIn counts with a decoder that keeps members of one name apart.
func valuesIn(t *testing.T, text []byte) (count int64) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value func()
	value = func() {
		count++
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		delim, ok := token.(json.Delim)
		if !ok {
			return
		}
		for d.More() {
			if delim == '{' {
				if _, err := d.Token(); err != nil {
					t.Fatal(err)
				}
			}
			value()
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
	}
	value()
	return count
}

// A property without a value has one in the answer: its type says that it is never missing.
func TestPropertyWithoutValue(t *testing.T) {
	got := propertiesOf([]property.Property{{Type: "a"}, {Type: "b", Value: json.RawMessage("1")}}, nil)
	for i, want := range []string{"null", "1"} {
		var b strings.Builder
		if got[i].Value.MarshalGQL(&b); b.String() != want {
			t.Errorf("got %q, want %s", b.String(), want)
		}
	}
}

// When the time of a request is over, what walks over summaries or entries ends.
func TestWalksEndWithTheRequest(t *testing.T) {
	st, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	stage, err := st.Stage()
	if err != nil {
		t.Fatal(err)
	}
	const blobs = `{"schema":"olm.package","name":"p","defaultChannel":"a"}
		{"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1"}]}
		{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}`
	if err := stage.Root().WriteFile("c.json", []byte(blobs), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Commit(t.Context(), "c", store.Source{Image: "i", Digest: "sha256:" + strings.Repeat("1", 64)}); err != nil {
		t.Fatal(err)
	}
	r := NewRequest(Options{Limits: Limits{Read: 1}}, st.Catalogs())
	s := r.sources[0]
	summaries := func(ctx context.Context) (n int, last error) {
		for _, err := range s.summaries(ctx) {
			n, last = n+1, err
		}
		return n, last
	}
	if n, err := summaries(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d summaries, %v", n, err)
	}
	if n := s.selectSound(store.Query{}).Len(); n != 2 { // the package itself is not in one
		t.Errorf("got %d blobs", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := summaries(ctx); n != 1 || err == nil {
		t.Errorf("got %d summaries, %v", n, err)
	}
	if n := s.selectSound(store.Query{}).Len(); n != 0 {
		t.Errorf("got %d blobs of a request that has stopped", n)
	}
}
