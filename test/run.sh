#!/usr/bin/env bash
# Runs test suites, prints the time and budget of each, and starts the clusters of the playground once for suites that need them.
#   test/run.sh [all|soak|bench|SUITE...]      suites of all: assets lint unit race playground image demo clusters;
#                                              unit runs modules, the tests of other modules, in parallel;
#                                              clusters runs e2e, guides, attacks and hub in parallel with network
#                                              parts of soak: several upgrade losses fuzz, and of bench: netbench;
#                                              gitops peers clusters by Argo CD and Flux, which are compiled first: half an hour;
#                                              skew runs consumers and providers of all supported versions of Kubernetes, which are
#                                              compiled first: ten minutes each;
#                                              cilium runs tests of the network between clusters of which one or both have Cilium, which is compiled first;
#                                              headlamp checks and builds the plugin for Headlamp, with packages of npm: minutes;
#                                              peerings prints how long peering takes, without limits
#   test/run.sh check                          before each commit: format, vet, generated files, and tests of the packages that a
#                                              change affects; BASE=revision sets its base, by default main
#   test/run.sh down                           removes the clusters of an interrupted run
set -euo pipefail
cd "$(dirname "$0")/.."
. demo/machine.sh

# Seconds that a suite may take on 2 cores with cold caches, 52 minutes in total. They are printed, not enforced, because machines differ.
declare -A budget=([check]=300 [assets]=460 [lint]=340 [unit]=900 [modules]=180 [race]=180 [playground]=60 [image]=60 [demo]=50 [e2e]=700 [guides]=150 [attacks]=120 [network]=620 [hub]=180 [clusters]=1090 [peerings]=180 [several]=300 [upgrade]=800 [losses]=1300 [gitops]=1500 [monitoring]=900 [cilium]=3000 [skew]=1500 [headlamp]=240 [fuzz]=1500 [soak]=7100 [netbench]=1200 [bench]=1600)
export CGO_ENABLED=${CGO_ENABLED:-0}
export GOGC=${GOGC:-200} # for compilers, checkers and API servers of tests; the clusters of the playground have their own setting
bench_network=172.27.0.0/16 demo_network=172.25.0.0/16 e2e_network=172.26.0.0/16 # networks of clusters that run in parallel with those of the tests
started_at=$SECONDS

[ -z "${LIQO_TEST_TIMES:-}" ] || nested=yes # the outer run prints the table
times=${LIQO_TEST_TIMES:-$(mktemp)}

finish() {
	local rc=$?
	[ -z "${clusters_up:-}" ] || remove_clusters
	[ -z "${parallel_pid:-}" ] || { kill -- "-$parallel_pid" && wait "$parallel_pid"; } || true # removes its clusters
	[ -n "${nested:-}" ] || rm -f "$times"
	exit $rc
}
trap finish EXIT
trap 'exit 130' INT TERM

run_suite() { # NAME: runs suite_NAME and prints how long it took
	local start=$SECONDS
	printf '\n== %s (budget %d s)\n' "$1" "${budget[$1]}"
	if ! "suite_$1"; then
		printf '== %s FAILED after %d s\n' "$1" $((SECONDS - start))
		return 1
	fi
	printf '== %s passed in %d of %d s\n' "$1" $((SECONDS - start)) "${budget[$1]}"
	printf '%-12s %6d s of %d s\n' "$1" $((SECONDS - start)) "${budget[$1]}" >>"$times"
}

start_parallel() { # COMMAND: runs a command in parallel, of which the last one is test/run.sh with other suites
	parallel_output=$(mktemp)
	(export assets_built image_built LIQO_TEST_TIMES=$times && "$@") >"$parallel_output" 2>&1 </dev/null &
	parallel_pid=$!
}

wait_parallel() { # prints the output of these suites
	local rc=0
	wait "$parallel_pid" || rc=1
	parallel_pid=
	cat "$parallel_output" && rm -f "$parallel_output"
	return $rc
}

# Suites with clusters wait most of the time, so e2e, guides, attacks and hub run in parallel with network, on separate clusters.
suite_clusters() {
	local rc=0
	suite_assets && bin/playground build --cni flannel,kube-router && suite_image || return 1 # once for both
	start_parallel run_beside_network
	run_suite network || rc=1
	[ -z "${clusters_up:-}" ] || remove_clusters
	echo 'waiting for e2e, guides, attacks and hub, which run on separate clusters'
	wait_parallel || rc=1
	return $rc
}

run_beside_network() { use_separate_clusters e2e "$e2e_network" && exec setsid test/run.sh e2e guides attacks hub; }

# Prints one line per package, and the output of failed tests. Skipped tests are forbidden by internal/archtest. Vet is disabled: lint runs it, and to vet
# a test takes minutes with cold caches, because vet loads its imports, among them Kubernetes. The timeout is for tests that hang, on slow machines.
gotest() {
	go test -vet=off -timeout 60m "$@" | grep --line-buffered -v 'no test files'
}

# Suites are conditions, in which `set -e` has no effect, so their commands are joined by &&.

suite_assets() { # part of other suites, so it runs once
	[ -n "${assets_built:-}" ] || { make --no-print-directory playground && bin/playground assets && assets_built=yes; }
}

hash_generated() { # prints hashes of the files that `make generate` may write, including untracked ones
	git ls-files -z --cached --others --exclude-standard -- api deploy docs | xargs -0 sha256sum 2>&1 || true # a file may be missing
}

suite_lint() {
	local unformatted before
	unformatted=$(gofmt -l $(git ls-files '*.go')) && [ -z "$unformatted" ] || { echo "not formatted: $unformatted"; return 1; }
	make --no-print-directory lint && before=$(hash_generated) && make --no-print-directory generate || return 1
	diff <(echo "$before") <(hash_generated) || { echo "generated files are out of date: run \"make generate\" and commit the result"; return 1; }
}

cluster_tests='/test/e2e\|/test/skew\|/test/attacks\|/test/network\|/test/hub\|/test/gitops\|/test/monitoring\|/test/several\|/test/soak\|/test/losses'

list_changed_files() { # since main, or since the last commit on main itself; includes uncommitted files
	local base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
	[ -n "${BASE:-}" ] || [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify 'HEAD~1' || echo "$base")
	{ git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard; } | sort -u
}

# list_affected_packages prints the packages of changed files and test data, and the packages that import one of them, also in tests.
list_affected_packages() {
	local folders
	folders=$(list_changed_files | grep -v '^playground/\|^tools/' | sed -n 's#/testdata/.*#/#; s#/[^/]*$##p' | sort -u)
	[ -n "$folders" ] || return 0
	go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | sed 's/ \[[^]]*\]//g' | awk -v folders="$folders" '
		BEGIN { n = split(folders, f, "\n"); for (i = 1; i <= n; i++) changed["liqo.io/liqo/" f[i]] = 1 }
		{ own = $1; sub(/(_test|\.test)$/, "", own); for (i = 1; i <= NF; i++) if ($i in changed || own in changed) { print own; next } }' |
		grep -v "$cluster_tests" | sort -u
}

suite_check() {
	local packages
	suite_lint && suite_assets && packages=$(list_affected_packages) || return 1
	[ -n "$packages" ] || { echo "no package is affected"; return 0; }
	gotest -p 3 $packages
}

# The longest packages first, so that none runs alone at the end; three in parallel, because tests also wait. Those of other modules, which mostly
# compile, run in parallel.
suite_unit() {
	local packages rc=0
	suite_assets && packages=$(go list ./internal/app ./internal/virtualkubelet ./internal/ctl && go list ./... | grep -v "$cluster_tests") || return 1
	start_parallel exec setsid test/run.sh modules
	gotest -p 3 $packages || rc=1
	wait_parallel || rc=1
	return $rc
}

suite_modules() { # part of unit
	(cd tools && gotest ./...) && (cd test/alerts && gotest ./...)
}

suite_race() { suite_assets && CGO_ENABLED=1 gotest -race ./internal/multicluster ./internal/kube ./internal/datapath/wg ./internal/ctl/ui; }

suite_playground() ( # the cluster test starts three clusters after a killed run
	cd playground && gotest ./... && gotest -count=1 -tags selftest -run 'TestSurvivesKilledRuns/1.5s' ./selftest
)

suite_image() { # runs once, like assets
	[ -n "${image_built:-}" ] || { make --no-print-directory image build && image_built=yes; }
}

remove_clusters() { bin/playground down || true; clusters_up=; }

remove_all_clusters() {
	bin/playground down && (use_separate_clusters bench "$bench_network" && bin/playground down) && (use_separate_clusters demo "$demo_network" && bin/playground down) &&
		(use_separate_clusters e2e "$e2e_network" && bin/playground down)
}

start_clusters() { # NODES [NAMES [CNI [KUBERNETES]]]: starts clusters (a,b) with a number of nodes, unless they are running
	local names=${2:-a,b} cni=${3:-masquerade} name
	[ "${clusters_up:-}" != "$1 $names $cni ${4:-}" ] || return 0
	make --no-print-directory playground && suite_image && clusters_up="$1 $names $cni ${4:-}" && bin/playground down && # also those of a killed run
		bin/playground up --clusters "$names" --workers "$1" --cni "$cni" --pod-cidr-overlap --audit ${4:+--kubernetes "$4"} &&
		bin/playground load dist/liqo.tar || return 1
	LIQO_E2E_KUBECONFIGS=
	for name in ${names//,/ }; do
		LIQO_E2E_KUBECONFIGS+=${LIQO_E2E_KUBECONFIGS:+,}$(bin/playground kubeconfig "$name") || return 1
	done
	export LIQO_E2E_KUBECONFIGS
}

suite_e2e() { # prints the time of each test, except for the many subtests of bad input, and the output of failed tests
	start_clusters 1 && gotest -count=1 -v ./test/e2e/... | grep --line-buffered -v '^=== \|^ *--- PASS: TestBadInput[A-Za-z]*/'
}

guides='^TestGuide(Peer|Authentication|Declarative)$' # tests of network that need no particular nodes and CNI

suite_guides() { # on the clusters of e2e, which removes Liqo
	start_clusters 1 && gotest -count=1 -v -run "$guides" ./test/network
}

suite_attacks() { # on the clusters of e2e or guides, which remove their objects; attacks do not remove their peering
	start_clusters 1 && gotest -count=1 -v ./test/attacks | grep --line-buffered -v '^=== \|^ \+--- PASS: ' && remove_clusters
}

suite_network() { # nodes of a have an overlay with a smaller MTU, those of b routes, and rules for each pod
	start_clusters 2 a,b flannel,kube-router && gotest -count=1 -v -skip "$guides" ./test/network
}

suite_hub() { # new clusters: a consumer and two providers, which reach each other through it
	start_clusters 1 a,b,c && gotest -count=1 -v ./test/hub && remove_clusters
}

suite_peerings() { # on clusters of other suites: shows the cost of a change without running bench
	start_clusters 2 a,b masquerade,overlay && go run ./test/netbench -rounds 0 -move=false -outages=false -peerings 2 -insist=false
}

suite_several() { # new clusters
	start_clusters 1 a,b,c && gotest -count=1 -v ./test/several
}

suite_upgrade() { # new clusters of neighbouring versions of Kubernetes: one has the previous release, then both, under load, then both have versions of this
	# tree that are too far apart
	[ -z "${clusters_up:-}" ] || remove_clusters
	start_clusters 1 a,b masquerade 1.37,1.36 && gotest -count=1 -v ./test/soak/upgrade && remove_clusters
}

suite_soak() { # the playground, faults under load, three clusters, upgrade, twenty peerings, 50 failovers of gateways, lost objects, more seeds of order tests, delayed caches, fuzz targets
	make --no-print-directory playground && bin/playground build || return 1 # takes as long as the timeout of the tests on a new machine
	(cd playground && gotest -count=1 -tags selftest ./selftest) || return 1
	start_clusters 1 && gotest -count=1 -v ./test/soak && suite_several && suite_upgrade || return 1
	start_clusters 2 a,b masquerade,overlay && LIQO_PEERINGS=20 gotest -count=1 -v -run TestPeerCommand ./test/network || return 1
	LIQO_FAILOVERS=50 gotest -count=1 -v -run TestGatewayFailover ./test/network || return 1
	suite_losses && remove_clusters || return 1
	LIQO_EACH_LINE=1 gotest -count=1 -run 'TestPeerCommands/(as_the_guide|interrupted)' ./internal/ctl || return 1
	LIQO_SEEDS=21 gotest -count=1 -v -run 'Test(Deletion|Manifest|Tunnel)Order' ./internal/app ./internal/network || return 1
	LIQO_LAG=300ms gotest -count=1 -p 2 ./internal/{agent/...,auth,consumer,multicluster,network,peering,provider,replicator,resourceslice,virtualkubelet} || return 1
	suite_fuzz
}

minors="1.35 1.36 1.37" # of Kubernetes

suite_skew() { # API servers of each pair of versions, then clusters of the newest and the oldest one
	local minor folder assets=
	make --no-print-directory playground || return 1
	for minor in $minors; do
		folder=$(bin/playground assets --kubernetes "$minor") && assets+=${assets:+,}$minor=$folder || return 1
	done
	LIQO_SKEW_ASSETS=$assets gotest -count=1 -v -tags skew -run 'TestSkew' ./internal/app | grep --line-buffered -v '^=== ' || return 1
	start_clusters 1 a,b masquerade "${minors##* },${minors%% *}" && gotest -count=1 -v ./test/skew && remove_clusters
}

suite_losses() { # LIQO_SOAK_LOSSES: number of points in time of each loss, 1 to 4
	start_clusters 2 a,b masquerade,overlay && gotest -count=1 -v ./test/losses
}

suite_gitops() { # not in all: Argo CD and Flux take long to compile, once per machine
	start_clusters 1 && gotest -count=1 -v ./test/gitops
}

suite_monitoring() { # not in all, like gitops
	start_clusters 1 && gotest -count=1 -v ./test/monitoring
}

suite_cilium() { # not in all: Cilium takes long to compile, and network runs the other CNIs
	local pair
	make --no-print-directory playground && bin/playground build --cni flannel,kube-router,cilium || return 1
	for pair in flannel,cilium cilium,kube-router cilium-without-kube-proxy,cilium; do
		start_clusters 2 a,b "$pair" && gotest -count=1 -v -run 'TestMatrix|TestNetworkPolicies|TestGatewayFailover' ./test/network && remove_clusters || return 1
	done
}

suite_headlamp() { # not in all: npm installs 850 MB
	(cd plugins/headlamp && npm ci --no-audit --no-fund --loglevel error && npm run tsc && npm run lint && npm run test && npm run build)
}

suite_fuzz() { # property tests with other values in each run, then fuzz targets
	LIQO_RANDOM=1 gotest -count=1 -p 2 $(grep -rl internal/testkit/repeatable --include=*_test.go . | xargs dirname | sort -u) || return 1
	local file name # without fuzzminimizetime, go spends most of the minute on minimizing inputs
	grep -rno '^func Fuzz[A-Za-z]*' --include=*_test.go internal | sed 's/:[0-9]*:func / /' | while read -r file name; do
		gotest -run '^$' -fuzz "^$name\$" -fuzztime 60s -fuzzminimizetime 10x "./${file%/*}" || return 1
	done
}

use_separate_clusters() { # NAME NETWORK: selects a separate playground with the same programs
	local built=$LIQO_PLAYGROUND_HOME
	export LIQO_PLAYGROUND_HOME=$HOME/.cache/liqo-playground-$1 LIQO_PLAYGROUND_NAME=liqo$1 LIQO_PLAYGROUND_NETWORK=$2
	mkdir -p "$LIQO_PLAYGROUND_HOME" && ln -sfn "$built/bin" "$built/img" "$LIQO_PLAYGROUND_HOME/"
}

with_separate_clusters() ( # NAME NETWORK COMMAND...: runs a command on separate clusters
	make --no-print-directory playground && bin/playground build && use_separate_clusters "$1" "$2" || exit 1
	trap 'bin/playground down' EXIT
	shift 2
	unset GOGC                    # measurements use the default
	bin/playground down || exit 1 # those of a killed run
	"$@"
)

# Only bench enforces the time of the demo, because other suites run in parallel.
suite_demo() { with_separate_clusters demo "$demo_network" run_demo; }

run_demo() { # [SECONDS]
	local start=$SECONDS took used
	demo/run.sh || return 1
	took=$((SECONDS - start))
	used=$(bin/playground status | awk '/ MiB$/ { sum += $(NF - 1) } END { print sum }') && [ -n "$used" ] || return 1
	printf 'the demo took %d s (limit with warm caches: 90); its clusters use %d MiB (limit: 4096)\n' "$took" "$used"
	[ "$used" -le 4096 ] && [ "$took" -le "${1:-$took}" ] || return 1
	demo/run.sh --down && [ -z "$(bin/playground status | grep MiB)" ]
}

suite_bench() { # measures all limits, also after a failure
	local failed=
	suite_image || return 1
	with_separate_clusters bench "$bench_network" run_bench || failed=yes
	suite_netbench || failed=yes
	with_separate_clusters demo "$demo_network" run_demo 90 && [ -z "$failed" ]
}

suite_netbench() { suite_image && with_separate_clusters bench "$bench_network" run_netbench; }

run_bench() {
	bin/playground up --clusters a --audit --addons local-path-provisioner && bin/playground up --clusters b --audit --addons local-path-provisioner --simulated-nodes 20 &&
		bin/playground load dist/liqo.tar && go run ./test/bench
}

run_netbench() { # 100 is the default GOGC of API servers and kubelets
	bin/playground up --clusters a,b --workers 2 --pod-cidr-overlap --gogc 100 --addons local-path-provisioner && bin/playground load dist/liqo.tar && go run ./test/netbench
}

# Tests use a separate playground, so that they do not affect a running demo.
export LIQO_PLAYGROUND_HOME=${LIQO_PLAYGROUND_HOME:-$HOME/.cache/liqo-playground-test}
export LIQO_PLAYGROUND_NAME=${LIQO_PLAYGROUND_NAME:-liqo-test} LIQO_PLAYGROUND_NETWORK=${LIQO_PLAYGROUND_NETWORK:-172.28.0.0/16}
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$LIQO_PLAYGROUND_HOME/bin}
case ${1:-all} in
down) remove_all_clusters; exit ;;
all) list="assets lint unit race playground image demo clusters" ;;
*) list="$*" ;;
esac
require_go || exit 1
flags=$(go env GOFLAGS)
[[ " $flags " == *" -trimpath "* ]] || export GOFLAGS="-buildvcs=false -trimpath${flags:+ $flags}" # as in the Makefile, so that Kubernetes is not compiled again
for s in $list; do
	[ -n "${budget[$s]:-}" ] || { echo "unknown suite $s; the suites are ${!budget[*]}" >&2; exit 2; }
	case $s in
	check | unit) require_programs chromium chromium ;; # the page of the dashboard
	race) require_programs gcc "gcc libc6-dev" ;;
	headlamp) require_programs npm "nodejs npm" ;;
	gitops) require_clusters && require_programs git git redis-server redis-server ;;
	playground | demo | e2e | guides | attacks | network | hub | clusters | peerings | several | upgrade | losses | skew | monitoring | cilium | soak | bench | netbench) require_clusters ;;
	esac || exit 1
done
failed=
for s in $list; do run_suite "$s" || failed+=" $s"; done # one run shows all that fails
[ -n "${nested:-}" ] || { printf '\n' && cat "$times"; }
[ -z "$failed" ] || { printf 'FAILED:%s, after %d s\n' "$failed" $((SECONDS - started_at)) && exit 1; }
printf 'all suites (%s) passed in %d s\n' "$list" $((SECONDS - started_at))
