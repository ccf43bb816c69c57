package httpscript

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// service is a small service that answers the scripts below, rightly or wrongly.
func service(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tag", `"v1"`)
		var request bytes.Buffer
		_ = r.Write(&request)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // prevents a Content-Length
		_, _ = w.Write(request.Bytes())
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = fmt.Fprintln(z, `{"schema":"s","name":"n"}`)
		_ = z.Close()
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodHead {
			return
		}
		_, _ = fmt.Fprint(w, "retry: 1\n\nevent: a\n\nevent: b\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/head", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Method", r.Method)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

const right = `
# All that a script can say.
> POST /echo
> Name: value
+ {"a":
+ 1}
< 200
< Tag: @tag
< Date: ~ GMT$
< Missing: -
~ \{"a":\n1\}$
!~ Accept-Encoding

> GET /echo?q=@tag
> If-Match: @tag
< 200
< Tag: @tag
~ If-Match: @tag

> GET /gzip
< 200
< Content-Encoding: gzip
blobs 1
blob s - n
| {"schema":"s","name":"n"}

> GET /events
< 200
events 1
~ event: a\n\n$
`

func TestRight(t *testing.T) {
	steps, err := Parse(right)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	Run(t, service(t), steps, func(*testing.T, *http.Request, *http.Response, []byte) { checked++ })
	if checked != len(steps) || checked != 4 {
		t.Errorf("%d steps were parsed and %d checked, want 4", len(steps), checked)
	}
}

// wrong are scripts that must fail, each for one reason.
var wrong = []string{
	"> GET /gzip\n< 404",
	"> GET /gzip\n< 200\n< Content-Encoding: zstd",
	"> GET /gzip\n< 200\n< Content-Encoding: -",
	"> GET /gzip\n< 200\n< Content-Encoding: ~ ^zip",
	"> GET /gzip\n< 200\n< Missing: @new",
	"> GET /gzip\n> If-Match: @unknown\n< 200",
	"> GET /gzip\n< 200\n| {}",
	"> GET /gzip\n< 200\n~ nothing",
	"> GET /gzip\n< 200\n!~ schema",
	"> GET /gzip\n< 200\nblobs 2",
	"> GET /gzip\n< 200\nblob s - other",
	"> GET /head\n< 200",
}

// TestWrong runs each in a process of its own, since a failure cannot be taken back.
func TestWrong(t *testing.T) {
	if script := os.Getenv("HTTPSCRIPT_WRONG"); script != "" {
		steps, err := Parse(script)
		if err != nil {
			t.Skip(err)
		}
		Run(t, service(t), steps)
		return
	}
	for _, script := range wrong {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWrong$", "-test.v")
		cmd.Env = append(os.Environ(), "HTTPSCRIPT_WRONG="+script)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--- FAIL: TestWrong/") {
			t.Errorf("does not fail: %v, %s\n%s", err, script, out)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for script, want := range map[string]string{
		"< 200":               `line 1: want a request: "< 200"`,
		"> GET /\n< ok":       `line 2: strconv.Atoi: parsing "ok": invalid syntax`,
		"> GET /\n? 1":        `line 2: unknown kind of line "?"`,
		"> GET /\n< 200\n~ (": "line 3: error parsing regexp: missing closing ): `(`",
		"\n> GET /":           "line 2: the step expects no status",
	} {
		if _, err := Parse(script); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): got %v, want %s", script, err, want)
		}
	}
}
