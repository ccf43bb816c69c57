package page

// NewAPI is newAPI for tests in package page_test.
var NewAPI = newAPI

// SampleCatalog is the catalog of `make run`.
const SampleCatalog = sampleCatalog
