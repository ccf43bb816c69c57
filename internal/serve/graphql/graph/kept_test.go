package graph

import (
	"fmt"
	"strings"
	"testing"
)

// What is kept has a bound, and what is large is not kept at all.
func TestKeptIsBounded(t *testing.T) {
	k := NewKept()
	const size = maxKept / 100
	for i := range 1000 {
		k.put(keptKey{kind: keptSummary, name: fmt.Sprint(i)}, i, size)
		if k.size > maxKept {
			t.Fatalf("%d bytes are kept, more than %d", k.size, maxKept)
		}
	}
	if n := len(k.facts); n < 50 || n > 100 {
		t.Errorf("%d facts of a hundredth of the room are kept", n)
	}
	if got, ok := k.get(keptKey{kind: keptSummary, name: "999"}); !ok || got != 999 {
		t.Errorf("the last one is not there: %v", got)
	}
	large := keptKey{kind: keptNames, name: "large"}
	k.put(large, 0, maxKept/4)
	if _, ok := k.get(large); ok {
		t.Error("a large one is kept")
	}
	sum := int64(0)
	for _, fact := range k.facts {
		sum += fact.size
	}
	if sum != k.size {
		t.Errorf("%d bytes are noted, and %d kept", k.size, sum)
	}
}

// A request is charged the same for what is kept as for what it reads, and once for a blob that it also reads.
func TestKeptIsCharged(t *testing.T) {
	st := oneChannel(t)
	kept := NewKept()
	var spent [3][2]int64
	for i := range spent {
		r := NewRequest(Options{Limits: Limits{Read: 1 << 20, Decoded: 1 << 20, Memory: 1 << 30}, Kept: kept}, st.Catalogs())
		p := r.sources[0].pkg("p")
		if _, err := p.summary(); err != nil {
			t.Fatal(err)
		}
		channel := p.channels().list[0]
		bundle, err := channel.Head()
		if err != nil || bundle.Name() != "p.v1" {
			t.Fatalf("got %v, %v", bundle, err)
		}
		if i == 2 || i == 0 { // the first read the blob anyhow
			if entries, err := channel.Entries(); err != nil || len(entries) != 1 {
				t.Fatalf("got %v, %v", entries, err)
			}
		}
		spent[i] = [2]int64{r.spent.read.Load(), r.spent.decoded.Load()}
	}
	if spent[1] != spent[0] || spent[2] != spent[0] || spent[0][0] == 0 || spent[0][1] == 0 {
		t.Errorf("charged for bytes and values: %v", spent)
	}
	if len(kept.facts) != 2 {
		t.Errorf("kept: %v", kept.facts)
	}
	r := NewRequest(Options{Limits: Limits{Read: 1, Decoded: 1 << 20, Memory: 1 << 30}, Kept: kept}, st.Catalogs())
	if _, err := r.sources[0].pkg("p").channels().list[0].headName(); err == nil || !strings.Contains(err.Error(), "reads more than") {
		t.Errorf("got %v past the limit", err)
	}
}
