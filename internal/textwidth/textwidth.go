// Package textwidth measures and cuts text by the columns that it takes on a terminal.
package textwidth

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Of returns the number of columns of a text without control characters. Characters of ambiguous width count as narrow, as in terminals
// outside East Asia.
func Of(text string) int {
	n := 0
	for _, r := range text {
		n += ofRune(r)
	}
	return n
}

func ofRune(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Truncate cuts the end of a text that exceeds a limit. The result includes the mark of the cut, or is empty if there is no room for it.
func Truncate(text string, limit int, mark string) string {
	if Of(text) <= limit {
		return text
	}
	left := limit - Of(mark)
	if left < 0 {
		return ""
	}
	return prefix(text, left) + mark
}

// TruncateMiddle is Truncate for the middle of a text.
func TruncateMiddle(text string, limit int, mark string) string {
	if Of(text) <= limit || Of(mark) >= limit {
		return Truncate(text, limit, mark)
	}
	begin := prefix(text, (limit-Of(mark))/2)
	end := text
	for most := limit - Of(begin) - Of(mark); Of(end) > most; {
		_, size := utf8.DecodeRuneInString(end)
		end = end[size:]
	}
	return begin + mark + end
}

// prefix returns the longest prefix of a text within a limit.
func prefix(text string, limit int) string {
	for i, r := range text {
		if limit -= ofRune(r); limit < 0 {
			return text[:i]
		}
	}
	return text
}
