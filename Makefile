# Targets of the project. `make` alone lists them; `make demo` and `make test` are all a newcomer needs.
SHELL := /bin/bash
export CGO_ENABLED ?= 0
# Programs, tests and checks share what is compiled, because all of it is compiled alike.
export GOFLAGS := $(sort $(shell go env GOFLAGS 2>/dev/null) -trimpath -buildvcs=false)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X liqo.io/liqo/internal/app/program.Version=$(VERSION) -X liqo.io/liqo/internal/ctl/cluster.Version=$(VERSION)
TOOL := go tool -modfile=tools/go.mod
PLAYGROUND := bin/playground

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test check build image release release-push assets playground generate lint soak bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## two real clusters on this machine, peered, with an application on both
	@demo/run.sh

demo-down: ## remove everything the demo started
	@demo/run.sh --down

test: ## every test that a change must pass: unit, golden, API server, end to end
	@test/run.sh

check: ## in minutes: format, vet, generated files, and tests of the packages that a change touches
	@test/run.sh check

build: ## bin/liqo, bin/virtual-kubelet and bin/liqoctl
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

image: ## dist/liqo.tar, the one image
	go run ./deploy/image --version $(VERSION) --output dist/liqo.tar

release: ## dist/release, all that a release has; VERSION=v0.2.0, and REGISTRY, DOWNLOADS, COSIGN_PRIVATE_KEY (see CONTRIBUTING.md)
	go -C tools run ./release make --root .. --output ../dist/release --version '$(VERSION)' $(if $(REGISTRY),--registry '$(REGISTRY)') \
		$(if $(DOWNLOADS),--downloads '$(DOWNLOADS)') $(if $(BUILDER),--builder '$(BUILDER)') $(if $(SOURCE),--source '$(SOURCE)')

release-push: ## push image, chart and signatures of dist/release to their registry
	go -C tools run ./release push --from ../dist/release

playground: ## bin/playground, the program that runs clusters on this machine
	cd playground && go build -o ../$(PLAYGROUND) .

assets: playground ## the API server and etcd that tests start
	@$(PLAYGROUND) assets

generate: ## deep copies, CRDs, RBAC, the parts of docs/ that come from code: leaves a clean tree
	$(TOOL) controller-gen object:headerFile=tools/header.go.txt paths=./api/...
	go -C tools run ./gen ..
	go test ./deploy -run 'TestDefaultInstallation|TestDelegatedRoles|TestGatewayTemplateExamples' -update
	go test ./docs ./internal/ctl ./internal/virtualkubelet/translate -run 'Listed|TestCommandReference|TestPodFieldsPage' -update

# Hyperkube and kubectl are files that call Kubernetes: to check them, staticcheck would go through all of that.
lint: ## vet, staticcheck and actionlint
	go vet ./... && $(TOOL) staticcheck ./... && $(TOOL) actionlint
	check=$$($(TOOL) -n staticcheck) && cd playground && go vet ./... && "$$check" $$(go list ./... | grep -v '/hyperkube$$\|/kubectl$$')

soak: ## faults under load, three clusters at once and a minute of each fuzz target, within two hours
	@test/run.sh soak

bench: ## what offloading costs and what the network does, against promises
	@test/run.sh bench

docs: ## dist/site, the documentation as a site with search; open dist/site/index.html
	rm -rf dist/site && go -C tools run ./site .. ../dist/site

clean: ## remove what was built and every cluster of the playground, those of the demo, of tests and of benchmarks
	-test ! -x $(PLAYGROUND) || { $(PLAYGROUND) down; test/run.sh down; }
	rm -rf bin dist
