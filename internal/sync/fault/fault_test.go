package fault

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

func TestReason(t *testing.T) {
	for want, errs := range map[string][]error{
		"":                             {nil, errors.New("the disk is full"), Block(errors.New("bad schedule"))},
		v1beta1.CatalogTooLargeReason:  {fmt.Errorf("x: %w", &unpack.LimitError{Limit: unpack.LimitTotalBytes})},
		v1beta1.FileTooLargeReason:     {&unpack.LimitError{Limit: unpack.LimitFileBytes}},
		v1beta1.TooManyFilesReason:     {&unpack.LimitError{Limit: unpack.LimitFiles}},
		v1beta1.CompressionRatioReason: {&unpack.LimitError{Limit: unpack.LimitCompressionRatio}},
		v1beta1.DatabaseTooLargeReason: {&unpack.LimitError{Limit: unpack.LimitDatabaseBytes}},
		v1beta1.FilterFailedReason:     {fmt.Errorf("x: %w", &subset.Error{Reason: "nothing is left"})},
		v1beta1.BlobTooLargeReason:     {fmt.Errorf("x: %w", scan.ErrBlobTooLarge)},
		v1beta1.AccessInvalidReason: {
			WithReason(v1beta1.AccessInvalidReason, errors.New("Secret x")), &registry.Error{Kind: registry.Configuration},
		},
		v1beta1.UnauthorizedReason:    {fmt.Errorf("x: %w", &registry.Error{Kind: registry.Unauthorized})},
		v1beta1.RateLimitedReason:     {&registry.Error{Kind: registry.RateLimited}},
		v1beta1.UnableToResolveReason: {Block(WithReason(v1beta1.UnableToResolveReason, errors.New("x")))},
	} {
		for _, err := range errs {
			if got := Reason(err); got != want {
				t.Errorf("%v: got %q, want %q", err, got, want)
			}
		}
	}
}

// Every kind of registry error has a condition reason.
func TestRegistryReasons(t *testing.T) {
	for _, kind := range []registry.Kind{
		registry.Unreachable, registry.Unauthorized, registry.NotFound, registry.RateLimited, registry.Answered, registry.Untrusted,
		registry.ClientCertificate, registry.Proxy, registry.PlainHTTP, registry.Blocked, registry.Damaged, registry.Stalled,
		registry.Configuration,
	} {
		if registryReasons[kind] == "" {
			t.Errorf("%s has no reason", kind)
		}
	}
}

func TestWithRemedy(t *testing.T) {
	ref, err := name.ParseReference("quay.io/ns/catalog:latest")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(err error) registry.Error {
		explained, _ := errors.AsType[*registry.Error](registry.Explain("polling", ref, &net.OpError{Op: "dial", Err: err}))
		return *explained
	}
	pull := source.Access{PullSecrets: []string{"pull"}}
	for _, test := range []struct {
		name    string
		spec    source.Access
		missing []string
		failure registry.Error
		want    string
	}{
		{name: "not found", failure: registry.Error{Kind: registry.NotFound, Host: "quay.io"}, want: "Push the image, or correct its reference"},
		{name: "not found at a mirror", failure: registry.Error{Kind: registry.NotFound, Host: "mirror.example"}},
		{
			name:    "no credentials",
			failure: registry.Error{Kind: registry.Unauthorized, Host: "quay.io"},
			want:    "Name a Secret with credentials for quay.io in spec.registry.pullSecrets",
		},
		{
			name: "no credentials for the host", spec: pull, failure: registry.Error{Kind: registry.Unauthorized, Host: "mirror.example"},
			want: "No Secret of spec.registry.pullSecrets has an entry for mirror.example: add one",
		},
		{
			name: "global Secret missing", missing: []string{"ns/global"}, failure: registry.Error{Kind: registry.Unauthorized, Host: "quay.io"},
			want: "Name a Secret with credentials for quay.io in spec.registry.pullSecrets; pull Secret ns/global for all catalogs is " +
				"missing or cannot be read",
		},
		{
			name: "wrong credentials", spec: pull, failure: registry.Error{Kind: registry.Unauthorized, Host: "quay.io", File: "Secret pull"},
			want: "Correct Secret pull, or grant its user access",
		},
		{
			name:    "client certificate",
			failure: registry.Error{Kind: registry.ClientCertificate},
			want:    "Name a Secret with a certificate that the registry accepts in spec.registry.clientCertificate",
		},
		{
			name: "another client certificate", spec: source.Access{ClientCertificate: "client"},
			failure: registry.Error{Kind: registry.ClientCertificate},
			want:    "Put a certificate that the registry accepts into Secret client of spec.registry.clientCertificate",
		},
		{
			name:    "plain HTTP",
			failure: registry.Error{Kind: registry.PlainHTTP, Host: "quay.io"},
			want:    "To allow plain HTTP, set spec.registry.insecure",
		},
		{
			name:    "plain HTTP of a mirror",
			failure: registry.Error{Kind: registry.PlainHTTP, Host: "mirror.example"},
			want:    "To allow plain HTTP, set insecure for the mirror mirror.example",
		},
		{
			name:    "proxy of the environment",
			failure: registry.Error{Kind: registry.Proxy},
			want:    "Correct HTTPS_PROXY of catalogd, or name a proxy in spec.registry.proxy",
		},
		{
			name: "proxy", spec: source.Access{Proxy: "proxy"},
			failure: registry.Error{Kind: registry.Proxy}, want: "Correct Secret proxy of spec.registry.proxy, or the proxy",
		},
		{name: "down", failure: registry.Error{Kind: registry.Unreachable, Host: "quay.io"}},
		{name: "refused", failure: dial(syscall.ECONNREFUSED), want: "Check the port, and whether quay.io is running"},
		{
			name: "no route", spec: source.Access{Defaults: "catalogd-cluster-catalogs"}, failure: dial(syscall.EHOSTUNREACH),
			want: "Check the network between catalogd and quay.io, and whether it requires a proxy " +
				"(proxy of registry.yaml in ConfigMap catalogd-cluster-catalogs)",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Context{Image: "quay.io/ns/catalog:latest", Access: test.spec, Missing: test.missing}
			got, want := c.WithRemedy(&test.failure).Error(), test.failure.Error()
			if test.want != "" {
				want += ". " + test.want
			}
			if got != want {
				t.Errorf("got\n %q, want\n %q", got, want)
			}
		})
	}
}
