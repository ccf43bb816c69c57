package serve

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// identity is content as it is, in no encoding.
const identity store.Encoding = "identity"

// encodings are all that replies come in; of those a client likes equally well, the first is chosen.
var encodings = [...]store.Encoding{store.Zstd, store.Gzip, identity}

// identityOnly is what the clients accept that do not say. Nobody changes it.
var identityOnly = []store.Encoding{identity}

// minEncoded is the size in bytes from which content is compressed: less fits into one packet anyhow.
const minEncoded = 1024

// negotiate returns the encodings in which the client may be answered, best first, and an error, 406, if there are none.
//
// One that the client names goes before all others: by If-None-Match, for 304 is the best encoding, by If-Match, for it wants no other,
// or by If-Range, for it has a part of that. A Range alone changes nothing, as it is a range of what would be sent without it (RFC 9110,
// section 14.2): a client that accepts encodings and has a part of one must not be given a part of another. Only identity has ranges;
// of the others a Range is ignored, and the client gets the whole, as section 14.2 allows.
func negotiate(r *http.Request, tag string) ([]store.Encoding, error) {
	accepted := accept(r.Header.Values("Accept-Encoding"))
	if len(accepted) == 1 {
		return accepted, nil
	}
	if len(accepted) == 0 {
		return nil, &statusError{code: http.StatusNotAcceptable, text: "Accept-Encoding refuses all that this content comes in: zstd, gzip and identity"}
	}
	named := strings.Join(slices.Concat(r.Header.Values("If-None-Match"), r.Header.Values("If-Match"), r.Header.Values("If-Range")), ",")
	slices.SortStableFunc(accepted, func(a, b store.Encoding) int {
		first := func(e store.Encoding) int {
			if strings.Contains(named, entityTag(tag, e)) {
				return 0
			}
			return 1
		}
		return cmp.Compare(first(a), first(b))
	})
	return accepted, nil
}

// entityTag is the strong validator of content in an encoding (RFC 9110, section 8.8.3.3: each has its own).
func entityTag(tag string, e store.Encoding) string {
	if e != identity {
		tag += "-" + string(e)
	}
	return `"` + tag + `"`
}

// accept reads Accept-Encoding (RFC 9110, section 12.5.3) and returns the encodings that it allows, best first. No field at all would
// allow every encoding, but clients that send none seldom decode any: they get identity. Identity needs no mention to be allowed, and
// is liked least then. An element that cannot be read counts as not sent.
func accept(fields []string) []store.Encoding {
	if len(fields) == 0 {
		return identityOnly
	}
	weights := make(map[store.Encoding]int)
	for element := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		coding, weight, ok := parseCoding(element)
		if _, twice := weights[coding]; ok && !twice {
			weights[coding] = weight
		}
	}
	var accepted []store.Encoding
	for _, e := range encodings {
		if weight, said := weights[e]; said {
			weights[e] = weight * 2
		} else if weight, all := weights["*"]; all {
			weights[e] = weight * 2
		} else if e == identity {
			weights[e] = 1 // below any weight that is said, as these are even now
		}
		if weights[e] > 0 {
			accepted = append(accepted, e)
		}
	}
	slices.SortStableFunc(accepted, func(a, b store.Encoding) int { return cmp.Compare(weights[b], weights[a]) })
	return accepted
}

// parseCoding reads one element of Accept-Encoding: a coding, lower case, and its weight in thousandths.
func parseCoding(element string) (coding store.Encoding, weight int, ok bool) {
	name, param, weighted := strings.Cut(element, ";")
	name = strings.ToLower(strings.Trim(name, " \t"))
	if name == "x-gzip" { // an old name of it (RFC 9110, section 8.4.1.3)
		name = string(store.Gzip)
	}
	if !weighted {
		return store.Encoding(name), 1000, name != ""
	}
	key, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
	weight, ok = parseWeight(value)
	return store.Encoding(name), weight, ok && name != "" && strings.EqualFold(key, "q")
}

// parseWeight reads a qvalue (RFC 9110, section 12.4.2): 0 to 1 with at most three decimals, here in thousandths.
func parseWeight(s string) (int, bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if (whole != "0" && whole != "1") || len(decimals) > 3 || strings.Trim(decimals, "0123456789") != "" {
		return 0, false
	}
	weight, err := strconv.Atoi(whole + (decimals + "000")[:3])
	return weight, err == nil && weight <= 1000
}
