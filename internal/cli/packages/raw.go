package packages

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// getRaw prints a response of the content service.
func getRaw(ctx context.Context, s *session.Session, path, catalog string) error {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return exit.Usagef("--raw %s: expected a path of the content service, such as /catalogs", path)
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return exit.Usagef("--raw %s: %w", path, err)
	}
	service, err := lookup.OnlyService(ctx, s, catalog)
	if err != nil {
		return err
	}
	resp, err := service.Get(ctx, u.EscapedPath(), params, nil)
	if err != nil {
		return session.CatalogError(err, catalog)
	}
	defer resp.Body.Close()
	if s.Stdout.Live {
		return printHarmless(s.Stdout, resp)
	}
	_, err = io.Copy(s.Stdout, resp.Body)
	return err
}

// printHarmless prints a text response without characters that could harm a terminal.
func printHarmless(to *output.Terminal, resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "jsonl")
	if !isJSON && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml") {
		return exit.Usagef("the response is %s, which cannot be shown on a terminal: redirect it to a file", kind)
	}
	clean := to.Clean(isJSON)
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if _, err := io.WriteString(to, clean(line)); err != nil {
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
