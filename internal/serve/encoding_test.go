package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

func TestAccept(t *testing.T) {
	for _, test := range []struct {
		fields []string
		want   string
	}{
		{nil, "identity"},
		{[]string{""}, "identity"},
		{[]string{"gzip"}, "gzip identity"},
		{[]string{"gzip, deflate, br, zstd"}, "zstd gzip identity"},
		{[]string{"gzip", "zstd"}, "zstd gzip identity"},
		{[]string{"GZIP;Q=1.0 , Zstd ; q=0.999"}, "gzip zstd identity"},
		{[]string{"gzip;q=0.001"}, "gzip identity"},
		{[]string{"gzip;q=0"}, "identity"},
		{[]string{"gzip;q=0.000, identity"}, "identity"},
		{[]string{"identity, gzip;q=0.5"}, "identity gzip"},
		{[]string{"identity;q=0.5, gzip;q=0.5"}, "gzip identity"},
		{[]string{"identity;q=0"}, ""},
		{[]string{"identity;q=0, gzip"}, "gzip"},
		{[]string{"*;q=0"}, ""},
		{[]string{"*;q=0, gzip"}, "gzip"},
		{[]string{"*;q=0, identity;q=0.1"}, "identity"},
		{[]string{"*"}, "zstd gzip identity"},
		{[]string{"*;q=0.1, gzip;q=0"}, "zstd identity"},
		{[]string{"br, deflate"}, "identity"},
		{[]string{"x-gzip"}, "gzip identity"},
		// The first of a repeated coding counts.
		{[]string{"gzip;q=0, gzip"}, "identity"},
		// Malformed elements are ignored.
		{[]string{"identity;q=zero"}, "identity"},
		{[]string{"gzip;q=1.1, zstd;q=0.1234"}, "identity"},
		{[]string{"gzip;q=-1, zstd;q="}, "identity"},
		{[]string{"gzip;q=+1"}, "identity"},
		{[]string{"gzip;level=9, zstd;q=1;level=9"}, "identity"},
		{[]string{",;,=,;q=0,"}, "identity"},
	} {
		if got := strings.Join(asStrings(accept(test.fields)), " "); got != test.want {
			t.Errorf("accept(%q): got %q, want %q", test.fields, got, test.want)
		}
	}
}

func asStrings(encodings []store.Encoding) []string {
	var out []string
	for _, e := range encodings {
		out = append(out, string(e))
	}
	return out
}

// FuzzAccept checks that accepted codings are supported and distinct, and that none has weight 0.
func FuzzAccept(f *testing.F) {
	f.Add("gzip;q=0.5, *;q=0", "zstd")
	f.Add("identity;q=0,,;=", "\x00")
	f.Fuzz(func(t *testing.T, first, second string) {
		got := accept([]string{first, second})
		for i, e := range got {
			if !slices.Contains(encodings[:], e) || slices.Contains(got[:i], e) {
				t.Errorf("accept(%q, %q) = %q", first, second, got)
			}
		}
		for _, e := range encodings {
			if slices.Contains(accept([]string{string(e) + ";q=0", first, second}), e) {
				t.Errorf("%s is accepted, though refused before %q, %q", e, first, second)
			}
		}
	})
}

// TestNegotiate covers the rules that precede the weights of the client.
func TestNegotiate(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers map[string]string
		want    []store.Encoding
	}{
		{"by weight", nil, []store.Encoding{"zstd", "gzip", "identity"}},
		{"has gzip", map[string]string{"If-None-Match": `"other", W/"tag-gzip"`}, []store.Encoding{"gzip", "zstd", "identity"}},
		{"has identity", map[string]string{"If-None-Match": `"tag"`}, []store.Encoding{"identity", "zstd", "gzip"}},
		{"has another's", map[string]string{"If-None-Match": `"xtag-gzip"`}, []store.Encoding{"zstd", "gzip", "identity"}},
		{"wants gzip", map[string]string{"If-Match": `"other", "tag-gzip"`}, []store.Encoding{"gzip", "zstd", "identity"}},
		{"wants identity", map[string]string{"If-Match": `"tag"`}, []store.Encoding{"identity", "zstd", "gzip"}},
		{"a range", map[string]string{"Range": "bytes=1-"}, []store.Encoding{"zstd", "gzip", "identity"}},
		{"a part of gzip", map[string]string{"Range": "bytes=1-", "If-Range": `"tag-gzip"`}, []store.Encoding{"gzip", "zstd", "identity"}},
		{"a part of identity", map[string]string{"Range": "bytes=1-", "If-Range": `"tag"`}, []store.Encoding{"identity", "zstd", "gzip"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{"Accept-Encoding": {"zstd, gzip"}}}
			for name, value := range test.headers {
				r.Header.Set(name, value)
			}
			got, err := negotiate(r, "tag")
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("error %v, encodings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// BenchmarkEncode measures the time and the size of an encoded response.
func BenchmarkEncode(b *testing.B) {
	body := []byte(get(b, startServer(b, newTestHandler(b))+"/catalogs/small/api/v1/metas?schema=olm.bundle"))
	p := newEncoders(limit.NewSlots("compressed responses", 1))
	for _, e := range []store.Encoding{store.Zstd, store.Gzip} {
		b.Run(fmt.Sprintf("%s-%d", e, len(body)), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				out, err := p.encode(e, body)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(out)), "encoded-bytes")
			}
		})
	}
}
