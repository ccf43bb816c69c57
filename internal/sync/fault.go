package sync

import (
	"errors"
	"fmt"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// blockedError is a fault that stays until somebody changes the object or the image; any other is worth a retry.
type blockedError struct{ err error }

func (e *blockedError) Error() string { return e.err.Error() }
func (e *blockedError) Unwrap() error { return e.err }

// reasonedError is an error whose condition reason is known.
type reasonedError struct {
	reason string
	err    error
}

func (e *reasonedError) Error() string { return e.err.Error() }
func (e *reasonedError) Unwrap() error { return e.err }

// retried tells whether it is worth trying again though nobody did anything.
func retried(err error) bool {
	var blocked *blockedError
	return err != nil && !errors.As(err, &blocked)
}

// needsPerson tells whether a person has to do something: correct the object, the image, or what gives access to its
// registry. Access is tried again all the same, as it may be mended at the registry.
func needsPerson(err error) bool {
	switch registry.KindOf(err) {
	case registry.Configuration, registry.Unauthorized, registry.Untrusted, registry.ClientCertificate, registry.PlainHTTP, registry.Blocked:
		return true
	}
	return err != nil && (!retried(err) || reasonOf(err) == v1beta1.AccessInvalidReason)
}

// registryReasons are the reasons of Ready for what registries do.
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

// limitReasons are the reasons of Ready for images that exceed a limit.
var limitReasons = map[string]string{
	unpack.LimitTotalBytes:       v1beta1.CatalogTooLargeReason,
	unpack.LimitFileBytes:        v1beta1.FileTooLargeReason,
	unpack.LimitFiles:            v1beta1.TooManyFilesReason,
	unpack.LimitCompressionRatio: v1beta1.CompressionRatioReason,
	unpack.LimitDatabaseBytes:    v1beta1.DatabaseTooLargeReason,
}

// reasonOf returns the reason of Ready for a fault; "" where the reason of Progressing says all.
func reasonOf(err error) string {
	if known, ok := errors.AsType[*reasonedError](err); ok {
		return known.reason
	}
	if limit, ok := errors.AsType[*unpack.LimitError](err); ok {
		return limitReasons[limit.Limit]
	}
	if errors.Is(err, fbc.ErrBlobTooLarge) {
		return v1beta1.BlobTooLargeReason
	}
	return registryReasons[registry.KindOf(err)]
}

// imageRemedy says what helps against a fault of an image.
func imageRemedy(err error) string {
	if _, ok := errors.AsType[*unpack.LimitError](err); ok || errors.Is(err, fbc.ErrBlobTooLarge) {
		return "Make it smaller and push it again, or raise the limit of catalogd"
	}
	return "Correct the image and push it again"
}

// withRemedy adds to a fault of a registry what the admin can do about it.
func (rec *reconciliation) withRemedy(err error) error {
	remedy := ""
	switch registry.KindOf(err) {
	case registry.NotFound:
		remedy = "Push the image, or correct its reference"
	case registry.Unauthorized:
		remedy = "Name a Secret with credentials for it in spec.registry.pullSecrets"
		if fault, ok := errors.AsType[*registry.Error](err); ok && fault.File != "" {
			remedy = fmt.Sprintf("Correct %s, or what its user may do there", fault.File)
		}
	case registry.Untrusted:
		remedy = "If it is the right one, name the certificate of its authority in spec.registry.caBundle"
	case registry.ClientCertificate:
		remedy = "Name a Secret with a certificate that it accepts in spec.registry.clientCertificate"
	case registry.PlainHTTP:
		remedy = "If that is meant, set spec.registry.insecure"
	case registry.Blocked:
		remedy = "Name another image, or have catalogd's --registries-conf changed"
	case registry.Proxy:
		remedy = "Correct HTTPS_PROXY of catalogd, or name a proxy in spec.registry.proxy"
		if spec := rec.catalog.Spec.Registry; spec != nil && spec.Proxy != nil {
			remedy = fmt.Sprintf("Correct Secret %s of spec.registry.proxy, or the proxy", spec.Proxy.Name)
		}
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%w. %s", err, remedy)
}
