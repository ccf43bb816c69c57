package graphql

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/complexity"
	gqlgen "github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/operator-catalogs/catalogd/internal/serve/graphql/graph"
)

// Limits bound the size and the cost of one request.
type Limits struct {
	Query      int           // characters of a query
	Tokens     int           // of a query
	Repeats    int           // of one field name, or alias, in a query
	Depth      int           // nesting of fields, except introspection
	Complexity int           // fields of a query, those of a connection times first
	Time       time.Duration // to answer
	Large      int           // concurrent requests beyond Memory bytes; others wait

	graph.Limits
}

// DefaultLimits returns the limits of the content service.
func DefaultLimits() Limits {
	return Limits{
		Query: 100_000, Tokens: 5_000, Repeats: 500, Depth: 15, Complexity: 20_000, Time: 10 * time.Second, Large: 2,
		Limits: graph.Limits{Read: 32 << 20, Decoded: 500_000, Reply: 32 << 20, Values: 100_000, Edges: 10_000, Memory: 8 << 20},
	}
}

// guard rejects a query that is too long, too deep or too wide before gqlgen validates it. Some rules of the validation walk a
// fragment at each spread: exponential time if fragments spread each other. One compares all fields of the same name.
type guard struct {
	Limits
	schema gqlgen.ExecutableSchema
	known  *queryCache // queries that passed
}

func (*guard) ExtensionName() string { return "Guard" }

// Validate implements graphql.HandlerExtension.
func (g *guard) Validate(schema gqlgen.ExecutableSchema) error {
	g.schema = schema
	return nil
}

// MutateOperationContext implements graphql.OperationContextMutator, which gqlgen calls for a valid query.
func (g *guard) MutateOperationContext(ctx context.Context, op *gqlgen.OperationContext) *gqlerror.Error {
	if n := complexity.Calculate(ctx, g.schema, op.Operation, op.Variables); n > g.Complexity {
		return limitError("the query has complexity %d, more than %d (the number of its fields, those of a connection times first): "+
			"use a smaller first, select fewer fields, or page with after", n, g.Complexity)
	}
	return nil
}

// MutateOperationParameters implements graphql.OperationParameterMutator, which gqlgen calls before it parses. It coerces variables.
func (g *guard) MutateOperationParameters(ctx context.Context, params *gqlgen.RawParams) *gqlerror.Error {
	doc, ok := g.known.Get(ctx, params.Query)
	if !ok {
		var err *gqlerror.Error
		if doc, err = g.examine(params.Query); err != nil {
			return err
		}
	}
	op, err := selectOperation(doc, params.OperationName)
	if err != nil || op == nil {
		return err
	}
	return coerceVariables(g.schema.Schema(), op, params.Variables)
}

// examine parses a query and checks its limits.
func (g *guard) examine(query string) (*ast.QueryDocument, *gqlerror.Error) {
	if n := utf8.RuneCountInString(query); n > g.Query {
		return nil, limitError("the query has %d characters, more than %d: select less, or split the request", n, g.Query)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, g.Tokens)
	if err != nil {
		return nil, g.syntaxError(err)
	}
	m := measurer{
		fragments: doc.Fragments, names: map[string]int{},
		seen: map[*ast.FragmentDefinition]extent{}, open: map[*ast.FragmentDefinition]bool{},
	}
	var most extent
	for _, operation := range doc.Operations {
		e := m.measure(operation.SelectionSet)
		most = extent{max(most.depth, e.depth), max(most.fields, e.fields)}
	}
	cyclic := m.cyclic
	for _, fragment := range doc.Fragments { // counts the names in those that no operation spreads
		m.fragment(fragment)
	}
	switch {
	case m.names[m.most] > g.Repeats:
		return nil, limitError("the query has the field name %s %d times, more than %d: select less, or split the request",
			m.most, m.names[m.most], g.Repeats)
	case cyclic != "":
		err := gqlerror.Errorf("fragment %s spreads itself", cyclic)
		errcode.Set(err, errcode.ValidationFailed)
		return nil, err
	case most.depth > g.Depth:
		return nil, limitError("the query has fields %d deep, more than %d: select deeper fields in a separate request", most.depth, g.Depth)
	case most.fields > g.Complexity:
		return nil, limitError(
			"the query has more than %d fields, counting those of a fragment at each spread: select less, or split the request", g.Complexity)
	}
	return doc, nil
}

// syntaxError returns the parser's error. The error about the token limit gets a remedy.
func (g *guard) syntaxError(err error) *gqlerror.Error {
	var known *gqlerror.Error
	if !errors.As(err, &known) {
		known = gqlerror.Wrap(err)
	}
	if strings.HasPrefix(known.Message, "exceeded token limit") {
		return limitError("the query has more than %d tokens: select less, or split the request", g.Tokens)
	}
	errcode.Set(known, errcode.ParseFailed)
	return known
}

// limitError returns an error with CodeLimit.
func limitError(format string, args ...any) *gqlerror.Error {
	err := gqlerror.Errorf(format, args...)
	errcode.Set(err, graph.CodeLimit)
	return err
}

// extent is the depth and the number of fields of a selection.
type extent struct{ depth, fields int }

// measurer measures selections, each fragment once.
type measurer struct {
	fragments ast.FragmentDefinitionList
	seen      map[*ast.FragmentDefinition]extent
	open      map[*ast.FragmentDefinition]bool // in progress
	names     map[string]int                   // fields by response name; each fragment counts once, spread or not
	most      string                           // the most frequent one
	cyclic    string                           // a fragment that spreads itself
}

// maxFields caps the count to prevent an overflow.
const maxFields = 1 << 30

func (m *measurer) measure(set ast.SelectionSet) extent {
	var sum extent
	for _, selection := range set {
		var e extent
		switch s := selection.(type) {
		case *ast.Field:
			m.names[s.Alias]++
			if m.names[s.Alias] > m.names[m.most] {
				m.most = s.Alias
			}
			e = m.measure(s.SelectionSet)
			e.depth++
			if s.Name == "__schema" || s.Name == "__type" {
				e.depth = 1 // gqlgen limits introspection
			}
		case *ast.InlineFragment:
			e = m.measure(s.SelectionSet)
		case *ast.FragmentSpread:
			e = m.fragment(m.fragments.ForName(s.Name))
		}
		sum.depth = max(sum.depth, e.depth)
		sum.fields = min(sum.fields+1+e.fields, maxFields)
	}
	return sum
}

// fragment returns the extent of a fragment; zero for nil, an unknown one, which validation rejects.
func (m *measurer) fragment(def *ast.FragmentDefinition) extent {
	if e, ok := m.seen[def]; ok || def == nil {
		return e
	}
	if m.open[def] {
		m.cyclic = def.Name
		return extent{}
	}
	m.open[def] = true
	m.seen[def] = m.measure(def.SelectionSet)
	delete(m.open, def)
	return m.seen[def]
}
