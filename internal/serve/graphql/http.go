package graphql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
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

func (e *requestError) reply(mediaType string) *Reply {
	err := &gqlerror.Error{Message: e.text}
	errcode.Set(err, codeRequest)
	reply := newReply(mediaType, e.status, &gqlgen.Response{Errors: gqlerror.List{err}})
	if e.status == http.StatusMethodNotAllowed {
		reply.Header.Set("Allow", "GET, HEAD, POST")
	}
	return reply
}

// negotiate selects the media type by the Accept header. A client gets the new type only if it names it: curl and browsers
// accept every type, and show the old one better.
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

// Reply is the response to a request.
type Reply struct {
	Status int
	Header http.Header // with Cache-Control: no-store if the body has errors
	Body   []byte
}

// newReply copies the data once, because it may be large. The reply to a rejected request has no member data.
func newReply(mediaType string, status int, response *gqlgen.Response) *Reply {
	header := http.Header{"Content-Type": {mediaType + "; charset=utf-8"}}
	var body bytes.Buffer
	body.Grow(len(response.Data) + len(`{"data":}`+"\n"))
	body.WriteString("{")
	if len(response.Errors) > 0 {
		header.Set("Cache-Control", "no-store")
		body.WriteString(`"errors":`)
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false)          // return content unchanged
		_ = encoder.Encode(response.Errors)   // it cannot fail: errors are texts
		body.Truncate(body.Len() - len("\n")) // written by Encode
		if response.Data != nil {
			body.WriteString(",")
		}
	}
	if response.Data != nil {
		body.WriteString(`"data":`)
		body.Write(response.Data)
	}
	body.WriteString("}\n")
	return &Reply{status, header, body.Bytes()}
}

// selectOperation returns the operation that a request names, or the only one.
func selectOperation(doc *ast.QueryDocument, name string) (*ast.OperationDefinition, *gqlerror.Error) {
	if op := doc.Operations.ForName(name); op != nil || len(doc.Operations) == 0 {
		return op, nil
	}
	names := make([]string, len(doc.Operations))
	for i, op := range doc.Operations {
		names[i] = strconv.Quote(op.Name)
	}
	err := gqlerror.Errorf("unknown operation %q; the query has %s", name, strings.Join(names, ", "))
	if name == "" {
		err = gqlerror.Errorf("operationName is required, because the query has several operations: %s", strings.Join(names, ", "))
	}
	errcode.Set(err, errcode.ValidationFailed)
	return nil, err
}

// coerceVariables converts numbers to the types of an operation's variables and rejects values of other types (GraphQL,
// section 6.1.2). It leaves missing values, unknown types and unknown fields to gqlparser.
func coerceVariables(schema *ast.Schema, op *ast.OperationDefinition, variables map[string]any) *gqlerror.Error {
	for _, v := range op.VariableDefinitions {
		value, ok := variables[v.Variable]
		if !ok {
			continue
		}
		coerced, err := coerce(schema, v.Type, value)
		if err != nil {
			bad := gqlerror.Errorf("variable $%s: %v", v.Variable, err)
			errcode.Set(bad, errcode.ValidationFailed)
			return bad
		}
		variables[v.Variable] = coerced
	}
	return nil
}

func coerce(schema *ast.Schema, typ *ast.Type, value any) (any, error) {
	if value == nil {
		return nil, nil
	}
	if typ.Elem != nil {
		return coerceList(schema, typ.Elem, value)
	}
	def := schema.Types[typ.NamedType]
	object, ok := value.(map[string]any)
	if !ok || def == nil || def.Kind != ast.InputObject {
		return coerceScalar(typ.NamedType, value)
	}
	for _, field := range def.Fields {
		if given, ok := object[field.Name]; ok {
			coerced, err := coerce(schema, field.Type, given)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field.Name, err)
			}
			object[field.Name] = coerced
		}
	}
	return object, nil
}

// coerceList converts the elements of a list. Any other value is a list of one.
func coerceList(schema *ast.Schema, elem *ast.Type, value any) (any, error) {
	list, ok := value.([]any)
	if !ok {
		return coerce(schema, elem, value)
	}
	for i, v := range list {
		coerced, err := coerce(schema, elem, v)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		list[i] = coerced
	}
	return list, nil
}

func coerceScalar(typ string, value any) (any, error) {
	ok := true
	switch typ {
	case "Int":
		return coerceInt(value)
	case "String":
		_, ok = value.(string)
	case "Boolean":
		_, ok = value.(bool)
	}
	if !ok {
		return nil, fmt.Errorf("%s is not a %s", text(value), typ)
	}
	return value, nil
}

// coerceInt accepts integers of 32 bits, written in any way: 1, 1.0 or 1e0.
func coerceInt(value any) (any, error) {
	number, ok := value.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%s is not an Int", text(value))
	}
	f, err := number.Float64()
	switch {
	case err != nil || f < math.MinInt32 || f > math.MaxInt32:
		return nil, fmt.Errorf("%s does not fit into an Int of 32 bits", number)
	case f != math.Trunc(f):
		return nil, fmt.Errorf("%s is not an Int", number)
	}
	return json.Number(strconv.Itoa(int(f))), nil
}

// text returns a value as JSON, shortened.
func text(value any) string {
	const limit = 60
	data, err := json.Marshal(value)
	if err != nil { // values come from JSON
		return "the value"
	}
	if len(data) > limit {
		return strings.ToValidUTF8(string(data[:limit]), "") + "…"
	}
	return string(data)
}
