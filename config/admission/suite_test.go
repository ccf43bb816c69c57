// Package admission_test tests the admission policy on a real kube-apiserver, and compares it with catalogd's parsers.
package admission_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
)

const policyName = "catalogsources.catalogd.operatorframework.io"

// api is a client of the shared API server, on which the policy is in force. TestMain sets it.
var api client.Client

func TestMain(m *testing.M) {
	controlplane.Main(m, filepath.Join("..", ".."), prepare)
}

func prepare(p *controlplane.Plane) (err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), admissionv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if api, err = client.New(p.Admin, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	// stored exists before the policy does.
	if err := api.Create(context.Background(), stored.DeepCopy()); err != nil {
		return err
	}
	return enforce(context.Background())
}

// enforce installs the policy and waits until it is in force. It sets failurePolicy to Fail, so that tests notice failing
// expressions.
func enforce(ctx context.Context) error {
	policy, binding, err := readPolicy()
	if err != nil {
		return err
	}
	fail := admissionv1.Fail
	policy.Spec.FailurePolicy = &fail
	if err := errors.Join(api.Create(ctx, policy), api.Create(ctx, binding)); err != nil {
		return fmt.Errorf("installing the policy: %w", err)
	}
	bad := catalog("bad", v1beta1.CatalogSourceSpec{Image: "A"})
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := api.Create(ctx, bad.DeepCopy(), client.DryRunAll)
		return refusal(err) != "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the policy to be in force: %w", err)
	}
	return nil
}

func readPolicy() (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding, error) {
	raw, err := os.ReadFile("catalogsources.yaml")
	if err != nil {
		return nil, nil, err
	}
	first, second, _ := strings.Cut(string(raw), "\n---\n")
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	return policy, binding, errors.Join(yaml.UnmarshalStrict([]byte(first), policy), yaml.UnmarshalStrict([]byte(second), binding))
}

func catalog(name string, spec v1beta1.CatalogSourceSpec) *v1beta1.CatalogSource {
	return &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// refusal returns the message of the policy, or "" if it accepts the request.
func refusal(err error) string {
	_, says, ok := strings.Cut(fmt.Sprint(err), "ValidatingAdmissionPolicy '"+policyName+"' with binding '"+policyName+"' denied request: ")
	if !ok || !apierrors.IsInvalid(err) {
		return ""
	}
	return says
}
