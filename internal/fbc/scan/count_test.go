package scan

import (
	"bytes"
	"encoding/json"
	"testing"
)

func countDecoded(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += countDecoded(e)
		}
	case map[string]any:
		for _, e := range v {
			n += countDecoded(e)
		}
	}
	return n
}

var valueTexts = []string{
	`{}`, `[]`, `7`, `"{,[\","`, `true`, `[{}]`, `[[],[]]`, `{"a":1}`, `{"a,{":"b]\\","c":[1,-2.5e3,null]}`, `{"a":{"b":{"c":{}}}}`,
	" [ 1 , { \"a\" : \"\\\"\" } ,\n[ ] ] ",
}

func TestCountValues(t *testing.T) {
	for _, text := range valueTexts {
		if got, want := CountValues([]byte(text)), countDecoded(decode(t, []byte(text))); got != want {
			t.Errorf("got %d values, want %d: %s", got, want, text)
		}
	}
}

func FuzzCountValues(f *testing.F) {
	for _, text := range valueTexts {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"a":1,"a":2`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := CountValues(text)
		var v any
		if json.Unmarshal(text, &v) == nil && n < countDecoded(v) { // more: of keys that stand twice
			t.Errorf("got %d values, want at least %d: %s", n, countDecoded(v), text)
		}
	})
}

func TestCountValuesOfText(t *testing.T) {
	for text, want := range map[string]int{
		`1`:                            1,
		`{}`:                           1,
		`[]`:                           1,
		`[{},{},{}]`:                   4,
		`{"a":"b"}`:                    2,
		`{"a":[1,2,{"b":null}],"c":3}`: 7,
		`{"a,{[":"\",{[\\","b":"\\"}`:  3,
		`[[[[]]]]`:                     4,
	} {
		if got := CountValues([]byte(text)); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// FuzzCountCompactValues checks that counts are exact for compact JSON and never too low for other JSON.
func FuzzCountCompactValues(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{"b":null}],"c":3}`, `[ ]`, `["\\\"",{ }]`, `"`, `"\`, ``, `{"a":{},"a":[[],{}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := CountValues(text)
		var compact bytes.Buffer
		if json.Compact(&compact, text) != nil {
			return
		}
		want := valuesIn(t, text)
		if got < want {
			t.Errorf("%q: got %d, want %d or more", text, got, want)
		}
		if got := CountValues(compact.Bytes()); got != want {
			t.Errorf("%q: got %d, want %d", compact.Bytes(), got, want)
		}
	})
}

// valuesIn counts with a decoder that keeps duplicate keys.
func valuesIn(t *testing.T, text []byte) (count int) {
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
