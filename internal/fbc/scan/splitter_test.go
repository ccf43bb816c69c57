package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func jsonTexts() []string {
	valid := `{"schema":"s"}`
	texts := []string{
		"", " \n\t\r", valid, valid + valid + "\n" + valid, "[]", "7", "null" + valid, valid + "7", valid + "]", valid + "\xef\xbb\xbf",
		"\xef\xbb\xbf" + valid,
		`{"schema":"olm.bundle","name":"b","package":"p","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.2.3"}},` +
			`{"value":{"group":"g","version":"v1","kind":"K"},"type":"olm.gvk"},{"type":"olm.gvk","value":{"kind":"\u004b","version":"v1",` +
			`"Group":"h"}},` +
			`{"type":"a"},{"type":7,"type":"b","type":null},[{"type":"no"}],{"x":{"type":"no"},"TYPE":"c"},[["type","no"],"type","no"],1,{}]}`,
		`{"properties":[{"type":"a"}],"schema":"olm.bundle","Properties":[{"type":"b","value":[{"type":"no"}]}]}`,
		`{"schema":"olm.bundle","properties":[{"type":"a"}],"properties":{"x":{"type":"b"}}}`,
		`{"schema":"olm.bundle","properties":{"x":[{"type":"a"}]},"x":[{"type":"b"}],"relatedImages":[{"name":"n"}]}`,
		`{"x":[{"a":{},"schema":"no","name":7,"properties":[{"type":"no"}]}],"schema":"olm.bundle"}`,
		`{"schema":"olm.bundle","x":[{"a":{},"package":"no","properties":[{"type":"no"}]}],"properties":[{"a":{"b":[]},"type":"a"}],"name":"n"}`,
		"{\"\u017fchema\":\"s\",\"pac\u212aage\":\"p\",\"na\xffme\":1,\"name\":\"\\u00e9\xff\"}",
		"{\"schema\":\"olm.bundle\",\"properties\":[{\"type\":\"\xff\"},{\"type\":\"olm.gvk\",\"value\":{\"group\":\"\xff\"," +
			"\"version\":\"v\",\"kind\":\"k\"}}]}",
		`{"schema":"s","name":"a","Name":"b"}`, `{"schema":1}`, `{"schema":null}`, `{"schema":""}`, `{"name":"n"}`, `{"schema":"s","name":["n"]}`,
		`{"schema":"s","name":"` + strings.Repeat("n", MaxKeyBytes-2) + `"}`,
		`{"schema":"s","name":"` + strings.Repeat("n", MaxKeyBytes-1) + `"}`,
		`{"schema":"s","a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + "}",
		`{"schema":"s","a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}",
		`{"schema":"s","a":` + strings.Repeat(`{"b":`, 10000) + "1" + strings.Repeat("}", 10000) + "}",
		"{\n    \"schema\" : \"s\" ,\r\n\t\"a\"\n:\n[ 1 , 2\n]\n,\"b\":{ }                                }\n",
		valid + "{\n \"schema\": x\n}", "{schema: s}", valid + `{"schema":"s`, "{", "{}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`,
		`{"a":[1,]}`, `{"a":[,1]}`,
		`{"a":[1 2]}`, `{"a":[}]`, `{"a":[1}`, `{"a":1]`, `{"a"::1}`, `{1:1}`, `{"a":1}}`, `{"a":{]}`, `{"a":{"b":1]}`,
		`{"a":{},"b":[],"c":[[]]}`,
	}
	for _, value := range []string{
		"0", "-0", "1", "10", "-12", "01", "-", "+1", "1.5", "1.", ".5", "0.0", "1e5", "1E+05", "1e-5", "1e", "1e+", "1.5e", "0e0", "-x", "1x",
		"0x1", "1e400",
		strings.Repeat("1234567890", 20), "-1." + strings.Repeat("0", 100) + "e" + strings.Repeat("0", 100), "1 e5", "9007199254740993",
		"true", "false", "null", "tru", "fals", "nul", "truE", "nulll", "True", "t", "f", "n",
		`""`, `"a`, `"\""`, `"\\"`, `"\\\\\"\\"`, `"\/\b\f\n\r\t"`, `"\u00e9\uD83D\ude00"`, `"\ud800"`, `"\u00g0"`, `"\u12"`, `"\u"`, `"\x"`,
		`"\`, `"\"`, `'a'`,
		"\"\x00\"", "\"\x1f\"", "\"\t\"", "\"\x7f\"", "\"\xff\xc0\xaf\xed\xa0\x80\"", "\"\u2028é😀\"", "\"1234567\x01\"", "\"\xa2\xdc\x9f\"",
		"\"<&>\"",
		`"` + strings.Repeat("0123456789", 30) + `"`, `"` + strings.Repeat(`\n\"`, 60) + `"`,
	} {
		texts = append(texts, `{"schema":"s","v":`+value+`}`, `{"schema":"s","v":[`+value+"\n,"+value+` ]}`, `{"schema":"s","name":`+value+`}`,
			`{"schema":"s",`+value+`:1}`)
	}
	return texts
}

// The splitter must equal encoding/json wherever the input is cut.
func TestSplitterIsEncodingJSON(t *testing.T) {
	for _, text := range jsonTexts() {
		for window := range 10 {
			for _, piece := range []int{1, 2, 5, 100_000} {
				if err := compareWithLibrary([]byte(text), minWindow+window, piece, 50_000+len(text)); err != nil {
					t.Errorf("%.200q, window %d, pieces of %d: %v", text, window, piece, err)
				}
			}
		}
	}
}

func TestSplitterReadsRealCatalogs(t *testing.T) {
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, window := range []int{minWindow, 1000, windowSize} {
			if err := compareWithLibrary(text, window, len(text), len(text)); err != nil {
				t.Errorf("%s, window %d: %v", path, window, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A large object takes memory of its own size, and the next file takes none.

// The limit of an object includes white space in it, but not around it.
func TestSplitterBoundsObjects(t *testing.T) {
	object := "{\"schema\":\"s\"," + strings.Repeat(" ", 100) + "\"a\":\"" + strings.Repeat("x", 100) + "\"}"
	around := strings.Repeat("\n", 1000)
	for _, piece := range []int{1, 10, 100_000} {
		for limit, want := range map[int]int{len(object) - 1: 0, len(object): 2, len(object) + 1: 2} {
			if err := compareWithLibrary([]byte(around+object+around+object+around), minWindow, piece, limit); err != nil {
				t.Errorf("pieces of %d, bound %d: %v", piece, limit, err)
			}
			got, err := readText(t, "c.json", around+object+around+object+around, int64(limit))
			if len(got) != want || errors.Is(err, ErrBlobTooLarge) != (want == 0) {
				t.Errorf("bound %d: got %d objects and %v, want %d", limit, len(got), err, want)
			}
		}
	}
}

// An endless object must not be read beyond the limit.
func TestSplitterStopsAtTheBound(t *testing.T) {
	const limit = 1000
	for _, text := range []string{
		`{"a":"` + strings.Repeat("x", 100*limit), `{"a":` + strings.Repeat(" ", 100*limit), `{"a":` + strings.Repeat("1", 100*limit),
	} {
		s := newSplitter(minWindow)
		s.reset(strings.NewReader(text), limit)
		if err := s.next(); !errors.Is(err, errNotPlain) || s.offset(s.end) > 2*limit {
			t.Errorf("%.10s...: got %v after %d bytes, want errNotPlain after some %d", text, err, s.offset(s.end), limit)
		}
	}
}

// Memory follows the compact form of the largest object.
func TestSplitterHoldsOneCompactObject(t *testing.T) {
	const size = 3 << 20
	large := `{"schema":"s","a":"` + strings.Repeat("x", size) + `"}`
	indented := `{"schema":"s",` + strings.Repeat(" ", size) + `"a":[` + strings.Repeat("\n\t    1,", size/8) + `2]}`
	for text, most := range map[string]int{large: 2 * size, indented: 2 * size / 4, strings.Repeat(`{"schema":"s"}`, size/10): 1000} {
		s := newSplitter(windowSize)
		s.reset(strings.NewReader(text), DefaultMaxBlobBytes)
		var err error
		for err == nil {
			err = s.next()
		}
		if !errors.Is(err, io.EOF) || cap(s.out) > most {
			t.Errorf("%.30q...: got a buffer of %d bytes and %v, want up to %d and the end", text, cap(s.out), err, most)
		}
	}
}

// jsonOfCatalog returns the JSON of the catalog directory in the environment variable FBC_CATALOG, or else of
// some bundles like those of a real catalog.
func jsonOfCatalog(b *testing.B) []byte {
	b.Helper()
	dir := os.Getenv("FBC_CATALOG")
	if dir == "" {
		return []byte(strings.Repeat(bundleLikeText(), 500))
	}
	fsys := os.DirFS(dir)
	files, err := Files(fsys)
	if err != nil {
		b.Fatal(err)
	}
	var all []byte
	for _, name := range files {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			b.Fatal(err)
		}
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
			all = append(all, text...)
		}
	}
	return all
}

func bundleLikeText() string {
	var text strings.Builder
	fmt.Fprintf(&text, "{\n    \"schema\": \"olm.bundle\",\n    \"name\": \"foo.v1.0.0\",\n    \"package\": \"foo\",\n    \"properties\": [\n")
	for i := range 5 {
		fmt.Fprintf(&text, "        {\n            \"type\": \"olm.gvk\",\n            \"value\": {\n                \"group\": "+
			"\"example.com\",\n                \"kind\": \"Kind%d\",\n                \"version\": \"v1\"\n            }\n        },\n", i)
	}
	fmt.Fprintf(&text, "        {\n            \"type\": \"olm.csv.metadata\",\n            \"value\": {\n                "+
		"\"annotations\": {\n                    \"alm-examples\": %q,\n                    \"description\": %q\n                }\n    "+
		"        }\n        }\n    ]\n}\n",
		strings.Repeat("{\n    \"apiVersion\": \"example.com/v1\"\n}", 100), strings.Repeat("A text for people. ", 500))
	return text.String()
}

// BenchmarkSplit compares the splitter with JSON libraries.
func BenchmarkSplit(b *testing.B) {
	text := jsonOfCatalog(b)
	fsys := fstest.MapFS{"c.json": {Data: text}}
	for name, run := range map[string]func() error{
		"ReadFile": func() error { return ReadFile(fsys, "c.json", 0, func(Blob) error { return nil }) },
		"splitter": func() error {
			s := newSplitter(windowSize)
			s.reset(bytes.NewReader(text), DefaultMaxBlobBytes)
			for {
				if err := s.next(); err != nil {
					return ignoreEOF(err)
				}
			}
		},
		"encoding-json": func() error {
			dec := json.NewDecoder(bytes.NewReader(text))
			var raw json.RawMessage
			var compact bytes.Buffer
			for {
				if err := dec.Decode(&raw); err != nil {
					return ignoreEOF(err)
				}
				compact.Reset()
				if err := json.Compact(&compact, raw); err != nil {
					return err
				}
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
