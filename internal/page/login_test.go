package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// jwt returns an unsigned token with claims.
func jwt(t testing.TB, claims map[string]any) string {
	t.Helper()
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(text) + ".c2ln"
}

// accounts is an API that returns a status for each token in tokenHeader.
type accounts map[string]int // status of GET /catalogs

func (a accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, ok := a[strings.TrimPrefix(r.Header.Get(tokenHeader), "Bearer ")]
	switch {
	case len(r.Header["Cookie"]) > 0:
		http.Error(w, "a cookie reached the API", http.StatusInternalServerError)
	case !ok:
		http.Error(w, "401 Unauthorized\nauthentication required", http.StatusUnauthorized)
	case status == http.StatusOK:
		_, _ = io.WriteString(w, `{"catalogs":[{"name":"seen"}]}`)
	case status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
		fallthrough
	default:
		http.Error(w, fmt.Sprintf("%d\nexplained", status), status)
	}
}

func logInWith(h http.Handler, target, token string, headers ...string) *httptest.ResponseRecorder {
	headers = append(headers, "Content-Type: application/x-www-form-urlencoded")
	return send(h, http.MethodPost, target, url.Values{"token": {token}}.Encode(), headers...)
}

func TestLogin(t *testing.T) {
	now := time.Now().Unix()
	good := jwt(t, map[string]any{"aud": []string{audience}, "exp": now + 3600})
	eternal := jwt(t, map[string]any{"aud": audience, "exp": now + 1e9})
	foreign := jwt(t, map[string]any{"aud": []string{"https://kubernetes.default.svc"}, "exp": now + 3600})
	expired := jwt(t, map[string]any{"aud": []string{audience}, "exp": now - 1})
	h := Mount(accounts{
		good: http.StatusOK, eternal: http.StatusOK, "opaque": http.StatusOK, "restricted": http.StatusForbidden,
		"busy": http.StatusServiceUnavailable,
	}, Config{Login: true, Logger: testLogger(t)})
	const attributes = "; HttpOnly; Secure; SameSite=Lax"
	for name, test := range map[string]struct {
		token  string
		status int
		cookie string // its value and attributes; the age is rounded up to minutes
		says   string
	}{
		"valid":           {good, http.StatusSeeOther, good + "; Path=/; Max-Age=60 min" + attributes, ""},
		"with spaces":     {" Bearer " + good + "\n", http.StatusSeeOther, good + "; Path=/; Max-Age=60 min" + attributes, ""},
		"lasts too long":  {eternal, http.StatusSeeOther, eternal + "; Path=/; Max-Age=720 min" + attributes, ""},
		"not a JWT":       {"opaque", http.StatusSeeOther, "opaque; Path=/" + attributes, ""},
		"of one catalog":  {"restricted", http.StatusSeeOther, "restricted; Path=/" + attributes, ""},
		"none":            {"", http.StatusUnprocessableEntity, "", "Enter a token."},
		"no token":        {"a b\r\nSet-Cookie: c", http.StatusUnprocessableEntity, "", "The token has invalid characters"},
		"too long":        {strings.Repeat("a", 3801), http.StatusUnprocessableEntity, "", "longer than 3,800 bytes"},
		"far too long":    {strings.Repeat("a", 17000), http.StatusBadRequest, "", "longer than 16 KiB"},
		"unknown":         {"unknown", http.StatusUnprocessableEntity, "", "The API server does not accept the token"},
		"of another use":  {foreign, http.StatusUnprocessableEntity, "", "another audience than catalogd.operatorframework.io. A token for the API server"},
		"expired":         {expired, http.StatusUnprocessableEntity, "", "The token has expired."},
		"cannot be known": {"busy", http.StatusServiceUnavailable, "", "Checking the token failed: explained."},
	} {
		w := logInWith(h, "/ui/login?next=catalogs/a%3Fq%3D1", test.token)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s: status %d, want %d and %q:\n%s", name, w.Code, test.status, test.says, w.Body)
		}
		cookie := strings.TrimPrefix(w.Header().Get("Set-Cookie"), "__Host-catalogd=")
		if parsed := w.Result().Cookies(); len(parsed) == 1 && parsed[0].MaxAge > 0 {
			cookie = strings.Replace(cookie, fmt.Sprintf("=%d;", parsed[0].MaxAge), fmt.Sprintf("=%d min;", (parsed[0].MaxAge+59)/60), 1)
		}
		if diff := cmp.Diff(test.cookie, cookie); diff != "" {
			t.Errorf("%s: cookie (-want +got):\n%s", name, diff)
		}
		if got := w.Header().Get("Location"); w.Code == http.StatusSeeOther && got != "./catalogs/a?q=1" {
			t.Errorf("%s: leads to %q", name, got)
		}
		if w.Code != http.StatusSeeOther && len(test.token) > 5 && strings.Contains(w.Body.String(), test.token) {
			t.Errorf("%s: the form contains the token", name)
		}
		if got := w.Header().Get("Retry-After"); (got == "5") != (test.status == http.StatusServiceUnavailable) {
			t.Errorf("%s: Retry-After: %s", name, got)
		}
	}
}

// The page accepts the cookie; the API ignores it.
func TestCookie(t *testing.T) {
	h := Mount(accounts{"good": http.StatusOK, "other": http.StatusForbidden}, Config{Login: true, Logger: testLogger(t)})
	const cookie = "Cookie: a=b; __Host-catalogd=good"
	for _, test := range []struct {
		target  string
		headers []string
		status  int
	}{
		{"/ui/catalogs", []string{cookie}, http.StatusOK},
		{"/ui/catalogs", nil, http.StatusSeeOther},
		{"/ui/catalogs", []string{"Cookie: __Host-catalogd=bad"}, http.StatusSeeOther},
		{"/ui/catalogs", []string{"Cookie: catalogd=good"}, http.StatusSeeOther},
		{"/ui/catalogs", []string{tokenHeader + ": Bearer good"}, http.StatusOK},
		{"/ui/catalogs", []string{cookie, tokenHeader + ": Bearer other"}, http.StatusForbidden}, // the header is more explicit
		{"/catalogs", []string{"Cookie: __Host-catalogd=good"}, http.StatusInternalServerError},  // accounts saw no token of it
		{"/catalogs", nil, http.StatusUnauthorized},
	} {
		if w := send(h, "GET", test.target, "", test.headers...); w.Code != test.status {
			t.Errorf("%s, %q: status %d, want %d: %s", test.target, test.headers, w.Code, test.status, w.Body)
		}
	}
	w := send(h, "GET", "/ui/catalogs?a=b", "", "Cookie: __Host-catalogd=bad")
	if got := w.Header().Get("Location"); got != "./login?next=catalogs%3Fa%3Db" {
		t.Errorf("without a valid token: leads to %q", got)
	}
	if got := w.Header().Get("Set-Cookie"); !strings.Contains(got, "Max-Age=0") {
		t.Errorf("without a valid token: the cookie stays: %q", got)
	}

	without := Mount(accounts{"good": http.StatusOK}, Config{Logger: testLogger(t)})
	if w := send(without, "GET", "/ui/catalogs", "", cookie); w.Code != http.StatusUnauthorized {
		t.Errorf("without Login, the cookie is accepted: status %d", w.Code)
	}
	if w := send(without, "GET", "/ui/login", ""); w.Code != http.StatusNotFound {
		t.Errorf("without Login, there is a form: status %d", w.Code)
	}
}

func TestLogout(t *testing.T) {
	h := Mount(accounts{}, Config{Login: true, Logger: testLogger(t)})
	w := send(h, "POST", "/ui/logout", "", "Content-Type: application/x-www-form-urlencoded", "Cookie: __Host-catalogd=good")
	got := []string{w.Header().Get("Set-Cookie"), w.Header().Get("Clear-Site-Data"), w.Header().Get("Location")}
	want := []string{"__Host-catalogd=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax", `"cache"`, "./login"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cookie, data, location (-want +got):\n%s", diff)
	}
	if w := send(h, "GET", "/ui/logout", "", "Cookie: __Host-catalogd=good"); w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound {
		t.Errorf("a link logs out: status %d", w.Code)
	}
}

func TestLoginForm(t *testing.T) {
	h := Mount(accounts{}, Config{Login: true, Namespace: "ns", Logger: testLogger(t)})
	w := send(h, "GET", "/ui/login?next=catalogs/a%3Fq%3D%2522", "")
	for _, want := range []string{
		`action="login?next=catalogs%2fa%3fq%3d%2522"`, `type="password" autocomplete="off"`,
		"kubectl create token catalogd-cli --namespace=ns --audience=catalogd.operatorframework.io",
	} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("status %d, want %s in\n%s", w.Code, want, w.Body)
		}
	}
	for target, test := range map[string]struct {
		header string
		warns  bool
	}{
		"https://catalogs.example/ui/login": {"", false},
		"http://catalogs.example/ui/login":  {"", true},
		"http://proxied.example/ui/login":   {"Sec-Fetch-Site: none", false},
		"http://localhost:8080/ui/login":    {"", false},
		"http://127.0.0.1:8080/ui/login":    {"", false},
		"http://[::1]/ui/login":             {"", false},
		"http://10.0.0.1:8080/ui/login":     {"", true},
	} {
		if got := strings.Contains(send(h, "GET", target, "", test.header).Body.String(), "needs HTTPS"); got != test.warns {
			t.Errorf("%s, %s: warns %t, want %t", target, test.header, got, test.warns)
		}
	}
}

func TestNextPage(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"?q=a&catalog=b":                     "?q=a&catalog=b",
		"catalogs":                           "catalogs",
		"catalogs/a/packages/b?tab=raw":      "catalogs/a/packages/b?tab=raw",
		"catalogs/a%2Fb/packages/%C3%A9":     "catalogs/a%2Fb/packages/%C3%A9",
		"compare?from=c@d&to=http://x//y":    "compare?from=c@d&to=http://x//y",
		"catalogs#x":                         "catalogs",
		"login":                              "",
		"login?next=catalogs":                "",
		"logout":                             "",
		"/":                                  "",
		"/catalogs":                          "",
		"//evil.example":                     "",
		"///evil.example":                    "",
		`\\evil.example`:                     "",
		`/\evil.example`:                     "",
		`catalogs\..\..\x`:                   "",
		"http://evil.example":                "",
		"https:evil.example":                 "",
		"javascript:alert(1)":                "",
		"data:text/html,x":                   "",
		"../catalogs":                        "",
		"catalogs/../../catalogs/a/api":      "",
		"catalogs/%2e%2e/%2e%2e/x":           "",
		"catalogs/..%2f..%2fx":               "",
		"./catalogs":                         "",
		"catalogs//a":                        "",
		"catalogs/a\r\nSet-Cookie: a=b":      "",
		"\tcatalogs":                         "",
		"catalogs/%0d%0aSet-Cookie:%20a":     "catalogs/%0d%0aSet-Cookie:%20a",
		"catalogs/a\u0085b":                  "",
		" //evil.example":                    "",
		"catalogs/%zz":                       "",
		"user:password@evil.example":         "",
		"catalogs/a:b":                       "catalogs/a:b",
		"?q=\\":                              "",
		"catalogs/a/packages/b?q=<script>\"": "catalogs/a/packages/b?q=<script>\"",
	} {
		if got := nextPage(text); got != want {
			t.Errorf("nextPage(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzNextPage checks that the login redirects only below the mount point.
func FuzzNextPage(f *testing.F) {
	for _, seed := range []string{"catalogs/a?b=c", "//evil.example", "..%2f", `\/x`, "a:b", "%2e%2e/x", "#/x", "/a", " /b"} {
		f.Add(seed)
	}
	base := &url.URL{Scheme: "https", Host: "catalogs.example", Path: "/deep/ui/login"}
	f.Fuzz(func(t *testing.T, text string) {
		next := "./" + nextPage(text)
		u, err := base.Parse(next)
		if err != nil || u.Host != base.Host || u.Scheme != base.Scheme || !strings.HasPrefix(u.Path, "/deep/ui/") ||
			strings.ContainsAny(next, "\\\r\n") || strings.Contains(u.Path, "/../") {
			t.Errorf("%q leads to %q: %v, %v", text, next, u, err)
		}
	})
}

func TestLifetime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		token string
		want  time.Duration
	}{
		"hour":        {jwt(t, map[string]any{"exp": 1_003_600}), time.Hour},
		"year":        {jwt(t, map[string]any{"exp": 40_000_000}), maxSession},
		"huge":        {jwt(t, map[string]any{"exp": 1e300}), maxSession},
		"expired":     {jwt(t, map[string]any{"exp": 999_999}), 0},
		"negative":    {jwt(t, map[string]any{"exp": -1e300}), 0},
		"none":        {jwt(t, map[string]any{"aud": "x"}), 0},
		"text":        {jwt(t, map[string]any{"exp": "1003600"}), 0},
		"fraction":    {jwt(t, map[string]any{"exp": 1_000_001.9}), time.Second},
		"not JSON":    {"a.bm90IEpTT04.c", 0},
		"not base64":  {"a.???.c", 0},
		"not a JWT":   {"opaque", 0},
		"two parts":   {"a.b", 0},
		"nested deep": {"a." + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 2000))) + ".c", 0},
	} {
		if got := lifetime(test.token, now); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func FuzzLifetime(f *testing.F) {
	f.Add(`{"exp":1,"aud":["a"]}`)
	f.Add(`{"exp":1e999,"aud":"a"}`)
	f.Add(`{"exp":null,"aud":{}}`)
	f.Fuzz(func(t *testing.T, claims string) {
		token := "a." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".b"
		if got := lifetime(token, time.Unix(0, 0)); got < 0 || got > maxSession {
			t.Errorf("%q: got %v", claims, got)
		}
		if diagnose(token, time.Unix(0, 0)) == "" {
			t.Errorf("%q: no diagnosis", claims)
		}
	})
}
