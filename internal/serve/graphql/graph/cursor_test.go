package graph

import "testing"

// FuzzPosition checks that each cursor has one spelling, and that its position is within the list.
func FuzzPosition(f *testing.F) {
	l := listOf(nil, "what")
	cursor := l.cursors()
	f.Add(cursor(7))
	f.Add(cursor(1<<63 - 1))
	f.Add("")
	f.Add(cursor(1) + "0000000000000000000") // overflows
	f.Add("0-0--1")
	f.Add("-")
	f.Fuzz(func(t *testing.T, text string) {
		position, err := l.position(text)
		if err != nil {
			return
		}
		if again := cursor(position); again != text {
			t.Errorf("%q has position %d, whose cursor is %q", text, position, again)
		}
		p, err := l.page(nil, &text, nil, 3)
		if err == nil && (p.from < 0 || p.from > p.to || p.to > 3) {
			t.Errorf("%q selects %d..%d of 3", text, p.from, p.to)
		}
	})
}
