package v1beta1

// Condition types of a CatalogSource. All are of positive polarity: True is the good state. All are present from
// the first reconciliation on. Messages are sentences for people.
const (
	// ReadyCondition summarises the others as kstatus expects, so that `kubectl wait --for=condition=Ready` works:
	// True when the wanted content is served and its packages are published. False says what is amiss in the words
	// of the condition at fault; content that is served meanwhile stays served (see ServingCondition).
	// Reasons: Succeeded, Suspended (True), Unpacking, InvalidPackages, Unavailable, UserSpecifiedUnavailable, Retrying, Blocked, SyncFailed.
	ReadyCondition = "Ready"

	// ServingCondition says whether the HTTP service answers for this catalog, with this or with earlier content.
	// Reasons: Available (True), Unavailable, UserSpecifiedUnavailable (False).
	ServingCondition = "Serving"

	// ProgressingCondition says whether catalogd is able to follow the image. It is True while polling works or is
	// retried, and False when only a change made by a person (or a new image) helps.
	// Reasons: Succeeded, Unpacking, Retrying (True), Blocked, Suspended, UserSpecifiedUnavailable (False).
	ProgressingCondition = "Progressing"

	// PackagesSyncedCondition says whether the OperatorPackages equal the served content.
	// Reasons: Synced, InvalidPackages (True), SyncFailed, Unavailable, UserSpecifiedUnavailable (False).
	PackagesSyncedCondition = "PackagesSynced"
)

// Condition reasons of a CatalogSource.
const (
	// AvailableReason: the catalog is served.
	AvailableReason = "Available"

	// UnavailableReason: there is nothing to serve yet.
	UnavailableReason = "Unavailable"

	// UserSpecifiedUnavailableReason: spec.availability is Unavailable.
	UserSpecifiedUnavailableReason = "UserSpecifiedUnavailable"

	// UnpackingReason: the catalog is new, and its image is being unpacked for the first time.
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
)
