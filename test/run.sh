#!/usr/bin/env bash
# Runs the suites, each with a printed time budget, and brings the playground up once for those that need clusters.
#   test/run.sh [all|bench|soak|SUITE...]      suites: lint unit race playground image e2e
set -euo pipefail
cd "$(dirname "$0")/.."

# A budget is what a suite may take on 2 cores with cold caches. It is printed, not enforced: a slow machine is no bug.
declare -A budget=([assets]=900 [lint]=420 [unit]=900 [race]=300 [playground]=300 [image]=120 [e2e]=600 [bench]=900 [soak]=3600)
export CGO_ENABLED=${CGO_ENABLED:-0}
started=$SECONDS
out=$(mktemp -d)

finish() {
	local rc=$?
	[ -n "${cluster_prefix:-}" ] && down
	rm -rf "$out"
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

gotest() { # go test with one line per package, the whole output of what failed, and no silent skips in CI
	local log=$out/test.log
	go test -v "$@" >"$log" 2>&1 || { grep -vE '^(=== |    --- PASS|--- PASS|PASS)' "$log"; return 1; }
	grep -E '^(ok|FAIL)' "$log" || true
	if grep -E '^\s*--- SKIP' "$log" && [ -n "${CI:-}" ]; then
		echo "a skipped test is a failure in CI"
		return 1
	fi
}

need() { # Debian packages that Go does not bring: PROGRAM PACKAGE
	command -v "$1" >/dev/null && return
	command -v apt-get >/dev/null || { echo "install $2 (it provides $1), then run this again"; return 1; }
	echo "installing $2"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null
}

suite_assets() {
	make --no-print-directory playground
	bin/playground assets
}

suite_lint() {
	local unformatted
	unformatted=$(gofmt -l $(git ls-files '*.go'))
	[ -z "$unformatted" ] || { echo "not formatted: $unformatted"; return 1; }
	make --no-print-directory lint generate
	git diff --exit-code -- api deploy docs || { echo "generated files are not up to date: run make generate and commit"; return 1; }
}

product() { go list ./... | grep -v '/test/'; }

suite_unit() { gotest -p 2 $(product); }

suite_race() {
	need gcc gcc
	CGO_ENABLED=1 gotest -race -p 1 ./internal/mirror ./internal/remote ./internal/kube
}

suite_playground() { (cd playground && gotest ./...); }

suite_image() { make --no-print-directory image build; }

down() { bin/playground down --clusters "$cluster_prefix" || true; cluster_prefix=; }

clusters() { # brings up two clusters, once
	[ -n "${cluster_prefix:-}" ] && return
	make --no-print-directory playground
	cluster_prefix=a,b
	bin/playground up --clusters 2 --workers 1 --pod-cidr-overlap --audit
	bin/playground load dist/liqo.tar
	LIQO_E2E_KUBECONFIGS=$(bin/playground kubeconfig a),$(bin/playground kubeconfig b)
	export LIQO_E2E_KUBECONFIGS
}

suite_e2e() {
	clusters
	gotest -count=1 -timeout 30m ./test/e2e/...
}

suite_bench() { echo "no ratios are asserted yet"; return 1; }
suite_soak() { echo "no soak yet"; return 1; }

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
