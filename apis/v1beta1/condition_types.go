package v1beta1

// Condition types of a CatalogSource. All are of positive polarity: True is the good state. All are present from
// the first reconciliation on. Messages are sentences for people.
const (
	// ReadyCondition summarises the others as kstatus expects, so that `kubectl wait --for=condition=Ready` works:
	// True when the wanted content is served and its packages are published. False says what is amiss in the words
	// of the condition at fault; content that is served meanwhile stays served (see ServingCondition).
	// Reasons: Succeeded, Suspended (True), Unpacking, InvalidPackages, Unavailable, UserSpecifiedUnavailable, Retrying, Blocked, SyncFailed,
	// and where it is known what is amiss with the image, its registry or the access to it, the reasons that say that (False).
	ReadyCondition = "Ready"

	// ServingCondition says whether the HTTP service answers for this catalog, with this or with earlier content.
	// Reasons: Available (True), Unavailable, UserSpecifiedUnavailable (False).
	ServingCondition = "Serving"

	// ProgressingCondition says whether catalogd is able to follow the image. It is True while polling works or is
	// retried, and False when only a change made by a person (or a new image) helps.
	// Reasons: Succeeded, Unpacking, Retrying (True), Blocked, Suspended, UserSpecifiedUnavailable (False).
	ProgressingCondition = "Progressing"

	// PackagesSyncedCondition says whether the OperatorPackages equal the served content.
	// Reasons: Synced, InvalidPackages (True), Unpacking, SyncFailed, Unavailable, UserSpecifiedUnavailable (False).
	PackagesSyncedCondition = "PackagesSynced"

	// TemplatesHaveResolvedCondition says whether the image could be made of its template. It is there only where a
	// template is used.
	// Reasons: AllTemplatesResolved (True), UnableToResolve (False).
	TemplatesHaveResolvedCondition = "TemplatesHaveResolved"
)

// Condition reasons of a CatalogSource.
const (
	// AvailableReason: the catalog is served.
	AvailableReason = "Available"

	// UnavailableReason: there is nothing to serve yet.
	UnavailableReason = "Unavailable"

	// UserSpecifiedUnavailableReason: spec.availability is Unavailable.
	UserSpecifiedUnavailableReason = "UserSpecifiedUnavailable"

	// UnpackingReason: the catalog is new, and its image is being unpacked for the first time, or its packages are being examined.
	UnpackingReason = "Unpacking"

	// SucceededReason: the last poll and, where the digest was new, the unpacking of it succeeded.
	SucceededReason = "Succeeded"

	// RetryingReason: the last attempt failed in a way that may pass, such as a registry that does not answer.
	RetryingReason = "Retrying"

	// BlockedReason: the last attempt failed in a way that stays until somebody changes the object or the image.
	BlockedReason = "Blocked"

	// SuspendedReason: spec.suspend is true.
	SuspendedReason = "Suspended"

	// SyncedReason: there is one current OperatorPackage for each package of the content.
	SyncedReason = "Synced"

	// InvalidPackagesReason: as Synced, but packages that fail validation were left out; status.content names them.
	InvalidPackagesReason = "InvalidPackages"

	// SyncFailedReason: the API server refused or failed a write of an OperatorPackage; it is retried.
	SyncFailedReason = "SyncFailed"

	// AllTemplatesResolvedReason: the image was made of its template.
	AllTemplatesResolvedReason = "AllTemplatesResolved"

	// UnableToResolveReason: the template has a variable that is not known or that the cluster's version does not give.
	UnableToResolveReason = "UnableToResolve"
)

// Reasons of Ready=False that say more than Progressing does, which has Retrying or Blocked then.
const (
	// AccessInvalidReason: a Secret or ConfigMap of spec.registry is missing, or cannot be used.
	AccessInvalidReason = "AccessInvalid"

	// UnauthorizedReason: the registry wants credentials, or other ones.
	UnauthorizedReason = "Unauthorized"

	// ImageNotFoundReason: the registry has no such image or tag.
	ImageNotFoundReason = "ImageNotFound"

	// RateLimitedReason: the registry asked to wait.
	RateLimitedReason = "RateLimited"

	// RegistryUnreachableReason: no answer came from the registry.
	RegistryUnreachableReason = "RegistryUnreachable"

	// RegistryFailedReason: the registry answered with an error, or broke off.
	RegistryFailedReason = "RegistryFailed"

	// RegistryBlockedReason: catalogd's registries.conf forbids the image.
	RegistryBlockedReason = "RegistryBlocked"

	// CertificateNotTrustedReason: the registry's certificate is not valid, or nobody trusted signed it.
	CertificateNotTrustedReason = "CertificateNotTrusted"

	// ClientCertificateRefusedReason: the registry wants a client certificate, or another one.
	ClientCertificateRefusedReason = "ClientCertificateRefused"

	// ProxyFailedReason: the proxy cannot be reached, or refuses.
	ProxyFailedReason = "ProxyFailed"

	// StorageFullReason: catalogd's volume, or what it may take of it, has no room for the content.
	StorageFullReason = "StorageFull"

	// StorageFailedReason: catalogd's volume cannot be written or read.
	StorageFailedReason = "StorageFailed"

	// InsecureRefusedReason: the registry speaks plain HTTP, and spec.registry.insecure is not set.
	InsecureRefusedReason = "InsecureRefused"

	// DigestMismatchReason: what the registry gave is not what its digest says.
	DigestMismatchReason = "DigestMismatch"

	// CatalogTooLargeReason: the files of the catalog exceed --max-unpacked-bytes together.
	CatalogTooLargeReason = "CatalogTooLarge"

	// FileTooLargeReason: a file of the catalog exceeds --max-file-bytes.
	FileTooLargeReason = "FileTooLarge"

	// TooManyFilesReason: the catalog has more files and directories than --max-files.
	TooManyFilesReason = "TooManyFiles"

	// CompressionRatioReason: a layer of the image unpacks to more than --max-compression-ratio times its size.
	CompressionRatioReason = "CompressionRatioExceeded"

	// DatabaseTooLargeReason: the SQLite database of a legacy index exceeds --max-database-bytes.
	DatabaseTooLargeReason = "DatabaseTooLarge"

	// BlobTooLargeReason: a blob of the catalog exceeds --max-blob-bytes.
	BlobTooLargeReason = "BlobTooLarge"
)
