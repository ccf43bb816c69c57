package registry

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// api answers the first request of a session; handler answers all others.
func api(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			handler(w, r)
		}
	}
}

func manifestOf(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = io.WriteString(w, content)
	}
}

func zipped(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var zip bytes.Buffer
		writer := gzip.NewWriter(&zip)
		_, _ = io.WriteString(writer, content)
		_ = writer.Close()
		w.Header().Set("Content-Encoding", "gzip")
		manifestOf(zip.String())(w, r)
	}
}

func listOf(part string, n int) string {
	return `{"schemaVersion":2,"layers":[` + strings.TrimSuffix(strings.Repeat(part+",", n), ",") + `]}`
}

func TestManifestBounds(t *testing.T) {
	const tooLong, tooMany = "registry HOST sent a response that exceeds the limit of 4 MiB", "registry HOST sent a manifest with too " +
		"many elements for an image"
	blank := strings.Repeat(" ", maxResponse-2)
	elsewhere := func(path string, next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				http.Redirect(w, r, path, http.StatusTemporaryRedirect)
				return
			}
			next(w, r)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		image   string
		want    string // "": none
	}{
		"longest":              {manifestOf("{}" + blank), "", ""},
		"too long":             {manifestOf("{}" + blank + " "), "", tooLong},
		"too long when zipped": {zipped("{}" + blank + " "), "", tooLong},
		"too long elsewhere":   {elsewhere("/v2/catalogs/foo/blobs/sha256:0", manifestOf("{}"+blank+" ")), "", tooLong},
		"a name like a blob's": {manifestOf("{}" + blank + " "), "/ns/blobs/foo:v1", tooLong},
		"most parts":           {manifestOf(listOf("{}", maxElements/2-1)), "", ""},
		"too many objects":     {manifestOf(listOf("{}", maxElements/2+1)), "", tooMany},
		"too many numbers":     {manifestOf(listOf("0", maxElements+1)), "", tooMany},
	} {
		t.Run(name, func(t *testing.T) {
			host := serve(t, api(test.handler))
			image := host + "/catalogs/foo:v1"
			if test.image != "" {
				image = host + test.image
			}
			err := get(t, newTestClient(t, Access{}), image)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if want := "reading the manifest: " + replaceHost(test.want, host); err == nil || err.Error() != want || KindOf(err) != Answered {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// An endless response to the first request of a session does not block the client.
func TestEndlessResponse(t *testing.T) {
	done := make(chan struct{})
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		defer close(done)
		for part := make([]byte, 32<<10); r.Context().Err() == nil; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	if err := get(t, newTestClient(t, Access{}), host+"/catalogs/foo:v1"); err == nil || !strings.HasSuffix(err.Error(), "418 I'm a teapot") {
		t.Errorf("got %v, want the next answer", err)
	}
	<-done
}

// Blobs have no limit here, also after a redirect.
func TestBlobsAreNotBounded(t *testing.T) {
	const length = maxResponse + 1
	host := serve(t, api(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/store/1" {
			http.Redirect(w, r, "/store/1", http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write(make([]byte, length))
	}))
	var n int64
	_, err := newTestClient(t, Access{}).Try(t.Context(), parse(t, host+"/ns/manifests/foo:v1"), func(ctx context.Context, e Endpoint) error {
		layer, err := remote.Layer(e.Ref.Context().Digest("sha256:"+strings.Repeat("0", 64)), append(e.Remote, remote.WithContext(ctx))...)
		if err != nil {
			return err
		}
		blob, err := layer.Compressed()
		if err != nil {
			return err
		}
		defer blob.Close()
		n, _ = io.Copy(io.Discard, blob) // whose digest is another
		return nil
	})
	if err != nil || n != length {
		t.Errorf("%d bytes, %v", n, err)
	}
}
