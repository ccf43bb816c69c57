package subset

import (
	"strings"
	"testing"
)

// FuzzParse parses selections. What it accepts names a package, and no bound that is not a version.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"foo", "foo/stable@1.2.0..", "foo@..2.0.0", "foo@1.0.0..2.0.0-rc.1", "foo@=1.0.0", "foo@heads", "foo@>=1.0.0", "foo/a/b@@", "@", "/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := Parse([]string{text})
		if err != nil {
			return
		}
		if len(rules) != 1 || rules[0].Package == "" || !strings.HasPrefix(text, rules[0].Package) {
			t.Errorf("%q is %+v", text, rules)
		}
		if err := (Filter{Include: rules}).Validate(); err != nil {
			t.Errorf("%q is accepted as %+v, which is not valid: %v", text, rules, err)
		}
	})
}
