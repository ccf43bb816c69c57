package content

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxBlob is how long a blob may be. catalogd takes none of more than 64 MiB, unless it is told to.
const maxBlob = 1 << 30

// fixed is where a reply says at which URL it stays; the part behind digests is the version. A catalog may be called digests, too.
var fixed = regexp.MustCompile(`/catalogs/[^/]+/digests/([^/]+)/`)

// Blobs calls each for the blobs of a view that answers with JSON lines: "all", "packages/NAME". It returns the version of the catalog that
// they are of: the one given or, if that is empty, the one that is served. progress, if not nil, is told how many bytes of JSON were read.
func (s *Service) Blobs(
	ctx context.Context, catalog, version, view string, progress func(int64), each func(blob []byte) error,
) (string, error) {
	resp, err := s.Get(ctx, Path(catalog, version, view), nil, http.Header{"Accept-Encoding": {"zstd, gzip"}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if m := fixed.FindStringSubmatch(resp.Header.Get("Content-Location")); m != nil {
		version = m[1]
	}
	body, err := decoded(resp)
	if err != nil {
		return "", err
	}
	defer body.Close()
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
	return version, nil
}

// Version asks which version of a catalog is served.
func (s *Service) Version(ctx context.Context, catalog string) (string, error) {
	resp, err := s.Get(ctx, Path(catalog, "", "metas"), url.Values{"schema": {"-"}}, nil) // of which there are no blobs
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	m := fixed.FindStringSubmatch(resp.Header.Get("Content-Location"))
	if m == nil {
		return "", fmt.Errorf("%s does not say which version of catalog %q it serves", s, catalog)
	}
	return m[1], nil
}

// decoded is the body of a reply without its compression.
func decoded(resp *http.Response) (io.ReadCloser, error) {
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return io.NopCloser(resp.Body), nil
	case "gzip":
		return gzip.NewReader(resp.Body)
	case "zstd":
		decoder, err := zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	default:
		return nil, fmt.Errorf("the reply is compressed as %q, which was not asked for", encoding)
	}
}
