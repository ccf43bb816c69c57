# Thin on purpose: each target is a few commands that can be run by hand as well. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Everything but -race compiles with the same flags, so that programs, e2e tests, linter and control plane share compiled
# packages. -buildvcs=false allows building in a checkout that git does not trust, such as a container's volume.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath -buildvcs=false
# Local builds keep their symbols, for profiles and debuggers. Release builds (hack/image, hack/krew) are stripped.
BUILD := go build -ldflags '-X main.version=$(VERSION)'
# Linking without debug information takes 40 % less time. Stack traces do not need it.
TEST := go test -ldflags=-w
# go compiles without output, which looks like a hang on a fresh machine.
ANNOUNCE = @[ -e $(1) ] || echo "Building $(1). The first build downloads modules and compiles for some minutes, without output."
TOOL := go tool -modfile=hack/tools/go.mod
# These print the directory of etcd, kube-apiserver and kubectl, and the paths of other programs that the e2e tests run.
# The first use builds or fetches them; later uses find them in the cache.
ASSETS := hack/controlplane/build.sh
REGISTRY := hack/registry/install.sh
BUILD_OPM := hack/opm/build.sh
BUILD_HELM := hack/helm/build.sh
BUILD_PEER := hack/operatorcontroller/build.sh
BUILD_OLM_V0 := hack/olmv0/build.sh
GET_PROMETHEUS := hack/prometheus/install.sh
# Without axe-core or Chromium, tests in a browser are skipped; in CI they fail.
GET_AXE := hack/axe/install.sh || true

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build bin/catalogd
	$(call ANNOUNCE,bin/catalogd)
	$(BUILD) -o bin/catalogd ./cmd/catalogd

.PHONY: plugin
plugin: ## Build bin/kubectl-catalog, and the script with which kubectl completes its arguments
	$(call ANNOUNCE,bin/kubectl-catalog)
	$(BUILD) -o bin/kubectl-catalog ./cmd/kubectl-catalog
	install cmd/kubectl-catalog/kubectl_complete-catalog bin/

# The directory that install-plugin installs to. DESTDIR, if set, is prepended.
PREFIX ?= /usr/local

.PHONY: install-plugin
install-plugin: plugin ## Install the plugin, with completion and manual pages; PREFIX=$HOME/.local (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install bin/kubectl-catalog bin/kubectl_complete-catalog $(DESTDIR)$(PREFIX)/bin/
	install -m 644 docs/cli/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/

# The URL of the published archives. Empty means the release of that version on GitHub.
PLUGIN_URL ?=

.PHONY: plugin-archives
plugin-archives: ## Build the plugin's archives for six platforms, and its krew manifest, in bin/plugin: VERSION=v1.2.3
	go run ./hack/krew --version $(VERSION) --url "$(PLUGIN_URL)"

# The platforms of the image. PLATFORMS=linux/amd64 takes a quarter of the time.
PLATFORMS ?= linux/amd64,linux/arm64,linux/ppc64le,linux/s390x
IMAGE := go run ./hack/image

.PHONY: image
image: ## Build the image in bin/image and bin/image.tar; PLATFORMS=linux/amd64 builds it for one platform
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} \
		$(IMAGE) --platforms $(PLATFORMS) --version $(VERSION) --revision $$(git rev-parse HEAD) build

.PHONY: push
push: ## Build the image and push it: IMG=registry.example/catalogd:v1
	@[ -n "$(IMG)" ] || { echo "IMG is required: make push IMG=registry.example/catalogd:v1" >&2; exit 1; }
	@$(MAKE) --no-print-directory image
	$(IMAGE) push $(IMG)

.PHONY: generate
generate: ## Generate deepcopy code, CRDs, RBAC, the chart's copies, the GraphQL executor, the dashboard and the plugin's docs
	$(TOOL) controller-gen object paths=./apis/...
	$(TOOL) controller-gen crd paths=./apis/v1beta1/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=catalogd paths=./internal/sync paths=./internal/sync/access paths=./internal/sync/publish \
		paths=./internal/sync/catalogsource paths=./internal/auth/... paths=./internal/certificate/... paths=./internal/lease/... \
		output:rbac:dir=config/rbac
	$(TOOL) controller-gen rbac:roleName=catalogd-cluster-catalogs paths=./internal/sync/clustercatalog/... \
		output:rbac:dir=config/components/cluster-catalogs/rbac
	$(TOOL) controller-gen rbac:roleName=catalogd-olm-v0 paths=./internal/sync/v0catalog/... paths=./internal/olmv0/... \
		output:rbac:dir=config/components/olm-v0/rbac
	cp config/crd/catalogd.*.yaml charts/catalogd/crds/
	cp config/rbac/role.yaml charts/catalogd/files/
	cp config/components/cluster-catalogs/rbac/role.yaml charts/catalogd/files/cluster_catalogs_role.yaml
	cp config/components/olm-v0/rbac/role.yaml charts/catalogd/files/olm_v0_role.yaml
	cp config/components/cluster-catalogs/rbac/anonymous_reader.yaml charts/catalogd/files/
	cp config/admission/catalogsources.yaml charts/catalogd/files/admission.yaml
	cp config/prometheus/rules.yaml charts/catalogd/files/
	$(TOOL) gqlgen generate --config internal/serve/graphql/gqlgen.yml
	go run ./hack/dashboard >config/prometheus/dashboard.json
	go run ./internal/cli/gendocs docs/cli

.PHONY: lint
lint: ## Lint: import rules, complexity, error handling, format (see .golangci.yaml)
	$(TOOL) golangci-lint run ./...

.PHONY: verify
verify: ## Generate, format, vet, lint and tidy; fail if a file changes
	hack/verify.sh

.PHONY: test
test: ## Run all tests of CI: unit and API server tests with -race, then e2e and e2e-node; prints the time of each tier
	@echo "== test tier 1 of 3: unit tests, and tests against a real kube-apiserver (go test -race)"
	assets=$$($(ASSETS)); packages=$$(go list ./... | grep -v /e2e); \
		AXE=$$($(GET_AXE)) CGO_ENABLED=1 KUBEBUILDER_ASSETS=$$assets $(TEST) -race -timeout 20m -p 3 -skip '$(SINGLE)' $$packages; \
		$(TEST) -run '$(SINGLE)' $(SINGLE_PACKAGES); \
		echo "== test tier 1 took $$SECONDS s"
	@$(MAKE) --no-print-directory -j3 e2e e2e-node # in parallel, as they mostly wait

# Tests of a single goroutine: at each of its steps, with each byte damaged, with each schema of SQLite, or of the generator
# of catalogs. -race could find nothing and would make them five times slower.
SINGLE := ^Test(CrashMatrix|FailureMatrix|EveryByte|OwnSchemas|ForeignSchemas|HostileDatabases|SameShapeSameBytes|GeneratedCatalogIsValid|Written)$$
SINGLE_PACKAGES := ./internal/store ./internal/unpack ./internal/testing/catalogs

# A release with another layout of the volume, for the tests of upgrades.
.PHONY: next
next:
	@go build -ldflags '-X main.version=next -X github.com/operator-catalogs/catalogd/internal/store.layoutVersion=2' \
		-o bin/catalogd-next ./cmd/catalogd

.PHONY: e2e
e2e: e2e-daemon e2e-plugin e2e-page ## Test the built binaries from outside, with a real control plane and registry

E2E = assets=$$($(ASSETS)); registry=$$($(REGISTRY)); opm=$$($(BUILD_OPM)); helm=$$($(BUILD_HELM)); \
	prometheus=$$($(GET_PROMETHEUS)); peer=$$($(BUILD_PEER)); upstream=$$($(BUILD_PEER) catalogd); \
	packages=$$($(BUILD_OLM_V0) packages); operator=$$($(BUILD_OLM_V0) catalog-operator); axe=$$($(GET_AXE)); \
	CATALOGD_BIN=$(abspath bin/catalogd) CATALOGD_NEXT=$(abspath bin/catalogd-next) \
	KUBECTL_CATALOG_BIN=$(abspath bin/kubectl-catalog) KUBEBUILDER_ASSETS=$$assets DISTRIBUTION_REGISTRY=$$registry \
	OPM=$$opm HELM=$$helm OPERATOR_CONTROLLER=$$peer UPSTREAM_CATALOGD=$$upstream OLM_V0_PACKAGES=$$packages \
	OLM_V0_CATALOG_OPERATOR=$$operator PROMETHEUS=$$prometheus AXE=$$axe $(TEST) -count=1 -timeout 30m

.PHONY: e2e-daemon
e2e-daemon: build plugin next
	@echo "== test tier 2 of 3: bin/catalogd from outside, with a real control plane and registry"
	$(E2E) -p 2 -skip '^Test(Plugin|Page)' $$(go list ./e2e/... | grep -v /e2e/node); echo "== test tier 2, bin/catalogd, took $$SECONDS s"

.PHONY: e2e-plugin
e2e-plugin: build plugin next
	@echo "== test tier 2 of 3: bin/kubectl-catalog, likewise"
	$(E2E) -run '^TestPlugin' ./e2e; echo "== test tier 2, bin/kubectl-catalog, took $$SECONDS s"

.PHONY: e2e-page
e2e-page: build plugin next ## Test the web page; where Chromium or axe-core is missing, tests in a browser are skipped
	@echo "== test tier 2 of 3: the web page, in Chromium"
	@hack/axe/possible.sh || echo "tests in a browser are skipped"
	$(E2E) $(GO_TEST_FLAGS) -run '^TestPage' ./e2e; echo "== test tier 2, the web page, took $$SECONDS s"

.PHONY: page-pictures
page-pictures: export PAGE_PICTURES = $(abspath $(DIR))
page-pictures: build plugin next ## Write docs/images and e2e/testdata/page; DIR=DIR writes a picture of each page, size and theme to DIR instead
	$(E2E) -run '$(if $(DIR),^TestPage($$|OfHostile|Login),^TestPage(Pictures)?$$/^outlines$$)' ./e2e $(if $(DIR),,-update)

.PHONY: e2e-node
e2e-node: plugin ## Test config/default on a real cluster of two nodes, as root; skipped where that is impossible
	@echo "== test tier 3 of 3: config/default on a real cluster of two nodes"
	@if hack/node/possible.sh; then \
		assets=$$($(ASSETS)); node=$$($(ASSETS) node); coredns=$$(hack/node/coredns/build.sh); registry=$$($(REGISTRY)); \
		$(IMAGE) --out bin/e2e --platforms linux/$$(go env GOARCH) --version $(VERSION) build; \
		CATALOGD_IMAGE=$(abspath bin/e2e/image) KUBECTL_CATALOG_BIN=$(abspath bin/kubectl-catalog) \
		KUBEBUILDER_ASSETS=$$assets NODE_ASSETS=$$node COREDNS=$$coredns DISTRIBUTION_REGISTRY=$$registry \
		$(TEST) -count=1 -timeout 30m $(GO_TEST_FLAGS) ./e2e/node; echo "== test tier 3 took $$SECONDS s"; \
	else echo "tier 3 is skipped"; fi

.PHONY: node
node: plugin ## Run a real cluster of two nodes until Ctrl-C, as root; DIR holds its files
	@exec hack/node/up.sh $(or $(DIR),.run/node)

# How long each fuzz target runs.
FUZZTIME ?= 60s

.PHONY: fuzz
fuzz: ## Run every fuzz target for a minute, or for FUZZTIME (CI: 3s)
	hack/fuzz.sh $(FUZZTIME)

.PHONY: run
run: build plugin ## Run everything locally until Ctrl-C; CATALOG=DIR runs your catalog, ARGS=FLAGS sets flags of catalogd
	$(BUILD) -o bin/run ./hack/run
	@exec bin/run

# The duration of the soak test, and the number of times it kills the daemon before.
SOAK ?= 10m
KILLS ?= 200

.PHONY: soak
soak: build ## Kill catalogd 200 times under load, then inject faults for 10 minutes; SOAK=1m KILLS=25, as CI does
	assets=$$($(ASSETS)); CATALOGD_BIN=$(abspath bin/catalogd) KUBEBUILDER_ASSETS=$$assets \
		go test -count=1 -v -timeout 3h ./e2e/soak -soak.duration=$(SOAK) -soak.kills=$(KILLS)

.PHONY: bench
bench: build plugin ## Measure catalogd against its yardsticks; ARGS=--help lists the flags
	assets=$$($(ASSETS)); KUBEBUILDER_ASSETS=$$assets go run ./bench $(ARGS)

.PHONY: clean
clean: ## Remove bin and .run (the control plane stays in the user's cache)
	rm -rf bin .run
