package serve

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// identity is content without encoding.
const identity store.Encoding = "identity"

// encodings are the supported encodings. The first one wins among those that a client weights equally.
var encodings = [...]store.Encoding{store.Zstd, store.Gzip, identity}

// identityOnly is the default without Accept-Encoding. It must not be modified.
var identityOnly = []store.Encoding{identity}

// minEncoded is the minimum size in bytes of compressed content; smaller content fits into one packet.
const minEncoded = 1024

// negotiate returns the encodings that the client accepts, best first, or an error with status 406 if it accepts none.
//
// An encoding whose tag the client names in If-None-Match, If-Match or If-Range goes first, because the client has it. A Range
// alone changes nothing: it is a range of the response that would be sent without it (RFC 9110, section 14.2). Only identity
// has ranges; in other encodings the client gets the whole content.
func negotiate(r *http.Request, tag string) ([]store.Encoding, error) {
	accepted := accept(r.Header.Values("Accept-Encoding"))
	if len(accepted) == 1 {
		return accepted, nil
	}
	if len(accepted) == 0 {
		return nil, &statusError{
			code: http.StatusNotAcceptable, text: "Accept-Encoding allows none of the supported encodings: zstd, gzip and identity",
		}
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

// entityTag is the strong validator of content in an encoding; each encoding has its own (RFC 9110, section 8.8.3.3).
func entityTag(tag string, e store.Encoding) string {
	if e != identity {
		tag += "-" + string(e)
	}
	return `"` + tag + `"`
}

// accept parses Accept-Encoding (RFC 9110, section 12.5.3) and returns the accepted encodings, best first. Without the field
// only identity is accepted, because clients that omit it seldom decode anything. Identity need not be listed; it comes last
// then. Malformed elements are ignored.
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
			weights[e] = 1 // below any given weight, because those are doubled
		}
		if weights[e] > 0 {
			accepted = append(accepted, e)
		}
	}
	slices.SortStableFunc(accepted, func(a, b store.Encoding) int { return cmp.Compare(weights[b], weights[a]) })
	return accepted
}

// parseCoding parses an element of Accept-Encoding. It returns the coding in lower case and its weight in thousandths.
func parseCoding(element string) (coding store.Encoding, weight int, ok bool) {
	name, param, weighted := strings.Cut(element, ";")
	name = strings.ToLower(strings.Trim(name, " \t"))
	if name == "x-gzip" { // an alias (RFC 9110, section 8.4.1.3)
		name = string(store.Gzip)
	}
	if !weighted {
		return store.Encoding(name), 1000, name != ""
	}
	key, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
	weight, ok = parseWeight(value)
	return store.Encoding(name), weight, ok && name != "" && strings.EqualFold(key, "q")
}

// parseWeight parses a qvalue (RFC 9110, section 12.4.2), 0 to 1 with at most three decimals. It returns thousandths.
func parseWeight(s string) (int, bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if (whole != "0" && whole != "1") || len(decimals) > 3 || strings.Trim(decimals, "0123456789") != "" {
		return 0, false
	}
	weight, err := strconv.Atoi(whole + (decimals + "000")[:3])
	return weight, err == nil && weight <= 1000
}
