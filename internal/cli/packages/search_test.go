package packages

import (
	"testing"
)

func TestSearchMatched(t *testing.T) {
	r := searchResult{
		Name:        "strimzi-kafka-operator",
		DisplayName: "Strimzi",
		Keywords:    []string{"messaging", "Kafka-Streams"},
		Kinds:       []string{"KafkaTopic"},
	}
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"KAFKA"}, "name"},
		{[]string{"kafka", "operator"}, "name"},
		{[]string{"streams", "strimzi"}, "keyword Kafka-Streams, name"},
		{[]string{"topic", "rest"}, "kind KafkaTopic, description"},
	} {
		if got := r.matches(test.words); got != test.want {
			t.Errorf("matched(%q) = %q, want %q", test.words, got, test.want)
		}
	}
}

func TestMoreHint(t *testing.T) {
	for shown, want := range map[int]string{
		20:  "Showing 20 of 250 packages; increase --limit (up to 100) to see more.",
		100: "Showing the best 100 of 250 packages; add words to narrow the search.",
	} {
		if got := moreHint(shown, 250); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
