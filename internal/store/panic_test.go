package store

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// panickyFS panics at the n-th opening of a file: first it is hashed, then, if it is large, parsed.
type panickyFS struct {
	fs.FS
	name  string
	opens int
}

func (p *panickyFS) Open(name string) (fs.File, error) {
	f, err := p.FS.Open(name)
	if name == p.name && err == nil {
		if p.opens--; p.opens == 0 {
			return panickyFile{f}, nil
		}
	}
	return f, err
}

type panickyFile struct{ fs.File }

func (panickyFile) Read([]byte) (int, error) { panic("no parser is perfect") }

// A panic of a parser fails only that file, by name. The served content stays and the next content is accepted.
func TestPanicWhileReading(t *testing.T) {
	for stageOf, opens := range map[string]int{"hashing": 1, "parsing": 2} {
		for _, announced := range []bool{true, false} {
			s := open(t, t.TempDir(), newClock())
			commit(t, s, "cat", 1, blobs("one"))
			commit(t, s, "other", 2, blobs("other"))
			st := stage(t, s, "cat", nil)
			st.intake.fsys = &panickyFS{st.files.FS(), "x/b.json", opens} // nothing is read yet
			st.intake.buffer = st.intake.buffer[:8]                       // in which no file fits
			must.Succeed(t, st.files.Mkdir("x", 0o755))
			for _, name := range []string{"a.json", "x/b.json", "z.json"} {
				must.Succeed(t, st.files.WriteFile(name, []byte(`{"schema":"example.com","name":"`+name+`"}`), 0o644))
				if announced {
					st.Add(name)
				}
			}
			_, err := st.Commit(t.Context(), source(3))
			var where *scan.Error
			if !errors.As(err, &where) || where.Path != "x/b.json" || !strings.Contains(err.Error(), "reading it failed: no parser is perfect") {
				t.Errorf("%s, announced %v: got error %v", stageOf, announced, err)
			}
			must.Succeed(t, st.Discard())
			serves(t, s, "cat", "one")
			serves(t, s, "other", "other")
			commit(t, s, "cat", 3, blobs("three"))
			serves(t, s, "cat", "three")
		}
	}
}

// A panic of a rule makes only that package invalid. Here it is the lookup in the previous results, whose last package
// has an unknown name.
func TestPanicWhileValidating(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	all := files{}
	for _, name := range []string{"aaa", "foo", "zzz"} {
		all[name+".json"] = strings.ReplaceAll(validFoo, "foo", name)
	}
	previous := commit(t, s, "cat", 1, all)
	snap := commit(t, s, "other", 2, all)
	known := *previous.validation.Load()
	known.records = slices.Clone(known.records)
	le.PutUint32(known.records[2*recordSize:], math.MaxUint32)
	previous.validation.Store(&known)
	snap.validation.Store(nil)

	must.Succeed(t, s.validations.ensure(t.Context(), snap, previous))
	var names []string
	for _, pkg := range snap.Packages() {
		names = append(names, pkg.Name)
	}
	if diff := cmp.Diff([]string{"aaa", "foo"}, names); diff != "" {
		t.Errorf("valid packages, -want +got:\n%s", diff)
	}
	invalid, err := snap.InvalidPackages()
	if err != nil || len(invalid) != 1 || invalid[0].Name != "zzz" ||
		!strings.HasPrefix(invalid[0].Reason, "validation failed: runtime error: ") {
		t.Errorf("got the invalid packages %+v, %v", invalid, err)
	}
	must.Succeed(t, s.Revalidate(context.Background(), snap))
	if !snap.IsValid("zzz") {
		t.Error("it is invalid the next time, too")
	}
}
