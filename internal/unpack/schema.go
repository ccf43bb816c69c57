package unpack

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

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
