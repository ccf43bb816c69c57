package page

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// A reader logs in with a token. A cookie holds the token until it expires, and every request to the API carries it. The process
// stores no session, so any replica can answer. A request without the cookie uses its own credentials: a header that a proxy adds,
// or a client certificate.

// tokenHeader has a token for audience (see package auth). Tokens for other audiences are refused there, so the API server does not
// accept the token of a cookie.
const (
	tokenHeader = "Catalogd-Authorization"
	audience    = "catalogd.operatorframework.io"
)

// sessionCookie has the token. The prefix __Host- makes browsers accept it only over TLS and only from this host.
const sessionCookie = "__Host-catalogd"

const (
	maxSession = 12 * time.Hour
	maxToken   = 3800     // bytes; the limit of browsers is 4096 with name and attributes
	maxForm    = 16 << 10 // bytes
)

// tokenSyntax matches a bearer token (RFC 6750, section 2.1).
var tokenSyntax = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// readCookies moves the token from its cookie to the header that the API accepts, and the theme to the context. No cookie reaches
// the API.
func (p *page) readCookies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := r.Cookie(sessionCookie)
		r = r.Clone(context.WithValue(r.Context(), themeKey{}, chosenTheme(r)))
		r.Header.Del("Cookie")
		if p.Login && err == nil && tokenSyntax.MatchString(session.Value) && r.Header.Get(tokenHeader) == "" {
			r.Header.Set(tokenHeader, "Bearer "+session.Value)
		}
		next.ServeHTTP(w, r)
	})
}

// loginPage is the data of login.html.
type loginPage struct {
	Next      string // the page after the login, below the mount point
	Refusal   string // why the last attempt failed
	Command   string // prints a token
	Audience  string
	Plaintext bool // plain HTTP: browsers drop the cookie
}

func (loginPage) Title() string { return "Log in" }

func loadLogin(r *request) (any, error) { return r.page.loginPage(r.Request, ""), nil }

func (p *page) loginPage(r *http.Request, refusal string) loginPage {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	isLocal := host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
	namespace := p.Namespace
	if namespace == "" {
		namespace = "catalogd-system"
	}
	return loginPage{
		Next: nextPage(r.URL.Query().Get("next")), Refusal: refusal, Audience: audience,
		Command: "kubectl create token catalogd-cli --namespace=" + namespace + " --audience=" + audience,
		// Browsers send Sec-Fetch-Site to secure origins only, which include TLS proxies.
		Plaintext: r.TLS == nil && !isLocal && r.Header.Get("Sec-Fetch-Site") == "",
	}
}

// nextPage returns a URL below the mount point without a leading slash; "" for any other URL.
func nextPage(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }) {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" ||
		u.Path == "login" || u.Path == "logout" || u.Path != "" && path.Clean("/"+u.Path) != "/"+u.Path {
		return ""
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// logIn checks a token with one request to the API, and sets the cookie.
func (p *page) logIn(w http.ResponseWriter, r *http.Request) {
	if !accepts(w, r, "application/x-www-form-urlencoded") {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.refuseLogin(w, r, &apiError{Status: http.StatusBadRequest, Text: "Reading the form failed: it is longer than 16 KiB or incomplete."})
		return
	}
	token := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(r.PostForm.Get("token")), "Bearer "))
	if refusal := p.check(r, token); refusal != nil {
		p.refuseLogin(w, r, refusal)
		return
	}
	setSession(w, token, int(lifetime(token, time.Now()).Seconds()))
	redirect(w, "./"+nextPage(r.URL.Query().Get("next")))
}

// logOut deletes the cookie and the cache of the browser.
func (p *page) logOut(w http.ResponseWriter, r *http.Request) {
	if !accepts(w, r, "application/x-www-form-urlencoded") {
		return
	}
	endSession(w)
	w.Header().Set("Clear-Site-Data", `"cache"`)
	redirect(w, "./login")
}

// setSession sets the cookie for some seconds. With 0, the browser deletes it when it is closed.
func setSession(w http.ResponseWriter, token string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func endSession(w http.ResponseWriter) { setSession(w, "", -1) }

// redirect redirects to a page with GET.
func redirect(w http.ResponseWriter, location string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}

// check returns an error if the API refuses a token. A user who may not list the catalogs may still read some of them.
func (p *page) check(r *http.Request, token string) *apiError {
	switch {
	case token == "":
		return unprocessable("Enter a token.")
	case len(token) > maxToken:
		return unprocessable("The token is longer than 3,800 bytes, the limit of a cookie.")
	case !tokenSyntax.MatchString(token):
		return unprocessable("The token has invalid characters. Copy it again, without line breaks.")
	}
	reader := r.Clone(r.Context())
	reader.Header.Set(tokenHeader, "Bearer "+token)
	resp, err := api{source: p.Source(reader), ctx: r.Context()}.do("/catalogs", nil)
	if err == nil {
		_ = resp.Body.Close() // not read
		return nil
	}
	e, ok := errors.AsType[*apiError](err)
	switch {
	case !ok:
		p.logUnlessLeft(r, r, err)
		return &apiError{Status: http.StatusBadGateway, Text: "Checking the token failed: the content service is unreachable. Retry later."}
	case e.Status == http.StatusForbidden:
		return nil
	case e.Status == http.StatusUnauthorized:
		return unprocessable(diagnose(token, time.Now()))
	}
	e.Text = "Checking the token failed: " + e.Text + "."
	return e
}

// unprocessable returns an error with status 422. Status 401 would require the header WWW-Authenticate.
func unprocessable(text string) *apiError {
	return &apiError{Status: http.StatusUnprocessableEntity, Text: text}
}

func (p *page) refuseLogin(w http.ResponseWriter, r *http.Request, e *apiError) {
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	req := p.request(r)
	defer req.api.memory.release()
	f := p.frame(req, nil)
	body := p.loginPage(r, e.Text)
	f.Title, f.Body = body.Title(), body
	p.send(w, req, e.Status, "login.html", f)
}

// claims are the unverified claims of a token. The API server verifies them.
type claims struct {
	Expiry   float64   `json:"exp"` // seconds since 1970
	Audience audiences `json:"aud"`
}

// audiences is a string or a list of strings in JSON (RFC 7519, section 4.1.3).
type audiences []string

func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// claimsOf returns the claims of a JSON Web Token; the zero value for other tokens.
func claimsOf(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}
	}
	return c
}

// lifetime returns the time until a token expires, at most maxSession; 0 if it is unknown.
func lifetime(token string, now time.Time) time.Duration {
	left := claimsOf(token).Expiry - float64(now.Unix())
	if left <= 0 {
		return 0
	}
	return time.Duration(min(left, maxSession.Seconds())) * time.Second
}

// diagnose returns the reason for which the API refuses a token.
func diagnose(token string, now time.Time) string {
	c := claimsOf(token)
	switch {
	case c.Audience != nil && !slices.Contains(c.Audience, audience):
		return "The token is for another audience than " + audience + ". A token for the API server is refused here, because a stolen " +
			"cookie would give access to the API server. Create a token with the command below."
	case c.Expiry != 0 && c.Expiry <= float64(now.Unix()):
		return "The token has expired. Create another one."
	}
	return "The API server does not accept the token for the audience " + audience + ". Create a token with the command below."
}
