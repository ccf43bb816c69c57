package cli

import "testing"

func TestDidYouMean(t *testing.T) {
	all := []string{"skupper-operator", "kepler-operator", "stable-1.6", "stable-1.7", "stable-1.8", "stable-1.9", "alpha", "a\x1b[2J"}
	for name, want := range map[string]string{
		"skuper-operator": `: did you mean "skupper-operator"?`,
		"Skupper":         `: did you mean "skupper-operator"?`,
		"stabl-1.6":       `: did you mean "stable-1.6" or "stable-1.7" or "stable-1.8"?`,
		"alhpa":           `: did you mean "alpha"?`,
		"alph":            `: did you mean "alpha"?`,
		"a[2J":            ": did you mean \"a\ufffd[2J\"?",
		"postgresql":      "",
		"x":               "",
		"":                "",
	} {
		if got := didYouMean(name, all); got != want {
			t.Errorf("didYouMean(%q) = %q, want %q", name, got, want)
		}
	}
}
