#!/usr/bin/env bash
# Runs the suites, each with a printed time budget, and brings the playground up once for those that need clusters.
#   test/run.sh [all|soak|bench|SUITE...]      suites of all: assets lint unit race playground image demo clusters;
#                                              clusters is e2e and attacks beside network
#                                              parts of soak: several upgrade losses fuzz, and of bench: netbench;
#                                              gitops has Argo CD and Flux peer clusters: they are compiled first, for half an hour;
#                                              peerings prints how long peering takes, and insists on nothing
#   test/run.sh check                          what a developer runs before each commit: format, vet, generated files, and tests of
#                                              the packages that a change touches; BASE=revision says since when, by default since main
#   test/run.sh down                           removes clusters that an interrupted run left
set -euo pipefail
cd "$(dirname "$0")/.."
. demo/machine.sh

# A budget is what a suite may take on 2 cores with cold caches, 45 minutes for all. It is printed, not enforced: a slow machine is no bug.
declare -A budget=([check]=300 [assets]=460 [lint]=340 [unit]=960 [race]=180 [playground]=60 [image]=60 [demo]=50 [e2e]=440 [attacks]=120 [network]=640 [clusters]=760 [peerings]=180 [several]=300 [upgrade]=500 [losses]=1300 [gitops]=1500 [fuzz]=1500 [soak]=7100 [netbench]=1200 [bench]=1600)
export CGO_ENABLED=${CGO_ENABLED:-0}
export GOGC=${GOGC:-200} # memory for time, in compilers, checkers and API servers of tests; the clusters of the playground have a setting of their own
bench_network=172.27.0.0/16 demo_network=172.25.0.0/16 stories_network=172.26.0.0/16 # where clusters beside those of the tests are
started=$SECONDS

[ -z "${LIQO_TEST_TIMES:-}" ] || nested=yes # the run that began this one prints the table
times=${LIQO_TEST_TIMES:-$(mktemp)}

finish() {
	local rc=$?
	[ -z "${clusters_up:-}" ] || down
	[ -z "${stories:-}" ] || { kill -- "-$stories" && wait "$stories"; } || true # takes its clusters down
	[ -n "${nested:-}" ] || rm -f "$times"
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
	printf '%-12s %6d s of %d s\n' "$1" $((SECONDS - at)) "${budget[$1]}" >>"$times"
}

# Suites with clusters wait most of the time: e2e and attacks run beside network, on clusters of their own. Their output follows that of network.
suite_clusters() {
	local output rc=0
	output=$(mktemp) && suite_assets && bin/playground build && suite_image || return 1 # once, not by both
	(apart e2e "$stories_network" && export assets_there image_there LIQO_TEST_TIMES=$times && exec setsid test/run.sh e2e attacks) >"$output" 2>&1 </dev/null &
	stories=$!
	suite network || rc=1
	[ -z "${clusters_up:-}" ] || down
	echo 'waiting for e2e and attacks, which run on clusters of their own'
	wait "$stories" || rc=1
	stories=
	cat "$output" && rm -f "$output"
	return $rc
}

# One line per package, and the whole story of what failed. No test may skip: see internal/archtest. Lint vets all that there is, and more of it: to
# vet for a test takes minutes with cold caches, for that goes through all that it imports, Kubernetes among it. The hour is for what hangs: machines are
# known on which everything takes twice as long.
gotest() {
	go test -vet=off -timeout 60m "$@" | grep --line-buffered -v 'no test files'
}

# Suites run where `set -e` does nothing (they are conditions), so every command of theirs is joined to the next by &&.

suite_assets() { # others begin with it, so it does its work once
	[ -n "${assets_there:-}" ] || { make --no-print-directory playground && bin/playground assets && assets_there=yes; }
}

generated() { # the content of all that `make generate` may write, also of files that git does not know yet
	git ls-files -z --cached --others --exclude-standard -- api deploy docs | xargs -0 sha256sum 2>&1 || true # a file may be missing
}

suite_lint() {
	local unformatted before
	unformatted=$(gofmt -l $(git ls-files '*.go')) && [ -z "$unformatted" ] || { echo "not formatted: $unformatted"; return 1; }
	make --no-print-directory lint && before=$(generated) && make --no-print-directory generate || return 1
	diff <(echo "$before") <(generated) || { echo "generated files are not up to date: commit what make generate wrote"; return 1; }
}

with_clusters='/test/e2e\|/test/attacks\|/test/network\|/test/gitops\|/test/several\|/test/soak\|/test/losses'

changed_since() { # files of commits since main, or of the last commit on main itself, and files that are not committed
	local base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
	[ -n "${BASE:-}" ] || [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify 'HEAD~1' || echo "$base")
	{ git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard; } | sort -u
}

# The packages of changed files, of their test data, and all that import one of them, also in tests.
touched() {
	local folders
	folders=$(changed_since | grep -v '^playground/\|^tools/' | sed -n 's#/testdata/.*#/#; s#/[^/]*$##p' | sort -u)
	[ -n "$folders" ] || return 0
	go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | sed 's/ \[[^]]*\]//g' | awk -v folders="$folders" '
		BEGIN { n = split(folders, f, "\n"); for (i = 1; i <= n; i++) changed["liqo.io/liqo/" f[i]] = 1 }
		{ own = $1; sub(/(_test|\.test)$/, "", own); for (i = 1; i <= NF; i++) if ($i in changed || own in changed) { print own; next } }' |
		grep -v "$with_clusters" | sort -u
}

suite_check() {
	local packages
	suite_lint && suite_assets && packages=$(touched) || return 1
	[ -n "$packages" ] || { echo "no package is touched"; return 0; }
	gotest -p 3 $packages
}

suite_unit() { # the longest first, so that none runs alone in the end; three at once, for they also wait
	local packages
	suite_assets && packages=$(go list ./internal/app ./internal/virtualkubelet ./internal/ctl && go list ./... | grep -v "$with_clusters") && gotest -p 3 $packages && (cd tools && gotest ./...)
}

suite_race() { suite_assets && CGO_ENABLED=1 gotest -race ./internal/multicluster ./internal/kube ./internal/datapath/wg ./internal/ctl/ui; }

suite_playground() ( # with clusters: three of them after a run that was killed while it made them
	cd playground && gotest ./... && gotest -count=1 -tags selftest -run 'TestSurvivesKilledRuns/1.5s' ./selftest
)

suite_image() { # like assets, once
	[ -n "${image_there:-}" ] || { make --no-print-directory image build && image_there=yes; }
}

down() { bin/playground down || true; clusters_up=; }

down_all() {
	bin/playground down && (apart bench "$bench_network" && bin/playground down) && (apart demo "$demo_network" && bin/playground down) &&
		(apart e2e "$stories_network" && bin/playground down)
}

clusters() { # NODES [NAMES [CNI]]: brings up clusters of so many nodes, a and b or those that are named, once
	local names=${2:-a,b} cni=${3:-masquerade} name
	[ "${clusters_up:-}" != "$1 $names $cni" ] || return 0
	make --no-print-directory playground && suite_image && clusters_up="$1 $names $cni" && bin/playground down && # also what a killed run left
		bin/playground up --clusters "$names" --workers "$1" --cni "$cni" --pod-cidr-overlap --audit &&
		bin/playground load dist/liqo.tar || return 1
	LIQO_E2E_KUBECONFIGS=
	for name in ${names//,/ }; do
		LIQO_E2E_KUBECONFIGS+=${LIQO_E2E_KUBECONFIGS:+,}$(bin/playground kubeconfig "$name") || return 1
	done
	export LIQO_E2E_KUBECONFIGS
}

suite_e2e() { # prints how long each story took, and the whole of those that fail; bad inputs are too many to name
	clusters 1 && gotest -count=1 -v ./test/e2e/... | grep --line-buffered -v '^=== \|^ *--- PASS: TestBadInput[A-Za-z]*/'
}

suite_attacks() { # on the clusters of e2e, which has left nothing in them; attacks leave a peering
	clusters 1 && gotest -count=1 -v ./test/attacks | grep --line-buffered -v '^=== \|^ \+--- PASS: ' && down
}

suite_network() { # pods of a cross nodes by routes, those of b by an overlay, with less room in their packets
	clusters 2 a,b masquerade,overlay && gotest -count=1 -v ./test/network
}

suite_peerings() { # among clusters of the other suites: what a change costs is seen before anybody runs bench
	clusters 2 a,b masquerade,overlay && go run ./test/netbench -rounds 0 -outages=false -peerings 2 -insist=false
}

suite_several() { # fresh ones, which no other story has installed anything in
	clusters 1 a,b,c && gotest -count=1 -v ./test/several
}

suite_upgrade() { # fresh ones: the release before this tree is installed in one of them, and then this tree as versions that are too far apart
	[ -z "${clusters_up:-}" ] || down
	clusters 1 && gotest -count=1 -v ./test/soak/upgrade && down
}

suite_soak() { # the playground itself, faults under load on two clusters, three that borrow and lend, one of the release before and its upgrade, twenty peerings by one command and others that lose something in the middle, orders with more seeds, caches that are late, every fuzz target for a minute
	make --no-print-directory playground && bin/playground build || return 1 # on a new machine as long as the tests may take
	(cd playground && gotest -count=1 -tags selftest ./selftest) || return 1
	clusters 1 && gotest -count=1 -v ./test/soak && suite_several && suite_upgrade || return 1
	clusters 2 a,b masquerade,overlay && LIQO_PEERINGS=20 gotest -count=1 -v -run TestPeerCommand ./test/network || return 1
	suite_losses && down || return 1
	LIQO_EACH_LINE=1 gotest -count=1 -run 'TestPeerCommands/(as_the_guide|interrupted)' ./internal/ctl || return 1
	LIQO_SEEDS=21 gotest -count=1 -v -run 'Test(Deletion|Manifest|Tunnel)Order' ./internal/app ./internal/network || return 1
	LIQO_LAG=300ms gotest -count=1 -p 2 ./internal/{agent/...,auth,consumer,multicluster,network,peering,provider,replicator,resourceslice,virtualkubelet} || return 1
	suite_fuzz
}

suite_losses() { # LIQO_SOAK_LOSSES: how many moments each loss is tried at, 1 to 4
	clusters 2 a,b masquerade,overlay && gotest -count=1 -v ./test/losses
}

suite_gitops() { # outside of all: Argo CD and Flux take long to compile, once for each machine
	clusters 1 && gotest -count=1 -v ./test/gitops
}

suite_fuzz() {
	local file name # go would spend most of the minute on making inputs smaller
	grep -rno '^func Fuzz[A-Za-z]*' --include=*_test.go internal | sed 's/:[0-9]*:func / /' | while read -r file name; do
		gotest -run '^$' -fuzz "^$name\$" -fuzztime 60s -fuzzminimizetime 10x "./${file%/*}" || return 1
	done
}

apart() { # NAME NETWORK: names clusters other than those of the tests, which are made of the same programs
	local built=$LIQO_PLAYGROUND_HOME
	export LIQO_PLAYGROUND_HOME=$HOME/.cache/liqo-playground-$1 LIQO_PLAYGROUND_NAME=liqo$1 LIQO_PLAYGROUND_NETWORK=$2
	mkdir -p "$LIQO_PLAYGROUND_HOME" && ln -sfn "$built/bin" "$built/img" "$LIQO_PLAYGROUND_HOME/"
}

beside() ( # NAME NETWORK COMMAND...: with clusters of its own
	make --no-print-directory playground && bin/playground build && apart "$1" "$2" || exit 1
	trap 'bin/playground down' EXIT
	shift 2
	unset GOGC                    # what is measured runs as for users
	bin/playground down || exit 1 # what a killed run left
	"$@"
)

# How long it takes is a promise for a machine that does nothing else, so only bench insists on it.
suite_demo() { beside demo "$demo_network" demo; }

demo() { # [SECONDS]
	local at=$SECONDS took used
	demo/run.sh || return 1
	took=$((SECONDS - at))
	used=$(bin/playground status | awk '/ MiB$/ { sum += $(NF - 1) } END { print sum }') && [ -n "$used" ] || return 1
	printf 'the demo took %d s, promised are 90 with warm caches; its clusters use %d MiB of 4096\n' "$took" "$used"
	[ "$used" -le 4096 ] && [ "$took" -le "${1:-$took}" ] || return 1
	demo/run.sh --down && [ -z "$(bin/playground status | grep MiB)" ]
}

suite_bench() { # promises of speed: all are measured, also after one that is broken
	local broken=
	suite_image || return 1
	beside bench "$bench_network" bench || broken=yes
	suite_netbench || broken=yes
	beside demo "$demo_network" demo 90 && [ -z "$broken" ]
}

suite_netbench() { suite_image && beside bench "$bench_network" netbench; }

bench() {
	bin/playground up --clusters a --audit && bin/playground up --clusters b --audit --simulated-nodes 20 &&
		bin/playground load dist/liqo.tar && go run ./test/bench
}

netbench() { # 100 is what API servers and kubelets collect garbage by where nobody says otherwise
	bin/playground up --clusters a,b --workers 2 --pod-cidr-overlap --gogc 100 && bin/playground load dist/liqo.tar && go run ./test/netbench
}

# A playground of its own: tests neither meet a running demo nor take its clusters down.
export LIQO_PLAYGROUND_HOME=${LIQO_PLAYGROUND_HOME:-$HOME/.cache/liqo-playground-test}
export LIQO_PLAYGROUND_NAME=${LIQO_PLAYGROUND_NAME:-liqo-test} LIQO_PLAYGROUND_NETWORK=${LIQO_PLAYGROUND_NETWORK:-172.28.0.0/16}
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$LIQO_PLAYGROUND_HOME/bin}
case ${1:-all} in
down) down_all; exit ;;
all) list="assets lint unit race playground image demo clusters" ;;
*) list="$*" ;;
esac
need_go || exit 1
flags=$(go env GOFLAGS)
[[ " $flags " == *" -trimpath "* ]] || export GOFLAGS="-buildvcs=false -trimpath${flags:+ $flags}" # as make has it: else all of Kubernetes is compiled once more
for s in $list; do
	[ -n "${budget[$s]:-}" ] || { echo "no suite is called $s; there are ${!budget[*]}" >&2; exit 2; }
	case $s in
	race) need gcc "gcc libc6-dev" ;;
	gitops) need_clusters && need git git redis-server redis-server ;;
	playground | demo | e2e | attacks | network | clusters | peerings | several | upgrade | losses | soak | bench | netbench) need_clusters ;;
	esac || exit 1
done
for s in $list; do suite "$s"; done
[ -n "${nested:-}" ] || { printf '\n' && cat "$times"; }
printf 'all of %s passed in %d s\n' "$list" $((SECONDS - started))
