# Targets of the project. `make` lists them; start with `make demo` and `make test`.
SHELL := /bin/bash
export CGO_ENABLED ?= 0
# The same flags for programs, tests and checks, so that they share the build cache.
export GOFLAGS := $(sort $(shell go env GOFLAGS 2>/dev/null) -trimpath -buildvcs=false)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X liqo.io/liqo/internal/app/program.Version=$(VERSION) -X liqo.io/liqo/internal/ctl/cluster.Version=$(VERSION)
TOOL := go tool -modfile=tools/go.mod
PLAYGROUND := bin/playground

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test check build image release release-push assets playground generate lint soak bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## two peered clusters on this machine, with an application on both; CLUSTERS=a.kubeconfig,b.kubeconfig uses yours
	@demo/run.sh

demo-down: ## remove the clusters of the demo
	@demo/run.sh --down

test: ## all tests that a change must pass: unit, golden, API server, end to end
	@test/run.sh

check: ## format, vet, generated files, and tests of the packages that a change affects; takes minutes
	@test/run.sh check

build: ## bin/liqo, bin/virtual-kubelet and bin/liqoctl
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

image: ## dist/liqo.tar, the image of all components
	go run ./deploy/image --version $(VERSION) --output dist/liqo.tar

release: ## dist/release, the files of a release; VERSION=v0.2.0, and REGISTRY, DOWNLOADS, COSIGN_PRIVATE_KEY (see CONTRIBUTING.md)
	go -C tools run ./release make --root .. --output ../dist/release --version '$(VERSION)' $(if $(REGISTRY),--registry '$(REGISTRY)') \
		$(if $(DOWNLOADS),--downloads '$(DOWNLOADS)') $(if $(BUILDER),--builder '$(BUILDER)') $(if $(SOURCE),--source '$(SOURCE)')

release-push: ## push image, chart and signatures of dist/release to their registry
	go -C tools run ./release push --from ../dist/release

playground: ## bin/playground, which runs clusters on this machine
	cd playground && go build -o ../$(PLAYGROUND) .

assets: playground ## kube-apiserver and etcd for tests
	@$(PLAYGROUND) assets

generate: ## deep copies, CRDs, RBAC, generated parts of docs/
	$(TOOL) controller-gen object:headerFile=tools/header.go.txt paths=./api/...
	go -C tools run ./gen ..
	go test -vet=off ./deploy -run 'TestDefaultInstallation|TestMonitorManifests|TestDelegatedRoles|TestGatewayTemplateExamples' -update
	go test -vet=off ./docs ./internal/ctl ./internal/virtualkubelet/translate -run 'Listed|TestCommandReference|TestPodFieldsPage' -update

# Hyperkube and kubectl are excluded, because staticcheck would load all of Kubernetes to check their main functions.
lint: ## vet, staticcheck and actionlint
	go vet ./... && $(TOOL) staticcheck ./... && $(TOOL) actionlint
	check=$$($(TOOL) -n staticcheck) && cd playground && go vet ./... && "$$check" $$(go list ./... | grep -v '/hyperkube$$\|/kubectl$$')

soak: ## faults under load, three clusters and all fuzz targets; takes up to two hours
	@test/run.sh soak

bench: ## performance of offloading and the network, compared with limits
	@test/run.sh bench

docs: ## dist/site, the documentation with search; open dist/site/index.html
	rm -rf dist/site && go -C tools run ./site .. ../dist/site

clean: ## remove build results and all clusters of the demo, tests and benchmarks
	-test ! -x $(PLAYGROUND) || { $(PLAYGROUND) down; test/run.sh down; }
	rm -rf bin dist
