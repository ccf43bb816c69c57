package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// changeList is the data of changes.html. The script changes.js adds later changes.
type changeList struct {
	Catalog  string    // empty: all
	Catalogs []catalog // sorted by the time of the last change, latest first
	Feed     string    // the URL of the feed below the mount point; empty: the feed of all catalogs
}

// Title implements titled.
func (l changeList) Title() string { return "Changes" }

func loadChanges(r *request) (any, error) {
	l := changeList{Catalog: r.values.Get("catalog")}
	list, err := r.api.catalogs()
	if isForbidden(err) && l.Catalog != "" { // a reader of one catalog
		list.Catalogs = make([]catalog, 1)
		l.Feed = "watch?" + url.Values{"catalog": {l.Catalog}}.Encode()
		err = r.api.get("/catalogs/"+url.PathEscape(l.Catalog), nil, &list.Catalogs[0])
	}
	if err != nil {
		return nil, err
	}
	l.Catalogs = slices.DeleteFunc(slices.Clone(list.Catalogs), func(c catalog) bool { return l.Catalog != "" && c.Name != l.Catalog })
	if l.Catalog != "" && len(l.Catalogs) == 0 {
		return nil, &apiError{Status: http.StatusNotFound, Text: fmt.Sprintf("catalog %q not found", l.Catalog)}
	}
	slices.SortStableFunc(l.Catalogs, func(a, b catalog) int { return b.LastModified.Compare(a.LastModified) })
	return l, nil
}

// Values of frame.Watch.
const (
	watchAll    = "all"    // all catalogs, including new ones
	watchListed = "listed" // only the catalogs of frame.Watched
)

// watchedBy returns the catalogs whose current versions a page shows, and the value of frame.Watch.
func watchedBy(r *request, section string, all []catalog) (string, []catalog) {
	var names []string
	switch section {
	case "", "apis", "changes":
		names = r.values["catalog"]
	case "catalogs", "package":
		if r.PathValue("digest") != "" {
			return "", nil
		}
		names = nonEmpty(r.PathValue("catalog"))
	default:
		return "", nil
	}
	if len(names) == 0 {
		if len(all) == 0 {
			return "", nil // the reader may not list catalogs
		}
		return watchAll, all
	}
	watched := slices.DeleteFunc(slices.Clone(all), func(c catalog) bool { return !slices.Contains(names, c.Name) })
	if len(watched) == 0 {
		return "", nil
	}
	return watchListed, watched
}

// watch forwards the change feed. It sends an error of the API as an event, because scripts cannot read the body of a failed
// feed, and browsers log it as an error of the page.
func (p *page) watch(w http.ResponseWriter, r *http.Request) {
	f := &feedWriter{ResponseWriter: w}
	p.forward(f, r, viewPath(r.URL.Query().Get("catalog"), "", "watch"), nil)
	if f.refused == 0 {
		return
	}
	data, err := json.Marshal(map[string]string{"reason": strings.TrimSpace(strings.Replace(string(f.text), "\n", ": ", 1))})
	if err != nil {
		panic(err) // texts can be encoded
	}
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Retry-After"} {
		h.Del(name)
	}
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintf(w, "event: unavailable\ndata: %s\n\n", data) // an error means that the client has gone
}

// feedWriter forwards a feed, but buffers the body of an error.
type feedWriter struct {
	http.ResponseWriter
	refused int // the error status; 0 if there is none
	text    []byte
}

func (w *feedWriter) WriteHeader(status int) {
	if status != http.StatusOK {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *feedWriter) Write(p []byte) (int, error) {
	if w.refused == 0 {
		return w.ResponseWriter.Write(p)
	}
	w.text = append(w.text, p[:min(len(p), 1000-len(w.text))]...)
	return len(p), nil
}

// FlushError is called by http.ResponseController.
func (w *feedWriter) FlushError() error {
	if w.refused != 0 {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}
