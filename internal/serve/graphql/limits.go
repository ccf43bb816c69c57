package graphql

import (
	"cmp"
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

// Limits bound the size and the cost of one request. A zero value means the default.
type Limits struct {
	Query      int           // characters of a query; default 100,000
	Tokens     int           // of a query; default 5,000
	Repeats    int           // of one field name, or alias, in a query; default 500
	Depth      int           // nesting of fields, except introspection; default 15
	Complexity int           // fields of a query, those of a connection times first; default 20,000
	Time       time.Duration // to answer; default 10 s
	Large      int           // concurrent requests beyond Memory bytes; others wait. Default 2

	graph.Limits // defaults: Read 32 MiB, Decoded 500,000, Reply 32 MiB, Values 100,000, Edges 10,000, Memory 8 MiB
}

func (l Limits) withDefaults() Limits {
	l.Query = cmp.Or(l.Query, 100_000)
	l.Tokens = cmp.Or(l.Tokens, 5_000)
	l.Repeats = cmp.Or(l.Repeats, 500)
	l.Depth = cmp.Or(l.Depth, 15)
	l.Complexity = cmp.Or(l.Complexity, 20_000)
	l.Time = cmp.Or(l.Time, 10*time.Second)
	l.Read = cmp.Or(l.Read, 32<<20)
	l.Decoded = cmp.Or(l.Decoded, 500_000)
	l.Reply = cmp.Or(l.Reply, 32<<20)
	l.Values = cmp.Or(l.Values, 100_000)
	l.Edges = cmp.Or(l.Edges, 10_000)
	l.Memory = cmp.Or(l.Memory, 8<<20)
	l.Large = cmp.Or(l.Large, 2)
	return l
}

// guard rejects a query that is too long, too deep or too wide before gqlgen validates it. Some validation rules and the complexity walk a
// fragment at each spread, which takes exponential time if fragments spread each other. Another rule compares all fields of one name.
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
	if name, count := mostRepeated(doc); count > g.Repeats {
		return nil, limitError("the query has the field name %s %d times, more than %d: select less, or split the request",
			name, count, g.Repeats)
	}
	m := measurer{fragments: doc.Fragments, seen: map[string]extent{}, open: map[string]bool{}}
	for _, operation := range doc.Operations {
		e := m.measure(operation.SelectionSet)
		if m.cyclic != "" {
			err := gqlerror.Errorf("fragment %s spreads itself", m.cyclic)
			errcode.Set(err, errcode.ValidationFailed)
			return nil, err
		}
		if e.depth > g.Depth {
			return nil, limitError("the query has fields %d deep, more than %d: select deeper fields in a separate request", e.depth, g.Depth)
		}
		if e.fields > g.Complexity {
			return nil, limitError(
				"the query has more than %d fields, counting those of a fragment at each spread: select less, or split the request", g.Complexity)
		}
	}
	return doc, nil
}

// mostRepeated returns the most frequent response name in a query. It counts each fragment once, spread or not.
func mostRepeated(doc *ast.QueryDocument) (name string, count int) {
	counts := map[string]int{}
	var walk func(ast.SelectionSet)
	walk = func(set ast.SelectionSet) {
		for _, selection := range set {
			switch s := selection.(type) {
			case *ast.Field:
				counts[s.Alias]++
				if n := counts[s.Alias]; n > count {
					name, count = s.Alias, n
				}
				walk(s.SelectionSet)
			case *ast.InlineFragment:
				walk(s.SelectionSet)
			}
		}
	}
	for _, operation := range doc.Operations {
		walk(operation.SelectionSet)
	}
	for _, fragment := range doc.Fragments {
		walk(fragment.SelectionSet)
	}
	return name, count
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
	seen      map[string]extent
	open      map[string]bool // fragments in progress
	cyclic    string          // a fragment that spreads itself
}

// maxFields caps the count to prevent an overflow.
const maxFields = 1 << 30

func (m *measurer) measure(set ast.SelectionSet) extent {
	var sum extent
	for _, selection := range set {
		var e extent
		switch s := selection.(type) {
		case *ast.Field:
			e = m.measure(s.SelectionSet)
			e.depth++
			if s.Name == "__schema" || s.Name == "__type" {
				e.depth = 1 // gqlgen limits introspection
			}
		case *ast.InlineFragment:
			e = m.measure(s.SelectionSet)
		case *ast.FragmentSpread:
			e = m.fragment(s.Name)
		}
		sum.depth = max(sum.depth, e.depth)
		sum.fields = min(sum.fields+1+e.fields, maxFields)
	}
	return sum
}

// fragment returns the extent of a fragment; zero for an unknown one, which validation rejects.
func (m *measurer) fragment(name string) extent {
	if e, ok := m.seen[name]; ok {
		return e
	}
	if m.open[name] {
		m.cyclic = name
		return extent{}
	}
	m.open[name] = true
	if def := m.fragments.ForName(name); def != nil {
		m.seen[name] = m.measure(def.SelectionSet)
	}
	delete(m.open, name)
	return m.seen[name]
}
