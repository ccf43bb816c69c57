package unpack

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

func TestDirectories(t *testing.T) {
	host := registry.Start(t, nil)
	choose := func(labels map[string]string) ([]string, error) {
		if labels["a"] == "" {
			return nil, errors.New("no label a")
		}
		return []string{labels["a"], labels["b"]}, nil
	}
	labels := map[string]string{"a": "x/one/", "b": "/two"}
	files := archive(t, dir("x"), dir("x/one"), file("x/one/f", "1"), file("two/deep/g", "22"), file("x/other", "no"), symlink("bin", "usr/bin"))
	for name, test := range map[string]struct {
		img    v1.Image
		limits Limits
		want   any // the files, or a part of the error
	}{
		"files": {labelled(t, labels, files), Limits{}, map[string]string{"x/": "", "x/one/": "", "x/one/f": "1", "two/": "", "two/deep/": "", "two/deep/g": "22"}},
		"layers": {
			labelled(t, labels, files, gzipped(t, archive(t, whiteout("two/deep/.wh.g"), file("two/h", "3"), whiteout("x/.wh.other")))),
			Limits{}, map[string]string{"x/": "", "x/one/": "", "x/one/f": "1", "two/": "", "two/deep/": "", "two/h": "3"},
		},
		"no label":       {labelled(t, nil, files), Limits{}, "no label a"},
		"no files":       {labelled(t, labels, archive(t, file("x/other", "no"))), Limits{}, "its directories x/one and two have no files"},
		"a link inside":  {labelled(t, labels, files, archive(t, symlink("two/l", "/etc/passwd"))), Limits{}, "two/l is a symbolic link"},
		"a link above":   {labelled(t, labels, files, archive(t, symlink("x", "/etc"))), Limits{}, "x is a symbolic link"},
		"a name outside": {labelled(t, labels, archive(t, file("two/../../f", "1"))), Limits{}, "points outside of the image"},
		"bytes":          {labelled(t, labels, files), Limits{TotalBytes: 2, ImageBytes: 1 << 20}, "it has at least 3 bytes of files"},
		"files exceed":   {labelled(t, labels, files), Limits{Files: 3}, "it has at least 4 files and directories"},
		"whiteouts count": {
			labelled(t, labels, archive(t, whiteouts("two", 10)...)), Limits{Files: 9}, "it has at least 10 files and directories",
		},
		"whiteouts outside": {
			labelled(t, labels, files, archive(t, whiteouts("y", 10)...)), Limits{Files: 6},
			map[string]string{"x/": "", "x/one/": "", "x/one/f": "1", "two/": "", "two/deep/": "", "two/deep/g": "22"},
		},
		"layer count": {labelled(t, labels, files, files), Limits{Layers: 1}, "it has 2 layers, which exceeds the limit of 1"},
		"layer bytes": {labelled(t, labels, files), Limits{ImageBytes: 1000}, "which exceeds the limit of 1000"},
		"all layers":  {labelled(t, labels, files, files), Limits{ImageBytes: int64(len(files)) + 1}, "bytes together, which exceeds the limit of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			_, err := Directories(t.Context(), push(t, host, test.img), s.root, Options{Limits: test.limits}, choose)
			if want, ok := test.want.(string); ok {
				if err == nil || !strings.Contains(err.Error(), want) || !isInvalid(err) {
					t.Errorf("got error %v, want an InvalidImageError with %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, any(s.files(t))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func whiteouts(dir string, n int) (entries []entry) {
	for i := range n {
		entries = append(entries, whiteout(fmt.Sprintf("%s/.wh.%d", dir, i)))
	}
	return entries
}
