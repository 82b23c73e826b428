#!/usr/bin/env bash
# Two clusters on this machine with the same pod network, connected and peered, with an application on both.
#   demo/run.sh          runs the demo; continues an interrupted run
#   demo/run.sh --down   removes the clusters
# CLUSTERS=CONSUMER,PROVIDER, two kubeconfigs of kind, k3d or other clusters, uses those instead. kind and k3d get the image by their own tools; others
# need IMAGE=NAME:TAG, an image that their nodes can pull, or IMAGE=loaded if the nodes have dist/liqo.tar.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
playground=bin/playground
. demo/machine.sh
CLUSTERS=${CLUSTERS:-} IMAGE=${IMAGE:-}
A=${CLUSTERS%%,*} B=${CLUSTERS#*,}

print_heading() { # prints a heading
	printf '\n\033[1m%s\033[0m\n' "$*"
}

# run_step PERCENT TEXT FUNCTION runs a step of the demo, which starts at PERCENT of the progress. On a terminal it rewrites one line with the time, and
# writes the output of the step to a log; otherwise it prints a line, followed by the output.
run_step() {
	local percent=$1 start=$SECONDS pid
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
		printf '\r\033[K[%3d %%] %s (%d s)' "$percent" "$step" $((SECONDS - start))
		sleep 0.5
	done
	printf '\r\033[K'
	wait "$pid" || { tail -n 30 dist/demo.log >&2; return 1; }
}

# print_duration prints how long the demo takes.
print_duration() {
	if [ -e dist/liqo.tar ] && "$playground" kubeconfig a >/dev/null 2>&1; then
		echo "Continuing with the clusters of an earlier run: this takes about a minute."
	elif [ -e dist/liqo.tar ]; then
		echo "Building takes seconds with warm caches; the rest takes about a minute."
	else
		echo "The first run takes about ten minutes on two cores, because it compiles Kubernetes, etcd and Liqo from source. Later runs take about a minute."
	fi
}

print_and_run() { # prints a command and runs it
	printf '\033[2m$ %s\033[0m\n' "$*"
	"$@"
}
# kubectl_of a|b prints the words that run kubectl in the consumer or the provider.
kubectl_of() {
	if [ -z "$CLUSTERS" ]; then
		echo "$playground kubectl $1"
	else
		[ "$1" = a ] && echo "kubectl --kubeconfig $A" || echo "kubectl --kubeconfig $B"
	fi
}
consumer() { print_and_run $(kubectl_of a) "$@"; }
provider() { print_and_run $(kubectl_of b) "$@"; }

# kind_of KUBECONFIG prints what runs the cluster: kind, k3s, or kubeadm for others.
kind_of() {
	case $(kubectl --kubeconfig "$1" config current-context) in
	kind-*) echo kind ;;
	k3d-*) echo k3s ;;
	*) echo kubeadm ;;
	esac
}

# load_image KUBECONFIG puts the image on the nodes of the cluster.
load_image() {
	local context
	context=$(kubectl --kubeconfig "$1" config current-context)
	case $context in
	kind-*) print_and_run kind load image-archive dist/liqo.tar --name "${context#kind-}" ;;
	k3d-*) print_and_run k3d image import dist/liqo.tar --cluster "${context#k3d-}" ;;
	esac
}

# check_clusters checks the kubeconfigs of CLUSTERS, and that the nodes can get the image, before anything is compiled.
check_clusters() {
	local file
	require_programs kubectl kubectl || return 1
	[ -f "$A" ] && [ -f "$B" ] && [ "$A" != "$B" ] || { echo "CLUSTERS is two kubeconfigs, those of the consumer and of the provider: CLUSTERS=rome.kubeconfig,milan.kubeconfig" >&2; return 1; }
	for file in "$A" "$B"; do
		kubectl --kubeconfig "$file" get namespaces -o name >/dev/null || { echo "the cluster of $file does not answer" >&2; return 1; }
		[ "$1" = down ] || [ "$(kind_of "$file")" != kubeadm ] || [ -n "$IMAGE" ] || { echo "the nodes of $file need the image: set IMAGE=registry.example.com/liqo:v0.2.0 if they can pull it from there, or IMAGE=loaded if dist/liqo.tar was loaded" >&2; return 1; }
	done
}

build_all() {
	if [ -n "$CLUSTERS" ]; then
		make --no-print-directory build
		[ -n "$IMAGE" ] || make --no-print-directory image
		return
	fi
	make --no-print-directory playground build
	"$playground" build
	make --no-print-directory image
}

start_clusters() {
	if [ -n "$CLUSTERS" ]; then
		[ -n "$IMAGE" ] || { load_image "$A" && load_image "$B"; }
		return
	fi
	print_and_run "$playground" up --clusters 2 --workers 1 --pod-cidr-overlap
	print_and_run "$playground" load dist/liqo.tar
}

install_liqo() {
	install_in a cl-consumer "$A" &
	local first=$!
	install_in b cl-provider "$B" &
	wait "$first"
	wait $!
}

install_in() {
	local kind=kubeadm image=()
	[ -z "$CLUSTERS" ] || kind=$(kind_of "$3")
	case ${IMAGE:-loaded} in
	loaded) ;;
	*) image=(--set "image.name=${IMAGE%:*}" --set "image.version=${IMAGE##*:}") ;;
	esac
	print_and_run bin/liqoctl install "$kind" --cluster-id "$2" --kubeconfig "$3" "${image[@]}" 2>&1 | sed -u "s/^/$1: /"
}

peer_clusters() {
	local service=()
	[ -z "$CLUSTERS" ] || [ "$(kind_of "$B")" = kubeadm ] || service=(--gw-server-service-type NodePort) # no load balancers
	print_and_run bin/liqoctl peer --kubeconfig "$A" --remote-kubeconfig "$B" --cpu 4 --memory 8Gi "${service[@]}"
	consumer wait node/cl-provider --for=create --timeout=120s
	consumer wait node/cl-provider --for=condition=Ready --timeout=120s
}

# create_clusters_by_host creates the ConfigMap clusters: the address of each node and the name of its cluster. A pod finds its cluster in it by the
# address of its host, which it has from its kubelet.
create_clusters_by_host() {
	local pairs=() host
	for host in $(node_addresses a); do pairs+=(--from-literal="$host=cl-consumer"); done
	for host in $(node_addresses b); do pairs+=(--from-literal="$host=cl-provider"); done
	$(kubectl_of a) create configmap clusters -n demo "${pairs[@]}" --dry-run=client -o yaml | $(kubectl_of a) apply -f -
}

node_addresses() { $(kubectl_of "$1") get nodes -l '!liqo.io/type' -o 'jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}'; }

offload_application() {
	consumer apply -f demo/manifests/offloading.yaml
	consumer wait namespaceoffloading/offloading -n demo --for=jsonpath='{.status.offloadingPhase}'=Ready --timeout=60s
	create_clusters_by_host
	consumer apply -n demo -f demo/manifests/web.yaml
	consumer rollout status deployment/web -n demo --timeout=120s
}

print_pods() {
	print_heading "The provider is a node of the consumer and runs one of its pods"
	consumer get nodes
	consumer get pods -n demo -o wide
	print_heading "The same pod in the provider"
	provider get pods -n demo-cl-consumer -o wide
	provider get nodes -o wide
}

query_service() {
	print_heading "Each pod requests the page from the Service until pods of both clusters have responded"
	local pod page pages deadline
	for pod in $($(kubectl_of a) get pods -n demo -l app=web -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}'); do
		consumer logs -n demo "$pod"
		printf '\033[2m$ %s\033[0m\n' "$(kubectl_of a) exec -n demo $pod -- wget -q -O - http://web:8080/"
		pages= deadline=$((SECONDS + 60))
		until [[ $pages = *"in cluster cl-consumer"* && $pages = *"in cluster cl-provider"* ]]; do
			[ $SECONDS -lt $deadline ] || { echo "$pod received no responses of both clusters within 60 s" >&2; return 1; }
			page=$($(kubectl_of a) exec -n demo "$pod" -- timeout 5 wget -q -O - http://web:8080/ 2>/dev/null) || { sleep 0.5; continue; }
			[[ $pages = *"$page"* ]] || echo "$page"
			pages+=$page
		done
	done
}

print_next_steps() {
	if [ -n "$CLUSTERS" ]; then
		print_heading "Done in $((SECONDS - start)) s. Try next:"
		cat <<-TXT
			  export KUBECONFIG=$A      # the consumer's
			  kubectl get nodes
			  kubectl scale deployment web -n demo --replicas 6 && kubectl get pods -n demo -o wide -w      # until Ctrl-C
			  kubectl get pods -n demo-cl-consumer -o wide --kubeconfig $B      # the provider's
			  $PWD/bin/liqoctl info && $PWD/bin/liqoctl info peer
			  make demo-down CLUSTERS=$CLUSTERS      # removes the application, the peering and Liqo
		TXT
		return
	fi
	print_heading "Done in $((SECONDS - start)) s, the clusters use $("$playground" status | awk '/ MiB$/ { sum += $(NF - 1) } END { print sum }') MiB. Try next:"
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

# print_failure prints what to do next if the demo failed.
print_failure() {
	local rc=$?
	[ $rc != 0 ] || return 0
	kill $(jobs -p) 2>/dev/null && wait
	if [ -n "$CLUSTERS" ]; then
		printf '\ndemo: failed: %s\n  the same command continues\n  make demo-down CLUSTERS=%s removes everything\n' "$step" "$CLUSTERS" >&2
		return
	fi
	{
		echo
		[ $rc = 130 ] && echo "demo: interrupted" || echo "demo: failed: $step"
		echo "  make demo                             continues"
		echo "  bin/playground status                 shows the clusters; logs are in ${LIQO_PLAYGROUND_HOME:-~/.cache/liqo-playground}/{clusters,nodes}/*/log"
		echo "  bin/playground kubectl a get pods -A  lists pods of the consumer; b is the provider"
		echo "  make demo-down                        removes everything"
	} >&2
}

# down removes the application, the peering and Liqo from two clusters of the user.
down() {
	$(kubectl_of a) delete namespace demo --ignore-not-found
	make --no-print-directory build
	print_and_run bin/liqoctl unpeer --kubeconfig "$A" --remote-kubeconfig "$B" --skip-confirm
	print_and_run bin/liqoctl uninstall --purge --kubeconfig "$A" --skip-confirm
	print_and_run bin/liqoctl uninstall --purge --kubeconfig "$B" --skip-confirm
}

if [ -n "$CLUSTERS" ] && [ "${1:-}" = --down ]; then
	require_go && check_clusters down && down
	exit
fi
if [ "${1:-}" = --down ]; then
	[ -x "$playground" ] || { require_go && make --no-print-directory playground; }
	exec "$playground" down
fi
if [ -n "$CLUSTERS" ]; then
	require_go && check_clusters up || exit 1
else
	require_clusters && require_go || exit 1
fi
trap print_failure EXIT
trap 'exit 130' INT TERM
[ -n "$CLUSTERS" ] || print_duration
run_step 0 "Building" build_all
run_step 50 "Starting two clusters: a, the consumer, and b, the provider" start_clusters
[ -n "$CLUSTERS" ] || { A=$("$playground" kubeconfig a) && B=$("$playground" kubeconfig b); }
run_step 65 "Installing Liqo in both clusters" install_liqo
run_step 80 "Peering: a tunnel between equal pod networks, and the provider as a node of the consumer" peer_clusters
run_step 90 "Offloading a namespace with an application" offload_application
printf '[100 %%] Offloaded\n'
step="requests to pods of both clusters"
print_pods
query_service
print_next_steps
