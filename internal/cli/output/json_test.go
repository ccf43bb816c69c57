package output

import (
	"encoding/json"
	"testing"
)

func TestJSON(t *testing.T) {
	text := "{\n\t\"a\": \"\u009b2J \u202e é 😀 \u007f\"\n}"
	got := JSON(text)
	if want := "{\n\t\"a\": \"\\u009b2J \\u202e é 😀 \\u007f\"\n}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var a, b map[string]string
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &b); err != nil {
		t.Fatal(err)
	}
	if a["a"] != b["a"] {
		t.Errorf("got value %q, want %q", b, a)
	}
}
