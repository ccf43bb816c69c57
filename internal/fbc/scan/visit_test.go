package scan

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// visitOf passes blobs to fn and stops at the first fault.
func visitOf(fn func(Blob) error) visit {
	return visit{Visitor: Visitor{Blob: func(b Blob, _ Position) error { return fn(b) }}}
}

func TestVisitFile(t *testing.T) {
	type found struct {
		Lines  []int    // where the blobs begin
		Faults []string // instead of blobs
		Err    string   // why the rest cannot be read
	}
	for name, test := range map[string]struct {
		text string
		want found
	}{
		"c.json": {
			"\ufeff{\"schema\":\"a\"}\n\n  {\n\"schema\":\"b\"} {\"schema\":\"c\"}\n",
			found{Lines: []int{1, 3, 4}},
		},
		"faults.json": {
			"{\"schema\":\"a\"}\n{\"name\":\"x\"}\n7\n{\"schema\":\"b\"}\n{\"schema\":\"c\",\"name\":1}\n{\"schema\":\"d\"}\n",
			found{
				Lines: []int{1, 4, 6},
				Faults: []string{
					`faults.json:2: the blob {"name":"x"} has no schema; if the file is not part of the catalog, list it in a .indexignore file`,
					"faults.json:3: the top level is a number; a catalog file is a stream of objects",
					`faults.json:5: the value of "name" is a number, not a string`,
				},
			},
		},
		"end.json": {
			"{\"name\":\"x\"}\n{\"schema\":\"a\"}\n{\"schema\":",
			found{
				Lines: []int{2},
				Faults: []string{
					`end.json:1: the blob {"name":"x"} has no schema; if the file is not part of the catalog, list it in a .indexignore file`,
				},
				Err: "end.json:3: the file ends in the middle of this blob",
			},
		},
		"c.yaml": {
			"# comment\nschema: a\n---\n---\n\nschema: b\n--- {schema: c}\n",
			found{Lines: []int{2, 6, 7}},
		},
		"faults.yaml": {
			"schema: a\n---\nname: x\n---\n- 1\n---\nschema: &s b\n---\nschema: *s\n---\nname: 1\n",
			found{
				Lines: []int{1, 7, 9},
				Faults: []string{
					`faults.yaml:3: the blob {"name":"x"} has no schema; if the file is not part of the catalog, list it in a .indexignore file`,
					"faults.yaml:5: the top level is a list; a catalog file is a stream of objects",
					`faults.yaml:11: the value of "name" is a number, not a string`,
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{name: {Data: []byte(test.text)}}
			var got found
			err := VisitFile(fsys, name, 0, Visitor{
				Blob: func(_ Blob, at Position) error {
					if at.Line == 0 {
						at.Line = lineAt(fsys, name, at.Offset)
					}
					got.Lines = append(got.Lines, at.Line)
					return nil
				},
				Fault: func(e *Error) error {
					got.Faults = append(got.Faults, e.Error())
					return nil
				},
			})
			if err != nil {
				got.Err = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestVisitFileEndsWhenTold(t *testing.T) {
	enough := errors.New("enough")
	for name, text := range map[string]string{"c.json": "{}{}", "c.yaml": "a: b\n---\na: b\n"} {
		calls := 0
		err := VisitFile(fstest.MapFS{name: {Data: []byte(text)}}, name, 0, Visitor{Fault: func(*Error) error { calls++; return enough }})
		if !errors.Is(err, enough) || calls != 1 {
			t.Errorf("%s: got error %v after %d faults, want %v after 1", name, err, calls, enough)
		}
	}
}
