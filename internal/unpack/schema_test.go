package unpack

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/operator-framework/operator-registry/pkg/sqlite"
	"github.com/operator-framework/operator-registry/pkg/sqlite/migrations"
)

// TestOwnSchemas accepts the schemas of all versions of opm, new and migrated ones.
func TestOwnSchemas(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	migrator, err := sqlite.NewSQLLiteMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, migration := range migrations.All().From(0) {
		if err := migrator.Up(t.Context(), migrations.All().Only(migration.Id)); err != nil {
			t.Fatalf("to version %d: %v", migration.Id, err)
		}
		if err := checkSchema(t.Context(), db); err != nil {
			t.Errorf("version %d: %v", migration.Id, err)
		}
	}
	for version := range migrations.All() {
		s := newScratch(t)
		file := filepath.Join(s.dir, "index.db")
		if err := os.WriteFile(file, downgraded(t, version), 0o600); err != nil {
			t.Fatal(err)
		}
		checkFile(t, version, file)
		switch version {
		case 5, 10, 11, 12, 13: // opm itself cannot migrate what its other migrations leave on their way down
			tree := newTree(s.root, location{dir: ".", database: "index.db"}, DefaultLimits())
			if result, err := tree.convertDatabase(t.Context()); err != nil || result.Files != 8 {
				t.Errorf("back to version %d: %+v, %v", version, result, err)
			}
		}
	}
}

func checkFile(t *testing.T, version int, file string) {
	t.Helper()
	db, err := openDatabase(t.Context(), file, maxValue)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := checkSchema(t.Context(), db); err != nil {
		t.Errorf("back to version %d: %v", version, err)
	}
}

// TestForeignSchemas has databases whose schemas make SQLite evaluate foreign expressions; short ones here.
func TestForeignSchemas(t *testing.T) {
	const refused = `the definition of "x" has more than names, types and keys, such as a CHECK or an expression: push an index built by opm`
	index := func(statement string) []string { return []string{"CREATE TABLE y(a TEXT, b TEXT)", statement} }
	raw := func(definition string) []string {
		return []string{
			"CREATE TABLE y(a)",
			"CREATE INDEX x ON y(a)",
			"PRAGMA writable_schema=ON",
			"UPDATE sqlite_schema SET " + definition + " WHERE name = 'x'",
		}
	}
	for name, test := range map[string]struct {
		statements []string
		want       string
	}{
		"CHECK of a table":        {[]string{"CREATE TABLE x(a, CHECK (instr(hex(zeroblob(30)), hex(zeroblob(10))||'1') = 0))"}, refused},
		"CHECK of a column":       {[]string{"CREATE TABLE x(a check(b), b)"}, refused},
		"CHECK after a comment":   {[]string{"CREATE TABLE x(a /* */ CHECK/**/(a), b)"}, refused},
		"generated":               {[]string{"CREATE TABLE x(a, b TEXT GENERATED ALWAYS AS (hex(zeroblob(9))) STORED)"}, refused},
		"generated, in short":     {[]string{"CREATE TABLE x(a, b AS (a))"}, refused},
		"default":                 {[]string{"CREATE TABLE x(a DEFAULT (hex(zeroblob(9))))"}, refused},
		"default, in short":       {[]string{"CREATE TABLE x(a DEFAULT(1))"}, refused},
		"collation":               {[]string{"CREATE TABLE x(a COLLATE nocase)"}, refused},
		"comment":                 {[]string{"CREATE TABLE x(a -- \n)"}, refused},
		"other quotes":            {[]string{"CREATE TABLE x([CHECK] TEXT, `a`)"}, refused},
		"options":                 {[]string{"CREATE TABLE x(a PRIMARY KEY) WITHOUT ROWID"}, refused},
		"index of an expression":  {index("CREATE INDEX x ON y(hex(a))"), refused},
		"index of an operator":    {index("CREATE UNIQUE INDEX x ON y(a LIKE b)"), refused},
		"index of an ordering":    {index("CREATE INDEX x ON y(a COLLATE nocase)"), refused},
		"partial index":           {index("CREATE INDEX x ON y(a) WHERE b IS NULL"), refused},
		"index of the schema":     {raw("tbl_name = 'sqlite_master', sql = 'CREATE INDEX x ON sqlite_master(name)'"), refused},
		"index of it, in quotes":  {raw(`tbl_name = 'sqlite_master', sql = 'CREATE INDEX x ON "sqlite_master"(name)'`), refused},
		"a statement in disguise": {raw("sql = 'create index x on y(hex(a))'"), `it has "x", which is neither a table nor an index`},
		"a long name": {
			[]string{"CREATE VIEW " + strings.Repeat("v", 1<<20) + " AS SELECT 1"}, "it has \"" + strings.Repeat("v", 80) + "\", which",
		},
		"nothing foreign": {
			[]string{
				`CREATE TABLE x("a-b" VARCHAR(255) NOT NULL DEFAULT 5, asked TEXT, checked TEXT)`, `CREATE UNIQUE INDEX z ON "x" ( "a-b" , asked )`,
			},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			if err := os.WriteFile(filepath.Join(s.dir, "index.db"), changed(t, test.statements...), 0o600); err != nil {
				t.Fatal(err)
			}
			tree := newTree(s.root, location{dir: ".", database: "index.db"}, DefaultLimits())
			_, err := tree.convertDatabase(t.Context())
			checkError(t, err, test.want, true)
		})
	}
}

// TestOneConversion checks that a second conversion waits for the first until its context ends.
func TestOneConversion(t *testing.T) {
	s := newScratch(t)
	if err := os.WriteFile(filepath.Join(s.dir, "index.db"), legacyIndex(t), 0o600); err != nil {
		t.Fatal(err)
	}
	before := converting
	defer func() { converting = before }()
	synctest.Test(t, func(t *testing.T) {
		converting = make(chan struct{}, cap(before)) // of this bubble
		converting <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of the bubble's time
		defer cancel()
		tree := newTree(s.root, location{dir: ".", database: "index.db"}, DefaultLimits())
		if _, err := tree.convertDatabase(ctx); !errors.Is(err, context.DeadlineExceeded) || isInvalid(err) {
			t.Errorf("got error %v, want one that is context.DeadlineExceeded", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := tree.convertDatabase(t.Context())
			done <- err
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Errorf("did not wait: %v", <-done)
		}
		<-converting
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(converting) > 0 {
			t.Error("the next would wait for ever")
		}
	})
}
