package sync

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

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
	case registry.Unauthorized, registry.Untrusted, registry.ClientCertificate, registry.PlainHTTP, registry.Blocked:
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

// imageRemedy says, behind a fault of an image, what helps.
func imageRemedy(err error) string {
	if _, ok := errors.AsType[*unpack.LimitError](err); ok || errors.Is(err, fbc.ErrBlobTooLarge) {
		return ". Make it smaller and push it again, or raise the limit of catalogd"
	}
	var image *unpack.InvalidImageError
	if errors.As(err, &image) && image.ConfigDir {
		return "" // it says what to set
	}
	return ". Correct the image and push it again"
}

// withRemedy adds to a fault of registries what the admin can do about it: for the image's own, and for each mirror.
func (rec *reconciliation) withRemedy(err error) error {
	fault, ok := errors.AsType[*registry.Error](err)
	if !ok {
		return err
	}
	var remedies []string
	for _, failure := range fault.All() {
		if remedy := rec.remedy(failure); remedy != "" && !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	if len(remedies) == 0 {
		return err
	}
	return fmt.Errorf("%w. %s", err, strings.Join(remedies, ". "))
}

// remedy is what helps against one registry's failure; "" if there is nothing but to wait.
func (rec *reconciliation) remedy(failure *registry.Error) string {
	switch failure.Kind {
	case registry.NotFound:
		if rec.isMirror(failure) {
			return ""
		}
		return "Push the image, or correct its reference"
	case registry.Unauthorized:
		return rec.credentialsRemedy(failure)
	case registry.Untrusted:
		return trustRemedy(failure)
	case registry.ClientCertificate:
		if ref := rec.spec().ClientCertificate; ref != nil {
			return fmt.Sprintf("Put a certificate that it accepts into Secret %s of spec.registry.clientCertificate", ref.Name)
		}
		return "Name a Secret with a certificate that it accepts in spec.registry.clientCertificate"
	case registry.PlainHTTP:
		if rec.isMirror(failure) {
			return fmt.Sprintf("If that is meant, set insecure of the mirror %s", failure.Host)
		}
		return "If that is meant, set spec.registry.insecure"
	case registry.Blocked:
		return "Name another image or mirror, or have catalogd's --registries-conf changed"
	case registry.Proxy:
		if ref := rec.spec().Proxy; ref != nil {
			return fmt.Sprintf("Correct Secret %s of spec.registry.proxy, or the proxy", ref.Name)
		}
		return "Correct HTTPS_PROXY of catalogd, or name a proxy in spec.registry.proxy"
	case registry.RateLimited:
		return "It is asked again when it allows that"
	case registry.Unreachable:
		return failure.Check()
	}
	return ""
}

// isMirror tells whether it is another registry than the image's own that failed.
func (rec *reconciliation) isMirror(failure *registry.Error) bool {
	ref, err := name.ParseReference(rec.image)
	return err == nil && failure.Host != ref.Context().RegistryStr()
}

func (rec *reconciliation) spec() v1beta1.RegistryAccess {
	if rec.catalog.Spec.Registry == nil {
		return v1beta1.RegistryAccess{}
	}
	return *rec.catalog.Spec.Registry
}

func (rec *reconciliation) credentialsRemedy(failure *registry.Error) string {
	if failure.File != "" {
		return fmt.Sprintf("Correct %s, or what its user may do there", failure.File)
	}
	remedy := fmt.Sprintf("Name a Secret with credentials for %s in spec.registry.pullSecrets", failure.Host)
	if len(rec.spec().PullSecrets) > 0 {
		remedy = fmt.Sprintf("No Secret of spec.registry.pullSecrets has an entry for %s: add one", failure.Host)
	}
	if len(rec.missing) > 0 {
		remedy += fmt.Sprintf("; for all catalogs there should be Secret %s, which is missing or not to be read", strings.Join(rec.missing, ", "))
	}
	return remedy
}

func trustRemedy(failure *registry.Error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](failure); ok {
		return fmt.Sprintf("If %s is the right one, name the certificate of its authority in spec.registry.caBundle", failure.Host)
	}
	if _, ok := errors.AsType[x509.HostnameError](failure); ok {
		return "Use a name that the certificate is for, or have one issued for this name"
	}
	return "Have the registry's certificate replaced"
}
