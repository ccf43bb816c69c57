package registry

import (
	"bytes"
	"io"
	"net/http"
	"path"
	"strings"
)

const (
	// mostAnswer bounds answers that are no blobs. It is as long as the manifests that registries should take
	// (OCI distribution-spec 1.1, "Pushing Manifests").
	mostAnswer = 4 << 20
	// mostParts bounds the parts of a manifest, as go-containerregistry makes some 140 bytes of each element of a list, be it
	// only "{}" or "0": 10 MB of these, rather than 300 MB of 4 MiB. Some 8,000 descriptors have as many.
	mostParts = 50_000
)

// answerError is an answer that is not taken for one.
type answerError struct{ says string } // goes on where a sentence began with the registry

func (e *answerError) Error() string { return "the registry " + e.says }

// bounded returns a transport that ends with an answerError what is too long for an answer, as it comes decompressed: errors,
// and answers of the registry's API (OCI distribution-spec 1.1) save blobs, for whose readers it is to know the size.
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
			res.Body = &boundedBody{body: res.Body, left: mostAnswer}
		}
		return res, nil
	})
}

// wholeManifest returns res with all of its body, which was looked through before anybody parses it.
func wholeManifest(res *http.Response) (*http.Response, error) {
	defer res.Body.Close()
	manifest, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(manifest) > mostAnswer:
		return nil, &answerError{"sent a manifest of more than 4 MiB"}
	case bytes.Count(manifest, []byte("{"))+bytes.Count(manifest, []byte(",")) > mostParts:
		return nil, &answerError{"sent a manifest of more parts than that of an image can have"}
	}
	res.Body = io.NopCloser(bytes.NewReader(manifest))
	return res, nil
}

// boundedBody is a body that may be read to an end that comes before too much has.
type boundedBody struct {
	body io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, &answerError{"sent an answer of more than 4 MiB"}
	}
	return n, err
}

func (b *boundedBody) Close() error { return b.body.Close() }

// resourceOf is what of the registry's API a request is for, wherever it was redirected: "manifests" or "blobs" of
// /v2/<name>/manifests/<reference> and /v2/<name>/blobs/<digest>, another word if neither; "" outside of the API.
func resourceOf(req *http.Request) string {
	for earlier := req; earlier != nil; earlier = redirected(earlier) {
		req = earlier
	}
	if !strings.HasPrefix(req.URL.Path, "/v2/") {
		return ""
	}
	return path.Base(path.Dir(req.URL.Path))
}

// redirected returns the request whose answer redirected to req; nil if none did.
func redirected(req *http.Request) *http.Request {
	if req.Response == nil {
		return nil
	}
	return req.Response.Request
}
