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

// Limits bound what one request may ask for and cost. What is 0 has the default.
type Limits struct {
	Body       int64         // bytes of a POST request; default 128 KiB
	Query      int           // characters of a query; default 100,000
	Tokens     int           // of a query; default 5,000
	Repeats    int           // of one field name, or alias, in a query; default 500
	Depth      int           // how deep fields may lie in one another; introspection's do not count. Default 15
	Complexity int           // fields that a query asks for, those of a connection times first; default 20,000
	Time       time.Duration // for the answer; default 10 s
	Large      int           // how many requests may take more than Memory bytes at a time, while others of them wait; default 2

	graph.Limits // defaults: 32 MiB read, 500,000 JSON values decoded, 32 MiB and 100,000 values answered, 10,000 edges, 8 MiB of memory
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.Body, 128<<10)
	orDefault(&l.Query, 100_000)
	orDefault(&l.Tokens, 5_000)
	orDefault(&l.Repeats, 500)
	orDefault(&l.Depth, 15)
	orDefault(&l.Complexity, 20_000)
	orDefault(&l.Time, 10*time.Second)
	orDefault(&l.Read, 32<<20)
	orDefault(&l.Decoded, 500_000)
	orDefault(&l.Reply, 32<<20)
	orDefault(&l.Values, 100_000)
	orDefault(&l.Edges, 10_000)
	orDefault(&l.Memory, 8<<20)
	orDefault(&l.Large, 2)
	return l
}

func orDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// guard refuses a query that is too long, too deep or too wide before gqlgen validates it. Some rules of validation, and the
// complexity, walk a fragment each time it is spread, which takes exponential time where fragments spread each other; another compares
// all fields of one name with each other.
type guard struct {
	Limits
	schema gqlgen.ExecutableSchema
	known  *queryCache // of what has passed
}

func (*guard) ExtensionName() string { return "Guard" }

// Validate implements graphql.HandlerExtension.
func (g *guard) Validate(schema gqlgen.ExecutableSchema) error {
	g.schema = schema
	return nil
}

// MutateOperationContext implements graphql.OperationContextMutator, which gqlgen calls for a valid query. It alters nothing.
func (g *guard) MutateOperationContext(ctx context.Context, op *gqlgen.OperationContext) *gqlerror.Error {
	if n := complexity.Calculate(ctx, g.schema, op.Operation, op.Variables); n > g.Complexity {
		return limitError("the query has complexity %d, more than %d, which is the number of its fields, those of a connection times first: "+
			"ask for a smaller first or fewer fields, and page with after", n, g.Complexity)
	}
	return nil
}

// MutateOperationParameters implements graphql.OperationParameterMutator, which gqlgen calls before it parses. It alters nothing.
func (g *guard) MutateOperationParameters(ctx context.Context, params *gqlgen.RawParams) *gqlerror.Error {
	if _, ok := g.known.Get(ctx, params.Query); ok {
		return nil
	}
	if n := utf8.RuneCountInString(params.Query); n > g.Query {
		return limitError("the query has %d characters, more than %d: ask for less, or in several requests", n, g.Query)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: params.Query}, g.Tokens)
	if err != nil {
		return g.syntaxError(err)
	}
	if name := mostRepeated(doc); name.count > g.Repeats {
		return limitError("the query has the field name %s %d times, more than %d: ask for less, or in several requests", name.name, name.count, g.Repeats)
	}
	m := measurer{fragments: doc.Fragments, seen: map[string]extent{}, open: map[string]bool{}}
	for _, operation := range doc.Operations {
		e := m.measure(operation.SelectionSet)
		if m.cyclic != "" {
			err := gqlerror.Errorf("fragment %s spreads itself", m.cyclic)
			errcode.Set(err, errcode.ValidationFailed)
			return err
		}
		if e.depth > g.Depth {
			return limitError("the query has fields %d deep, more than %d: ask for what lies deeper in a request of its own", e.depth, g.Depth)
		}
		if e.fields > g.Complexity {
			return limitError("the query has more than %d fields, those of a fragment counted wherever it is spread: ask for less, or in several requests", g.Complexity)
		}
	}
	return nil
}

// fieldName is the name that a field has in the answer, and how often it stands in a query.
type fieldName struct {
	name  string
	count int
}

// mostRepeated is the name that stands most often in a query, fragments counted once and in any case.
func mostRepeated(doc *ast.QueryDocument) fieldName {
	var most fieldName
	counts := map[string]int{}
	var walk func(ast.SelectionSet)
	walk = func(set ast.SelectionSet) {
		for _, selection := range set {
			switch s := selection.(type) {
			case *ast.Field:
				counts[s.Alias]++
				if n := counts[s.Alias]; n > most.count {
					most = fieldName{s.Alias, n}
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
	return most
}

// syntaxError is the parser's, which does not say what to do about its limit on tokens.
func (g *guard) syntaxError(err error) *gqlerror.Error {
	var known *gqlerror.Error
	if !errors.As(err, &known) {
		known = gqlerror.Wrap(err)
	}
	if strings.HasPrefix(known.Message, "exceeded token limit") {
		return limitError("the query has more than %d tokens: ask for less, or in several requests", g.Tokens)
	}
	errcode.Set(known, errcode.ParseFailed)
	return known
}

// limitError is an error about a limit.
func limitError(format string, args ...any) *gqlerror.Error {
	err := gqlerror.Errorf(format, args...)
	errcode.Set(err, graph.CodeLimit)
	return err
}

// extent is how deep and wide a selection is.
type extent struct{ depth, fields int }

// measurer measures selections, each fragment once.
type measurer struct {
	fragments ast.FragmentDefinitionList
	seen      map[string]extent
	open      map[string]bool // the fragments that are being measured
	cyclic    string          // one that spreads itself
}

// maxFields ends the count, before it overflows.
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
				e.depth = 1 // gqlgen bounds introspection by itself
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

// fragment is the extent of a fragment: nothing for one that is unknown, which is for validation to say.
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
