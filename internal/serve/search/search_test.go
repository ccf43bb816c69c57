package search

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

func TestCompileErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"", "no word"},
		"spaces":    {" \t\n", "no word"},
		"too long":  {strings.Repeat("a", MaxBytes+1), "257 bytes, more than 256"},
		"too many":  {"a b c d e f g h i j k", "11 words, more than 10"},
		"not UTF-8": {"\xff", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Compile("a b c d e f g h i j a B C"); err != nil {
		t.Errorf("ten words, some of them twice: %v", err)
	}
}

var grafana = fbc.Summary{
	Name: "grafana-operator", DisplayName: "Grafana Operator",
	ShortDescription: "Deploys and manages Grafana instances", Description: "Dashboards, data sources and ALERTS as code.",
	Keywords: []string{"Observability", "time series"},
	Provides: []fbc.GVK{{Group: "grafana.integreatly.org", Version: "v1beta1", Kind: "GrafanaDashboard"}},
}

func TestScore(t *testing.T) {
	for text, want := range map[string]int{
		"grafana-operator":   isName + isWholeText,
		"GRAFANA":            beginsName,
		"  grafana  grafana": beginsName,
		"operator":           beginsNamePart,
		"fan":                withinName,
		"grafana operator":   beginsName + beginsNamePart + isWholeText, // as it is displayed
		"operator grafana":   beginsName + beginsNamePart,
		"observability":      isKeyword,
		"observ":             withinKeyword,
		"series":             withinKeyword,
		"grafanadashboard":   isKind,
		"grafanadash":        beginsKind,
		"dashboard":          withinKind,
		"manages":            withinShort,
		"alerts":             withinText,
		"grafana alerts":     beginsName + withinText,
		"grafana mysql":      0,
		"integreatly":        0, // the group is none of the texts
		"time  series":       withinKeyword + withinKeyword,
		"opérator":           0,
	} {
		q, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Score(grafana); got != want {
			t.Errorf("Score(%q) = %d, want %d", text, got, want)
		}
	}
	if got := (Query{}).Score(grafana); got != 0 {
		t.Errorf("the zero query scores %d, want 0", got)
	}
}

// A package name ranks its package above packages that only mention it.
func TestBetterPlacesScoreMore(t *testing.T) {
	ordered := []fbc.Summary{
		{Name: "etcd"},
		{Name: "etcd-operator"},
		{Name: "community-etcd"},
		{Name: "a", Keywords: []string{"etcd"}},
		{Name: "b", Provides: []fbc.GVK{{Kind: "EtcdCluster"}}},
		{Name: "c", Keywords: []string{"for etcd"}},
		{Name: "d", ShortDescription: "backs up etcd"},
		{Name: "e", Description: "needs etcd"},
	}
	q, err := Compile("Etcd")
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(ordered) - 1 {
		if a, b := q.Score(ordered[i]), q.Score(ordered[i+1]); a <= b || b == 0 {
			t.Errorf("%s scores %d and %s scores %d", ordered[i].Name, a, ordered[i+1].Name, b)
		}
	}
}

// FuzzCompile checks that an accepted query is within the limits and matches its own text.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"grafana", "a  B\tc", "", "\xff", "İ", "ſ ς", "<a> \"b\\ \x01\x7f \ufffd &", strings.Repeat("x ", 20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Compile(text)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			return
		}
		if len(q.words) == 0 || len(q.words) > MaxWords {
			t.Errorf("%d words", len(q.words))
		}
		if q.Score(fbc.Summary{Name: q.text}) == 0 {
			t.Errorf("Compile(%q) does not find its own text", text)
		}
		var line strings.Builder
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false) // as the store writes summaries
		if err := encoder.Encode(fbc.Summary{Name: q.text}); err != nil || !q.May([]byte(line.String())) {
			t.Errorf("Compile(%q) leaves out %s (%v)", text, line.String(), err)
		}
		if q.Score(fbc.Summary{}) != 0 {
			t.Errorf("Compile(%q) finds a package without a text", text)
		}
	})
}
