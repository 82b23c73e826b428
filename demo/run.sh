#!/usr/bin/env bash
# Two real clusters on this machine that use the same pod addresses, connected and peered, with one application on both.
#   demo/run.sh          everything; run it again and it goes on from what is there
#   demo/run.sh --down   removes everything
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
playground=bin/playground
. demo/machine.sh

bold() { # begins a step
	step=$*
	printf '\n\033[1m%s\033[0m\n' "$*"
}
show() { # prints a command, as one would type it, and runs it
	printf '\033[2m$ %s\033[0m\n' "$*"
	"$@"
}
consumer() { show "$playground" kubectl a "$@"; }
provider() { show "$playground" kubectl b "$@"; }

build() {
	bold "Building (minutes the first time: Kubernetes itself is compiled here)"
	make --no-print-directory playground build
	"$playground" build
	make --no-print-directory image
}

clusters() {
	bold "Starting two clusters: a, the consumer, and b, the provider"
	show "$playground" up --clusters 2 --workers 1 --pod-cidr-overlap
	show "$playground" load dist/liqo.tar
}

install() {
	bold "Installing Liqo in both"
	install_in a cl-consumer "$A" &
	local first=$!
	install_in b cl-provider "$B" &
	wait "$first"
	wait $!
}

install_in() { show bin/liqoctl install kubeadm --cluster-id "$2" --kubeconfig "$3" 2>&1 | sed -u "s/^/$1: /"; }

peer() {
	bold "Peering: a tunnel between clusters whose pods have addresses of the same range, and the provider as one more node"
	show bin/liqoctl peer --kubeconfig "$A" --remote-kubeconfig "$B" --cpu 4 --memory 8Gi
	consumer wait node/cl-provider --for=create --timeout=120s
	consumer wait node/cl-provider --for=condition=Ready --timeout=120s
	consumer get nodes
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
	bold "Offloading a namespace and an application"
	consumer apply -f demo/manifests/offloading.yaml
	consumer wait namespaceoffloading/offloading -n demo --for=jsonpath='{.status.offloadingPhase}'=Ready --timeout=60s
	clusters_by_host
	consumer apply -n demo -f demo/manifests/web.yaml
	consumer rollout status deployment/web -n demo --timeout=120s
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
build
clusters
A=$("$playground" kubeconfig a)
B=$("$playground" kubeconfig b)
install
peer
offload
try_it
finish
