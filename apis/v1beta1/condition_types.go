package v1beta1

// Condition types of a CatalogSource. True is the good state of each. All are present from the first reconciliation on,
// except TemplatesHaveResolved, ClusterCatalogSynced and OLMv0Synced. Messages are sentences for people.
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

	// ClusterCatalogSyncedCondition reports whether the ClusterCatalog of the catalog is up to date. It is present only
	// while spec.olmv1 is true.
	// Reasons: Synced (True), Disabled, NameTaken, Contested, SyncFailed (False).
	ClusterCatalogSyncedCondition = "ClusterCatalogSynced"

	// OLMv0SyncedCondition reports whether OLM v0 can use the catalog in each namespace of spec.olmv0. It is present only
	// while spec.olmv0 is set.
	// Reasons: Synced, Incomplete (True), Disabled, Unavailable, NameTaken, Forbidden, SyncFailed (False).
	OLMv0SyncedCondition = "OLMv0Synced"
)

// SeeInvalidPackages ends the message of a condition that does not name every invalid package. `kubectl catalog` replaces
// it with a command.
const SeeInvalidPackages = "See status.content.invalidPackages."

// Condition reasons of a CatalogSource.
const (
	AvailableReason                = "Available"                // the catalog is served
	UnavailableReason              = "Unavailable"              // no content has been unpacked yet
	UserSpecifiedUnavailableReason = "UserSpecifiedUnavailable" // spec.availability is Unavailable
	UnpackingReason                = "Unpacking"                // a new catalog is being unpacked, or its packages are being validated
	SucceededReason                = "Succeeded"                // the last poll succeeded, and so did unpacking a new digest
	RetryingReason                 = "Retrying"                 // the last attempt failed with a temporary error, such as a timeout
	BlockedReason                  = "Blocked"                  // the last attempt failed; only another object or image can help
	SuspendedReason                = "Suspended"                // spec.suspend is true
	SyncedReason                   = "Synced"                   // each package of the content has a current OperatorPackage
	InvalidPackagesReason          = "InvalidPackages"          // as Synced, but without invalid packages; status.content lists them
	SyncFailedReason               = "SyncFailed"               // writing an OperatorPackage failed; catalogd retries
	DisabledReason                 = "Disabled"                 // catalogd runs without --cluster-catalogs, or without --olm-v0
	NameTakenReason                = "NameTaken"                // an object that catalogd did not make has the same name
	IncompleteReason               = "Incomplete"               // as Synced, but OLM v0 cannot get some packages or bundles
	ForbiddenReason                = "Forbidden"                // catalogd may not write in a namespace of spec.olmv0
	ContestedReason                = "Contested"                // another program writes the ClusterCatalog's status
	AllTemplatesResolvedReason     = "AllTemplatesResolved"     // the image template was resolved
	UnableToResolveReason          = "UnableToResolve"          // the template has an unknown variable, or one without a value on this cluster
)

// Specific reasons of Ready=False. Progressing has Retrying or Blocked at the same time.
const (
	AccessInvalidReason            = "AccessInvalid"            // a Secret or ConfigMap of spec.registry is missing or invalid
	UnauthorizedReason             = "Unauthorized"             // the registry requires credentials or refused those it got
	ImageNotFoundReason            = "ImageNotFound"            // the registry has no such image or tag
	RateLimitedReason              = "RateLimited"              // the registry limits the rate of requests
	RegistryUnreachableReason      = "RegistryUnreachable"      // the registry did not answer
	RegistryFailedReason           = "RegistryFailed"           // the registry answered with an error or closed the connection
	RegistryBlockedReason          = "RegistryBlocked"          // catalogd's registries.conf blocks the image
	CertificateNotTrustedReason    = "CertificateNotTrusted"    // the registry's certificate is invalid or signed by an unknown authority
	ClientCertificateRefusedReason = "ClientCertificateRefused" // the registry requires a client certificate or refused the one it got
	ProxyFailedReason              = "ProxyFailed"              // the proxy is unreachable or refused the request
	StorageFullReason              = "StorageFull"              // the volume or --storage-limit has no room for the content
	StorageFailedReason            = "StorageFailed"            // reading or writing the volume failed
	InsecureRefusedReason          = "InsecureRefused"          // the registry speaks plain HTTP and spec.registry.insecure is not set
	DigestMismatchReason           = "DigestMismatch"           // the content from the registry does not match its digest
	CatalogTooLargeReason          = "CatalogTooLarge"          // the files of the catalog together exceed --max-unpacked-bytes
	FileTooLargeReason             = "FileTooLarge"             // a file of the catalog exceeds --max-file-bytes
	TooManyFilesReason             = "TooManyFiles"             // the number of files and directories exceeds --max-files
	CompressionRatioReason         = "CompressionRatioExceeded" // a layer of the image exceeds --max-compression-ratio
	DatabaseTooLargeReason         = "DatabaseTooLarge"         // the SQLite database of a legacy index exceeds --max-database-bytes
	FilterFailedReason             = "FilterFailed"             // spec.include and spec.exclude select nothing, or cannot be applied to the catalog
	BlobTooLargeReason             = "BlobTooLarge"             // a blob of the catalog exceeds --max-blob-bytes
)
