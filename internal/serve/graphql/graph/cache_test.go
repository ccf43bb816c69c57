package graph

import (
	"fmt"
	"strings"
	"testing"
)

// The cache has a limit, and does not keep large facts.
func TestCacheIsBounded(t *testing.T) {
	c := NewCache()
	const size = maxCache / 100
	for i := range 1000 {
		c.put(factKey{kind: factSummary, name: fmt.Sprint(i)}, i, size)
		if c.size > maxCache {
			t.Fatalf("the cache holds %d bytes, more than %d", c.size, maxCache)
		}
	}
	if n := len(c.facts); n < 50 || n > 100 {
		t.Errorf("the cache holds %d facts, each of 1%% of its limit", n)
	}
	if got, ok := c.get(factKey{kind: factSummary, name: "999"}); !ok || got != 999 {
		t.Errorf("the last fact is missing: %v", got)
	}
	large := factKey{kind: factNames, name: "large"}
	c.put(large, 0, maxCache/4)
	if _, ok := c.get(large); ok {
		t.Error("the cache keeps a large fact")
	}
	sum := int64(0)
	for _, fact := range c.facts {
		sum += fact.size
	}
	if sum != c.size {
		t.Errorf("the facts have %d bytes, but the cache counts %d", c.size, sum)
	}
}

// A request pays the same for a cached fact as for a read, and once for a blob that it also reads.
func TestCachedFactsAreCharged(t *testing.T) {
	st := oneChannel(t)
	cache := NewCache()
	var spent [3][2]int64
	for i := range spent {
		r := newRequest(st, cache, highLimits)
		p := r.sources[0].pkg("p")
		if err := p.load(); err != nil {
			t.Fatal(err)
		}
		channel := p.channels().list[0]
		bundle, err := channel.Head()
		if err != nil || bundle.Name != "p.v1" {
			t.Fatalf("got %v, %v", bundle, err)
		}
		if i == 2 || i == 0 { // the first request reads the blob anyway
			if entries, err := channel.Entries(); err != nil || len(entries) != 1 {
				t.Fatalf("got %v, %v", entries, err)
			}
		}
		spent[i] = [2]int64{r.spent.read.Load(), r.spent.decoded.Load()}
	}
	if spent[1] != spent[0] || spent[2] != spent[0] || spent[0][0] == 0 || spent[0][1] == 0 {
		t.Errorf("charged for bytes and values: %v", spent)
	}
	if len(cache.facts) != 2 {
		t.Errorf("the cache holds %v", cache.facts)
	}
	r := newRequest(st, cache, Limits{Read: 1, Decoded: 1 << 20, Memory: 1 << 30})
	if _, err := r.sources[0].pkg("p").channels().list[0].headName(); err == nil || !strings.Contains(err.Error(), "reads more than") {
		t.Errorf("got error %v beyond the limit", err)
	}
}
