package scan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadYAML(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":       {"", nil},
		"comments only": {"# one\n---\n# two\n", nil},
		"a document":    {"schema: s\nname: foo\n", []string{`{"schema":"s","name":"foo"}`}},
		"several documents": {
			"---\nschema: s\n---\nschema: t\n...\n---\nschema: u\n", []string{`{"schema":"s"}`, `{"schema":"t"}`, `{"schema":"u"}`},
		},
		"empty ones between": {
			"---\n---\nschema: s\n---\n# no content\n---\nnull\n---\n~\n---\nschema: t\n---\n", []string{`{"schema":"s"}`, `{"schema":"t"}`},
		},
		"byte order mark": {"\xef\xbb\xbfschema: s\n", []string{`{"schema":"s"}`}},
		"order of keys":   {"z: 1\nschema: s\na: {d: 1, b: 2}\n", []string{`{"z":1,"schema":"s","a":{"d":1,"b":2}}`}},
		"keys that are no strings": {
			"schema: s\n1: a\ntrue: b\nyes: c\n1.5: d\n0x10: f\n2020-01-01: g\n",
			[]string{`{"schema":"s","1":"a","true":"b","true":"c","1.5":"d","16":"f","2020-01-01":"g"}`},
		},
		"strings": {
			"schema: s\na: \"q\\\"b\\\\s \\t \\r \\x01 \\u263a\"\nb: 'it''s'\nc: |\n  two\n  lines\nd: >-\n  one\n  line\ne: <&>\nf: \"\\L\"\n",
			[]string{
				`{"schema":"s","a":"q\"b\\s \t \u000d \u0001 ☺","b":"it's","c":"two\nlines\n","d":"one line","e":"<&>","f":"` + "\u2028" + `"}`,
			},
		},
		"a bound deep enough": {
			"schema: s\na: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
			[]string{`{"schema":"s","a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readText(t, "c.yaml", c.in, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, jsonOf(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Plain scalars are resolved as in YAML 1.1, but numbers keep their digits.
func TestYAMLScalars(t *testing.T) {
	for in, want := range map[string]string{
		// null and booleans
		"": "null", "~": "null", "null": "null", "Null": "null",
		"true": "true", "True": "true", "TRUE": "true", "yes": "true", "On": "true", "y": "true", "Y": "true",
		"false": "false", "FALSE": "false", "no": "false", "OFF": "false", "n": "false", "N": "false",
		`"yes"`: `"yes"`, "'no'": `"no"`, "!!str yes": `"yes"`, "yEs": `"yEs"`, "!!bool yes": "true", "!!bool off": "false",
		"!!bool True": "true",
		// integers
		"0": "0", "-0": "-0", "7": "7", "-7": "-7", "+7": "7", "9007199254740993": "9007199254740993",
		"18446744073709551616": "18446744073709551616", "123456789012345678901234567890": "123456789012345678901234567890",
		"0x1F": "31", "-0x1F": "-31", "0xFFFFFFFFFFFFFFFF": "18446744073709551615", "010": "8", "0o10": "8", "0b101": "5", "-0b101": "-5",
		"1_000_000": "1000000", "0x_1F": "31", "!!int 12": "12", "!!str 12": `"12"`, `"12"`: `"12"`,
		// floats
		"1.0": "1.0", "1.10": "1.10", "1.0e-7": "1.0e-7", "1e3": "1e3", "1E+3": "1E+3", ".5": "0.5", "-.5": "-0.5", "+1.5": "1.5", "1.": "1",
		"1.e2": "100",
		"089":  "89", "1_0.5": "10.5", "!!float 1": "1", "+1e30": "1e+30",
		// strings that look like something else
		"1.2.3": `"1.2.3"`, "v1": `"v1"`, "0x": `"0x"`, "1e": `"1e"`, "1e400": `"1e400"`, "12:30:45": `"12:30:45"`, "_1": `"_1"`,
		// dates
		"2026-08-22": `"2026-08-22"`, "2026-08-22T01:02:03Z": `"2026-08-22T01:02:03Z"`, "2026-08-22 01:02:03.4 +2": `"2026-08-22 01:02:03.4 +2"`,
		"!!timestamp 2026-08-22": `"2026-08-22"`,
		// other tags
		"!!binary aGVs\n  bG8=": `"hello"`, "!!binary /w==": "\"\uFFFD\"", "!custom 7": `"7"`, "!custom yes": `"yes"`,
		// the tag "!"
		"! 12": `"12"`, "! yes": `"yes"`, "! ~": `"~"`, "&x ! 12": `"12"`, "! &x 12": `"12"`,
		"[a, 1, ! 1.5, {b: ! true}]": `["a",1,"1.5",{"b":"true"}]`, "\n- ! null\n- !\n  7\n": `["null","7"]`, "! \"12\"": `"12"`,
		"! text": `"text"`, "!": `""`,
		"{a: é\u2028, b: ! 1}": "{\"a\":\"é\",\"b\":\"1\"}", "\r\n  é: ! 1\r\n  ! ~: 2": `{"é":"1","~":2}`, "&x !str 1": `"1"`,
		"a ! 12":            `"a ! 12"`,
		"[{\"! 1\": 2}, 3]": `[{"! 1":2},3]`, "[ &x ! 1, *x, 1]": `["1","1",1]`,
		// collections
		"[]": "[]", "{}": "{}", "[1, [yes, {a: ~}]]": `[1,[true,{"a":null}]]`, "!!set {a, b}": `{"a":null,"b":null}`,
	} {
		t.Run(in, func(t *testing.T) {
			got, err := readText(t, "c.yaml", "schema: s\nv: "+in+"\n", 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{`{"schema":"s","v":` + want + `}`}, jsonOf(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestYAMLAliasesAndMerges(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"alias":                    {"a: &x {k: 1}\nb: *x\nc: [*x, *x]", `"a":{"k":1},"b":{"k":1},"c":[{"k":1},{"k":1}]`},
		"alias of a scalar":        {"a: &x 1.10\nb: *x", `"a":1.10,"b":1.10`},
		"alias as a key":           {"a: &x text\nb: {*x : 1}", `"a":"text","b":{"text":1}`},
		"anchor redefined":         {"a: &x 1\nb: *x\nc: &x 2\nd: *x", `"a":1,"b":1,"c":2,"d":2`},
		"alias within an alias":    {"a: &x [1]\nb: &y [*x]\nc: *y", `"a":[1],"b":[[1]],"c":[[1]]`},
		"merge":                    {"a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3, m: 4}", `"a":{"k":1,"l":2},"b":{"l":3,"m":4,"k":1}`},
		"merge behind the own key": {"a: &x {k: 1}\nb: {k: 2, <<: *x}", `"a":{"k":1},"b":{"k":2}`},
		"merge of several, first wins": {
			"a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}", `"a":{"k":1},"b":{"k":2,"l":2},"c":{"k":1,"l":2}`,
		},
		"merge of a list by alias":      {"a: &x [{k: 1}, {l: 2}]\nb: {<<: *x}", `"a":[{"k":1},{"l":2}],"b":{"k":1,"l":2}`},
		"merge of what merges":          {"a: &x {k: 1}\nb: &y {<<: *x, l: 2}\nc: {<<: *y}", `"a":{"k":1},"b":{"l":2,"k":1},"c":{"l":2,"k":1}`},
		"merge of a mapping in place":   {"b: {<<: {k: 1}}", `"b":{"k":1}`},
		"quoted, it is no merge":        {`b: {"<<": {k: 1}}`, `"b":{"<<":{"k":1}}`},
		"a key that only looks like it": {"b: {<: 1}", `"b":{"<":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readText(t, "c.yaml", "schema: s\n"+c.in+"\n", 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{`{"schema":"s",` + c.want + `}`}, jsonOf(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// bomb nests lines that each double the expansion of the anchor before. The first anchor is first.
func bomb(levels int, first, format string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "schema: s\nx0: &x0 %s\n", first)
	for i := range levels {
		fmt.Fprintf(&b, format+"\n", i+1, i)
	}
	return b.String()
}

func TestYAMLErrors(t *testing.T) {
	manyKeys := strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(&manyKeys, "k%d: 0, ", i)
	}
	for name, c := range map[string]struct{ in, want string }{
		"syntax":                       {"schema: s\na: [1\n", "c.yaml: yaml: line 1: did not find expected"},
		"tab":                          {"schema: s\n\ta: 1\n", "c.yaml: yaml: line 2"},
		"second document without":      {"schema: s\n---\n\n# here\nname: foo\n", `c.yaml:5: the blob {"name":"foo"} has no schema`},
		"doubled name":                 {"# here\nschema: s\nname: a\nname: a\n", `c.yaml:2: duplicate key "name"`},
		"a list":                       {"# here\n- schema: s\n", "c.yaml:2: the top level is a list"},
		"a scalar":                     {"text\n", "c.yaml:1: the top level is a string"},
		"name is a number":             {"schema: s\nname: 1.0\n", `the value of "name" is a number`},
		"name is a YAML 1.1 boolean":   {"schema: s\nname: on\n", `the value of "name" is a boolean`},
		"infinite":                     {"schema: s\na:\n- .inf\n", "c.yaml:3: the number .inf has no JSON form; put it in quotes"},
		"minus infinite":               {"schema: s\na: -.Inf\n", "c.yaml:2: the number -.Inf has no JSON form"},
		"not a number":                 {"schema: s\na: .NaN\n", "c.yaml:2: the number .NaN has no JSON form"},
		"no number":                    {"schema: s\na: !!int text\n", "c.yaml:2: the number text has no JSON form"},
		"a number too long to convert": {"schema: s\na: !!int +" + strings.Repeat("9", 1_000_000), "c.yaml:2: the number +9999"},
		"no base64":                    {"schema: s\na: !!binary '?'\n", "c.yaml:2: reading !!binary: illegal base64"},
		"key that is a list":           {"schema: s\n? [a]\n: b\n", "c.yaml:2: a key that is not a scalar has no JSON form"},
		"key that is a mapping":        {"schema: s\n? {a: b}\n: c\n", "c.yaml:2: a key that is not a scalar"},
		"null key":                     {"schema: s\na:\n  ~: b\n", "c.yaml:3: a null key has no JSON form"},
		"null key in a flow mapping":   {"schema: s\na: {null: b}\n", "c.yaml:2: a null key has no JSON form"},
		"null key by an alias":         {"schema: s\na: &x ~\nb: {*x : c}\n", "c.yaml:2: a null key has no JSON form"},
		"unknown anchor":               {"schema: s\na: *x\n", "c.yaml: yaml: unknown anchor 'x'"},
		"NUL":                          {"schema: s\na: \x00\n", "c.yaml: yaml: control characters are not allowed"},
		"no UTF-8":                     {"schema: s\na: \xff\n", "c.yaml: yaml: invalid leading UTF-8 octet"},
		"too deep":                     {"schema: s\na: " + strings.Repeat("[", 10001) + strings.Repeat("]", 10001), "exceeded max depth"},
		"alias bomb": {
			bomb(40, "[text]", "x%d: &x%[1]d [*x%[2]d, *x%[2]d]"), "the aliases of the document exceed the limit of",
		},
		"alias that contains itself": {"schema: s\na: &x [*x]\n", "nesting exceeds the limit of 10000"},
		"and twice":                  {"schema: s\na: &x {b: [*x, *x]}\n", "nesting exceeds the limit of 10000"},
		"aliases of one large scalar": {
			"schema: s\na: &x " + strings.Repeat("t", 100_000) + "\nb: [" + strings.Repeat("*x, ", 100) + "]\n",
			"the aliases of the document exceed the limit of",
		},
		"merge that contains itself": {"schema: s\na: &x {<<: *x}\n", "merge keys of the document"},
		"merge bomb":                 {bomb(60, "{k: 1}", "x%d: &x%[1]d {<<: [*x%[2]d, *x%[2]d]}"), "merge keys of the document"},
		"merges of one large mapping": {
			"schema: s\na: &x {" + manyKeys.String() + "}\nb: {<<: [" + strings.Repeat("*x, ", 10_000) + "]}\n", "merge keys of the document",
		},
		"merge of a scalar": {
			"schema: s\na: {<<: text}\n", "c.yaml:2: the value of a merge key must be a mapping or a list of mappings",
		},
		"merge of a null": {"schema: s\na: {<<: }\n", "c.yaml:2: the value of a merge key must be a mapping or a list of mappings"},
		"merge of a list of scalars": {
			"schema: s\na: {<<: [{k: 1}, text]}\n", "c.yaml:2: the value of a merge key must be a mapping or a list of mappings",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readText(t, "c.yaml", c.in, 0)
			wantError(t, err, "c.yaml", c.want)
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}
