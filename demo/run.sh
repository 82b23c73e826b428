#!/usr/bin/env bash
# Two real clusters on this machine, peered by manifests, with one application on both.
#   demo/run.sh          everything; run it again and it goes on from what is there
#   demo/run.sh --down   removes everything
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
playground=bin/playground

bold() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { # prints a command, as one would type it, and runs it
	printf '\033[2m$ %s\033[0m\n' "$*"
	"$@"
}
fail() { echo "demo: $*" >&2; exit 1; }
consumer() { show "$playground" kubectl a "$@"; }
provider() { show "$playground" kubectl b "$@"; }

check_machine() {
	[ "$(uname -s)" = Linux ] || fail "the playground's clusters are made of Linux namespaces: this needs Linux"
	[ "$(id -u)" = 0 ] || fail "the playground makes network namespaces, mounts and cgroups: run it as root"
	command -v go >/dev/null || fail "install Go (https://go.dev/doc/install), then run this again"
	command -v openssl >/dev/null && return
	command -v apt-get >/dev/null || fail "install openssl, then run this again"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openssl >/dev/null
}

build() {
	bold "Building (minutes the first time: Kubernetes itself is compiled here)"
	make --no-print-directory playground build
	"$playground" build
	make --no-print-directory image
}

clusters() {
	bold "Starting two clusters: a, the consumer, and b, the provider"
	show "$playground" up --clusters 2 --workers 1
	show "$playground" load dist/liqo.tar
}

install() {
	bold "Installing Liqo in both"
	show bin/liqoctl install kubeadm --cluster-id cl-consumer --kubeconfig "$A" &
	local first=$!
	show bin/liqoctl install kubeadm --cluster-id cl-provider --kubeconfig "$B"
	wait "$first"
}

# The provider's administrator hands out credentials: a certificate for the user "consumer".
credentials() {
	local dir=$1
	openssl ecparam -genkey -name prime256v1 -noout -out "$dir/key.pem"
	openssl req -new -key "$dir/key.pem" -subj /CN=consumer -out "$dir/csr.pem"
	"$playground" kubectl b delete csr liqo-demo-consumer --ignore-not-found >/dev/null
	"$playground" kubectl b apply -f - >/dev/null <<-YAML
		apiVersion: certificates.k8s.io/v1
		kind: CertificateSigningRequest
		metadata:
		  name: liqo-demo-consumer
		spec:
		  request: $(base64 -w0 "$dir/csr.pem")
		  signerName: kubernetes.io/kube-apiserver-client
		  usages: [client auth]
	YAML
	provider certificate approve liqo-demo-consumer
	provider wait csr liqo-demo-consumer --for=jsonpath='{.status.certificate}' --timeout=60s
	"$playground" kubectl b get csr liqo-demo-consumer -o 'jsonpath={.status.certificate}' | base64 -d >"$dir/cert.pem"
	"$playground" kubectl b config view --raw --minify -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d >"$dir/ca.pem"
	local server
	server=$("$playground" kubectl b config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
	"$playground" kubectl b config --kubeconfig "$dir/kubeconfig" set-cluster cl-provider --server "$server" --certificate-authority "$dir/ca.pem" --embed-certs >/dev/null
	"$playground" kubectl b config --kubeconfig "$dir/kubeconfig" set-credentials consumer --client-certificate "$dir/cert.pem" --client-key "$dir/key.pem" --embed-certs >/dev/null
	"$playground" kubectl b config --kubeconfig "$dir/kubeconfig" set-context default --cluster cl-provider --user consumer >/dev/null
	"$playground" kubectl b config --kubeconfig "$dir/kubeconfig" use-context default >/dev/null
}

peer() {
	bold "Peering: the provider registers the consumer and hands out credentials"
	provider apply -f demo/manifests/tenant-provider.yaml
	consumer apply -f demo/manifests/tenant-consumer.yaml
	local dir
	dir=$(mktemp -d)
	if ! "$playground" kubectl a get secret cplane-secret -n liqo-tenant-cl-provider >/dev/null 2>&1; then
		credentials "$dir"
		"$playground" kubectl a create secret generic cplane-secret -n liqo-tenant-cl-provider --from-file=kubeconfig="$dir/kubeconfig" --dry-run=client -o json |
			"$playground" kubectl a label --local -f - liqo.io/identity-type=ControlPlane liqo.io/remote-cluster-id=cl-provider -o json |
			"$playground" kubectl a annotate --local -f - liqo.io/remote-tenant-namespace=liqo-tenant-cl-consumer -o json |
			"$playground" kubectl a apply -f -
	fi
	rm -rf "$dir"
	bold "The consumer asks for 4 CPUs and 8 GiB, and sees the provider as one more node"
	consumer apply -f demo/manifests/resourceslice.yaml
	show "$playground" kubectl a wait node/cl-provider --for=create --timeout=120s
	consumer wait node/cl-provider --for=condition=Ready --timeout=120s
	consumer get nodes
}

offload() {
	bold "Offloading a namespace and an application"
	consumer apply -f demo/manifests/offloading.yaml
	consumer wait namespaceoffloading/offloading -n demo --for=jsonpath='{.status.offloadingPhase}'=Ready --timeout=60s
	consumer apply -n demo -f demo/manifests/web.yaml
	consumer rollout status deployment/web -n demo --timeout=120s
	consumer get pods -n demo -o wide
	bold "The same pod, seen by the provider"
	provider get pods -n demo-cl-consumer -o wide
}

try_it() {
	bold "What each pod serves, read through kubectl exec; one of them answers from the other cluster"
	local pod
	for pod in $("$playground" kubectl a get pods -n demo -l app=web -o name); do
		consumer exec -n demo "$pod" -- wget -q -O - http://127.0.0.1:8080/
		consumer logs -n demo "$pod"
	done
}

finish() {
	bold "Done in $((SECONDS - started)) s. Try next:"
	cat <<-TXT
		  export KUBECONFIG=$A PATH=$("$playground" assets):\$PATH      # the consumer; the provider is $B
		  kubectl get nodes
		  kubectl scale deployment web -n demo --replicas 6 && kubectl get pods -n demo -o wide -w
		  kubectl logs -f -n demo deploy/web
		  $PWD/bin/liqoctl info
		  make demo-down                                    # removes everything
	TXT
}

if [ "${1:-}" = --down ]; then
	[ -x "$playground" ] || make --no-print-directory playground
	exec "$playground" down
fi
trap 'echo; echo "demo: interrupted; \`make demo\` goes on from here, \`make demo-down\` removes everything"; exit 130' INT TERM
trap 'echo "demo: failed; \`make demo-down\` removes everything" >&2' ERR
check_machine
build
clusters
A=$("$playground" kubeconfig a)
B=$("$playground" kubeconfig b)
install
peer
offload
try_it
finish
