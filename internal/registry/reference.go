package registry

// ReferenceForm is the remedy for an invalid image reference.
const ReferenceForm = "write registry/repository:tag, all lower case except the tag, or registry/repository@sha256: and 64 hex digits"
