package graphql

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

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

// coerceVariables converts numbers to the types of an operation's variables and rejects values of other types, as the GraphQL specification
// requires (section 6.1.2). Missing values and unknown types and fields are left to gqlparser.
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
