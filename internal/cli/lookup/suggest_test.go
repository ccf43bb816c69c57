package lookup

import (
	"testing"
)

func TestDidYouMean(t *testing.T) {
	all := []string{"skupper-operator", "kepler-operator", "stable-1.6", "stable-1.7", "stable-1.8", "stable-1.9", "alpha", "a\x1b[2J"}
	for name, want := range map[string]string{
		"skuper-operator": `: did you mean "skupper-operator"?`,
		"Skupper":         `: did you mean "skupper-operator"?`,
		"stabl-1.6":       `: did you mean "stable-1.6" or "stable-1.7" or "stable-1.8"?`,
		"alhpa":           `: did you mean "alpha"?`,
		"skuper":          `: did you mean "skupper-operator"?`,
		"alph":            `: did you mean "alpha"?`,
		"a[2J":            ": did you mean \"a\ufffd[2J\"?",
		"postgresql":      "",
		"x":               "",
		"":                "",
	} {
		if got := DidYouMean(name, all); got != want {
			t.Errorf("DidYouMean(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestDidYouMeanPrefersSharedWords checks that names that share a part come before similar names.
func TestDidYouMeanPrefersSharedWords(t *testing.T) {
	all := []string{
		"kaoto-operator", "strimzi-kafka-operator", "ack-kafka-controller", "banzaicloud-kafka-operator", "koku-kafka", "prometheus", "opera",
	}
	for name, want := range map[string]string{
		"kafka-operator":      `: did you mean "strimzi-kafka-operator" or "banzaicloud-kafka-operator" or "kaoto-operator"?`,
		"kafka":               `: did you mean "koku-kafka" or "ack-kafka-controller" or "strimzi-kafka-operator"?`,
		"prometheus-operator": `: did you mean "prometheus"?`,
		"kaota-operator":      `: did you mean "kaoto-operator"?`,
	} {
		if got := DidYouMean(name, all); got != want {
			t.Errorf("DidYouMean(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestOrListed(t *testing.T) {
	for _, test := range []struct {
		all  []string
		want string
	}{
		{nil, ""},
		{[]string{"a"}, "; it has a"},
		{[]string{"b", "a\x1b", "b"}, "; it has b, a\ufffd"},
		{[]string{"foo", "b"}, `: did you mean "foo"?`},
		{[]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}, "; it has 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"},
	} {
		if got := OrListed("fooo", test.all); got != test.want {
			t.Errorf("of %q: %q", test.all, got)
		}
	}
}
