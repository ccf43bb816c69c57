package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// withIcons returns a catalog with a package for each icon.
func withIcons(icons map[string][]byte) fstest.MapFS {
	var b strings.Builder
	for name, data := range icons {
		fmt.Fprintf(&b, `{"schema":"olm.package","name":"%s","defaultChannel":"a","icon":{"base64data":"%s","mediatype":"image/x-other"}}
{"schema":"olm.channel","package":"%[1]s","name":"a","entries":[{"name":"%[1]s.v1"}]}
{"schema":"olm.bundle","package":"%[1]s","name":"%[1]s.v1","image":"i","properties":[
{"type":"olm.package","value":{"packageName":"%[1]s","version":"1.0.0"}}]}
`, name, base64.StdEncoding.EncodeToString(data))
	}
	return fstest.MapFS{"c.json": {Data: []byte(b.String())}}
}

func TestThumbnails(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 200, 100))
	var asPNG, asJPEG, asGIF bytes.Buffer
	for _, err := range []error{png.Encode(&asPNG, img), jpeg.Encode(&asJPEG, img, nil), gif.Encode(&asGIF, img, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	huge := bytes.Clone(asPNG.Bytes())
	binary.BigEndian.PutUint32(huge[16:], 50_000)
	binary.BigEndian.PutUint32(huge[20:], 50_000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script>` + strings.Repeat("<g/>", 500) + `</svg>`
	icons := map[string][]byte{
		"png": asPNG.Bytes(), "jpeg": asJPEG.Bytes(), "gif": asGIF.Bytes(), "svg": []byte(svg), "huge": huge, "truncated": asPNG.Bytes()[:60],
		"html": []byte("<html><svg></svg></html>"), "text": []byte("text"), "none": nil,
	}
	st := openStore(t)
	commit(t, st, "c", "1", withIcons(icons))
	commit(t, st, "other", "2", withIcons(map[string][]byte{"png": []byte("another")}))
	url := startServer(t, newHandler(st))
	get := func(catalog, name string, header ...string) (*http.Response, string) {
		return do(t, http.MethodGet, url+"/catalogs/"+catalog+"/api/v1/icons/"+fbc.HashOf(icons[name]).String()+"/80", "", header...)
	}
	for _, name := range []string{"png", "jpeg", "gif"} {
		resp, body := get("c", name)
		cfg, err := png.DecodeConfig(strings.NewReader(body))
		if resp.StatusCode != http.StatusOK || err != nil || cfg.Width != 80 || cfg.Height != 40 || resp.Header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: got %s, %+v %v", name, resp.Status, cfg, err)
		}
		if again, same := get("c", name); same != body || again.Header.Get("ETag") != resp.Header.Get("ETag") {
			t.Errorf("%s: the second reply is another", name)
		}
	}
	resp, body := get("c", "svg")
	if body != svg || resp.Header.Get("Content-Type") != typeSVG || resp.Header.Get("Content-Security-Policy") != iconPolicy {
		t.Errorf("SVG: got %s %v %.100s", resp.Status, resp.Header, body)
	}
	if resp, body := get("c", "svg", "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "gzip" || len(body) > len(svg)/2 {
		t.Errorf("SVG, compressed: got %s %v, %d bytes", resp.Status, resp.Header, len(body))
	}
	for _, name := range []string{"huge", "truncated", "html", "text", "none"} {
		for range 2 {
			if resp, body := get("c", name); resp.StatusCode != http.StatusNotFound || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: got %s %.100s", name, resp.Status, body)
			}
		}
	}
	if resp, _ := get("other", "png"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a catalog without the icon: got %s", resp.Status)
	}
	if resp, _ := do(t, http.MethodGet, url+"/catalogs/c/api/v1/icons/%2e%2e%2fx/80", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("no hash: got %s", resp.Status)
	}
}

// Many clients of one icon get the same reply.
func TestConcurrentThumbnails(t *testing.T) {
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewGray(image.Rect(0, 0, 500, 500))); err != nil {
		t.Fatal(err)
	}
	st := openStore(t)
	commit(t, st, "c", "1", withIcons(map[string][]byte{"png": data.Bytes()}))
	url := startServer(t, newHandler(st)) + "/catalogs/c/api/v1/icons/" + fbc.HashOf(data.Bytes()).String() + "/80"
	var wg sync.WaitGroup
	var seen sync.Map
	for range 20 {
		wg.Go(func() {
			resp, err := http.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			seen.Store(resp.Status+" "+resp.Header.Get("Content-Length"), true)
		})
	}
	wg.Wait()
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("got %d different replies", n)
	}
}
