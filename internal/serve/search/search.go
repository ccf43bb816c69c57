// Package search scores packages for the words of a search. GraphQL and the search route share it.
package search

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Limits of a query. Each word is compared with every package of every catalog.
const (
	MaxBytes = 256
	MaxWords = 10
)

// Query is a compiled search text. It is safe for concurrent use. The zero Query matches nothing.
type Query struct {
	text  string   // lower case, words separated by one space
	words []string // lower case, without duplicates
}

// Compile parses the text of a search: words that a package must contain, in any case and order. The error of an empty or too long text is
// for the user.
func Compile(text string) (Query, error) {
	if len(text) > MaxBytes {
		return Query{}, fmt.Errorf("the search text has %d bytes, more than %d: use fewer words", len(text), MaxBytes)
	}
	if !utf8.ValidString(text) {
		return Query{}, fmt.Errorf("the search text is not UTF-8")
	}
	fields := strings.Fields(strings.ToLower(text))
	if len(fields) == 0 {
		return Query{}, fmt.Errorf("the search text has no words")
	}
	q := Query{text: strings.Join(fields, " ")}
	seen := map[string]bool{}
	for _, word := range fields {
		if !seen[word] {
			seen[word] = true
			q.words = append(q.words, word)
		}
	}
	if len(q.words) > MaxWords {
		return Query{}, fmt.Errorf("the search text has %d words, more than %d: use fewer words", len(q.words), MaxWords)
	}
	return q, nil
}

// The score of a word by the place of its match; the best place counts.
const (
	isName         = 100 // the whole name or display name
	beginsName     = 60
	beginsNamePart = 50 // of "grafana-operator", the word "operator"
	isKeyword      = 40
	isKind         = 40
	withinName     = 30
	beginsKind     = 25
	withinKeyword  = 20
	withinKind     = 15
	withinShort    = 10 // the short description
	withinText     = 5  // the description
	isWholeText    = 1000
)

// Score returns the score of a package, or 0 if it does not contain all words. Scores of different queries are not comparable.
func (q Query) Score(s fbc.Summary) int {
	if len(q.words) == 0 {
		return 0
	}
	t := texts{names: []string{strings.ToLower(s.Name), strings.ToLower(s.DisplayName)}, of: s}
	score := 0
	for _, word := range q.words {
		worth := t.worth(word)
		if worth == 0 {
			return 0
		}
		score += worth
	}
	if q.text == t.names[0] || q.text == t.names[1] {
		score += isWholeText
	}
	return score
}

// May reports whether a package can match, judging by its summary as JSON (see store.Snapshot.SummariesIf). It has false positives.
func (q Query) May(summary []byte) bool {
	lower := bytes.ToLower(summary)
	for _, word := range q.words {
		if !strings.ContainsFunc(word, isEscaped) && !bytes.Contains(lower, []byte(word)) {
			return false
		}
	}
	return true
}

// isEscaped reports whether JSON may escape a character. Words contain no white space.
func isEscaped(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError }

// texts are the texts of a package in lower case. The long descriptions are converted only if a word occurs nowhere else.
type texts struct {
	of           fbc.Summary
	names        []string
	short, long  string
	descriptions bool
}

func (t *texts) worth(word string) int {
	best := 0
	for _, name := range t.names {
		best = max(best, worthIn(name, word, isName, beginsName, withinName))
		if best < beginsNamePart && beginsPart(name, word) {
			best = beginsNamePart
		}
	}
	for _, keyword := range t.of.Keywords {
		best = max(best, worthIn(strings.ToLower(keyword), word, isKeyword, withinKeyword, withinKeyword))
	}
	for _, gvk := range t.of.Provides {
		best = max(best, worthIn(strings.ToLower(gvk.Kind), word, isKind, beginsKind, withinKind))
	}
	if best > 0 {
		return best
	}
	if !t.descriptions {
		t.descriptions = true
		t.short, t.long = strings.ToLower(t.of.ShortDescription), strings.ToLower(t.of.Description)
	}
	if strings.Contains(t.short, word) {
		return withinShort
	}
	if strings.Contains(t.long, word) {
		return withinText
	}
	return 0
}

func worthIn(text, word string, is, begins, within int) int {
	switch {
	case text == word:
		return is
	case strings.HasPrefix(text, word):
		return begins
	case strings.Contains(text, word):
		return within
	}
	return 0
}

// beginsPart reports whether a word follows a character of a text that is neither a letter nor a digit.
func beginsPart(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return true
		}
		at += len(word)
	}
}
