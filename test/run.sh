#!/usr/bin/env bash
# Runs the suites, each with a printed time budget, and brings the playground up once for those that need clusters.
#   test/run.sh [all|soak|bench|SUITE...]      suites: assets lint unit race playground image e2e
set -euo pipefail
cd "$(dirname "$0")/.."

# A budget is what a suite may take on 2 cores with cold caches. It is printed, not enforced: a slow machine is no bug.
declare -A budget=([assets]=600 [lint]=420 [unit]=900 [race]=420 [playground]=180 [image]=120 [e2e]=600 [soak]=2400 [bench]=1500)
export CGO_ENABLED=${CGO_ENABLED:-0}
started=$SECONDS

finish() {
	local rc=$?
	[ -z "${clusters_up:-}" ] || down
	exit $rc
}
trap finish EXIT
trap 'exit 130' INT TERM

suite() { # NAME: runs suite_NAME and says how long it took
	local at=$SECONDS
	printf '\n== %s (budget %d s)\n' "$1" "${budget[$1]}"
	if ! "suite_$1"; then
		printf '== %s FAILED after %d s\n' "$1" $((SECONDS - at))
		return 1
	fi
	printf '== %s passed in %d of %d s\n' "$1" $((SECONDS - at)) "${budget[$1]}"
}

gotest() { # one line per package, and the whole story of what failed; no test may skip: see internal/archtest
	go test "$@" | grep --line-buffered -v 'no test files'
}

need() { # Debian packages that Go does not bring: PROGRAM PACKAGE
	command -v "$1" >/dev/null && return
	command -v apt-get >/dev/null || { echo "install $2 (it provides $1), then run this again"; return 1; }
	echo "installing $2"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null
}

# Suites run where `set -e` does nothing (they are conditions), so every command of theirs is joined to the next by &&.

suite_assets() { make --no-print-directory playground && bin/playground assets; }

suite_lint() {
	local unformatted
	unformatted=$(gofmt -l $(git ls-files '*.go')) && [ -z "$unformatted" ] || { echo "not formatted: $unformatted"; return 1; }
	make --no-print-directory lint && make --no-print-directory generate &&
		{ git diff --exit-code -- api deploy || { echo "generated files are not up to date: run make generate and commit"; return 1; }; }
}

suite_unit() {
	local packages
	packages=$(go list ./... | grep -v '/test/e2e\|/test/soak') && gotest -p 2 $packages
}

suite_race() { need gcc gcc && CGO_ENABLED=1 gotest -race -p 1 ./internal/mirror ./internal/remote ./internal/kube; }

suite_playground() { (cd playground && gotest ./...); }

suite_image() { make --no-print-directory image build; }

down() { bin/playground down || true; clusters_up=; }

clusters() { # brings up two clusters, once
	[ -z "${clusters_up:-}" ] || return 0
	make --no-print-directory playground image build && clusters_up=yes &&
		bin/playground up --clusters 2 --workers 1 --pod-cidr-overlap --audit &&
		bin/playground load dist/liqo.tar &&
		LIQO_E2E_KUBECONFIGS=$(bin/playground kubeconfig a),$(bin/playground kubeconfig b) &&
		export LIQO_E2E_KUBECONFIGS
}

suite_e2e() { clusters && gotest -count=1 -timeout 30m ./test/e2e/...; }

suite_soak() { # the playground itself, then faults under load on clusters, orders with more seeds, every fuzz target for a minute
	(cd playground && gotest -tags selftest -timeout 20m ./selftest) || return 1
	clusters && gotest -count=1 -v -timeout 30m ./test/soak || return 1
	down
	LIQO_SEEDS=21 gotest -count=1 -v -timeout 20m -run 'TestAnyOrder' ./internal/app || return 1
	local file name
	grep -rno '^func Fuzz[A-Za-z]*' --include=*_test.go internal | sed 's/:[0-9]*:func / /' | while read -r file name; do
		gotest -run '^$' -fuzz "^$name\$" -fuzztime 60s "./${file%/*}" || return 1
	done
}

suite_bench() { # promises of speed, on clusters of its own that are made of the programs of the tests'
	local built=$LIQO_PLAYGROUND_HOME
	suite_image && make --no-print-directory playground && bin/playground build && (
		export LIQO_PLAYGROUND_HOME=$HOME/.cache/liqo-playground-bench LIQO_PLAYGROUND_NAME=liqobench LIQO_PLAYGROUND_NETWORK=172.27.0.0/16
		mkdir -p "$LIQO_PLAYGROUND_HOME" && ln -sfn "$built/bin" "$built/img" "$LIQO_PLAYGROUND_HOME/" || exit 1
		trap 'bin/playground down' EXIT
		bin/playground up --clusters a --audit && bin/playground up --clusters b --audit --simulated-nodes 20 &&
			bin/playground load dist/liqo.tar && go run ./test/bench
	)
}

# A playground of its own: tests neither meet a running demo nor take its clusters down.
export LIQO_PLAYGROUND_HOME=${LIQO_PLAYGROUND_HOME:-$HOME/.cache/liqo-playground-test}
export LIQO_PLAYGROUND_NAME=${LIQO_PLAYGROUND_NAME:-liqo-test} LIQO_PLAYGROUND_NETWORK=${LIQO_PLAYGROUND_NETWORK:-172.28.0.0/16}
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$LIQO_PLAYGROUND_HOME/bin}
case ${1:-all} in
all) list="assets lint unit race playground image e2e" ;;
*) list="$*" ;;
esac
for s in $list; do suite "$s"; done
printf '\nall of %s passed in %d s\n' "$list" $((SECONDS - started))
