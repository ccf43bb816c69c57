package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// oneService is the content service of a catalog or, without one, the only one there is.
func (e *env) oneService(ctx context.Context, catalog string) (*content.Service, error) {
	services, err := e.servicesFor(ctx, catalog)
	switch {
	case err != nil:
		return nil, err
	case len(services) == 0:
		return nil, notFoundf("no catalog is served, so there is no content service to ask")
	case len(services) > 1:
		return nil, usagef("the catalogs are served by %d installations of catalogd: say by --catalog whose to ask", len(services))
	}
	return services[0], nil
}

// getRaw prints what the content service answers, as it comes.
func (e *env) getRaw(ctx context.Context, path, catalog string) error {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return usagef("--raw %s: it has to be a path of the content service, such as /catalogs", path)
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return usagef("--raw %s: %w", path, err)
	}
	service, err := e.oneService(ctx, catalog)
	if err != nil {
		return err
	}
	resp, err := service.Get(ctx, u.EscapedPath(), params, nil)
	if err != nil {
		return missing(err, catalog)
	}
	defer resp.Body.Close()
	if e.stdout.Live {
		return e.showRaw(resp)
	}
	_, err = io.Copy(e.Out, resp.Body)
	return err
}

// showRaw is for a terminal, which not every text is good for.
func (e *env) showRaw(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	clean := term.Text
	switch {
	case strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "jsonl"):
		clean = term.JSON
	case !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml"):
		return usagef("what comes is %s, which is not for a terminal: send it to a file", kind)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if _, err := io.WriteString(e.stdout, clean(line)); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
