package graph

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// Limits bound the cost of one request.
type Limits struct {
	Read    int64 // bytes read from the store
	Decoded int   // decoded JSON values
	Reply   int64 // bytes of the reply
	Values  int   // fields and list elements of the reply
	Edges   int   // edges of one upgrade graph
	Memory  int64 // bytes of memory without Options.Grow
}

// Bytes of memory that a request holds until its end, as measured. Each byte that it reads takes one more.
const (
	memoryPerDecoded = 800   // a JSON value, at worst an empty CRD description, including garbage
	memoryPerValue   = 1_000 // a value of the reply in gqlgen
	memoryPerReply   = 4     // a byte of the reply, which is copied between buffers
)

// spent is the use of the limits by a request.
type spent struct {
	read, decoded, reply, values, memory atomic.Int64

	grow sync.Once
	tags sync.Map // of *ast.Field to tags
}

// spend adds to the use of a limit and of memory, and ends the request beyond the limit.
func (r *Request) spend(used *atomic.Int64, amount, limit, memory int64, format string) error {
	if used.Add(amount) > limit {
		r.Stop(&Error{CodeLimit, fmt.Sprintf(format, limit)})
	} else if r.spent.memory.Add(amount*memory) > r.Limits.Memory && r.Grow != nil {
		r.spent.grow.Do(func() {
			if err := r.Grow(); err != nil {
				r.Stop(&Error{CodeLimit, err.Error()})
			}
		})
	}
	if reason := r.Stopped(); reason != nil {
		return reason
	}
	return nil
}

func (r *Request) spendRead(amount int64) error {
	return r.spend(&r.spent.read, amount, r.Limits.Read, 1,
		"the request reads more than %d bytes of the catalogs (limit of one request): select fewer packages or fields, or use a smaller first")
}

// spendDecoded charges values before they are decoded.
func (r *Request) spendDecoded(values int) error {
	return r.spend(&r.spent.decoded, int64(values), int64(r.Limits.Decoded), memoryPerDecoded,
		"the request decodes more than %d JSON values of the catalogs (limit of one request): select fewer packages or fields, or use a "+
			"smaller first")
}

func (r *Request) spendValues(values int64) error {
	return r.spend(&r.spent.values, values, int64(r.Limits.Values), memoryPerValue,
		"the reply has more than %d values (limit of one request): select fewer fields, or use a smaller first")
}

// Meter is gqlgen's FieldMiddleware: it resolves a field within the limits of its request. It measures a list before gqlgen walks
// it, including the __typename fields of its elements, which gqlgen does not resolve. Before gqlgen reads
// a struct field of a package, it loads the summary that fills the fields.
func Meter(ctx context.Context, next func(context.Context) (any, error)) (any, error) {
	r := requestOf(ctx)
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	fc := graphql.GetFieldContext(ctx)
	if p := parentPackage(fc); p != nil && !fc.IsMethod {
		if err := p.load(); err != nil {
			return nil, err
		}
	}
	value, err := next(ctx)
	if err != nil {
		return nil, err
	}
	field := fc.Field.Field
	tags := r.tagsOf(field)
	elements, objects := int64(0), int64(1)
	if n, ok := length(value); ok {
		elements, objects = n, n
	}
	if err := r.spendValues(1 + elements + objects*tags.count); err != nil {
		return nil, err
	}
	size := nameSize(field) + sizeOf(value) + objects*tags.bytes
	err = r.spend(&r.spent.reply, size, r.Limits.Reply, memoryPerReply,
		"the reply has more than %d bytes (limit of one request): select fewer fields, or use a smaller first")
	if err != nil {
		return nil, err
	}
	return value, nil
}

// parentPackage returns the package that a field belongs to, nil if it does not belong to a package.
func parentPackage(fc *graphql.FieldContext) *Package {
	if fc.Parent == nil {
		return nil
	}
	switch parent := fc.Parent.Result.(type) {
	case *Package:
		return parent
	case **Package: // an element of a list
		return *parent
	}
	return nil
}

// length returns the number of elements of a list.
func length(value any) (int64, bool) {
	if _, ok := value.(JSON); ok {
		return 0, false
	}
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return 0, false
	}
	return int64(v.Len()), true
}

// sizeOf returns the bytes of a value in the reply; 0 for small values and objects.
func sizeOf(value any) int64 {
	switch v := value.(type) {
	case string:
		return textSize(v)
	case *string:
		if v != nil {
			return textSize(*v)
		}
	case JSON:
		return int64(len(v))
	case []string:
		total := int64(0)
		for _, s := range v {
			total += textSize(s)
		}
		return total
	}
	return 0
}

// textSize returns the size of a string as JSON; a control character takes six bytes.
func textSize(s string) int64 {
	size := int64(len(s) + len(`"",`))
	for i := range len(s) {
		if s[i] < ' ' {
			size += 5
		}
	}
	return size
}

// nameSize returns the bytes of a field name in the reply.
func nameSize(field *ast.Field) int64 { return int64(len(field.Alias) + len(`"":,`)) }

// tags are the __typename fields of each object of a field.
type tags struct{ count, bytes int64 }

func (r *Request) tagsOf(field *ast.Field) tags {
	if known, ok := r.spent.tags.Load(field); ok {
		return known.(tags)
	}
	t := tagsIn(field.SelectionSet)
	r.spent.tags.Store(field, t)
	return t
}

func tagsIn(set ast.SelectionSet) (sum tags) {
	for _, selection := range set {
		var t tags
		switch s := selection.(type) {
		case *ast.Field:
			if s.Name == "__typename" {
				t = tags{1, nameSize(s) + 30} // longer than any type name
			}
		case *ast.InlineFragment:
			t = tagsIn(s.SelectionSet)
		case *ast.FragmentSpread:
			t = tagsIn(s.Definition.SelectionSet)
		}
		sum = tags{sum.count + t.count, sum.bytes + t.bytes}
	}
	return sum
}
