#!/usr/bin/env bash
# Two real clusters on this machine that use the same pod addresses, connected and peered, with one application on both.
#   demo/run.sh          everything; run it again and it goes on from what is there
#   demo/run.sh --down   removes everything
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
playground=bin/playground
. demo/machine.sh

bold() { # prints a heading
	printf '\n\033[1m%s\033[0m\n' "$*"
}

# run_step PERCENT TEXT FUNCTION runs a step of the demo, whose start is PERCENT of the whole. On a terminal one line is rewritten with the time, and
# the output of the step goes to a log; elsewhere the step has a line, and its output follows.
run_step() {
	local percent=$1 began=$SECONDS pid
	step=$2
	if ! [ -t 1 ]; then
		printf '[%3d %%] %s\n' "$percent" "$step"
		"$3"
		return
	fi
	mkdir -p dist
	"$3" >dist/demo.log 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		printf '\r\033[K[%3d %%] %s (%d s)' "$percent" "$step" $((SECONDS - began))
		sleep 0.5
	done
	printf '\r\033[K'
	wait "$pid" || { tail -n 30 dist/demo.log >&2; return 1; }
}

# announce says how long the demo takes.
announce() {
	if [ -e dist/liqo.tar ] && "$playground" kubeconfig a >/dev/null 2>&1; then
		echo "The clusters of an earlier run are used: this takes about a minute."
	elif [ -e dist/liqo.tar ]; then
		echo "Building takes seconds if its caches are warm, as after an earlier run; the rest takes about a minute."
	else
		echo "The first run takes about ten minutes on two cores, because it compiles Kubernetes, etcd and Liqo from source. Later runs take about a minute."
	fi
}

show() { # prints a command, as one would type it, and runs it
	printf '\033[2m$ %s\033[0m\n' "$*"
	"$@"
}
consumer() { show "$playground" kubectl a "$@"; }
provider() { show "$playground" kubectl b "$@"; }

build() {
	make --no-print-directory playground build
	"$playground" build
	make --no-print-directory image
}

clusters() {
	show "$playground" up --clusters 2 --workers 1 --pod-cidr-overlap
	show "$playground" load dist/liqo.tar
}

install() {
	install_in a cl-consumer "$A" &
	local first=$!
	install_in b cl-provider "$B" &
	wait "$first"
	wait $!
}

install_in() { show bin/liqoctl install kubeadm --cluster-id "$2" --kubeconfig "$3" 2>&1 | sed -u "s/^/$1: /"; }

peer() {
	show bin/liqoctl peer --kubeconfig "$A" --remote-kubeconfig "$B" --cpu 4 --memory 8Gi
	consumer wait node/cl-provider --for=create --timeout=120s
	consumer wait node/cl-provider --for=condition=Ready --timeout=120s
}

# Each cluster tells the addresses of its own nodes. A pod looks its host up there: that address it has from the kubelet that runs it.
clusters_by_host() {
	local pairs=() host
	for host in $(hosts a); do pairs+=(--from-literal="$host=cl-consumer"); done
	for host in $(hosts b); do pairs+=(--from-literal="$host=cl-provider"); done
	"$playground" kubectl a create configmap clusters -n demo "${pairs[@]}" --dry-run=client -o yaml | "$playground" kubectl a apply -f -
}

hosts() { "$playground" kubectl "$1" get nodes -l '!liqo.io/type' -o 'jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}'; }

offload() {
	consumer apply -f demo/manifests/offloading.yaml
	consumer wait namespaceoffloading/offloading -n demo --for=jsonpath='{.status.offloadingPhase}'=Ready --timeout=60s
	clusters_by_host
	consumer apply -n demo -f demo/manifests/web.yaml
	consumer rollout status deployment/web -n demo --timeout=120s
}

look() {
	bold "The provider is a node of the consumer, and runs one of its pods"
	consumer get nodes
	consumer get pods -n demo -o wide
	bold "The same pod, seen by the provider"
	provider get pods -n demo-cl-consumer -o wide
	provider get nodes -o wide
}

try_it() {
	bold "Each pod asks for the page by the name of the Service, until pods of both clusters have answered"
	local pod page pages deadline
	for pod in $("$playground" kubectl a get pods -n demo -l app=web -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}'); do
		consumer logs -n demo "$pod"
		printf '\033[2m$ %s\033[0m\n' "$playground kubectl a exec -n demo $pod -- wget -q -O - http://web:8080/"
		pages= deadline=$((SECONDS + 60))
		until [[ $pages = *"in cluster cl-consumer"* && $pages = *"in cluster cl-provider"* ]]; do
			[ $SECONDS -lt $deadline ] || { echo "$pod has not heard of both clusters in 60 s" >&2; return 1; }
			page=$("$playground" kubectl a exec -n demo "$pod" -- timeout 5 wget -q -O - http://web:8080/ 2>/dev/null) || { sleep 0.5; continue; }
			[[ $pages = *"$page"* ]] || echo "$page"
			pages+=$page
		done
	done
}

finish() {
	bold "Done in $((SECONDS - started)) s, the clusters use $("$playground" status | awk '/ MiB$/ { sum += $(NF - 1) } END { print sum }') MiB. Try next:"
	cat <<-TXT
		  export PATH=$("$playground" assets):\$PATH
		  export KUBECONFIG=$A      # the consumer's
		  kubectl get nodes
		  kubectl scale deployment web -n demo --replicas 6 && kubectl get pods -n demo -o wide -w      # until Ctrl-C
		  kubectl logs -f -n demo deploy/web                                                          # until Ctrl-C
		  kubectl get pods -n demo-cl-consumer -o wide --kubeconfig $B      # the provider's
		  $PWD/bin/liqoctl info && $PWD/bin/liqoctl info peer
		  make demo-down      # removes everything
	TXT
}

# ended says what to do next if this was not the end of the demo.
ended() {
	local rc=$?
	[ $rc != 0 ] || return 0
	kill $(jobs -p) 2>/dev/null && wait
	{
		echo
		[ $rc = 130 ] && echo "demo: interrupted" || echo "demo: this failed: $step"
		echo "  make demo                             goes on from here"
		echo "  bin/playground status                 shows the clusters; logs are in ${LIQO_PLAYGROUND_HOME:-~/.cache/liqo-playground}/{clusters,nodes}/*/log"
		echo "  bin/playground kubectl a get pods -A  what runs in the consumer; b is the provider"
		echo "  make demo-down                        removes everything"
	} >&2
}

if [ "${1:-}" = --down ]; then
	[ -x "$playground" ] || { need_go && make --no-print-directory playground; }
	exec "$playground" down
fi
need_clusters && need_go || exit 1
trap ended EXIT
trap 'exit 130' INT TERM
announce
run_step 0 "Building" build
run_step 50 "Starting two clusters: a, the consumer, and b, the provider" clusters
A=$("$playground" kubeconfig a)
B=$("$playground" kubeconfig b)
run_step 65 "Installing Liqo in both clusters" install
run_step 80 "Peering: a tunnel between equal pod networks, and the provider as a node of the consumer" peer
run_step 90 "Offloading a namespace with an application" offload
printf '[100 %%] Offloaded\n'
step="asking pods of both clusters"
look
try_it
finish
