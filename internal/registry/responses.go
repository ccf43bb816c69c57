package registry

import (
	"bytes"
	"io"
	"net/http"
	"path"
	"strings"
)

const (
	// maxResponse limits responses other than blobs, in bytes. Registries should accept manifests of this size
	// (OCI distribution-spec 1.1, "Pushing Manifests").
	maxResponse = 4 << 20
	// maxElements limits the elements of a manifest. go-containerregistry allocates some 140 bytes for each,
	// so a manifest costs 10 MB at most, not 300 MB. Some 8,000 descriptors have that many elements.
	maxElements = 50_000
)

// answerError is an unacceptable response.
type answerError struct{ says string } // continues a sentence that begins with the registry

func (e *answerError) Error() string { return "the registry " + e.says }

// bounded returns a transport that limits the decompressed size of error responses and of API responses (OCI
// distribution-spec 1.1) other than blobs. Reading a longer response fails with an http.MaxBytesError. The reader of
// a blob knows its size.
func bounded(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		switch resource := resourceOf(req); {
		case resource == "manifests" && req.Method == http.MethodGet && res.StatusCode == http.StatusOK:
			return wholeManifest(res)
		case res.StatusCode >= http.StatusMultipleChoices, resource != "" && resource != "blobs":
			res.Body = http.MaxBytesReader(nil, res.Body, maxResponse)
		}
		return res, nil
	})
}

// wholeManifest reads the body of res into memory and checks its size and number of elements before it is
// parsed.
func wholeManifest(res *http.Response) (*http.Response, error) {
	defer res.Body.Close()
	manifest, err := io.ReadAll(http.MaxBytesReader(nil, res.Body, maxResponse))
	if err != nil {
		return nil, err
	}
	if bytes.Count(manifest, []byte("{"))+bytes.Count(manifest, []byte(",")) > maxElements {
		return nil, &answerError{"sent a manifest with too many elements for an image"}
	}
	res.Body = io.NopCloser(bytes.NewReader(manifest))
	return res, nil
}

// resourceOf returns the API resource of the original request before redirects: "manifests" or "blobs" for
// /v2/<name>/manifests/<reference> and /v2/<name>/blobs/<digest>, another word for other API paths, "" outside
// of the API.
func resourceOf(req *http.Request) string {
	for earlier := req; earlier != nil; earlier = redirected(earlier) {
		req = earlier
	}
	if !strings.HasPrefix(req.URL.Path, "/v2/") {
		return ""
	}
	return path.Base(path.Dir(req.URL.Path))
}

// redirected returns the request that was redirected to req; nil if there was none.
func redirected(req *http.Request) *http.Request {
	if req.Response == nil {
		return nil
	}
	return req.Response.Request
}
