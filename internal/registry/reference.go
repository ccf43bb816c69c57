package registry

// ReferenceForm says to people how an image reference is written.
const ReferenceForm = "write registry/repository:tag, in lower case but for the tag, or registry/repository@sha256: and 64 hex digits"
