package content

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"github.com/klauspost/compress/zstd"
)

// maxBlob limits the size of a blob. catalogd accepts 64 MiB by default.
const maxBlob = 1 << 30

// versioned matches the URL of a version in Content-Location. A catalog may be named digests, too.
var versioned = regexp.MustCompile(`/catalogs/[^/]+/digests/([^/]+)/`)

func versionIn(resp *http.Response) string {
	if m := versioned.FindStringSubmatch(resp.Header.Get("Content-Location")); m != nil {
		return m[1]
	}
	return ""
}

// Blobs calls each with the blobs of a view in JSON lines: "all", "packages/NAME". It returns the version of the catalog that
// they belong to. Without a version, it reads the served one. progress, if not nil, receives the number of bytes read so far.
func (s *Service) Blobs(
	ctx context.Context, catalog, version, view string, progress func(int64), each func(blob []byte) error,
) (string, error) {
	resp, err := s.Get(ctx, Path(catalog, version, view), nil, http.Header{"Accept-Encoding": {"zstd"}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "zstd" {
		decoder, err := zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return "", err
		}
		defer decoder.Close()
		body = decoder
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxBlob)
	read := int64(0)
	for lines.Scan() {
		if err := each(lines.Bytes()); err != nil {
			return "", err
		}
		if read += int64(len(lines.Bytes())) + 1; progress != nil {
			progress(read)
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("reading catalog %q from %s: %w", catalog, s, err)
	}
	return cmp.Or(versionIn(resp), version), nil
}

// Version returns the served version of a catalog.
func (s *Service) Version(ctx context.Context, catalog string) (string, error) {
	resp, err := s.Get(ctx, Path(catalog, "", "metas"), url.Values{"schema": {"-"}}, nil) // matches no blob
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	version := versionIn(resp)
	if version == "" {
		return "", fmt.Errorf("the response of %s lacks the version of catalog %q (Content-Location)", s, catalog)
	}
	return version, nil
}
