package scan

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readText reads text as a file with the given name and returns its blobs. It checks the keys of each against
// its JSON.
func readText(t *testing.T, name, text string, maxBlob int64) ([]Blob, error) {
	t.Helper()
	return readAll(fstest.MapFS{name: {Data: []byte(text)}}, name, maxBlob)
}

func readAll(fsys fs.FS, name string, maxBlob int64) ([]Blob, error) {
	var blobs []Blob
	err := ReadFile(fsys, name, maxBlob, func(b Blob) error {
		b, _ = ParseBlob(bytes.Clone(b.JSON))
		blobs = append(blobs, b)
		return nil
	})
	return blobs, err
}

func jsonOf(blobs []Blob) []string {
	var lines []string
	for _, b := range blobs {
		lines = append(lines, string(b.JSON))
	}
	return lines
}

// wantError checks that err is an *Error of the path that contains text, or nil if text is empty.
func wantError(t *testing.T, err error, path, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
		return
	}
	var where *Error
	if !errors.As(err, &where) {
		t.Fatalf("got %T %v, want an *Error with %q", err, err, text)
	}
	if where.Path != path {
		t.Errorf("got path %q, want %q", where.Path, path)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got error %q, want one with %q", err, text)
	}
}

func TestFiles(t *testing.T) {
	file := &fstest.MapFile{}
	fsys := fstest.MapFS{
		".indexignore":       {Data: []byte("# a comment\n*.md\n!/b/keep.md\n/top.json\nsub/\n")},
		"README.md":          file,
		"top.json":           file,
		"b/top.json":         file, // the pattern is anchored
		"b/keep.md":          file,
		"b.json":             file, // "b.json" is behind "b/": directories stand where their name does
		"a/z.yaml":           file,
		"a/Z.json":           file,
		"a/sub/x.json":       file,
		"c/.indexignore":     {Data: []byte("x.json\n")},
		"c/x.json":           file,
		"c/y.json":           file,
		"d/.hidden.yaml":     file,
		"d/no-extension":     file,
		"d/e/f/deep.json":    file,
		"d/x.json":           file, // c's .indexignore holds for c only
		"sub-not-ignored.js": file,
	}
	want := []string{
		"a/Z.json", "a/z.yaml", "b/keep.md", "b/top.json", "b.json", "c/y.json",
		"d/.hidden.yaml", "d/e/f/deep.json", "d/no-extension", "d/x.json", "sub-not-ignored.js",
	}
	for range 3 { // the order does not depend on that of a map
		got, err := Files(fsys)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

func TestReadJSON(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []Blob
	}{
		"no blob":     {"", nil},
		"white space": {" \n\r\n", nil},
		"a blob": {
			`{"schema":"s","package":"p","name":"n"}`,
			[]Blob{{Schema: "s", Package: "p", Name: "n", JSON: []byte(`{"schema":"s","package":"p","name":"n"}`)}},
		},
		"white space goes, but not in strings": {
			"{ \"b\" : [ 1 ,\r\n\t2 ] ,\n\"schema\" : \" s  t \" , \"a\" : { } }\n",
			[]Blob{{Schema: " s  t ", Package: "", Name: "", JSON: []byte(`{"b":[1,2],"schema":" s  t ","a":{}}`)}},
		},
		"several, with nothing between": {
			`{"schema":"s","name":"1"}{"schema":"s","name":"2"}` + "\n\n" + `{"schema":"s","name":"3"}`,
			[]Blob{
				{Schema: "s", Package: "", Name: "1", JSON: []byte(`{"schema":"s","name":"1"}`)},
				{Schema: "s", Package: "", Name: "2", JSON: []byte(`{"schema":"s","name":"2"}`)},
				{Schema: "s", Package: "", Name: "3", JSON: []byte(`{"schema":"s","name":"3"}`)},
			},
		},
		"numbers keep their spelling": {
			`{"schema":"s","n":[9007199254740993,18446744073709551616,1.0e-7,1.10,-0,1E400,0.1000]}`,
			[]Blob{
				{
					Schema:  "s",
					Package: "",
					Name:    "",
					JSON:    []byte(`{"schema":"s","n":[9007199254740993,18446744073709551616,1.0e-7,1.10,-0,1E400,0.1000]}`),
				},
			},
		},
		"escapes stay": {
			`{"schema":"s","t":"\u00e9 \/ \ud83d\ude00 \ud800 <&> ` + "\u2028" + `"}`,
			[]Blob{{Schema: "s", Package: "", Name: "", JSON: []byte(`{"schema":"s","t":"\u00e9 \/ \ud83d\ude00 \ud800 <&> ` + "\u2028" + `"}`)}},
		},
		"keys are read with their escapes": {
			`{"\u0073chema":"s\u0021","name":"a\"b,c}"}`,
			[]Blob{{Schema: "s!", Package: "", Name: `a"b,c}`, JSON: []byte(`{"\u0073chema":"s\u0021","name":"a\"b,c}"}`)}},
		},
		"keys in another case": {
			`{"Schema":"s","PACKAGE":"p","Name":"n"}`,
			[]Blob{{Schema: "s", Package: "p", Name: "n", JSON: []byte(`{"Schema":"s","PACKAGE":"p","Name":"n"}`)}},
		},
		"keys below the top level do not count": {
			`{"x":{"schema":"no","name":7},"y":[{"name":null}],"schema":"s"}`,
			[]Blob{{Schema: "s", Package: "", Name: "", JSON: []byte(`{"x":{"schema":"no","name":7},"y":[{"name":null}],"schema":"s"}`)}},
		},
		"other keys may be doubled": {
			`{"schema":"s","a":1,"a":2}`,
			[]Blob{{Schema: "s", Package: "", Name: "", JSON: []byte(`{"schema":"s","a":1,"a":2}`)}},
		},
		"byte order mark": {"\xef\xbb\xbf" + `{"schema":"s"}`, []Blob{{Schema: "s", Package: "", Name: "", JSON: []byte(`{"schema":"s"}`)}}},
		"bytes that are no UTF-8": {
			"{\"schema\":\"s\",\"name\":\"caf\xe9\",\"t\":\"\xed\xa0\x80\xff\"}",
			[]Blob{
				{
					Schema:  "s",
					Package: "",
					Name:    "caf\uFFFD",
					JSON:    []byte("{\"schema\":\"s\",\"name\":\"caf\uFFFD\",\"t\":\"\uFFFD\uFFFD\uFFFD\uFFFD\"}"),
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readText(t, "dir/c.json", c.in, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	const hint = "; if the file is not part of the catalog, list it in a .indexignore file"
	valid := `{"schema":"s"}`
	for name, c := range map[string]struct{ file, in, want string }{
		"syntax error in a later blob":      {"c.json", valid + "\n\n{\n \"schema\": x\n}", "c.json:4: invalid character 'x'"},
		"syntax error at the end of a line": {"c.json", "{\"schema\":}\n\n\n", "c.json:1: invalid character '}'"},
		"syntax error behind a byte mark":   {"c.json", "\xef\xbb\xbf{\n\"a\":\n?}", "c.json:3: invalid character '?'"},
		"error in a blob behind a byte mark": {
			"c.json", "\xef\xbb\xbf" + valid + "\n\n{\"a\":1}", "c.json:3: the blob {\"a\":1} has no schema",
		},
		"early end":     {"c.json", valid + "\n\n{\"schema\":\n\"s\",\n", "c.json:3: the file ends in the middle"},
		"not an object": {"c.json", valid + "\n7", "c.json:2: the top level is a number"},
		"a null":        {"c.json", valid + "\nnull", "c.json:2: the top level is null"},
		"a list":        {"c.json", "[" + valid + "]", "c.json:1: the top level is a list"},
		"no schema": {
			"c.json",
			valid + "\n" + `{"name":"n"}`,
			`c.json:2: the blob {"name":"n"} has no schema; if the file is not part of the catalog, list it in a .indexignore file`,
		},
		"empty schema":                    {"c.json", `{"schema":""}`, "has no schema"},
		"long blob without a schema":      {"c.json", `{"a":"` + strings.Repeat("é", 100) + `"}`, "é… has no schema"},
		"schema is null":                  {"c.json", `{"schema":null}`, `the value of "schema" is null, not a string`},
		"name is a number":                {"c.json", `{"schema":"s","name":1}`, `the value of "name" is a number, not a string`},
		"package is a list":               {"c.json", `{"schema":"s","package":["p"]}`, `the value of "package" is a list, not a string`},
		"package is an object":            {"c.json", `{"schema":"s","package":{}}`, `the value of "package" is an object, not a string`},
		"name is a boolean":               {"c.json", `{"schema":"s","name":true}`, `the value of "name" is a boolean, not a string`},
		"doubled name":                    {"c.json", `{"schema":"s","name":"a","name":"a"}`, `duplicate key "name"`},
		"doubled name in another case":    {"c.json", `{"schema":"s","name":"a","Name":"b"}`, `duplicate key "Name"`},
		"doubled schema, the one escaped": {"c.json", `{"schema":"s","\u0073chema":"t"}`, "duplicate key"},
		"long key": {
			"c.json", `{"schema":"s","name":"` + strings.Repeat("n", MaxKeyBytes) + `"}`, "exceeds the limit of 4096 bytes",
		},
		"UTF-16, little endian": {"c.json", "\xff\xfe{\x00", "c.json: the file is UTF-16"},
		"UTF-16, big endian":    {"c.yaml", "\xfe\xff\x00{", "c.yaml: the file is UTF-16"},
		"NUL":                   {"c.json", "{\"schema\":\n\"\x00\"}", `c.json:2: invalid character '\x00'`},
		"too deep": {
			"c.json",
			`{"schema":"s","a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}",
			"c.json:1: invalid character '[' exceeded max depth",
		},
		"YAML in a .json that begins with {":   {"c.json", "{schema: s}", "c.json:1: invalid character 's'"},
		"flow mapping behind a JSON blob":      {"c.yaml", valid + "\n{schema: s}", "c.yaml:2: invalid character 's'"},
		"JSON cut off in a file of other name": {"c.yaml", `{"schema":"s`, "c.yaml:1: the file ends in the middle"},
		"text in a file of other name": {
			"README.md", "# A title\n\nA text.\n", "README.md:3: the top level is a string; a catalog file is a stream of objects" + hint,
		},
		"no YAML in a file of other name": {
			"d/README.md", "# A title\n\n`code`\n", "d/README.md: yaml: line 3: found character that cannot start any token" + hint,
		},
		"no JSON in a file without extension": {
			"Makefile", valid + "\n{]", "Makefile:2: invalid character ']' looking for beginning of object key string" + hint,
		},
		"UTF-16 in a file of other name": {
			"notes.txt", "\xff\xfe{\x00", "notes.txt: the file is UTF-16; a catalog is UTF-8: convert the file" + hint,
		},
		"too large, in a file of other name": {"a.bin", "schema: s\na: " + strings.Repeat("x", maxYAMLBytes), "write it as JSON)" + hint},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readText(t, c.file, c.in, 0)
			wantError(t, err, c.file, c.want)
			if hasCatalogName(c.file) && !strings.Contains(c.want, "has no schema") && strings.Contains(err.Error(), hint) {
				t.Errorf("%v: a file of that name is part of the catalog", err)
			}
		})
	}
}

func TestReadFileOfTheWrongSyntaxForItsName(t *testing.T) {
	for file, text := range map[string]string{
		"json.yaml":      `{"schema":"s","v":1.0}{"schema":"t","v":1.0}`,
		"yaml.json":      "schema: s\nv: 1.0\n---\nschema: t\nv: 1.0\n",
		"flow.yaml":      "{schema: s, v: 1.0}\n---\n{schema: t, v: 1.0}\n",
		"bom-flow.yaml":  "\xef\xbb\xbf{schema: s, v: 1.0}\n---\n{schema: t, v: 1.0}\n",
		"no-extension":   "  \n{\"schema\":\"s\",\"v\":1.0}{\"schema\":\"t\",\"v\":1.0}",
		"comment.yaml":   "# JSON is YAML\n{\"schema\":\"s\",\"v\":1.0}\n--- {\"schema\":\"t\",\"v\":1.0}",
		"flow-multiline": "{\n  schema: s, # a comment\n  v: 1.0\n}\n---\nschema: t\nv: 1.0\n",
	} {
		t.Run(file, func(t *testing.T) {
			got, err := readText(t, file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{`{"schema":"s","v":1.0}`, `{"schema":"t","v":1.0}`}, jsonOf(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The limit applies to one blob, not to its surroundings or to read buffers.
func TestReadBlobLimit(t *testing.T) {
	blob := func(size int) string {
		return `{"schema":"s","a":"` + strings.Repeat("x", size-len(`{"schema":"s","a":""}`)) + `"}`
	}
	const big = 300_000 // several buffers
	for name, c := range map[string]struct {
		file, in string
		max      int64
		blobs    int
		want     string
	}{
		"as large as the bound": {"c.json", blob(100), 100, 1, ""},
		"larger by one": {
			"c.json", blob(101), 100, 0, "c.json:1: the blob is too large: it has more than 100 bytes (limit: --max-blob-bytes)",
		},
		"many small ones": {"c.json", strings.Repeat(blob(60)+"\n", 5000), 60, 5000, ""},
		"the last is larger": {
			"c.json", strings.Repeat(blob(60)+"\n", 5000) + blob(61), 60, 5000, "c.json:5001: the blob is too large",
		},
		"several buffers, as large":      {"c.json", strings.Repeat(blob(big), 3), big, 3, ""},
		"several buffers, larger by one": {"c.json", blob(big) + "\n" + blob(big+1), big, 1, "c.json:2: the blob is too large"},
		"without end":                    {"c.json", "{\n\"schema\":\"" + strings.Repeat("x", 4*big), big, 0, "c.json:1: the blob is too large"},
		"YAML": {
			"c.yaml",
			"schema: s\na: " + strings.Repeat("x", 150_000),
			100_000,
			0,
			"c.yaml:1: the blob is too large: it has more than 100000 bytes (limit: --max-blob-bytes)",
		},
		"YAML without end": {
			"c.yaml", "schema: \"" + strings.Repeat("x", 4*big), big, 0, "c.yaml: the blob is too large: it has more than 300000 bytes",
		},
		"many small YAML documents": {"c.yaml", strings.Repeat("---\nschema: s\n", 20_000), 70_000, 20_000, ""},
		"YAML whose JSON is larger": {
			"c.yaml",
			"schema: s\na:\n" + strings.Repeat("- \"\\0\\0\\0\\0\\0\\0\\0\\0\"\n", 30),
			1000,
			0,
			"the blob is too large: it has more than 1000 bytes",
		},
		"YAML larger than all YAML": {
			"c.yaml", "schema: s\na: " + strings.Repeat("x", maxYAMLBytes), 0, 0, "4194304 bytes (limit of YAML: write it as JSON)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readText(t, c.file, c.in, c.max)
			wantError(t, err, c.file, c.want)
			if errors.Is(err, ErrBlobTooLarge) != (c.want != "") {
				t.Errorf("error %v is not ErrBlobTooLarge", err)
			}
			if len(got) != c.blobs {
				t.Errorf("got %d blobs, want %d", len(got), c.blobs)
			}
		})
	}
}

func TestReadFileReturnsErrorsOfTheCallback(t *testing.T) {
	stop := fmt.Errorf("stop: %w", os.ErrClosed)
	for _, file := range []string{"c.json", "c.yaml"} {
		calls := 0
		fsys := fstest.MapFS{
			"c.json": {Data: []byte(`{"schema":"s"}{"schema":"t"}`)},
			"c.yaml": {Data: []byte("schema: s\n---\nschema: t\n")},
		}
		err := ReadFile(fsys, file, 0, func(Blob) error { calls++; return stop })
		if err != stop || calls != 1 { //nolint:errorlint // that very error is promised
			t.Errorf("%s: got %v after %d calls, want the callback's own error after one", file, err, calls)
		}
	}
}

// brokenFS fails after some bytes of every file, like a broken disk.
type brokenFS struct {
	fs.FS
	after string
}

type brokenFile struct {
	fs.File
	text *strings.Reader
}

var errDisk = errors.New("input/output error")

func (f brokenFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return &brokenFile{file, strings.NewReader(f.after)}, err
}

func (f *brokenFile) Read(p []byte) (int, error) {
	if f.text.Len() == 0 {
		return iotest.ErrReader(errDisk).Read(p)
	}
	return f.text.Read(p)
}

// An *Error is permanent; an error of the disk must not become one.
func TestReadFileTellsDiskFromContent(t *testing.T) {
	for file, begin := range map[string]string{
		"empty.json": "", "c.json": `{"schema":"s"}{"sch`, "c.yaml": "schema: s\n---\nschema: t\n", "flow.yaml": "{schema: s",
	} {
		t.Run(file, func(t *testing.T) {
			_, err := readAll(brokenFS{fstest.MapFS{file: {}}, begin}, file, 0)
			var where *Error
			if !errors.Is(err, errDisk) || errors.As(err, &where) || !strings.Contains(err.Error(), file) {
				t.Errorf("got %T %v, want the error of the disk with the name of the file and no *Error", err, err)
			}
		})
	}
	_, err := readAll(fstest.MapFS{}, "missing.json", 0)
	var where *Error
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &where) {
		t.Errorf("got %T %v for a missing file, want fs.ErrNotExist and no *Error", err, err)
	}
}

// BenchmarkReadFile reads a file of 1000 bundles of 5 kB, the median of a real catalog.
func BenchmarkReadFile(b *testing.B) {
	var text bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&text, "{\n  \"schema\": \"olm.bundle\",\n  \"package\": \"foo\",\n  \"name\": \"foo.v0.0.%d\",\n  \"properties\": [\n", i)
		for j := range 40 {
			fmt.Fprintf(&text,
				"    {\"type\": \"olm.gvk\", \"value\": {\"group\": \"example.com\", \"kind\": \"Kind%d\", \"version\": \"v1\"}},\n", j)
		}
		fmt.Fprintf(&text, "    {\"type\": \"example.com.text\", \"value\": %q}\n  ]\n}\n", strings.Repeat("text ", 200))
	}
	fsys := fstest.MapFS{"c.json": {Data: text.Bytes()}}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if err := ReadFile(fsys, "c.json", 0, func(Blob) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
