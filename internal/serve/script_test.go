package serve

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/httpscript"
)

// TestScript runs testdata/http.txt against a real server, and compares every response with openapi.json.
func TestScript(t *testing.T) {
	script, err := os.ReadFile("testdata/http.txt")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := httpscript.Parse(string(script))
	if err != nil {
		t.Fatal(err)
	}
	st := newTestStore(t)
	compress(t, st)
	described, seen := newDescription(t), map[string]bool{}
	httpscript.Run(t, startServer(t, newHandler(st)), steps, wellFormedReply, described.check, described.note(seen))
	runBundleScript(t, described, seen)
	if missing := described.uncovered(seen); len(missing) > 0 {
		t.Errorf("the scripts have no step with status 200 for:\n%s", strings.Join(missing, "\n"))
	}
}

// wellFormedReply is wellFormed for the steps of a script.
func wellFormedReply(t *testing.T, req *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	if err := wellFormed(resp.StatusCode, resp.Header, string(body), req.Method); err != nil {
		t.Error(err)
	}
}

// note returns a check that notes the documented paths with status 200.
func (d *description) note(seen map[string]bool) func(*testing.T, *http.Request, *http.Response, []byte) {
	return func(t *testing.T, req *http.Request, resp *http.Response, _ []byte) {
		t.Helper()
		if route, _, ok := d.route(t, req); ok && resp.StatusCode == http.StatusOK {
			seen[route.Method+" "+route.Path] = true
		}
	}
}

// wellFormed checks the rules for all responses.
func wellFormed(status int, header http.Header, body, method string) error {
	if got := header.Get("X-Content-Type-Options"); got != "nosniff" {
		return fmt.Errorf("X-Content-Type-Options: got %q, want nosniff", got)
	}
	if status < http.StatusBadRequest {
		return nil
	}
	if header.Get("ETag") != "" || header.Get("Last-Modified") != "" ||
		header.Get("Content-Location") != "" || header.Get("Cache-Control") != "no-store" {
		return fmt.Errorf("an error with headers of content: %v", header)
	}
	if isText(header.Get("Content-Type")) { // GraphQL's
		return nil
	}
	if got := header.Get("Content-Type"); got != "text/plain; charset=utf-8" || header.Get(DigestHeader) != "" {
		return fmt.Errorf("an error of Content-Type %q with headers %v", got, header)
	}
	form := regexp.MustCompile(fmt.Sprintf(`^%d %s\n[^\n]+\n$`, status, regexp.QuoteMeta(http.StatusText(status))))
	if method != http.MethodHead && !form.MatchString(body) {
		return fmt.Errorf("the error is not a status line and a sentence: %q", body)
	}
	return nil
}
