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
	"strings"

	"github.com/operator-framework/operator-registry/pkg/sqlite"
	"github.com/operator-framework/operator-registry/pkg/sqlite/migrations"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// converting holds a token while a database is converted: one at a time in the process, whatever the number of catalogs that
// are unpacked at once, as a conversion takes many times the memory of all else that catalogd does.
var converting = make(chan struct{}, 1)

// convertDatabase replaces the database, which is all that is in root, by catalog files. It is read as what a stranger
// wrote: one that is no sound database, or has more in it than tables and indexes, is refused, and so is one whose content
// makes no catalog. Memory use grows with the database, up to 20 times its size: hence Limits.DatabaseBytes, and one
// conversion at a time.
//
// The driver needs no C, as the product is built without; operator-registry, whose own driver does, does the rest on it.
// A crash leaves what any leaves in root, to be removed by the next call of Image.
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

// checkDatabase says whether the database is there, as a file that SQLite takes for one.
func (t *tree) checkDatabase() error {
	if err := t.checkRefused(); err != nil {
		return err
	}
	info, err := t.root.Lstat(t.rel(t.database))
	if err != nil || !info.Mode().IsRegular() {
		return invalidf("the image has no file /%s, where its catalog should be: correct the label %s", t.database, DatabaseLabel)
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
		return invalidf("/%s is no SQLite database: correct the label %s", t.database, DatabaseLabel)
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
	if reader.err != nil { // operator-registry ends silently on some, and cuts the chain of others
		err = reader.err
	}
	return catalog, databaseError(err)
}

// maxValue bounds the bytes of one value, which are copied and parsed many times. Those of opm have less than a megabyte.
const maxValue = 16 << 20

// openDatabase opens the file, which must be there, with all that SQLite advises for files of strangers
// (https://www.sqlite.org/security.html), and such that nothing is written beside it. There is one connection, as limits
// are set on connections; no value may be longer than maxValue, and none than limit.
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
	defer conn.Close() // back to the pool, which keeps it
	_, err = driver.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, int(min(limit, maxValue)))
	return err
}

// checkContent refuses a database that checkSchema refuses, and one that is damaged. The schema comes first, as to look for
// damage is to run what it says.
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

// migrate brings the schema to the newest version, as opm does, in one transaction.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	for _, migration := range migrations.All().From(version + 1) {
		if err := migration.Up(ctx, tx); err != nil {
			return fmt.Errorf("bringing its schema to version %d: %w", migration.Id, err)
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

// databaseError makes err an InvalidImageError, unless it is one or the database is not to blame. For SQLITE_READONLY it is:
// its header may say so.
func databaseError(err error) error {
	if err == nil || isInvalid(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if failure, ok := errors.AsType[*driver.Error](err); ok {
		switch failure.Code() & 0xff { // the rest of an extended code says more of the same
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN,
			sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT:
			return err
		}
	}
	return &InvalidImageError{Err: &conversionError{oneLine(err.Error()), err}}
}

// conversionError has what operator-registry says, which may be a drawing of a tree, as one line.
type conversionError struct {
	text string
	err  error
}

func (e *conversionError) Error() string { return e.text }
func (e *conversionError) Unwrap() error { return e.err }

func oneLine(text string) string {
	const most = 1000
	text = strings.NewReplacer("├──", " ", "└──", " ", "│", " ").Replace(text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
