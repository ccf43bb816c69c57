package graph

import (
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
)

// TestSchemaIsDescribed checks that every type, field, argument and enum value has a description.
func TestSchemaIsDescribed(t *testing.T) {
	for _, def := range NewSchema().Schema().Types {
		if def.BuiltIn {
			continue
		}
		checkDescription(t, def.Name, def.Description)
		for _, value := range def.EnumValues {
			checkDescription(t, def.Name+"."+value.Name, value.Description)
		}
		for _, field := range def.Fields {
			checkField(t, def, field)
		}
	}
}

func checkField(t *testing.T, def *ast.Definition, field *ast.FieldDefinition) {
	t.Helper()
	if len(field.Name) > 2 && field.Name[:2] == "__" {
		return
	}
	name := def.Name + "." + field.Name
	checkDescription(t, name, field.Description)
	for _, argument := range field.Arguments {
		checkDescription(t, name+"("+argument.Name+")", argument.Description)
	}
}

func checkDescription(t *testing.T, name, description string) {
	t.Helper()
	if description == "" {
		t.Errorf("%s has no description", name)
	}
}
