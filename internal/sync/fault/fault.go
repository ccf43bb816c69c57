// Package fault classifies what keeps a catalog from its content: the condition reason, whether a retry can help, and what
// an admin can do about it. All of it depends only on the error and the catalog's settings.
package fault

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// blocked is a fault that stays until somebody changes the object or the image.
type blocked struct{ error }

func (e *blocked) Unwrap() error { return e.error }

// Block marks err as a fault that no retry can clear.
func Block(err error) error { return &blocked{err} }

// reasoned is an error whose condition reason is known.
type reasoned struct {
	reason string
	error
}

func (e *reasoned) Unwrap() error { return e.error }

// WithReason returns err with its condition reason.
func WithReason(reason string, err error) error { return &reasoned{reason, err} }

// IsRetryable reports whether a retry can clear err. It is false for nil.
func IsRetryable(err error) bool {
	var b *blocked
	return err != nil && !errors.As(err, &b)
}

// NeedsPerson reports whether somebody must correct the object, the image, or the access to its registry. Access is
// retried all the same, since it may be corrected at the registry.
func NeedsPerson(err error) bool {
	switch registry.KindOf(err) {
	case registry.Unauthorized, registry.Untrusted, registry.ClientCertificate, registry.PlainHTTP, registry.Blocked:
		return true
	}
	return err != nil && (!IsRetryable(err) || Reason(err) == v1beta1.AccessInvalidReason)
}

// registryReasons are the condition reasons of registry errors.
var registryReasons = map[registry.Kind]string{
	registry.Unreachable:       v1beta1.RegistryUnreachableReason,
	registry.Unauthorized:      v1beta1.UnauthorizedReason,
	registry.NotFound:          v1beta1.ImageNotFoundReason,
	registry.RateLimited:       v1beta1.RateLimitedReason,
	registry.Answered:          v1beta1.RegistryFailedReason,
	registry.Stalled:           v1beta1.RegistryFailedReason,
	registry.Damaged:           v1beta1.DigestMismatchReason,
	registry.Untrusted:         v1beta1.CertificateNotTrustedReason,
	registry.ClientCertificate: v1beta1.ClientCertificateRefusedReason,
	registry.Proxy:             v1beta1.ProxyFailedReason,
	registry.PlainHTTP:         v1beta1.InsecureRefusedReason,
	registry.Configuration:     v1beta1.AccessInvalidReason,
	registry.Blocked:           v1beta1.RegistryBlockedReason,
}

// limitReasons are the condition reasons of images that exceed a limit.
var limitReasons = map[string]string{
	unpack.LimitTotalBytes:       v1beta1.CatalogTooLargeReason,
	unpack.LimitFileBytes:        v1beta1.FileTooLargeReason,
	unpack.LimitFiles:            v1beta1.TooManyFilesReason,
	unpack.LimitCompressionRatio: v1beta1.CompressionRatioReason,
	unpack.LimitDatabaseBytes:    v1beta1.DatabaseTooLargeReason,
}

// Reason returns the condition reason of err; "" if err has none of its own.
func Reason(err error) string {
	if known, ok := errors.AsType[*reasoned](err); ok {
		return known.reason
	}
	if limit, ok := errors.AsType[*unpack.LimitError](err); ok {
		return limitReasons[limit.Limit]
	}
	if errors.Is(err, scan.ErrBlobTooLarge) {
		return v1beta1.BlobTooLargeReason
	}
	if _, ok := errors.AsType[*subset.Error](err); ok {
		return v1beta1.FilterFailedReason
	}
	return registryReasons[registry.KindOf(err)]
}

// IsContest reports whether a server-side apply was refused since another program owns a field.
func IsContest(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// OfImage reports whether err says that the content of the image is invalid, or that the filter does not fit it, and returns it with
// its remedy.
func OfImage(err error) (isImage bool, remedied error) {
	if filter, ok := errors.AsType[*subset.Error](err); ok {
		if len(filter.Kept) > 0 {
			return true, fmt.Errorf("%w (defaultChannel of a rule of the package in spec.include or spec.exclude)", err)
		}
		return true, fmt.Errorf("%w. Correct spec.include or spec.exclude", err)
	}
	var image *unpack.InvalidImageError
	var file *scan.Error
	if !errors.As(err, &image) && !errors.As(err, &file) {
		return false, err
	}
	_, isLimit := errors.AsType[*unpack.LimitError](err)
	switch {
	case isLimit || errors.Is(err, scan.ErrBlobTooLarge):
		return true, fmt.Errorf("%w. Make it smaller and push it again, or raise catalogd's limit", err)
	case image != nil && image.ConfigDir: // it has its remedy
		return true, err
	}
	return true, fmt.Errorf("%w. Correct the image and push it again", err)
}

// Context is the input of a remedy besides the error.
type Context struct {
	Image   string
	Access  source.Access
	Missing []string // pull Secrets for all catalogs that cannot be read
}

// WithRemedy adds remedies to a registry error: for the image's own registry and for each mirror.
func (c Context) WithRemedy(err error) error {
	fault, ok := errors.AsType[*registry.Error](err)
	if !ok {
		return err
	}
	var remedies []string
	for _, failure := range fault.All() {
		if remedy := c.remedy(failure); remedy != "" && !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	if len(remedies) == 0 {
		return err
	}
	return fmt.Errorf("%w. %s", err, strings.Join(remedies, ". "))
}

// remedy returns what helps against the failure of one registry; "" if only time does.
func (c Context) remedy(failure *registry.Error) string {
	switch failure.Kind {
	case registry.NotFound:
		if c.isMirror(failure) {
			return ""
		}
		return "Push the image, or correct its reference"
	case registry.Unauthorized:
		return c.credentialsRemedy(failure)
	case registry.Untrusted:
		return c.trustRemedy(failure)
	case registry.ClientCertificate:
		if secret := c.Access.ClientCertificate; secret != "" {
			return fmt.Sprintf("Put a certificate that the registry accepts into Secret %s of %s", secret, c.Access.Field("clientCertificate"))
		}
		return fmt.Sprintf("Name a Secret with a certificate that the registry accepts in %s", c.Access.Field("clientCertificate"))
	case registry.PlainHTTP:
		if c.isMirror(failure) {
			return fmt.Sprintf("To allow plain HTTP, set insecure for the mirror %s", failure.Host)
		}
		return fmt.Sprintf("To allow plain HTTP, set %s", c.Access.Field("insecure"))
	case registry.Blocked:
		return "Name another image or mirror, or change catalogd's --registries-conf"
	case registry.Proxy:
		if secret := c.Access.Proxy; secret != "" {
			return fmt.Sprintf("Correct Secret %s of %s, or the proxy", secret, c.Access.Field("proxy"))
		}
		return fmt.Sprintf("Correct HTTPS_PROXY of catalogd, or name a proxy in %s", c.Access.Field("proxy"))
	case registry.RateLimited:
		return "catalogd retries when the registry allows it"
	case registry.Unreachable:
		return failure.Check(c.Access.Field("proxy"))
	}
	return ""
}

// isMirror reports whether a mirror failed, not the image's own registry.
func (c Context) isMirror(failure *registry.Error) bool {
	ref, err := name.ParseReference(c.Image)
	return err == nil && failure.Host != ref.Context().RegistryStr()
}

func (c Context) credentialsRemedy(failure *registry.Error) string {
	if failure.File != "" {
		return fmt.Sprintf("Correct %s, or grant its user access", failure.File)
	}
	remedy := fmt.Sprintf("Name a Secret with credentials for %s in %s", failure.Host, c.Access.Field("pullSecrets"))
	if len(c.Access.PullSecrets) > 0 {
		remedy = fmt.Sprintf("No Secret of %s has an entry for %s: add one", c.Access.Field("pullSecrets"), failure.Host)
	}
	if len(c.Missing) > 0 {
		remedy += fmt.Sprintf("; pull Secret %s for all catalogs is missing or cannot be read",
			strings.Join(c.Missing, ", "))
	}
	return remedy
}

func (c Context) trustRemedy(failure *registry.Error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](failure); ok {
		return fmt.Sprintf("If you trust %s, name its CA certificate in %s", failure.Host, c.Access.Field("caBundle"))
	}
	if _, ok := errors.AsType[x509.HostnameError](failure); ok {
		return "Use a host name that the certificate covers, or have a certificate issued for this one"
	}
	return "Replace the registry's certificate"
}
