package page

// NewAPI is for tests that import packages which import this one.
var NewAPI = newAPI

// SampleCatalog is the catalog of `make run`.
const SampleCatalog = sampleCatalog
