package unpack

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

// What opm has written to schemas in all its versions (operator-registry's pkg/sqlite/migrations) is names, types, and keys
// of names. The rest of SQL is refused: SQLite runs what a stranger wrote where it checks, reads or changes a table with a
// CHECK, a generated column, or a default or an index that is an expression; one such step can take hours, and cannot be
// interrupted. SQLite itself writes how statements begin.
const (
	sqlName  = `(?:\w+|"[^"]*")`
	sqlNames = `\(\s*` + sqlName + `\s*(?:,\s*` + sqlName + `\s*)*\)`
)

var (
	tableStatement = regexp.MustCompile(`(?i)^CREATE TABLE ` + sqlName + `\s*\((?:[\w\s,]|"[^"]*"|` + sqlNames + `)*\)$`)
	indexStatement = regexp.MustCompile(`(?i)^CREATE (?:UNIQUE )?INDEX ` + sqlName + `\s+ON\s+` + sqlName + `\s*` + sqlNames + `$`)
	// refusedWords are harmless in quotes, but nothing of opm has them there either. Tables sqlite_... are SQLite's own: it
	// takes an index on its schema from a file, though from nobody else.
	refusedWords = regexp.MustCompile(`(?i)\b(?:(?:CHECK|GENERATED|AS|COLLATE)\b|DEFAULT\s*\(|sqlite_)`)
)

// ownTriggers are those of every index (operator-registry's migration 7). They tidy a table that is not read here and are
// dropped, whatever they are in this one.
func ownTriggers() []string { return []string{"api_provider_cleanup", "api_requirer_cleanup"} }

// checkSchema refuses a database that has more in it than tables and indexes as opm makes them, and its triggers. It reads
// the schema as a table, without any index, for which SQLite evaluates nothing of it.
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

// checkStatement trusts that name is that of the statement: SQLite opens no database in which it is not.
func checkStatement(name, statement string) error {
	match := indexStatement
	switch {
	case strings.HasPrefix(statement, "CREATE TRIGGER ") && slices.Contains(ownTriggers(), name):
		return nil
	case strings.HasPrefix(statement, "CREATE TABLE "):
		match = tableStatement
	case !strings.HasPrefix(statement, "CREATE INDEX ") && !strings.HasPrefix(statement, "CREATE UNIQUE INDEX "):
		return invalidf("it has %.80q, which is neither table nor index: push an index as opm makes it", name)
	}
	if !match.MatchString(statement) || refusedWords.MatchString(statement) {
		return invalidf("the definition of %.80q has more in it than names, types and keys, such as a CHECK or an expression: "+
			"push an index as opm makes it", name)
	}
	return nil
}

// dropTriggers drops ownTriggers.
func dropTriggers(ctx context.Context, db *sql.DB) error {
	for _, name := range ownTriggers() {
		if _, err := db.ExecContext(ctx, "DROP TRIGGER IF EXISTS "+name); err != nil {
			return err
		}
	}
	return nil
}
