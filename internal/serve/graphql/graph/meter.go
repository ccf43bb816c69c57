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

// Limits bound what one request may cost.
type Limits struct {
	Read    int64 // bytes read from the store
	Decoded int   // JSON values of the blobs that are decoded
	Reply   int64 // bytes of all names and values of the answer
	Values  int   // how many values the answer has: fields and elements of lists
	Edges   int   // of the upgrade graph of one channel
	Memory  int64 // bytes that may be taken without asking Options.Grow
}

// About how many bytes of memory things take until the request ends, as measured; a byte read takes one.
const (
	memoryPerDecoded = 800   // a JSON value, at worst an empty CRD description: what it becomes, and what is dropped on the way
	memoryPerValue   = 1_000 // a value of the answer, within gqlgen
	memoryPerReply   = 4     // a byte of the answer, which is copied from buffer to buffer
)

// spent is what a request has used of its limits.
type spent struct {
	read, decoded, reply, values, memory atomic.Int64

	grow sync.Once
	tags sync.Map // of *ast.Field to tags
}

// spend adds to what is used of a limit, and of memory, and ends the request when that is more than there is.
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
		"answering this reads more than %d bytes of the catalogs, the most for one request: ask for fewer packages, a smaller first or fewer fields")
}

// spendDecoded is for values that are about to be decoded.
func (r *Request) spendDecoded(values int) error {
	return r.spend(&r.spent.decoded, int64(values), int64(r.Limits.Decoded), memoryPerDecoded,
		"answering this decodes more than %d JSON values of the catalogs, the most for one request: ask for fewer packages, a smaller first or fewer fields")
}

// Meter resolves one field within the limits of its request; it goes around every field, as gqlgen's FieldMiddleware. A list is measured
// before gqlgen walks it, and with it the names that its elements have of __typename, which gqlgen does not resolve.
func Meter(ctx context.Context, next func(context.Context) (any, error)) (any, error) {
	r := requestOf(ctx)
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	value, err := next(ctx)
	if err != nil {
		return nil, err
	}
	field := graphql.GetFieldContext(ctx).Field.Field
	tags := r.tagsOf(field)
	elements, objects := int64(0), int64(1)
	if n, ok := length(value); ok {
		elements, objects = n, n
	}
	err = r.spend(&r.spent.values, 1+elements+objects*tags.count, int64(r.Limits.Values), memoryPerValue,
		"the answer has more than %d values, the most for one request: ask for a smaller first or fewer fields")
	if err != nil {
		return nil, err
	}
	size := nameSize(field) + sizeOf(value) + objects*tags.bytes
	err = r.spend(&r.spent.reply, size, r.Limits.Reply, memoryPerReply,
		"the answer has more than %d bytes, the most for one request: ask for a smaller first or fewer fields")
	if err != nil {
		return nil, err
	}
	return value, nil
}

// length is the number of elements of a list.
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

// sizeOf is what a value adds to the answer, in bytes; 0 where that is little, or its parts are fields of their own.
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

// textSize is the size of a string as JSON, where a control character has six bytes.
func textSize(s string) int64 {
	size := int64(len(s) + len(`"",`))
	for i := range len(s) {
		if s[i] < ' ' {
			size += 5
		}
	}
	return size
}

// nameSize is what the name of a field adds to the answer, in bytes.
func nameSize(field *ast.Field) int64 { return int64(len(field.Alias) + len(`"":,`)) }

// tags are the names that each object of a field has of __typename.
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
				t = tags{1, nameSize(s) + 30} // the longest name of a type is shorter
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
