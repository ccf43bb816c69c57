package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// applyAll applies layers to a new tree whose catalog is in dir.
func applyAll(t testing.TB, s scratch, dir string, limits Limits, layers ...[]byte) (Result, error) {
	t.Helper()
	tree := newTree(s.root, location{dir: dir}, limits.withDefaults())
	for _, layer := range layers {
		if err := applyLayer(t.Context(), &source{reader: bytes.NewReader(layer)}, "", tree); err != nil {
			return Result{}, err
		}
	}
	return tree.result()
}

func TestLayers(t *testing.T) {
	type layer []entry
	const c = "configs/"
	lower := layer{dir("configs"), file(c+"a", "1"), file(c+"d/a", "1"), file(c+"d/e/a", "1"), file(c+"z", "1")}
	for name, test := range map[string]struct {
		layers []layer
		want   map[string]string // a key's trailing slash is for a directory
		err    string            // instead
	}{
		"later layer replaces": {
			[]layer{lower, {file(c+"a", "2")}}, map[string]string{"a": "2", "d/": "", "d/a": "1", "d/e/": "", "d/e/a": "1", "z": "1"}, "",
		},
		"later entry replaces": {[]layer{{file(c+"a", "1"), file(c+"a", "2")}}, map[string]string{"a": "2"}, ""},
		"whiteout of a file": {
			[]layer{lower, {whiteout(c + ".wh.a"), whiteout(c + "d/.wh.a")}}, map[string]string{"d/": "", "d/e/": "", "d/e/a": "1", "z": "1"}, "",
		},
		"whiteout of a directory":   {[]layer{lower, {whiteout(c + ".wh.d")}}, map[string]string{"a": "1", "z": "1"}, ""},
		"whiteout of nothing":       {[]layer{{file(c+"a", "1"), whiteout(c + ".wh.b")}}, map[string]string{"a": "1"}, ""},
		"whiteout spares its layer": {[]layer{{file(c+"a", "1")}, {file(c+"a", "2"), whiteout(c + ".wh.a")}}, map[string]string{"a": "2"}, ""},
		"whiteout before its layer": {[]layer{{file(c+"a", "1")}, {whiteout(c + ".wh.a"), file(c+"a", "2")}}, map[string]string{"a": "2"}, ""},
		"whiteout under new content": {
			[]layer{lower, {file(c+"d/new", "2"), whiteout(c + ".wh.d")}}, map[string]string{"a": "1", "d/": "", "d/new": "2", "z": "1"}, "",
		},
		"whiteout, then back again": {
			[]layer{lower, {whiteout(c + ".wh.d")}, {file(c+"d/a", "3")}}, map[string]string{"a": "1", "d/": "", "d/a": "3", "z": "1"}, "",
		},
		"opaque": {[]layer{lower, {whiteout(c + "d/.wh..wh..opq")}}, map[string]string{"a": "1", "d/": "", "z": "1"}, ""},
		"opaque spares its layer": {
			[]layer{lower, {file(c+"d/e/new", "2"), whiteout(c + "d/.wh..wh..opq"), file(c+"d/b", "2")}},
			map[string]string{"a": "1", "d/": "", "d/b": "2", "d/e/": "", "d/e/new": "2", "z": "1"},
			"",
		},
		"opaque config directory": {[]layer{lower, {whiteout(c + ".wh..wh..opq"), file(c+"new", "2")}}, map[string]string{"new": "2"}, ""},
		"opaque image":            {[]layer{lower, {whiteout(".wh..wh..opq"), file(c+"new", "2")}}, map[string]string{"new": "2"}, ""},
		"opaque twice": {
			[]layer{lower, {whiteout(c + "d/.wh..wh..opq"), file(c+"d/b", "2"), whiteout(c + "d/.wh..wh..opq")}},
			map[string]string{"a": "1", "d/": "", "d/b": "2", "z": "1"},
			"",
		},
		"opaque in two layers": {
			[]layer{lower, {whiteout(c + "d/.wh..wh..opq"), file(c+"d/b", "2")}, {whiteout(c + "d/.wh..wh..opq")}},
			map[string]string{"a": "1", "d/": "", "z": "1"},
			"",
		},
		"whiteout of the config dir": {[]layer{lower, {whiteout(".wh.configs"), file(c+"new", "2")}}, map[string]string{"new": "2"}, ""},
		"whiteouts elsewhere": {
			[]layer{lower[:2], {whiteout("etc/.wh.a"), whiteout("etc/.wh..wh..opq"), whiteout(".wh.usr")}}, map[string]string{"a": "1"}, "",
		},
		"AUFS bookkeeping": {
			[]layer{{file(c+"a", "1")}, {dir(c + ".wh..wh.plnk"), whiteout(c + ".wh..wh.aufs")}}, map[string]string{"a": "1"}, "",
		},
		"whiteout without a name": {[]layer{{file(c+"a", "1"), whiteout(c + ".wh.")}}, nil, "configs/.wh. is a whiteout without a name"},
		"whiteout of the parent": {
			[]layer{{file(c+"a", "1"), whiteout(c + "d/.wh...")}}, nil, "configs/d/.wh... is a whiteout without a name",
		},
		"file for a directory":        {[]layer{lower, {file(c+"d", "2")}}, map[string]string{"a": "1", "d": "2", "z": "1"}, ""},
		"directory for a file":        {[]layer{lower[:2], {dir(c + "a"), file(c+"a/b", "2")}}, map[string]string{"a/": "", "a/b": "2"}, ""},
		"directory for a file, short": {[]layer{lower[:2], {file(c+"a/b/c", "2")}}, map[string]string{"a/": "", "a/b/": "", "a/b/c": "2"}, ""},
		"directory again":             {[]layer{lower[:2], {dir("configs"), file(c+"b", "2")}}, map[string]string{"a": "1", "b": "2"}, ""},
		"file for the config dir":     {[]layer{lower, {file("configs", "2")}}, nil, "the image has no directory /configs"},
		"and a directory again":       {[]layer{lower, {file("configs", "2")}, {file(c+"a", "3")}}, map[string]string{"a": "3"}, ""},
		"names that need cleaning": {
			[]layer{{file("./configs//a", "1"), file("/configs/b", "1"), file("x/../configs/d/./c", "1")}},
			map[string]string{"a": "1", "b": "1", "d/": "", "d/c": "1"},
			"",
		},
		"other directories": {
			[]layer{{file("configs2/a", "1"), file("a/configs/a", "1"), file(c+"b", "1")}}, map[string]string{"b": "1"}, "",
		},
		"link": {[]layer{{file(c+"a", "1"), symlink(c+"b", "a")}}, nil, "configs/b is a symbolic link"},
		"link of a layer below": {
			[]layer{{file(c+"a", "1"), symlink(c+"b", "a")}, {file(c+"c", "2")}}, nil, "configs/b is a symbolic link",
		},
		"link hidden": {
			[]layer{{file(c+"a", "1"), symlink(c+"b", "a")}, {whiteout(c + ".wh.b")}}, map[string]string{"a": "1"}, "",
		},
		"link hidden by its directory": {
			[]layer{{file(c+"a", "1"), symlink(c+"d/b", "a")}, {whiteout(c + ".wh.d")}}, map[string]string{"a": "1"}, "",
		},
		"link hidden, opaque": {
			[]layer{{symlink(c+"d/b", "a")}, {file(c+"d/a", "1"), whiteout(c + "d/.wh..wh..opq")}}, map[string]string{"d/": "", "d/a": "1"}, "",
		},
		"link spared": {
			[]layer{{file(c+"a", "1")}, {symlink(c+"b", "a"), whiteout(c + ".wh.b")}}, nil, "configs/b is a symbolic link",
		},
		"file for a link": {[]layer{{symlink(c+"b", "a")}, {file(c+"b", "2")}}, map[string]string{"b": "2"}, ""},
		"directory for a link": {
			[]layer{{symlink(c+"b", "a")}, {dir(c + "b"), file(c+"b/a", "2")}}, map[string]string{"b/": "", "b/a": "2"}, "",
		},
		"link for a file": {[]layer{{file(c+"a", "1"), file(c+"b", "1")}, {symlink(c+"b", "a")}}, nil, "configs/b is a symbolic link"},
		"file under a link": {
			[]layer{{symlink(c+"b", "../.."), file(c+"b/evil", "1")}, {whiteout(c + ".wh.b"), file(c+"a", "2")}}, map[string]string{"a": "2"}, "",
		},
		"file under a former link": {
			[]layer{{symlink(c+"b", "../.."), file(c+"b/evil", "1")}, {dir(c + "b"), file(c+"b/a", "2")}},
			map[string]string{"b/": "", "b/a": "2"},
			"",
		},
		"config directory is a link": {
			[]layer{{symlink("configs", "real"), file("real/a", "1"), file(c+"a", "1")}}, nil, "configs is a symbolic link",
		},
		"links elsewhere": {
			[]layer{{symlink("bin", "usr/bin"), special(tar.TypeFifo, "dev/f", ""), file(c+"a", "1")}}, map[string]string{"a": "1"}, "",
		},
		"image's root is a link": {
			[]layer{{symlink(".", "real"), file(c+"a", "1")}}, nil, `entry "." replaces the image's root, which must be a directory`,
		},
		"hard link": {
			[]layer{{file(c+"a", "1"), link(c+"d/b", c+"a"), link(c+"c", "/configs/a")}},
			map[string]string{"a": "1", "c": "1", "d/": "", "d/b": "1"},
			"",
		},
		"hard link to a lower layer": {
			[]layer{{file(c+"a", "1")}, {link(c+"b", c+"a")}, {file(c+"a", "3")}}, map[string]string{"a": "3", "b": "1"}, "",
		},
		"hard link to itself": {[]layer{{file(c+"a", "1"), link(c+"a", c+"a")}}, map[string]string{"a": "1"}, ""},
		"hard link to a directory": {
			[]layer{{dir(c + "d"), link(c+"b", c+"d")}}, nil, `configs/b is a hard link to "configs/d", which is not a file of the catalog`,
		},
		"hard link to nothing": {
			[]layer{{link(c+"b", c+"later"), file(c+"later", "1")}}, nil, `configs/b is a hard link to "configs/later"`,
		},
		"hard link to the outside": {
			[]layer{{file("etc/passwd", "1"), link(c+"b", "etc/passwd")}}, nil, `configs/b is a hard link to "etc/passwd"`,
		},
		"hard link out of the image": {[]layer{{link(c+"b", "../../etc/passwd")}}, nil, `configs/b is a hard link to "../../etc/passwd"`},
		"hard link to a refused":     {[]layer{{symlink(c+"a", "/etc/passwd"), link(c+"b", c+"a")}}, nil, "configs/a is a symbolic link"},
		"hard link for its parent":   {[]layer{{file(c+"d/a", "1"), link(c+"d", c+"d/a")}}, nil, `configs/d is a hard link to "configs/d/a"`},
		"hard link below its target": {[]layer{{file(c+"a", "1"), link(c+"a/b", c+"a")}}, nil, `configs/a/b is a hard link to "configs/a"`},
		"hard link hidden": {
			[]layer{{file(c+"a", "1"), link(c+"b", "etc/passwd")}, {whiteout(c + ".wh.b")}}, map[string]string{"a": "1"}, "",
		},
		"unknown type": {[]layer{{special('~', c+"b", "")}}, nil, `configs/b is an entry of unknown type '~'`},
		"block device": {[]layer{{special(tar.TypeBlock, c+"b", "")}}, nil, "configs/b is a device"},
		"not UTF-8":    {[]layer{{file(c+"a\xfa/b", "1")}}, nil, `the name of entry "configs/a\xfa/b" is not UTF-8: rename the file`},
		"not UTF-8, elsewhere": {
			[]layer{{file("etc/a\xfa", "1"), file(c+"a", "1"), whiteout(c + "\xfa/.wh..wh..opq"), whiteout(c + ".wh.\xfa")}},
			map[string]string{"a": "1"},
			"",
		},
		"long path": {[]layer{{file(c+strings.Repeat("a/", 2100)+"a", "1")}}, nil, "bytes, which exceeds the limit of 4096"},
		"deep path": {[]layer{{file(c+strings.Repeat("a/", 150)+"a", "1")}}, nil, "exceeds the limit of 100 nested directories"},
		"long name": {[]layer{{file(c+strings.Repeat("a", 256), "1")}}, nil, "has 256 bytes, which exceeds the limit of 255 for one file name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			var layers [][]byte
			for _, entries := range test.layers {
				layers = append(layers, archive(t, entries...))
			}
			_, err := applyAll(t, s, "configs", Limits{}, layers...)
			checkError(t, err, test.err, true)
			s.checkOutside(t)
			if diff := cmp.Diff(test.want, s.files(t)); test.err == "" && diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParentOfConfigDir applies entries for the parents of a catalog at opt/catalog/configs.
func TestParentOfConfigDir(t *testing.T) {
	type layer []entry
	a := file("opt/catalog/configs/a", "1")
	for name, test := range map[string]struct {
		layers []layer
		want   map[string]string
		err    string
	}{
		"directories":   {[]layer{{dir("opt"), dir("opt/catalog"), a}}, map[string]string{"a": "1"}, ""},
		"link":          {[]layer{{symlink("opt", "usr"), a}}, nil, "opt is a symbolic link"},
		"hard link":     {[]layer{{link("opt/catalog", "usr")}}, nil, "opt/catalog is a hard link in place of a directory"},
		"link replaced": {[]layer{{symlink("opt", "usr")}, {dir("opt"), a}}, map[string]string{"a": "1"}, ""},
		"files under a link": {
			[]layer{{symlink("opt", "usr"), a}, {dir("opt"), file("opt/catalog/configs/b", "2")}}, map[string]string{"b": "2"}, "",
		},
		"directory in link":  {[]layer{{symlink("opt", "usr"), dir("opt/catalog"), a}}, nil, "opt is a symbolic link"},
		"link hidden":        {[]layer{{symlink("opt/catalog", "usr")}, {whiteout("opt/.wh.catalog"), a}}, map[string]string{"a": "1"}, ""},
		"file":               {[]layer{{a}, {file("opt/catalog", "1")}}, nil, "the image has no directory /opt/catalog/configs"},
		"whiteout":           {[]layer{{a}, {whiteout(".wh.opt")}}, nil, "the image has no directory /opt/catalog/configs"},
		"whiteout, touched":  {[]layer{{a}, {file("opt/x", "1"), whiteout(".wh.opt")}}, nil, "the image has no directory /opt/catalog/configs"},
		"whiteout, replaced": {[]layer{{a}, {file("opt/catalog/configs/b", "2"), whiteout(".wh.opt")}}, map[string]string{"b": "2"}, ""},
		"opaque":             {[]layer{{a}, {whiteout("opt/.wh..wh..opq")}}, nil, "the image has no directory /opt/catalog/configs"},
		"opaque elsewhere":   {[]layer{{a}, {whiteout("opt/other/.wh..wh..opq")}}, map[string]string{"a": "1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			var layers [][]byte
			for _, entries := range test.layers {
				layers = append(layers, archive(t, entries...))
			}
			_, err := applyAll(t, s, "opt/catalog/configs", Limits{}, layers...)
			checkError(t, err, test.err, true)
			if diff := cmp.Diff(test.want, s.files(t)); test.err == "" && diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	blanks := archive(t, file("other", strings.Repeat(" ", 40<<20)), file("configs/a", "1"))
	small := archive(t, file("other", strings.Repeat(" ", 8<<20)), file("configs/a", "1"))
	three := archive(t, file("configs/a", "12345"), file("configs/b", "12345"), file("configs/c", "12345"))
	linked := archive(t, file("configs/a", "12345"), link("configs/b", "configs/a"), link("configs/c", "configs/a"))
	for name, test := range map[string]struct {
		limits Limits
		layers [][]byte
		limit  string // that is exceeded
		want   string
	}{
		"within all": {Limits{TotalBytes: 15, FileBytes: 5, Files: 3}, [][]byte{three}, "", ""},
		"one file": {
			Limits{FileBytes: 4},
			[][]byte{three},
			LimitFileBytes,
			"configs/a has 5 bytes, which exceeds the limit of 4 for one file (--max-file-bytes)",
		},
		"all files": {
			Limits{TotalBytes: 14},
			[][]byte{three},
			LimitTotalBytes,
			"it has at least 15 bytes of files, which exceeds the limit of 14 for all files together (--max-unpacked-bytes)",
		},
		"all files of two layers": {
			Limits{TotalBytes: 29}, [][]byte{three, three}, LimitTotalBytes, "at least 30 bytes of files, which exceeds the limit of 29",
		},
		"hard links count": {Limits{TotalBytes: 14}, [][]byte{linked}, LimitTotalBytes, "exceeds the limit of 14"},
		"number": {
			Limits{Files: 2},
			[][]byte{three},
			LimitFiles,
			"it has at least 3 files and directories, which exceeds the limit of 2 (--max-files)",
		},
		"number of hard links": {Limits{Files: 2}, [][]byte{linked}, LimitFiles, "exceeds the limit of 2 (--max-files)"},
		"number of directories": {
			Limits{Files: 3}, [][]byte{archive(t, file("configs/d/e/f/a", "1"))}, LimitFiles, "exceeds the limit of 3 (--max-files)",
		},
		"directories again": {
			Limits{Files: 3}, [][]byte{archive(t, file("configs/d/e/a", "1")), archive(t, dir("configs/d"), dir("configs/d/e"))}, "", "",
		},
		"gzip bomb": {
			Limits{},
			[][]byte{gzipped(t, blanks)},
			LimitCompressionRatio,
			"it unpacks to many times its size, which exceeds the limit of 200 times (--max-compression-ratio)",
		},
		"zstd bomb": {
			Limits{}, [][]byte{zstandard(t, blanks)}, LimitCompressionRatio, "exceeds the limit of 200 times (--max-compression-ratio)",
		},
		"no bomb: not compressed": {Limits{}, [][]byte{blanks}, "", ""},
		"no bomb: small":          {Limits{}, [][]byte{gzipped(t, small)}, "", ""},
		"no bomb: more allowed":   {Limits{Ratio: 2000}, [][]byte{gzipped(t, blanks)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := applyAll(t, newScratch(t), "configs", test.limits, test.layers...)
			checkError(t, err, test.want, true)
			checkLimit(t, err, test.limit)
		})
	}
}

func TestManyLinks(t *testing.T) {
	entries := []entry{file("configs/a", "1")}
	for i := range maxRefused + 1 {
		entries = append(entries, symlink(fmt.Sprintf("configs/%03d", i), "a"))
	}
	_, err := applyAll(t, newScratch(t), "configs", Limits{}, archive(t, entries...))
	checkError(t, err, "configs/100 is a symbolic link, which is not supported: replace it with the file (and 100 others)", true)
}

// TestReadToTheEnd has layers that are damaged after the end of the tar archive.
func TestReadToTheEnd(t *testing.T) {
	sound := archive(t, file("configs/a", "1"))
	zipped := gzipped(t, sound)
	zipped[len(zipped)-5] ^= 0xff // the checksum of the content (RFC 1952, section 2.3.1)
	for name, layer := range map[string][]byte{"checksum": zipped, "garbage": append(gzipped(t, sound), "garbage"...)} {
		_, err := applyAll(t, newScratch(t), "configs", Limits{}, layer)
		if err == nil || !isInvalid(err) {
			t.Errorf("%s: got error %v, want an InvalidImageError", name, err)
		}
	}
	src := &source{reader: io.MultiReader(bytes.NewReader(sound), failing{})}
	tree := newTree(newScratch(t).root, location{dir: "configs"}, DefaultLimits())
	if err := applyLayer(t.Context(), src, "", tree); err == nil || src.err == nil {
		t.Errorf("a layer whose verification fails after its tar gave %v, %v", err, src.err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("wrong digest") }

// TestMemory unpacks a file much larger than the allowed allocations.
func TestMemory(t *testing.T) {
	const size, most = 64 << 20, 4 << 20
	header := tar.Header{Typeflag: tar.TypeReg, Name: "configs/large", Size: size}
	read, write := io.Pipe()
	go func() {
		writer := tar.NewWriter(write)
		if err := writer.WriteHeader(&header); err == nil {
			_, _ = io.CopyN(writer, blank{}, size)
		}
		write.CloseWithError(writer.Close())
	}()
	tree := newTree(newScratch(t).root, location{dir: "configs"}, DefaultLimits())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := applyLayer(t.Context(), &source{reader: read}, "", tree); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("unpacking %d bytes allocated %d bytes in all, want at most %d", size, got, most)
	}
	if result, err := tree.result(); err != nil || result.Bytes != size {
		t.Errorf("got %+v, %v", result, err)
	}
}

type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func FuzzLayer(f *testing.F) {
	f.Add(archive(f, dir("configs"), file("configs/a", "1"), symlink("configs/b", "../../.."), file("configs/b/evil", "1")))
	f.Add(archive(f, file("configs/a", "1"), link("configs/b", "configs/a"), whiteout("configs/.wh.a"), whiteout(".wh..wh..opq")))
	f.Add(gzipped(f, archive(f, file("../configs/a", "1"))))
	f.Add(zstandard(f, archive(f, file("/configs/a/b/../../c", "1"))))
	f.Add(archive(f, special(tar.TypeFifo, "configs/f", ""), file(".wh.configs", ""), dir("."), dir("configs/..")))
	for _, name := range []string{"gnu", "pax-0.0", "pax-0.1", "pax-1.0", "elsewhere"} {
		f.Add(gunzipped(f, "testdata/archives/sparse-"+name+".tar.gz"))
	}
	f.Fuzz(func(t *testing.T, layer []byte) {
		for _, dir := range []string{"configs", ".", "configs/a"} {
			s := newScratch(t)
			limits := Limits{TotalBytes: 1 << 20, FileBytes: 1 << 20, Files: 100}
			result, err := applyAll(t, s, dir, limits, layer, layer)
			s.checkOutside(t)
			files := s.files(t)
			if err == nil && (result.Files == 0 || result.Bytes > 1<<20 || len(files) > 100) {
				t.Errorf("got result %+v and %d files and directories", result, len(files))
			}
			if err != nil && !isInvalid(err) {
				t.Errorf("the image is not blamed for %v", err)
			}
		}
	})
}
