package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/browser"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// hostile are texts that an author may write into every field. Each would set window.pwned, request something from another host,
// or break the layout.
var hostile = map[string]string{
	"script":     `<script>window.pwned=1</script></title></textarea></style><script src=http://evil.example/x.js></script>`,
	"attribute":  `"><img src=x onerror=window.pwned=1>' onmouseover='window.pwned=1' autofocus onfocus=window.pwned=1 x="`,
	"markup":     `</p></div></main><iframe srcdoc="<script>parent.pwned=1</script>"></iframe><base href=http://evil.example/><form action=http://evil.example/>`,
	"link":       "javascript:window.pwned=1//",
	"data":       `data:text/html,<script>opener.pwned=1</script>`,
	"markdown":   "# <svg onload=window.pwned=1>\n[a](javascript:window.pwned=1) ![b](http://evil.example/b.png) <javascript:window.pwned=1>\n\n[c]: data:text/html,x\n[c] [d](vbscript:x) <http://evil.example/?\"onclick=window.pwned=1> ```\n</code><script>window.pwned=1</script>",
	"template":   "{{.}} ${window.pwned=1} {{constructor.constructor('window.pwned=1')()}} </script><!--<script>",
	"bidi":       "\u202egnitset \u2066\u2067 \u200f abc \u061c\u2069 \u202d",
	"control":    "a\u0001\u0007\u001b[31m\u007f\u0085\u2028\u2029\ufeff\ufffe\U000e0041 end",
	"combining":  "z" + strings.Repeat("\u0301\u0337\u0489", 300),
	"wide":       strings.Repeat("W", 300),
	"long":       strings.Repeat("word ", 200_000),
	"unbroken":   strings.Repeat("x", 1<<20),
	"many-lines": strings.Repeat("line\n\n", 50_000),
	"quotes":     strings.Repeat("> ", 2_000) + strings.Repeat("[", 2_000),
	"lists":      strings.Repeat("- ", 2_000) + "end",
}

const hostileSVG = `<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1;parent.pwned=1"><script>window.pwned=1;top.pwned=1</script>` +
	`<image href="http://evil.example/x.png"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="http://evil.example/"/></foreignObject>` +
	`<a href="javascript:window.pwned=1"><rect width="9999" height="9999"/></a></svg>`

// hostileName shortens a text to the limit of names: 4096 bytes in JSON, where a byte takes up to six.
func hostileName(s string) string { return strings.ToValidUTF8(s[:min(len(s), 680)], "") }

// hostilePackage returns the blobs of a package with a text in every field that takes one.
func hostilePackage(t *testing.T, name, s string) []byte {
	type object = map[string]any
	long := s // in the fields of which there is one; the others stay within the limits of a blob
	s = hostileName(s)
	crd := object{
		"name": "x." + name + ".example.com", "kind": "Kind", "version": "v1", "displayName": s, "description": s,
		"specDescriptors": []object{{"path": s, "displayName": s, "description": s, "x-descriptors": []string{s}}},
		"resources":       []object{{"kind": s, "name": s, "version": s}},
	}
	gvk := object{"group": name + ".example.com", "version": "v1", "kind": "Kind"}
	csv := object{
		"displayName": long, "description": long, "provider": object{"name": long, "url": long}, "maturity": s, "minKubeVersion": "1.20.0",
		"keywords": []string{s, s}, "links": []object{{"name": s, "url": s}, {"name": "x", "url": "https://" + s}},
		"maintainers": []object{{"name": s, "email": s}}, "labels": object{"x": s},
		"annotations": object{
			"description": s, "categories": s, "capabilities": s, "containerImage": s, "support": s, "createdAt": s, "repository": s,
			"operators.openshift.io/infrastructure-features": s, "alm-examples": s, "olm.skipRange": s,
		},
		"installModes":              []object{{"type": "AllNamespaces", "supported": true}, {"type": s, "supported": true}},
		"customresourcedefinitions": object{"owned": []object{crd}, "required": []object{{"name": s, "kind": s, "version": s, "displayName": s, "description": s}}},
	}
	bundle := func(version, image string) object {
		return object{
			"schema": "olm.bundle", "package": name, "name": name + ".v" + version, "image": image,
			"relatedImages": []object{{"name": s, "image": image}},
			"properties": []object{
				{"type": "olm.package", "value": object{"packageName": name, "version": version}},
				{"type": "olm.csv.metadata", "value": csv}, {"type": "olm.gvk", "value": gvk},
				{"type": "olm.package.required", "value": object{"packageName": s, "versionRange": ">=1.0.0"}},
				{"type": s, "value": s},
			},
		}
	}
	const image = "registry.example/x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	icon := object{"base64data": base64.StdEncoding.EncodeToString([]byte(hostileSVG)), "mediatype": "image/svg+xml"}
	var out []byte
	for _, blob := range []object{
		{"schema": "olm.package", "name": name, "defaultChannel": s, "description": long, "icon": icon},
		{"schema": "olm.channel", "package": name, "name": s, "entries": []object{
			{"name": name + ".v1.0.0"}, {"name": name + ".v1.1.0", "replaces": name + ".v1.0.0", "skips": []string{s}, "skipRange": "<1.1.0"},
		}},
		bundle("1.0.0", image), bundle("1.1.0", image),
		{"schema": "olm.deprecations", "package": name, "entries": []object{
			{"reference": object{"schema": "olm.package"}, "message": long}, {"reference": object{"schema": "olm.channel", "name": s}, "message": long},
			{"reference": object{"schema": "olm.bundle", "name": name + ".v1.0.0"}, "message": s},
		}},
	} {
		line, err := json.Marshal(blob)
		must.Succeed(t, err)
		out = append(append(out, line...), '\n')
	}
	return out
}

// TestPageOfHostileCatalog opens the pages of packages with hostile texts. No script runs, nothing is requested from elsewhere, each
// package can be read, and the layout holds.
func TestPageOfHostileCatalog(t *testing.T) {
	chromium := browser.Start(t)
	dir := t.TempDir()
	for name, s := range hostile {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name+".json"), hostilePackage(t, name, s), 0o600))
	}
	invalid := strings.ReplaceAll(string(hostilePackage(t, "left-out", hostile["attribute"])), "registry.example/x@", `<img src=x onerror=window.pwned=1>`)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "left-out.json"), []byte(invalid), 0o600))
	w := newWorld(t, shared, "--page", "--max-compression-ratio=100000")
	ref, _ := w.registry.push(t, "hostile", catalogImage(t, dir))
	w.createCatalog(t, "hostile", ref, nil)
	w.waitReady(t, "hostile", "")
	t.Run("pages", func(t *testing.T) {
		for name, s := range hostile {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w.checkHostilePages(t, chromium, name, s)
			})
		}
	})
	tab := chromium.Tab(t, browser.Options{})
	for _, path := range []string{"/?q=left-out", "/catalogs/hostile", "/catalogs", "/"} {
		tab.Open(w.page(path))
		for _, fault := range slices.Concat(tab.Sideways(), tab.Axe(), tab.Reports()) {
			t.Errorf("%s: %s", path, fault)
		}
		if path != "/" && path != "/catalogs" {
			wantText(t, tab, "left-out", "onerror")
		}
	}
	icons := browser.Eval[int](tab, "[...document.images].filter(i => i.complete && i.naturalWidth > 0).length")
	if icons == 0 {
		t.Error("no icon is shown, so none was tried")
	}
	src := browser.Eval[string](tab, "document.images[0].src")
	tab.Open(src) // as a document of its own
	if browser.Eval[bool](tab, "Boolean(window.pwned)") {
		t.Error("the script of an icon ran")
	}
}

// foreignElements are links that run scripts, and elements that load or send something elsewhere. An invalid URL has the protocol ":".
const foreignElements = `[...document.querySelectorAll('a, area')].filter(a => a.href && !/^(https?:|mailto:|:)$/.test(a.protocol))
	.concat([...document.querySelectorAll('iframe, frame, base, object, embed, style, main link:not([data-pinned])')])
	.concat([...document.querySelectorAll('form')].filter(f => new URL(f.getAttribute('action'), location).origin !== location.origin))
	.concat([...document.querySelectorAll('[src]')].filter(e => new URL(e.getAttribute('src'), location).origin !== location.origin))
	.map(e => e.outerHTML)`

func (w *world) checkHostilePages(t *testing.T, chromium *browser.Browser, name, s string) {
	pkg := "/catalogs/hostile/packages/" + name
	tab := chromium.Tab(t, browser.Options{Width: 360, Height: 800})
	paths := []string{
		"/?q=" + name, pkg, pkg + "?tab=versions", pkg + "?tab=apis", pkg + "?tab=images", pkg + "?tab=install", pkg + "?version=1.0.0",
		pkg + "/compare?a=1.0.0&b=1.1.0", "/apis/" + name + ".example.com/Kind", "/compare?from=hostile&to=hostile",
	}
	escaped := url.QueryEscape(hostileName(s))
	channel := pkg + "/channels/" + url.PathEscape(hostileName(s))
	paths = append(paths, channel+"?from=1.0.0", channel+"?from="+escaped+"&to="+escaped, "/?q="+escaped+"&category="+escaped+"&page="+escaped+
		"&sort="+escaped, pkg+"?tab="+escaped+"&channel="+escaped+"&version="+escaped, "/compare?from="+escaped+"&to="+escaped,
		"/apis/"+escaped+"/"+escaped, "/changes?catalog="+escaped)
	for i, path := range paths {
		wantOK := i < 10
		if r, err := tryGet(w.page(path)); err != nil || r.status != http.StatusOK && (wantOK || r.status >= 500) {
			t.Errorf("GET %.200s: error %v, status %d: %.300s", path, err, r.status, r.body)
			continue
		}
		tab.Open(w.page(path))
		if browser.Eval[bool](tab, "Boolean(window.pwned)") {
			t.Errorf("%.200s: a script of the catalog ran", path)
		}
		for _, element := range browser.Eval[[]string](tab, foreignElements) {
			t.Errorf("%.200s: the catalog's %.200s", path, element)
		}
		faults := tab.Sideways()
		tab.Resize(1280, 800)
		faults = slices.Concat(faults, tab.Sideways())
		tab.Resize(360, 800)
		for _, fault := range slices.Concat(faults, tab.Reports()) {
			if wantOK || !strings.Contains(fault, "status of 4") {
				t.Errorf("%.200s: %.400s", path, fault)
			}
		}
		savePicture(t, tab, fmt.Sprintf("/ui/hostile-%s-%d", name, i))
	}
}
