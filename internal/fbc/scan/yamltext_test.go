package scan

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// catalogDir is the root of an unpacked catalog for benchmarks and for comparing both paths through YAML.
var catalogDir = flag.String("catalog", "", "directory of a catalog for TestYAMLTextOfCatalog and the benchmarks")

func newYAMLStream(r io.Reader) *yamlStream {
	return &yamlStream{r: r, src: &boundedReader{r: r, max: maxYAMLBytes}}
}

// compareYAML compares yamlText with the YAML library for each document of a text, and counts those it declines.
func compareYAML(t testing.TB, name string, text []byte) (documents, declined int) {
	t.Helper()
	s := newYAMLStream(bytes.NewReader(text))
	var fast yamlText
	w := yamlWriter{src: s.src}
	for {
		doc, err := s.next()
		if err != nil {
			if errors.Is(err, errUnsplit) {
				declined++
			}
			return documents, declined
		}
		documents++
		start, ok := fast.convert(doc)
		if !ok {
			declined++
			continue
		}
		line, ok := w.only(doc)
		if !ok {
			t.Fatalf("%s:%d: the library declines the document, which becomes %s\n%q", name, s.line+1, fast.out, doc)
		}
		if !bytes.Equal(fast.out, w.out) {
			t.Fatalf("%s:%d: the document\n%q\nbecomes -library +ours:\n%s", name, s.line+1, doc, cmp.Diff(string(w.out), string(fast.out)))
		}
		if got := 1 + bytes.Count(doc[:start], newline); len(w.out) > 0 && got != line {
			t.Fatalf("%s: the document\n%q\nbegins in line %d, want %d", name, doc, got, line)
		}
	}
}

// yamlFiles calls fn for each YAML file of a catalog.
func yamlFiles(t testing.TB, fsys fs.FS, fn func(name string, text []byte)) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if ext := path.Ext(name); err != nil || d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if len(text) > 0 && text[0] != '{' {
			fn(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Real catalogs must be read without the library, but for one document in a hundred with rare syntax.
func TestYAMLTextOfCatalog(t *testing.T) {
	dirs := []string{"../testdata/small"}
	if *catalogDir != "" {
		dirs = append(dirs, *catalogDir)
	}
	for _, dir := range dirs {
		documents, declined, size := 0, 0, 0
		yamlFiles(t, os.DirFS(dir), func(name string, text []byte) {
			n, rare := compareYAML(t, name, text)
			documents, declined, size = documents+n, declined+rare, size+len(text)
		})
		if documents == 0 || declined > 1+documents/100 {
			t.Errorf("%s: %d of %d documents go to the library", dir, declined, documents)
		}
		t.Logf("%s: %d documents, %d bytes; %d documents go to the library", dir, documents, size, declined)
	}
}

// JSON catalogs converted to YAML by other tools must be read without the library, but for one document in a hundred:
// long keys get a "?", and special characters become escapes.
func TestYAMLTextOfJSON(t *testing.T) {
	dir := "../testdata/small"
	if *catalogDir != "" {
		dir = *catalogDir
	}
	documents, declined := 0, 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, file fs.DirEntry, err error) error {
		if err != nil || file.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		var stream bytes.Buffer
		err = ReadFile(os.DirFS(dir), name, 0, func(b Blob) error {
			text, err := yaml.JSONToYAML(b.JSON)
			stream.WriteString("---\n")
			stream.Write(text)
			return err
		})
		n, d := compareYAML(t, name, stream.Bytes())
		documents, declined = documents+n, declined+d
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d documents, %d go to the library", dir, documents, declined)
	if documents == 0 || declined > documents/100 {
		t.Errorf("%s: %d of %d documents go to the library", dir, declined, documents)
	}
}

// blobsOf reads a stream with one of the two readers.
func blobsOf(r io.Reader, read func(s *yamlStream, fn func(Blob) error) error) (blobs []string, err error) {
	err = read(newYAMLStream(r), func(b Blob) error {
		blobs = append(blobs, string(b.JSON))
		return nil
	})
	return blobs, err
}

func readBothWays(s *yamlStream, fn func(Blob) error) error { return readYAML(s.r, s.src, visitOf(fn)) }

func readByLibrary(s *yamlStream, fn func(Blob) error) error {
	return readYAMLNodes(s.r, s.src, 0, visitOf(fn))
}

// compareYAMLStream compares the result for a stream with that of the library alone.
func compareYAMLStream(t testing.TB, text []byte) {
	t.Helper()
	want, wantErr := blobsOf(bytes.NewReader(text), readByLibrary)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(text), "in bytes": iotest.OneByteReader(bytes.NewReader(text))} {
		got, err := blobsOf(r, readBothWays)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %q\ngot %v, the library gives %v", name, text, err, wantErr)
		}
		if err == nil && !cmp.Equal(got, want) {
			t.Fatalf("%s: %q\n-library +ours:\n%s", name, text, cmp.Diff(want, got))
		}
		// The library reports errors in its read buffer first.
		if err != nil && name == "whole" && !bytes.Contains(text, []byte("---")) && err.Error() != wantErr.Error() {
			t.Fatalf("%s: %q\ngot %v, the library gives %v", name, text, err, wantErr)
		}
	}
}

// FuzzYAMLText compares both paths through YAML.
func FuzzYAMLText(f *testing.F) {
	addSeeds(f, ".yaml")
	for _, text := range append(takenTexts, declinedTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Count(text, newline) > 5000 {
			return
		}
		compareYAML(t, "text", text)
		compareYAMLStream(t, text)
	})
}

// BenchmarkYAML compares both paths on the catalog of the flag -catalog, or the small one.
func BenchmarkYAML(b *testing.B) {
	dir := "../testdata/small"
	if *catalogDir != "" {
		dir = *catalogDir
	}
	var texts [][]byte
	size := int64(0)
	yamlFiles(b, os.DirFS(dir), func(_ string, text []byte) {
		texts = append(texts, text)
		size += int64(len(text))
	})
	for name, read := range map[string]func(s *yamlStream, fn func(Blob) error) error{
		"text":    readBothWays,
		"library": readByLibrary,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				for _, text := range texts {
					if err := read(newYAMLStream(bytes.NewReader(text)), func(Blob) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("convert", func(b *testing.B) { // without looking into the blobs
		b.SetBytes(size)
		for b.Loop() {
			declined := 0
			for _, text := range texts {
				s := newYAMLStream(bytes.NewReader(text))
				var t yamlText
				for {
					doc, err := s.next()
					if err != nil {
						break
					}
					if _, ok := t.convert(doc); !ok {
						declined++
					}
				}
			}
			b.ReportMetric(float64(declined), "declined")
		}
	})
}

// takenTexts are texts that yamlText supports, including edge cases.
var takenTexts = []string{
	"", "\n", "# c\n", "---\n", "--- \n---\n", "--- # c\na: 1\n", "a: 1", "a:", "a: b\n---", "  a: 1\n  b: 2\n",
	"a:\n- b\n- c\nd:\n  - e\n  - - f\n    - g\n  - h: i\n    j: k\n  -   l:\n",
	"a: b\n c\n\n d # e\n", "a: b #c\ne: f#g\n# h\n\n  # i\nj: k\n", "a:\n  b\n  c\n", "a:\n  \"b\n  c\"\n",
	"a: :8080\nb: ?c\nd: -e\nf: --g\nh: http://i\n",
	"a: \"b\n  c\n\n  d\n  \\ e\\n\\t\"\n", "a: 'b\n\n  ''c'' \"d\"\\\n  '\n",
	"a: 'b'\nc: \"d\" # e\n",
	"a: |\n  b\n   c\n\n  d\n\nb: |-\n  e\nc: |+\n  f\n\n", "a: |2\n    b\n  c\nd: |1-\n e\n  f\n g\n",
	"a: |\nb: |\n  \"\tc\\\nd: |-\n\ne: 1\n", "a: |\n  b\n # c\nd: e\n", "a:\n- |\n b\n- |-\n c\n", "a: |\n  ---\n  b\n",
	"a: {}\nb: []\nc: {} # d\n",
	"a: 1.10\nb: 0x1F\nc: +1\nd: 1_0\ne: .5\nf: 1e3\ng: 1.2.3\nh: 2020-01-01\ni: -0\nj: .a\nk: 010\nl: 9999999999999999999\n",
	"a: y\nb: No\nc: OFF\nd: True\ne: NULL\nf: nullable\ng: <\n", "a: \u00e9\u4e2d\n", "schema: s\nname: a\nname: b\n",
	"a: " + strings.Repeat("b", 2000) + "\n" + strings.Repeat("c", 1000) + ": d\n",
	"a:\n" + strings.Repeat("- ", maxTextDepth-1) + "b\n", "a: |-\n" + strings.Repeat(" \"b\tc \u00e9\\d\n", 10),
}

// declinedTexts are valid and invalid texts that yamlText leaves to the library.
var declinedTexts = []string{
	"a:\n-\n- \nb:\n", "a:\n  -\n    - b\n  -\n    c: d\n",
	"a: \"b \\\n  \\ c\"\n", "a: \"b \\\n\n  c\\\n\"\n", "\"a\": b\n", "'a': b\n", "a:\n- \"b\": c\n",
	"a: >\n  b\n  c\n   d\n\n  e\n\nf: >-\n  g\n", "a: >1-\n e\n  f\n g\n", "a: |-1\n b\n", "a: >+\n\ne: 1\n",
	"a: { } # d\n", "1: a\n", "true: b\n", "yes: c\n", "1.5: d\n", "0x10: f\n",
	"~: a\n", "null: a\n", "{null: a}\n", "a: {~: b}\n",
	"- a\n- b\n", "a\n", "{a: b}\n", "--- c: d\n", "a:\n  - b\n c: d\n", "a: b\n # c\n d\n", "a: b: c\n", "a: b\n  c: d\n", "a: b\n c:\n",
	"a: b\n  : c\n", "f: - g\n", "a: \"\\/\"\n",
	"a: \"\\ud83d\"\n", "a: \"\\x4\"\n", "a: \"b\n...\"\n", "a: 'b\n", "a: \"b\n", "a: |\n\n    \n  b\n", "a: |\n    b\n  # c\n  d\n",
	"a: |\n  b", "a: |\n  b\n \tc\n", "a: |0\n b\n", "a: | # c\n  b\n",
	"a: \"\\e\"\n", "a: \"\\0\"\n", "a: \"\\_\"\n",
	"a: ! 1\n", "a:\n- &x ! yes\n- ! b\n", "! ~: a\n",
	"a: \"\\x41\\u263a\\U0001F600\\r\"\n", "a: [a, 'b', \"c\", 1, -1, [x], {y: z}]\n", "a: {b: 1, \"c\":2, d: {}, 4: 5}\n",
	"a: [b, ]\n", "a: [b\n]\n", "a: {b}\n", "a: [b: c]\n", "a: {b:c}\n", "a: [--]\n", "a: [b]c\n", "a: &b c\nd: *b\n", "a: !!str 1\n",
	"<<: {a: b}\n", "a: <<\n", "? a\n: b\n", "%YAML 1.1\n",
	"a: b\n...\n", "a : b\n", "\"c\" : d\n", "a:\tb\n", "a: b\tc\n", "\ta: b\n", "a: %b\n", "a: @b\n", "a: `b\n", "a: ,b\n", "a: ]\n",
	"a: 'b'c\n", "a: 'b'#c\n", "--- : c\n", "-a\n", "a: .inf\nb: -.NaN\n",
	strings.Repeat("c", 1010) + ": d\n", "a:\n" + strings.Repeat("- ", maxTextDepth) + "b\n",
	"a: b\r\nc: d\r\n", "a: b\u2028c: d\n", "a: \x07\n", "a: b\xff\n", "a: \ufeffb\n", "a: \u009fb\n", "a: \x7f\n",
}

func TestYAMLText(t *testing.T) {
	for _, text := range takenTexts {
		if documents, declined := compareYAML(t, "text", []byte(text)); declined > 0 {
			t.Errorf("%q: %d of %d documents go to the library", text, declined, documents)
		}
	}
	for _, text := range declinedTexts {
		if _, declined := compareYAML(t, "text", []byte(text)); declined == 0 {
			t.Errorf("%q does not go to the library", text)
		}
	}
	for _, text := range append(takenTexts, declinedTexts...) {
		compareYAMLStream(t, []byte(text))
		compareYAMLStream(t, []byte("schema: s\n"+text))
		compareYAMLStream(t, []byte("schema: s\n---\n\nschema: t\n"+text))
	}
}

// Blobs, errors and their lines must be those of the library wherever the two paths alternate.
func TestYAMLStream(t *testing.T) {
	large := "schema: s\na: " + strings.Repeat("b", 3*yamlReadSize) + "\n---\n"
	for name, text := range map[string]string{
		"a tag between":          "schema: s\na: \"x\"\n---\n!!map {schema: t}\n---\n# c\n\nschema: u\n",
		"many of them":           strings.Repeat("---\nschema: s\na: !!str 1\n", 2*maxDeclined),
		"no schema":              "schema: s\n---\n\n# c\nname: a\n",
		"no schema, with a tag":  "schema: s\n---\n\n# c\nname: !!str a\n",
		"no schema, behind many": strings.Repeat("---\nschema: !!str s\n", maxDeclined+2) + "---\nname: a\n",
		"syntax":                 "schema: s\n---\nschema: t\na:\n  - b\n c: d\n",
		"syntax, then more":      "schema: s\n---\nschema: t\na: b\n...\nc\n---\nschema: u\n",
		"no JSON form":           "schema: s\n---\nschema: t\na: .inf\n",
		"anchor of before":       "schema: s\na: &x [b]\n---\nschema: t\na: *x\n",
		"unknown anchor":         "schema: s\n---\nschema: t\n---\nschema: u\na: *x\n",
		"directives":             "%YAML 1.1\n---\nschema: s\n---\nschema: t\n",
		"directives behind":      "schema: s\n...\n%TAG !e! tag:e,2000:\n---\nschema: t\na: !e!b c\n",
		"other line breaks":      "schema: s\r\n---\r\nschema: t\r\n---\r\nname: a\r\n",
		"null documents":         "---\n~\n---\nnull\n---\n!!null\n---\nschema: s\n---\n",
		"large":                  large + "schema: t\n---\n" + large + "name: \u00e9",
		"large, and a tag":       large + "schema: !!str t\n---\n" + large + "# c\nname: !!str a\n",
		"a control character":    large + large + "schema: t\na: \x01\n",
		"a non-specific tag":     "schema: s\n---\r\nschema: t\na: ! 1\n---\nschema: u\nb: é\na: [é, &x ! yes]\n",
		"no separator":           "schema: s\n----\n---a: b\n--- \nschema: t\n",
	} {
		t.Run(name, func(t *testing.T) {
			want, wantErr := blobsOf(strings.NewReader(text), readByLibrary)
			got, err := blobsOf(strings.NewReader(text), readBothWays)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("blobs, -library +ours:\n%s", diff)
			}
			if diff := cmp.Diff(errorOf(wantErr), errorOf(err)); diff != "" {
				t.Errorf("error, -library +ours:\n%s", diff)
			}
		})
	}
}

func errorOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
