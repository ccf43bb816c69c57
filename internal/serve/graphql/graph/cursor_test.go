package graph

import "testing"

// FuzzParseCursor holds that each cursor has one spelling, and that what is none is refused.
func FuzzParseCursor(f *testing.F) {
	f.Add(cursor{position: 7}.String())
	f.Add(cursor{version: [cursorHash]byte{1, 2}, what: [cursorHash]byte{3}, position: 1<<64 - 1}.String())
	f.Add("")
	f.Add("AAAAAAAAAAAAAAAAAAAAAIA") // a number that does not end
	f.Add("=")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text)
		if err != nil {
			return
		}
		if again := c.String(); again != text {
			t.Errorf("%q is read as %+v, which is written %q", text, c, again)
		}
		// A position is never used beyond the list.
		p, err := (list{}).page(nil, &text, 3)
		if err == nil && (p.from < 0 || p.from > p.to || p.to > 3) {
			t.Errorf("%q gives %d..%d of 3", text, p.from, p.to)
		}
	})
}
