package v1beta1

// Condition types of a CatalogSource. True is the good state of each. All are present from the first reconciliation on,
// except TemplatesHaveResolved. Messages are sentences for people.
const (
	// ReadyCondition summarizes the other conditions as kstatus expects, so `kubectl wait --for=condition=Ready` works.
	// It is True when the requested content is served and its packages are published. False carries the message of the
	// failed condition; content that is already served stays served (see ServingCondition).
	// Reasons: Succeeded, Suspended (True), Unpacking, InvalidPackages, Unavailable, UserSpecifiedUnavailable, Retrying,
	// Blocked, SyncFailed, or the specific cause where it is known (False).
	ReadyCondition = "Ready"

	// ServingCondition reports whether the HTTP service serves this catalog, with current or earlier content.
	// Reasons: Available (True), Unavailable, UserSpecifiedUnavailable (False).
	ServingCondition = "Serving"

	// ProgressingCondition reports whether catalogd can poll and unpack the image. It is True while this works or is
	// retried, and False when only a person or a new image can help.
	// Reasons: Succeeded, Unpacking, Retrying (True), Blocked, Suspended, UserSpecifiedUnavailable (False).
	ProgressingCondition = "Progressing"

	// PackagesSyncedCondition reports whether the OperatorPackages match the served content.
	// Reasons: Synced, InvalidPackages (True), Unpacking, SyncFailed, Unavailable, UserSpecifiedUnavailable (False).
	PackagesSyncedCondition = "PackagesSynced"

	// TemplatesHaveResolvedCondition reports whether the image template was resolved. It is present only while a template
	// is used.
	// Reasons: AllTemplatesResolved (True), UnableToResolve (False).
	TemplatesHaveResolvedCondition = "TemplatesHaveResolved"
)

// Condition reasons of a CatalogSource.
const (
	// AvailableReason: the catalog is served.
	AvailableReason = "Available"

	// UnavailableReason: no content has been unpacked yet.
	UnavailableReason = "Unavailable"

	// UserSpecifiedUnavailableReason: spec.availability is Unavailable.
	UserSpecifiedUnavailableReason = "UserSpecifiedUnavailable"

	// UnpackingReason: the image of a new catalog is being unpacked, or its packages are being validated.
	UnpackingReason = "Unpacking"

	// SucceededReason: the last poll succeeded, and so did unpacking a new digest.
	SucceededReason = "Succeeded"

	// RetryingReason: the last attempt failed with an error that may pass, such as a registry timeout.
	RetryingReason = "Retrying"

	// BlockedReason: the last attempt failed with an error that stays until the object or the image changes.
	BlockedReason = "Blocked"

	// SuspendedReason: spec.suspend is true.
	SuspendedReason = "Suspended"

	// SyncedReason: each package of the content has a current OperatorPackage.
	SyncedReason = "Synced"

	// InvalidPackagesReason: as Synced, without the packages that failed validation; status.content lists them.
	InvalidPackagesReason = "InvalidPackages"

	// SyncFailedReason: writing an OperatorPackage failed; catalogd retries.
	SyncFailedReason = "SyncFailed"

	// AllTemplatesResolvedReason: the image template was resolved.
	AllTemplatesResolvedReason = "AllTemplatesResolved"

	// UnableToResolveReason: the template has an unknown variable, or one without a value on this cluster.
	UnableToResolveReason = "UnableToResolve"
)

// Specific reasons of Ready=False. Progressing has Retrying or Blocked at the same time.
const (
	// AccessInvalidReason: a Secret or ConfigMap of spec.registry is missing or invalid.
	AccessInvalidReason = "AccessInvalid"

	// UnauthorizedReason: the registry requires credentials or refused those it got.
	UnauthorizedReason = "Unauthorized"

	// ImageNotFoundReason: the registry has no such image or tag.
	ImageNotFoundReason = "ImageNotFound"

	// RateLimitedReason: the registry limits the rate of requests.
	RateLimitedReason = "RateLimited"

	// RegistryUnreachableReason: the registry did not answer.
	RegistryUnreachableReason = "RegistryUnreachable"

	// RegistryFailedReason: the registry answered with an error or closed the connection.
	RegistryFailedReason = "RegistryFailed"

	// RegistryBlockedReason: catalogd's registries.conf blocks the image.
	RegistryBlockedReason = "RegistryBlocked"

	// CertificateNotTrustedReason: the registry's certificate is invalid or signed by an unknown authority.
	CertificateNotTrustedReason = "CertificateNotTrusted"

	// ClientCertificateRefusedReason: the registry requires a client certificate or refused the one it got.
	ClientCertificateRefusedReason = "ClientCertificateRefused"

	// ProxyFailedReason: the proxy is unreachable or refused the request.
	ProxyFailedReason = "ProxyFailed"

	// StorageFullReason: the volume or --storage-limit has no room for the content.
	StorageFullReason = "StorageFull"

	// StorageFailedReason: reading or writing the volume failed.
	StorageFailedReason = "StorageFailed"

	// InsecureRefusedReason: the registry speaks plain HTTP and spec.registry.insecure is not set.
	InsecureRefusedReason = "InsecureRefused"

	// DigestMismatchReason: the content from the registry does not match its digest.
	DigestMismatchReason = "DigestMismatch"

	// CatalogTooLargeReason: the files of the catalog together exceed --max-unpacked-bytes.
	CatalogTooLargeReason = "CatalogTooLarge"

	// FileTooLargeReason: a file of the catalog exceeds --max-file-bytes.
	FileTooLargeReason = "FileTooLarge"

	// TooManyFilesReason: the number of files and directories exceeds --max-files.
	TooManyFilesReason = "TooManyFiles"

	// CompressionRatioReason: a layer of the image exceeds --max-compression-ratio.
	CompressionRatioReason = "CompressionRatioExceeded"

	// DatabaseTooLargeReason: the SQLite database of a legacy index exceeds --max-database-bytes.
	DatabaseTooLargeReason = "DatabaseTooLarge"

	// BlobTooLargeReason: a blob of the catalog exceeds --max-blob-bytes.
	BlobTooLargeReason = "BlobTooLarge"
)
