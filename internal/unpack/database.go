package unpack

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/pkg/sqlite"
	"github.com/operator-framework/operator-registry/pkg/sqlite/migrations"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// converting limits the process to one conversion at a time: a conversion takes many times the memory of
// everything else in catalogd.
var converting = make(chan struct{}, 1)

// convertDatabase replaces the database, the only file in root, by catalog files. The database is untrusted: a
// damaged one, one with objects other than tables and indexes, and one without a valid catalog are refused.
// Memory use is up to 20 times the size of the database; hence Limits.DatabaseBytes and one conversion at a
// time.
//
// The driver is pure Go, as catalogd is built without C. operator-registry, whose own driver needs C, runs on
// top of it. After a crash, the next call of Image empties root.
func (t *tree) convertDatabase(ctx context.Context) (Result, error) {
	if err := t.checkDatabase(); err != nil {
		return Result{}, err
	}
	select {
	case converting <- struct{}{}:
		defer func() { <-converting }()
	case <-ctx.Done():
		return Result{}, fmt.Errorf("waiting for another SQLite index to be converted: %w", ctx.Err())
	}
	catalog, err := t.readDatabase(ctx)
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("converting %s: %w", t.database, ctx.Err())
	}
	if err != nil {
		return Result{}, fmt.Errorf("converting %s, an SQLite index: %w", t.database, err)
	}
	if err := clearRoot(t.root); err != nil {
		return Result{}, fmt.Errorf("removing the database: %w", err)
	}
	files := newTree(t.root, location{dir: "."}, t.limits)
	if err := writeCatalog(catalog, files); err != nil {
		return Result{}, err
	}
	result, err := files.result()
	if err != nil {
		return Result{}, err
	}
	result.ConfigDir = path.Join("/", t.dir)
	return result, nil
}

// checkDatabase returns an error unless the database is a file with SQLite's header.
func (t *tree) checkDatabase() error {
	if err := t.checkRefused(); err != nil {
		return err
	}
	info, err := t.root.Lstat(t.rel(t.database))
	if err != nil || !info.Mode().IsRegular() {
		return invalidf("the image has no file /%s: correct the label %s", t.database, DatabaseLabel)
	}
	file, err := t.root.Open(t.rel(t.database))
	if err != nil {
		return err
	}
	defer file.Close()
	const magic = "SQLite format 3\x00" // https://www.sqlite.org/fileformat.html, section 1.3.1
	start := make([]byte, len(magic))
	_, err = io.ReadFull(file, start)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case string(start) != magic:
		return invalidf("/%s is not an SQLite database: correct the label %s", t.database, DatabaseLabel)
	}
	return nil
}

func (t *tree) readDatabase(ctx context.Context) (catalog, error) {
	db, err := openDatabase(ctx, filepath.Join(t.root.Name(), t.rel(t.database)), t.limits.DatabaseBytes)
	if err != nil {
		return nil, databaseError(err)
	}
	defer db.Close()
	if err := checkContent(ctx, db); err != nil {
		return nil, databaseError(err)
	}
	if err := migrate(ctx, db); err != nil {
		return nil, databaseError(err)
	}
	reader := &reader{db: db, limit: t.limits.DatabaseBytes}
	catalog, err := toCatalog(ctx, reader)
	if reader.err != nil { // operator-registry drops some errors and unwraps others
		err = reader.err
	}
	return catalog, databaseError(err)
}

// maxValue limits the bytes of one value, which is copied and parsed many times. Values of opm have less than a
// megabyte.
const maxValue = 16 << 20

// openDatabase opens an existing file with the settings that SQLite advises for untrusted files
// (https://www.sqlite.org/security.html), and so that no file is written beside it. There is one connection,
// because limits apply to connections. Values are limited to maxValue and limit.
func openDatabase(ctx context.Context, file string, limit int64) (*sql.DB, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	query := url.Values{"mode": {"rw"}, "_defensive": {"1"}, "_pragma": {
		"trusted_schema(OFF)", "cell_size_check(ON)", "mmap_size(0)", "locking_mode(EXCLUSIVE)",
		"temp_store(MEMORY)", "journal_mode(MEMORY)", "synchronous(OFF)", "foreign_keys(ON)",
	}}
	dsn := url.URL{Scheme: "file", Path: file, OmitHost: true, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := limitValues(ctx, db, limit); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func limitValues(ctx context.Context, db *sql.DB, limit int64) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // returns it to the pool
	_, err = driver.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, int(min(limit, maxValue)))
	return err
}

// checkContent refuses a database that checkSchema refuses, and a damaged one. The schema comes first, because
// the integrity check executes parts of it.
func checkContent(ctx context.Context, db *sql.DB) error {
	if err := checkSchema(ctx, db); err != nil {
		return err
	}
	if err := dropTriggers(ctx, db); err != nil {
		return err
	}
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return invalidf("the database is damaged: %s", oneLine(verdict))
	}
	return nil
}

// migrate upgrades the schema to the newest version in one transaction, as opm does.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after Commit
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	for _, migration := range migrations.All().From(version + 1) {
		if err := migration.Up(ctx, tx); err != nil {
			return fmt.Errorf("migrating its schema to version %d: %w", migration.Id, err)
		}
	}
	return tx.Commit()
}

func schemaVersion(ctx context.Context, tx *sql.Tx) (version int, err error) {
	var tables int
	query := "SELECT count(*) FROM sqlite_schema WHERE name = ?"
	if err := tx.QueryRowContext(ctx, query, sqlite.DefaultMigrationsTable).Scan(&tables); err != nil || tables == 0 {
		return sqlite.NilVersion, err
	}
	err = tx.QueryRowContext(ctx, "SELECT version FROM "+sqlite.DefaultMigrationsTable+" LIMIT 1").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return sqlite.NilVersion, nil
	}
	return version, err
}

// databaseError wraps err in an InvalidImageError, unless it is one or the database did not cause it.
// SQLITE_READONLY is the database's fault, since its header may demand it.
func databaseError(err error) error {
	if err == nil || isInvalid(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if failure, ok := errors.AsType[*driver.Error](err); ok {
		switch failure.Code() & 0xff { // the low byte of an extended code is its class
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN,
			sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT:
			return err
		}
	}
	return &InvalidImageError{Err: &conversionError{oneLine(err.Error()), err}}
}

// conversionError has the message of operator-registry, which may be a drawing of a tree, as one line.
type conversionError struct {
	text string
	err  error
}

func (e *conversionError) Error() string { return e.text }
func (e *conversionError) Unwrap() error { return e.err }

func oneLine(text string) string {
	const limit = 1000
	text = strings.NewReplacer("├──", " ", "└──", " ", "│", " ").Replace(text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// All versions of opm (operator-registry's pkg/sqlite/migrations) write only names, types, and keys of names to the
// schema. All other SQL is refused. SQLite executes untrusted expressions when it checks, reads or changes a table
// with a CHECK, a generated column, or an expression as default or index. One of them can take hours, without
// interruption. The beginning of a statement is written by SQLite itself.
const (
	sqlName  = `(?:\w+|"[^"]*")`
	sqlNames = `\(\s*` + sqlName + `\s*(?:,\s*` + sqlName + `\s*)*\)`
)

var (
	tableStatement = regexp.MustCompile(`(?i)^CREATE TABLE ` + sqlName + `\s*\((?:[\w\s,]|"[^"]*"|` + sqlNames + `)*\)$`)
	indexStatement = regexp.MustCompile(`(?i)^CREATE (?:UNIQUE )?INDEX ` + sqlName + `\s+ON\s+` + sqlName + `\s*` + sqlNames + `$`)
	// refusedWords are harmless in quotes, but opm never quotes them. Tables sqlite_... are SQLite's own; it accepts
	// an index on its schema from a file only.
	refusedWords = regexp.MustCompile(`(?i)\b(?:(?:CHECK|GENERATED|AS|COLLATE)\b|DEFAULT\s*\(|sqlite_)`)
)

// ownTriggers returns the triggers of every index (operator-registry's migration 7). They maintain a table that
// is not read here, and are dropped whatever their definition.
func ownTriggers() []string { return []string{"api_provider_cleanup", "api_requirer_cleanup"} }

// checkSchema refuses a database with objects other than tables, indexes and triggers as opm creates them. It
// reads the schema as a table without any index, for which SQLite executes no part of it.
func checkSchema(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT name, sql FROM sqlite_schema NOT INDEXED WHERE sql IS NOT NULL")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name sql.NullString
		var statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return err
		}
		if err := checkStatement(name.String, statement); err != nil {
			return err
		}
	}
	return rows.Err()
}

// checkStatement relies on name being the name in the statement: SQLite does not open other databases.
func checkStatement(name, statement string) error {
	match := indexStatement
	switch {
	case strings.HasPrefix(statement, "CREATE TRIGGER ") && slices.Contains(ownTriggers(), name):
		return nil
	case strings.HasPrefix(statement, "CREATE TABLE "):
		match = tableStatement
	case !strings.HasPrefix(statement, "CREATE INDEX ") && !strings.HasPrefix(statement, "CREATE UNIQUE INDEX "):
		return invalidf("it has %.80q, which is neither a table nor an index: push an index built by opm", name)
	}
	if !match.MatchString(statement) || refusedWords.MatchString(statement) {
		return invalidf("the definition of %.80q has more than names, types and keys, such as a CHECK or an expression: "+
			"push an index built by opm", name)
	}
	return nil
}

func dropTriggers(ctx context.Context, db *sql.DB) error {
	for _, name := range ownTriggers() {
		if _, err := db.ExecContext(ctx, "DROP TRIGGER IF EXISTS "+name); err != nil {
			return err
		}
	}
	return nil
}
