package page

import (
	"cmp"
	"slices"
	"strings"
)

// explorer is the data of graphql.html: the query editor and the reference of the schema.
type explorer struct {
	Catalog  string
	Examples []example
	Types    []schemaType
	Unread   string // why the schema cannot be read; empty if it was read
}

// Title implements titled.
func (e explorer) Title() string { return "GraphQL" }

// example is a query to start with.
type example struct{ Label, Query, Variables string }

var examples = []example{
	{"Search packages", `query ($words: String) {
  packages(search: $words, first: 10) {
    totalCount
    nodes {
      name
      displayName
      provider
      version
      catalog { name }
    }
  }
}`, `{"words": "database"}`},
	{"Channels and their heads", `{
  packages(first: 10) {
    nodes {
      name
      defaultChannel { name }
      channels {
        name
        deprecation { message }
        head { name version }
      }
    }
    pageInfo { hasNextPage endCursor }
  }
}`, ""},
	{"Images to mirror", `query ($after: String) {
  packages(first: 20, after: $after) {
    nodes {
      name
      head {
        image
        relatedImages { name image }
      }
    }
    pageInfo { hasNextPage endCursor }
  }
}`, `{"after": null}`},
	{"Packages left out", `{
  catalogs {
    name
    digest
    counts { packages bundles }
    invalidPackages { name reason }
  }
}`, ""},
}

// schemaType is a type of the schema.
type schemaType struct {
	Kind        string
	Name        string
	Description string
	Fields      []schemaField
	InputFields []schemaField
	EnumValues  []schemaField
}

// Members returns the fields of an object or input type, or the values of an enumeration.
func (t schemaType) Members() []schemaField {
	return slices.Concat(t.Fields, t.InputFields, t.EnumValues)
}

// Sort returns the kind of the type: "object", "input", "enum" or "scalar".
func (t schemaType) Sort() string {
	kind, _, _ := strings.Cut(strings.ToLower(t.Kind), "_")
	return kind
}

// schemaField is a field, an argument or an enumeration value. Enumeration values have no type.
type schemaField struct {
	Name         string
	Description  string
	Type         *typeReference
	DefaultValue string
	Args         []schemaField
}

// typeReference is a type with its modifiers, the outermost first.
type typeReference struct {
	Kind   string
	Name   string
	OfType *typeReference
}

// String returns the type in the syntax of the schema, such as [Package!]!.
func (t *typeReference) String() string {
	switch {
	case t == nil:
		return ""
	case t.Kind == "NON_NULL":
		return t.OfType.String() + "!"
	case t.Kind == "LIST":
		return "[" + t.OfType.String() + "]"
	}
	return t.Name
}

// Base returns the name of the type without modifiers; empty for the built-in scalars.
func (t *typeReference) Base() string {
	for ; t != nil; t = t.OfType {
		if t.Name != "" && !slices.Contains(builtin, t.Name) {
			return t.Name
		}
	}
	return ""
}

var builtin = []string{"Boolean", "Float", "ID", "Int", "String"}

const schemaQuery = `{ __schema { types { kind name description
fields { name description type { ...Reference } args { ...Input } } inputFields { ...Input } enumValues { name description } } } }
fragment Input on __InputValue { name description defaultValue type { ...Reference } }
fragment Reference on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } }`

func loadExplorer(r *request) (any, error) {
	e := explorer{Catalog: r.values.Get("catalog"), Examples: examples}
	var reply struct {
		Schema struct{ Types []schemaType } `json:"__schema"`
	}
	_, err := r.api.query(e.Catalog, "", schemaQuery, nil, &reply)
	if isForbidden(err) { // readers of one catalog can choose it
		e.Unread = err.Error()
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	for _, t := range reply.Schema.Types {
		if !strings.HasPrefix(t.Name, "__") && !slices.Contains(builtin, t.Name) {
			e.Types = append(e.Types, t)
		}
	}
	slices.SortFunc(e.Types, func(a, b schemaType) int {
		if isQuery := a.Name == "Query"; isQuery != (b.Name == "Query") {
			return map[bool]int{true: -1, false: 1}[isQuery]
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return e, nil
}
