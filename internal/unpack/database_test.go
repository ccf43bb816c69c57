package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/operator-framework/operator-registry/pkg/sqlite/migrations"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

func gunzipped(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func legacyIndex(t testing.TB) []byte { return gunzipped(t, "testdata/legacy/index.db.gz") }

// migrated returns opm's conversion of the legacy index: contents by path, directories with a trailing slash.
func migrated(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	archive := tar.NewReader(bytes.NewReader(gunzipped(t, "testdata/legacy/migrated.tar.gz")))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Dir(header.Name)+"/"] = ""
		files[header.Name] = string(content)
	}
}

// altered returns the legacy index after alter, which opens it without the restrictions of openDatabase.
func altered(t testing.TB, alter func(*sql.DB)) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "index.db")
	if err := os.WriteFile(name, legacyIndex(t), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	alter(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// changed returns the legacy index after statements.
func changed(t testing.TB, statements ...string) []byte {
	t.Helper()
	return altered(t, func(db *sql.DB) {
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	})
}

func TestDatabase(t *testing.T) {
	host := registry.Start(t, nil)
	want := migrated(t)
	var size int64
	for _, content := range want {
		size += int64(len(content))
	}
	db := string(legacyIndex(t))
	base := archive(t, dir("etc"), file("etc/passwd", "root"), symlink("bin", "usr/bin"))
	for name, test := range map[string]struct {
		labels map[string]string
		layers [][]byte
		dir    string
	}{
		"its own directory": {
			map[string]string{DatabaseLabel: "/database/index.db"},
			[][]byte{base, gzipped(t, archive(t, dir("database"), file("database/index.db", db)))},
			"/database",
		},
		"among others": {
			map[string]string{DatabaseLabel: "/database/index.db"},
			[][]byte{archive(t, file("database/x", "y"), file("database/index.db", db), symlink("database/z", "x"))},
			"/database",
		},
		"a hidden directory": {map[string]string{DatabaseLabel: ".d/index.db"}, [][]byte{archive(t, file(".d/index.db", db))}, "/.d"},
		"the image's root": {
			map[string]string{DatabaseLabel: "./bundles.db"}, [][]byte{base, archive(t, file("bundles.db", db), symlink("x", "y"))}, "/",
		},
		"a name to be escaped": {
			map[string]string{DatabaseLabel: "/d/a?mode=memory&b#%20.db"}, [][]byte{archive(t, file("d/a?mode=memory&b#%20.db", db))}, "/d",
		},
		"of a later layer": {
			map[string]string{DatabaseLabel: "/database/index.db"},
			[][]byte{archive(t, file("database/index.db", "old")), archive(t, whiteout("database/.wh..wh..opq"), file("database/index.db", db))},
			"/database",
		},
		"write-ahead log": {
			map[string]string{DatabaseLabel: "/index.db"},
			[][]byte{archive(t, file("index.db", string(changed(t, "PRAGMA journal_mode=WAL"))))},
			"/",
		},
		"an older schema": {
			map[string]string{DatabaseLabel: "/index.db"}, [][]byte{archive(t, file("index.db", string(downgraded(t, 10))))}, "/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			got, err := Image(t.Context(), push(t, host, labelled(t, test.labels, test.layers...)), s.root, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Result{ConfigDir: test.dir, Files: 8, Bytes: size}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, s.files(t)); diff != "" {
				t.Errorf("files (-opm migrate +got):\n%s", diff)
			}
			s.checkOutside(t)
		})
	}
}

// downgraded returns the legacy index with the schema of an earlier version.
func downgraded(t testing.TB, version int) []byte {
	t.Helper()
	return altered(t, func(db *sql.DB) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		all := migrations.All()
		for at := len(all) - 1; at > version; at-- {
			if err := all[at].Down(t.Context(), tx); err != nil {
				t.Fatalf("from version %d: %v", at, err)
			}
		}
		if _, err := tx.ExecContext(t.Context(), "UPDATE schema_migrations SET version = ?", version); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDatabaseLabels checks which label takes precedence.
func TestDatabaseLabels(t *testing.T) {
	host := registry.Start(t, nil)
	layer := archive(t, file("database/index.db", string(legacyIndex(t))), file("configs/a.json", "{}"), file("other/b.json", "{}"))
	both := map[string]string{DatabaseLabel: "/database/index.db", ConfigsLabel: "/configs"}
	for name, test := range map[string]struct {
		labels    map[string]string
		configDir string
		want      Result
	}{
		"configs":   {both, "", Result{"/configs", 1, 2}},
		"configDir": {both, "/other", Result{"/other", 1, 2}},
		"even then": {map[string]string{DatabaseLabel: "/database/index.db"}, "/other", Result{"/other", 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Image(t.Context(), push(t, host, labelled(t, test.labels, layer)), newScratch(t).root, Options{ConfigDir: test.configDir})
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("error %v, result (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestHostileDatabases(t *testing.T) {
	host := registry.Start(t, nil)
	sound := legacyIndex(t)
	damaged := bytes.Clone(sound)
	for i := 40 * 4096; i < 60*4096; i++ {
		damaged[i] ^= 0xa5
	}
	readOnly := bytes.Clone(sound)
	readOnly[18] = 9 // "File format write version", https://www.sqlite.org/fileformat.html, section 1.3.3
	const label = "/database/index.db"
	db := func(content []byte) []entry { return []entry{file("database/index.db", string(content))} }
	for name, test := range map[string]struct {
		label   string
		entries []entry
		limits  Limits
		limit   string
		want    string
	}{
		"missing": {
			label,
			[]entry{file("database/other.db", "x")},
			Limits{},
			"",
			"the image has no file /database/index.db: correct the label " + DatabaseLabel,
		},
		"a directory": {label, []entry{dir("database/index.db")}, Limits{}, "", "the image has no file /database/index.db"},
		"a link": {
			label,
			[]entry{file("database/real.db", string(sound)), symlink("database/index.db", "real.db")},
			Limits{},
			"",
			"database/index.db is a symbolic link",
		},
		"a link to a host": {label, []entry{symlink("database", "/etc")}, Limits{}, "", "database is a symbolic link"},
		"no name":          {"/", db(sound), Limits{}, "", `is "/", which is not a file name: correct it`},
		"empty":            {label, db(nil), Limits{}, "", "/database/index.db is not an SQLite database"},
		"text":             {label, db([]byte("schema: olm.package\nname: foo\n")), Limits{}, "", "/database/index.db is not an SQLite database"},
		"magic only":       {label, db(sound[:16]), Limits{}, "", "converting database/index.db, an SQLite index: "},
		"cut":              {label, db(sound[:len(sound)/2]), Limits{}, "", "malformed"},
		"damaged":          {label, db(damaged), Limits{}, "", "the database is damaged"},
		"another database": {label, db(changed(t, "DROP TABLE channel")), Limits{}, "", "no such table: channel"},
		"of the future":    {label, db(readOnly), Limits{}, "", "attempt to write a readonly database"},
		"a view": {
			label, db(changed(t, "CREATE VIEW v AS SELECT 1")), Limits{}, "", `it has "v", which is neither a table nor an index`,
		},
		"a view for table": {
			label,
			db(changed(t, "ALTER TABLE package RENAME TO p", "CREATE VIEW package AS SELECT * FROM p")),
			Limits{},
			"",
			`it has "package", which is neither a table nor an index`,
		},
		"a trigger": {
			label,
			db(changed(t, "CREATE TRIGGER g AFTER DELETE ON deprecated BEGIN DELETE FROM package; END")),
			Limits{},
			"",
			`it has "g", which is neither`,
		},
		"a virtual table": {label, db(changed(t, "CREATE VIRTUAL TABLE f USING fts5(x)")), Limits{}, "", `it has "f", which is neither`},
		"no package": {
			label,
			db(changed(t, "PRAGMA foreign_keys=OFF", "DELETE FROM channel_entry", "DELETE FROM package")),
			Limits{},
			"",
			"it has no package",
		},
		"no default": {
			label,
			db(changed(t, "PRAGMA foreign_keys=OFF", "UPDATE package SET default_channel = 'gone' WHERE name = 'etcd'")),
			Limits{},
			"",
			`package "etcd": default channel "gone" not found`,
		},
		"no heads": {
			label,
			db(changed(t, "PRAGMA foreign_keys=OFF", "UPDATE channel SET head_operatorbundle_name = 'gone'")),
			Limits{},
			"",
			"get default channel head for package",
		},
		"a bad bundle": {
			label, db(changed(t, "UPDATE operatorbundle SET bundle = '{' WHERE bundle IS NOT NULL")), Limits{}, "", "an SQLite index: ",
		},
		"a bad version": {label, db(changed(t, "UPDATE schema_migrations SET version = 'x'")), Limits{}, "", "an SQLite index: "},
		"leaves the root": {
			label, db(renamed(t, "../../../evil")), Limits{}, "", `a package named "../../../evil", which is not a valid directory name`,
		},
		"absolute": {label, db(renamed(t, "/tmp")), Limits{}, "", `a package named "/tmp"`},
		"hidden":   {label, db(renamed(t, ".indexignore")), Limits{}, "", `a package named ".indexignore"`},
		"a large value": {
			label,
			db(changed(t, "UPDATE operatorbundle SET csv = hex(zeroblob(9000000)) WHERE name = 'etcdoperator.v0.9.4'")),
			Limits{},
			"",
			"too big",
		},
		"large": {
			label,
			db(sound),
			Limits{DatabaseBytes: 1 << 20},
			LimitDatabaseBytes,
			"database/index.db has 1417216 bytes, which exceeds the limit of 1048576 for an SQLite index (--max-database-bytes)",
		},
		"a large file": {
			label, db(sound), Limits{FileBytes: 1 << 20}, LimitFileBytes, "exceeds the limit of 1048576 for one file (--max-file-bytes)",
		},
		"large in memory": {
			label,
			db(manyChannels(t, 50)),
			Limits{DatabaseBytes: 2 << 20},
			LimitDatabaseBytes,
			"twice the limit is allowed), which exceeds the limit of 2097152",
		},
		"a large package": {
			label,
			db(sound),
			Limits{DatabaseBytes: 2 << 20, FileBytes: 1500 << 10, TotalBytes: 1500 << 10, Files: 5},
			LimitFiles,
			"(--max-files)",
		},
		"large in all": {label, db(shrunk(t)), Limits{TotalBytes: int64(len(shrunk(t)))}, LimitTotalBytes, "(--max-unpacked-bytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			img := labelled(t, map[string]string{DatabaseLabel: test.label}, archive(t, test.entries...))
			_, err := Image(t.Context(), push(t, host, img), s.root, Options{Limits: test.limits})
			checkError(t, err, test.want, true)
			checkLimit(t, err, test.limit)
			if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), s.outside)) {
				t.Errorf("the error has a line break or a path of this machine: %v", err)
			}
			s.checkOutside(t)
		})
	}
}

func renamed(t testing.TB, name string) []byte {
	t.Helper()
	statements := []string{"PRAGMA foreign_keys=OFF"}
	for _, column := range []string{"package.name", "channel.package_name", "channel_entry.package_name"} {
		table, column, _ := strings.Cut(column, ".")
		statements = append(statements, fmt.Sprintf("UPDATE %s SET %s = '%s' WHERE %[2]s = 'tackle-operator'", table, column, name))
	}
	return changed(t, append(statements, fmt.Sprintf(`UPDATE properties SET value = replace(value, '"tackle-operator"', '"%s"')`, name))...)
}

// manyChannels adds a channel head of 88 KiB to n more channels.
func manyChannels(t testing.TB, n int) []byte {
	t.Helper()
	const head = "'planetscale', 'planetscale-operator.v0.1.8'"
	statements := []string{"PRAGMA foreign_keys=OFF"}
	for i := range n {
		statements = append(statements,
			fmt.Sprintf("INSERT INTO channel(name, package_name, head_operatorbundle_name) VALUES ('c%d', %s)", i, head),
			fmt.Sprintf("INSERT INTO channel_entry(channel_name, package_name, operatorbundle_name, depth) VALUES ('c%d', %s, 0)", i, head))
	}
	return changed(t, statements...)
}

// shrunk returns a database that is smaller than its converted files.
func shrunk(t testing.TB) []byte {
	t.Helper()
	return changed(t, "UPDATE operatorbundle SET csv = '{}'", "VACUUM")
}

func TestDatabaseCancelled(t *testing.T) {
	s := newScratch(t)
	if err := os.WriteFile(filepath.Join(s.dir, "index.db"), legacyIndex(t), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tree := newTree(s.root, location{dir: ".", database: "index.db"}, DefaultLimits())
	if _, err := tree.convertDatabase(ctx); !errors.Is(err, context.Canceled) || isInvalid(err) {
		t.Errorf("got error %v, want one that is context.Canceled", err)
	}
}

// FuzzDatabase changes bytes of a valid database of one package.
func FuzzDatabase(f *testing.F) {
	sound := changed(f, "PRAGMA foreign_keys=OFF",
		"DELETE FROM operatorbundle WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry WHERE package_name = 'tackle-operator')",
		"DELETE FROM channel_entry WHERE package_name <> 'tackle-operator'", "DELETE FROM channel WHERE package_name <> 'tackle-operator'",
		"DELETE FROM package WHERE name <> 'tackle-operator'", "DELETE FROM related_image", "DELETE FROM api", "DELETE FROM api_provider",
		"DELETE FROM properties WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle)", "VACUUM")
	f.Add(uint32(0), []byte("SQLite"))
	f.Add(uint32(100), []byte{0x0d, 0, 0, 0, 1})
	f.Add(uint32(4096*3+8), []byte{0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, at uint32, change []byte) {
		content := bytes.Clone(sound)
		copy(content[int(at)%len(content):], change)
		s := newScratch(t)
		if err := os.WriteFile(filepath.Join(s.dir, "index.db"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		tree := newTree(s.root, location{dir: ".", database: "index.db"}, Limits{DatabaseBytes: 4 << 20}.withDefaults())
		_, err := tree.convertDatabase(t.Context())
		s.checkOutside(t)
		if err != nil && !isInvalid(err) {
			t.Errorf("the image is not blamed for %v", err)
		}
		if err == nil {
			if _, left := s.files(t)["index.db"]; left {
				t.Error("the database is there still")
			}
		}
	})
}
