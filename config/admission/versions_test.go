package admission_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// catalogd supports Kubernetes 1.31, which accepts only expressions that 1.30 can run.
func TestPolicyIsForOldKubernetesToo(t *testing.T) {
	policy, _, err := readPolicy()
	if err != nil {
		t.Fatal(err)
	}
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 30)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 30),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("variables", cel.DynType),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{} // to their names
	for _, variable := range policy.Spec.Variables {
		expressions[variable.Expression] = "variable " + variable.Name
	}
	for _, validation := range policy.Spec.Validations {
		expressions[validation.Expression] = "rule of " + validation.Message
		if validation.MessageExpression != "" {
			expressions[validation.MessageExpression] = "message of " + validation.Message
		}
	}
	for _, expression := range slices.Sorted(maps.Keys(expressions)) {
		if _, issues := set.NewExpressionsEnv().Compile(expression); issues.Err() != nil {
			t.Errorf("%s: %v", expressions[expression], issues.Err())
		}
	}
}
