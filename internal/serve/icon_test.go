package serve

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzIconType checks that every served type is on the list, whatever a catalog claims or contains.
func FuzzIconType(f *testing.F) {
	f.Add([]byte("<svg/>"), "")
	f.Add([]byte("<html><svg/></html>"), "")
	f.Add([]byte("<!DOCTYPE html>"), "image/png, text/html")
	f.Add([]byte("<?xml version='1.0' encoding='utf-7'?><svg:svg xmlns:svg='x'>"), " ")
	f.Add([]byte("GIF89a"), "text/html; charset=\"image/png\"")
	safe := append(slices.Collect(maps.Values(imageTypes)), typeBytes)
	f.Fuzz(func(t *testing.T, data []byte, claimed string) {
		if got := iconType(data, claimed); !slices.Contains(safe, got) {
			t.Errorf("iconType(%q, %q) = %q", data, claimed, got)
		}
	})
}

// TestDamagedIconIsNotServed damages an icon. The first request must detect the damage, and other icons must still be served.
func TestDamagedIconIsNotServed(t *testing.T) {
	st, dir := openStoreIn(t)
	const blob = `{"schema":"olm.package","name":"%s","icon":{"base64data":"%s","mediatype":"image/svg+xml"}}`
	bad, good := base64.StdEncoding.EncodeToString([]byte("<svg></svg>\n")), base64.StdEncoding.EncodeToString([]byte("<svg></svg>"))
	commit(t, st, "c", "1", fstest.MapFS{"c.json": {Data: fmt.Appendf(nil, blob+blob, "bad", bad, "good", good)}})
	damage(t, dir, bad+`"`)
	c, _ := st.Catalog("c")
	url := startServer(t, newHandler(st)) + "/catalogs/c/api/v1/packages/"
	if resp, body := do(t, http.MethodGet, url+"good/icon", ""); body != "<svg></svg>" || c.Snapshot.Damaged() {
		t.Errorf("got %s %q of the intact one, known: %v", resp.Status, body, c.Snapshot.Damaged())
	}
	for range 2 {
		resp, body := do(t, http.MethodGet, url+"bad/icon", "")
		if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "damaged") || !c.Snapshot.Damaged() {
			t.Errorf("got %s %q, known: %v", resp.Status, body, c.Snapshot.Damaged())
		}
	}
	if resp, body := do(t, http.MethodGet, url+"good/icon", ""); body != "<svg></svg>" {
		t.Errorf("afterwards got %s %q of the intact one", resp.Status, body)
	}
}
