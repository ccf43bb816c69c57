package graphql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// The media types of a reply. A rejected query has status 400 with the first and, for old clients, 200 with the second.
const (
	typeResponse = "application/graphql-response+json"
	typeJSON     = "application/json"
)

// codeRequest is the code of an invalid HTTP request.
const codeRequest = "BAD_REQUEST"

// requestError is the error of an invalid HTTP request.
type requestError struct {
	status int
	text   string
}

func (e *requestError) write(w http.ResponseWriter, mediaType string) {
	err := &gqlerror.Error{Message: e.text}
	errcode.Set(err, codeRequest)
	if e.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD, POST")
	}
	write(w, mediaType, e.status, &gqlgen.Response{Errors: gqlerror.List{err}})
}

// negotiate selects the media type by the Accept header. It selects the new type only by name: curl and browsers accept everything and show
// the old type better.
func negotiate(r *http.Request) (string, *requestError) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return typeJSON, nil
	}
	quality := map[string]float64{}
	for item := range strings.SplitSeq(accept, ",") {
		name, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		quality[name] = q
	}
	plain, named := quality[typeJSON]
	if !named {
		plain = max(quality["application/*"], quality["*/*"])
	}
	switch q := quality[typeResponse]; {
	case q > 0 && q >= plain:
		return typeResponse, nil
	case plain > 0:
		return typeJSON, nil
	}
	return typeJSON, &requestError{http.StatusNotAcceptable, "an answer is " + typeResponse + " or " + typeJSON + ", and Accept has neither"}
}

// readParams reads the parameters of a request.
func readParams(r *http.Request) (*gqlgen.RawParams, *requestError) {
	var params *gqlgen.RawParams
	var bad *requestError
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		params, bad = paramsOfURL(r.URL)
	case http.MethodPost:
		params, bad = paramsOfBody(r)
	default:
		bad = &requestError{http.StatusMethodNotAllowed, "GraphQL requires GET, HEAD or POST, not " + r.Method}
	}
	if bad == nil && params.Query == "" {
		bad = &requestError{http.StatusBadRequest, "no query: set the parameter query, or the member query of a JSON object"}
	}
	return params, bad
}

func paramsOfURL(u *url.URL) (*gqlgen.RawParams, *requestError) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("parsing the query string: %v", err)}
	}
	params := &gqlgen.RawParams{Query: values.Get("query"), OperationName: values.Get("operationName")}
	if text := values.Get("variables"); text != "" {
		if err := decodeJSON(strings.NewReader(text), &params.Variables); err != nil {
			return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("the parameter variables is not a JSON object: %v", err)}
		}
	}
	return params, nil
}

func paramsOfBody(r *http.Request) (*gqlgen.RawParams, *requestError) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || mediaType != typeJSON || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return nil, &requestError{http.StatusUnsupportedMediaType, "the body must be JSON in UTF-8: send it with Content-Type: " + typeJSON}
	}
	var raw gqlgen.RawParams
	if err := decodeJSON(r.Body, &raw); err != nil {
		return nil, &requestError{
			http.StatusBadRequest, fmt.Sprintf("the body is not a JSON object with query, variables and operationName: %v", err),
		}
	}
	return &raw, nil
}

// decodeJSON decodes exactly one JSON value. Numbers keep their digits.
func decodeJSON(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something follows it"), err)
	}
	return nil
}

// statusOf returns 200, or 400 for a rejected query with the new media type.
func statusOf(mediaType string, response *gqlgen.Response) int {
	if mediaType == typeResponse && response.Data == nil {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func write(w http.ResponseWriter, mediaType string, status int, response *gqlgen.Response) {
	var errs bytes.Buffer
	encoder := json.NewEncoder(&errs)
	encoder.SetEscapeHTML(false) // return content unchanged
	if err := encoder.Encode(response.Errors); err != nil {
		// Unreachable: errors are texts.
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", mediaType+"; charset=utf-8")
	if len(response.Errors) > 0 {
		header.Del("ETag")
		header.Del("Last-Modified")
		header.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	// Data may be large and is not copied. A rejected request must not have the member.
	parts := net.Buffers{[]byte("{")}
	if len(response.Errors) > 0 {
		parts = append(parts, []byte(`"errors":`), bytes.TrimSpace(errs.Bytes()))
	}
	if len(response.Errors) > 0 && response.Data != nil {
		parts = append(parts, []byte(","))
	}
	if response.Data != nil {
		parts = append(parts, []byte(`"data":`), response.Data)
	}
	parts = append(parts, []byte("}\n"))
	_, _ = parts.WriteTo(w) // an error means that the client disconnected
}
