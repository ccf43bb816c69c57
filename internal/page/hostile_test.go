package page

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// evil breaks out of every context of HTML that escapes nothing.
const evil = "evil\"'`><script>alert(1)</script><img src=x onerror=alert(1)><style>*{}</style></title></textarea></svg><svg onload=alert(1)>" +
	"{{.}}</script><!--\u202e\u0007\\\"\u2028javascript:alert(1)\n# [x](javascript:alert(1)) ![x](data:text/html,x) <iframe src=//evil.example>"

// evilURLs are addresses that must not become links, and one that may with a harmless end.
var evilURLs = []string{
	"javascript:alert(1)", " javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "\x01javascript:alert(1)", "data:text/html,<script>x</script>",
	"vbscript:x", "//evil.example", "/ui/logout", "../../../logout", "https:javascript", "https://ok.example/\" onmouseover=\"x", "mailto:a@b\"onclick=x",
	"javascript://%0aalert(1)", "https://ok.example/" + evil, evil,
}

// evilNames are names of packages, channels and bundles.
var evilNames = []string{
	"..", ".", "a/../../b", "%2e%2e", "a?b#c", "a\\b", "<script>x</script>", "\" onload=x", "javascript:alert(1)", "//evil.example", "a b", "\u202etxt", evil,
}

// evilCSV is a ClusterServiceVersion with evil texts.
func evilCSV(name, version string) object {
	crd := object{
		"name": "evils." + evil, "version": evil, "kind": evil, "displayName": evil, "description": evil,
		"specDescriptors":   []object{{"path": evil, "displayName": evil, "description": evil, "x-descriptors": []string{evil}}},
		"statusDescriptors": []object{{"path": evil, "displayName": evil, "description": evil}},
		"resources":         []object{{"kind": evil, "name": evil, "version": evil}},
	}
	var links []object
	for _, address := range evilURLs {
		links = append(links, object{"name": evil, "url": address}, object{"name": "", "url": address})
	}
	example, err := json.Marshal([]object{{"apiVersion": evil + "/" + evil, "kind": evil, "spec": object{evil: evil}}})
	if err != nil {
		panic(err) // texts can be encoded
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": object{"name": name, "annotations": map[string]string{
			"capabilities": evil, "categories": evil + ", " + evilURLs[0], "description": evil, "createdAt": evil, "repository": evilURLs[0], "support": evil,
			"operatorframework.io/suggested-namespace": evil, "operators.openshift.io/infrastructure-features": `["` + evilURLs[0] + `"]`,
			"features.operators.openshift.io/" + evil: "true", "alm-examples": string(example), evil: evil,
		}, "labels": map[string]string{"operatorframework.io/arch." + evil: "supported", "operatorframework.io/os." + evil: "supported"}},
		"spec": object{
			"displayName": evil, "description": evil, "version": version, "minKubeVersion": evil, "maturity": evil, "keywords": []string{evil, evilURLs[0]},
			"provider": object{"name": evil, "url": evilURLs[0]}, "maintainers": []object{{"name": evil, "email": evil}}, "links": links,
			"installModes":              []object{{"type": evil, "supported": true}},
			"customresourcedefinitions": object{"owned": []object{crd}, "required": []object{crd}},
			"apiservicedefinitions":     object{"owned": []object{crd}, "required": []object{crd}},
			"nativeAPIs":                []object{{"group": evil, "version": evil, "kind": evil}},
			"webhookdefinitions":        []object{{"type": "ValidatingAdmissionWebhook", "generateName": evil, "deploymentName": evil, "rules": []object{{"resources": []string{evil}}}}},
			"install": object{"strategy": "deployment", "spec": object{"clusterPermissions": []object{{
				"serviceAccountName": evil, "rules": []object{{"apiGroups": []string{evil}, "resources": []string{evil, "secrets"}, "verbs": []string{evil}, "resourceNames": []string{evil}}},
			}}, "deployments": []object{}}},
		},
	}
}

// evilPackage returns a package with a name whose texts are all evil.
func evilPackage(tb testing.TB, name, versionSuffix string) []byte {
	tb.Helper()
	extend := map[string][]object{}
	entries := func(prefix string) (list []channel.Entry) {
		for i, version := range []string{"1.0.0", "1.1.0" + versionSuffix} {
			e := channel.Entry{Name: prefix + ".v" + version, Version: version, SkipRange: ">=0.1.0 <" + version, Deprecation: &channel.Deprecation{Message: evil}}
			if i > 0 {
				e.Replaces, e.Skips = prefix+".v1.0.0", []string{evil}
			}
			csv, err := json.Marshal(evilCSV(e.Name, version))
			if err != nil {
				tb.Fatal(err)
			}
			extend[e.Name] = []object{
				{"type": "olm.bundle.object", "value": object{"data": base64.StdEncoding.EncodeToString(csv)}},
				{"type": "olm.gvk", "value": object{"group": evil, "kind": evil, "version": evil}},
				{"type": "olm.gvk.required", "value": object{"group": evilURLs[0], "kind": evil, "version": evil}},
				{"type": "olm.package.required", "value": object{"packageName": evil, "versionRange": ">=1.0.0"}}, {"type": evil, "value": evil},
			}
			list = append(list, e)
		}
		return list
	}
	channels := []channel.Channel{{Package: name, Name: "stable", Entries: entries(name)}}
	for _, evilName := range evilNames {
		channels = append(channels, channel.Channel{Package: name, Name: evilName, Entries: channels[0].Entries})
	}
	return packageFile(tb, extend, channels...)
}

// Whatever the texts, links, names and icons of a catalog are, its pages answer, are valid, and have no markup of it.
func TestHostileCatalog(t *testing.T) {
	c := newContent(t)
	svg := base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>`))
	for _, version := range []string{"-old", ""} {
		file := evilPackage(t, "evil", version)
		for _, name := range evilNames {
			file = append(file, evilPackage(t, name, version)...)
		}
		icon, err := json.Marshal(object{"base64data": svg, "mediatype": "text/html\r\nX-Evil: 1\"" + evil})
		if err != nil {
			t.Fatal(err)
		}
		file = []byte(strings.ReplaceAll(string(file), `"schema":"olm.package"`, `"schema":"olm.package","icon":`+string(icon)+`,"description":"**evil** <script>alert(1)</script>"`))
		c.commit(t, "hostile", "evil"+version, file)
	}
	c.commit(t, "other", "1", evilPackage(t, "evil", ""))

	queue := []string{
		"/", "/?q=evil", "/?provider=" + url.QueryEscape(evil), "/catalogs/hostile", "/catalogs", "/changes", "/graphql", "/apis", "/apis?kind=evil", "/compare?from=hostile&to=other",
		"/compare?from=hostile@" + digestOf("evil-old") + "&to=hostile", "/catalogs/hostile/packages/evil/compare?a=1.0.0&b=1.1.0&permissions=1",
		"/catalogs/hostile/packages/evil?tab=permissions", "/apis/" + url.PathEscape(evil) + "/" + url.PathEscape(evil), "/watch?catalog=" + url.QueryEscape(evil), "/" + url.PathEscape(evil),
		"/?sort=" + url.QueryEscape(evil) + "&page=1&deprecated=" + url.QueryEscape(evil), "/login?next=" + url.QueryEscape(evilURLs[0]),
	}
	seen, pages, icons := map[string]bool{}, 0, 0
	for ; len(queue) > 0 && len(seen) < 400; queue = queue[1:] {
		target := queue[0]
		if seen[target] {
			continue
		}
		seen[target] = true
		w := send(c.pages, http.MethodGet, target, "")
		status, contentType := w.Code, w.Header().Get("Content-Type")
		switch {
		case status == http.StatusPermanentRedirect && strings.HasPrefix(w.Header().Get("Location"), "../"): // a link to ".."
		case status != http.StatusOK && (status < 400 || status > 499), w.Body.Len() > maxPage:
			t.Errorf("%s: status %d, %d bytes: %.300s", target, status, w.Body.Len(), w.Body)
		case strings.HasPrefix(contentType, "image/") && !strings.HasPrefix(target, "/assets/") && !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox"):
			t.Errorf("%s: %s without a sandbox", target, contentType)
		case w.Header().Get("X-Evil") != "":
			t.Errorf("%s: a header of the catalog", target)
		}
		if !strings.HasPrefix(contentType, "text/html") {
			if strings.Contains(target, "/icons/") && contentType == "image/svg+xml" {
				icons++
			}
			continue
		}
		if !utf8.Valid(w.Body.Bytes()) || strings.ContainsAny(w.Body.String(), "\u202e\u0007\x01") || strings.Contains(w.Body.String(), "ZgotmplZ") {
			t.Errorf("%s: the page has characters that hide others, or a value in a wrong place", target)
		}
		pages++
		for _, link := range checkPage(t, target, w.Body.String()) {
			if !strings.HasPrefix(link, "/?") || !strings.HasPrefix(target, "/?") { // not all combinations of filters
				queue = append(queue, link)
			}
		}
	}
	for _, tab := range tabs {
		if want := "/catalogs/hostile/packages/evil?" + "tab=" + tab.param; tab.param != "" && !seen[want] {
			t.Errorf("%s was not opened", want)
		}
	}
	if len(seen) < 300 || icons == 0 || pages < 200 {
		t.Errorf("only %d URLs were opened, %d pages and %d icons: this test proves nothing", len(seen), pages, icons)
	}
}

// checkPage checks the elements of a page and returns what it links to on its own site.
func checkPage(t *testing.T, target, body string) (links []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse("https://catalogs.example/" + strings.Repeat("mount/", 9) + strings.TrimPrefix(target, "/"))
	if err != nil {
		t.Fatal(err)
	}
	mount := "/" + strings.Repeat("mount/", 9)
	for n := range root.Descendants() {
		if n.Type == html.CommentNode {
			t.Errorf("%s: comment %.100s", target, n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		e := document{n}
		switch n.Data {
		case "script":
			if src := e.attribute("src"); !strings.Contains(src, "assets/"+assetsVersion+"/") && e.attribute("type") != "application/json" {
				t.Errorf("%s: script %q %.100s", target, src, e.text())
			}
		case "style", "iframe", "object", "embed", "base", "frame", "applet", "math", "foreignobject", "template", "image":
			t.Errorf("%s: element %s", target, n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc", a.Key == "http-equiv", strings.ContainsAny(a.Key, "\"'<>`"):
				t.Errorf("%s: attribute %s of %s", target, a.Key, n.Data)
			case !slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href", "ping", "poster"}, a.Key):
				continue
			}
			u, err := base.Parse(a.Val)
			switch {
			case err != nil:
				t.Errorf("%s: %s=%q: %v", target, a.Key, a.Val, err)
			case u.Host != base.Host:
				if n.Data != "a" || !isLinkable(a.Val) || !strings.Contains(e.attribute("rel"), "noopener") {
					t.Errorf("%s: %s of %s leads to %q", target, a.Key, n.Data, a.Val)
				}
			case !strings.HasPrefix(u.Path, mount):
				t.Errorf("%s: %s of %s leaves the mount point: %q", target, a.Key, n.Data, a.Val)
			case n.Data != "form":
				links = append(links, "/"+strings.TrimPrefix(u.RequestURI(), mount))
			}
		}
	}
	return links
}
