package content

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestOtherServersAreRecognized(t *testing.T) {
	for name, test := range map[string]struct {
		code       int
		body, want string
	}{
		"a registry":            {404, `{"errors":[{"code":"METHOD_UNKNOWN","message":"We don't understand"}]}`, "404 Not Found: {"},
		"a mux":                 {404, "404 page not found\n", "404 Not Found: 404 page not found"},
		"a page":                {502, "<html>\n<body>Bad Gateway</body></html>", "502 Bad Gateway: <html>"},
		"nothing":               {404, "", "404 Not Found: (empty response)"},
		"a page that is served": {200, "<html></html>", "invalid character '<'"},
		"another API":           {200, `{"kind":"APIVersions"}`, "its response to a query has no data"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.code)
				fmt.Fprint(w, test.body)
			}))
			defer server.Close()
			base, _ := url.Parse(server.URL)
			var out any
			err := (&Service{base: base, http: server.Client()}).Query(t.Context(), "", "", "{ x }", nil, &out)
			want := "the server at " + server.URL + " is not a content service of catalogd: "
			if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), test.want) || IsNotFound(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
