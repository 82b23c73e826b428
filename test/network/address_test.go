// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/story"
)

// leases is the folder of a node in which its CNI has a file for each address of a pod, and one with that which it gave last.
const leases = "/var/lib/cni/networks/playground"

// ciliumAPI begins each request to the agent of a node with Cilium, which gives addresses at random.
const ciliumAPI = "curl -s --unix-socket /run/cilium/cilium.sock"

// after has pods that are made next on a node get the address with this last byte and those after it, except with Cilium.
func after(t *testing.T, n corev1.Node, host int) {
	t.Helper()
	if err := story.Playground("exec", n.Name, "sh", "-c", fmt.Sprintf("mkdir -p %[1]s && printf %[2]s > %[1]s/last_reserved_ip.0", leases, podAddress(n, host-1))); err != nil {
		t.Fatal(err)
	}
}

// next has the pod that is made next on a node get the address with this last byte, or if somebody has it one after it. Cilium has no other address
// to give until that pod has it, or until release.
func next(t *testing.T, n corev1.Node, host int) {
	t.Helper()
	after(t, n, host)
	script := fmt.Sprintf(`[ -S /run/cilium/cilium.sock ] || exit 0
reserved=$(mktemp -p /run/cilium --suffix .reserved)
for part in 1-%[1]d %[2]d-254; do %[3]s -o /dev/null -w '%%{http_code} %%{url_effective}\n' -X POST "http://cilium/v1/ipam/%[4]s[$part]?pool=default"; done |
	sed -n 's/^200 \(.*\)/url = "\1"\noutput = "\/dev\/null"/p' > $reserved
(for _ in $(seq 600); do [ -e $reserved ] || exit; %[3]s http://cilium/v1/endpoint | grep -q '"ipv4":"%[5]s"' && break; sleep 0.1; done
 %[6]s) </dev/null >/dev/null 2>&1 &`,
		host-1, host+1, ciliumAPI, strings.TrimSuffix(podAddress(n, 0).String(), "0"), podAddress(n, host), releaseReserved)
	if err := story.Playground("exec", n.Name, "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
}

// releaseReserved gives the addresses of the file $reserved back to Cilium, once: a pod may have them after that.
const releaseReserved = `mv $reserved $reserved.going && ` + ciliumAPI + ` -X DELETE -K $reserved.going; rm -f $reserved.going`

// release gives back what next has reserved on a node, whether or not a pod got its address.
func release(t *testing.T, n corev1.Node) {
	t.Helper()
	script := `for reserved in /run/cilium/*.reserved; do [ ! -e $reserved ] || { ` + releaseReserved + `; }; done`
	if err := story.Playground("exec", n.Name, "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
}

// free is the last byte of an address that no pod of some nodes has.
func free(t *testing.T, of []corev1.Node) int {
	t.Helper()
	taken := map[string]bool{}
	for _, n := range of {
		out, err := story.Output("exec", n.Name, "sh", "-c", fmt.Sprintf(`[ -S /run/cilium/cilium.sock ] || exec ls %s
(%s http://cilium/v1/endpoint; ip addr show cilium_host) | grep -o '%s[0-9]*'`, leases, ciliumAPI, strings.TrimSuffix(podAddress(n, 0).String(), "0")))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(out) {
			taken[name] = true
		}
	}
	for host := 100; host < 150; host++ {
		exists := false
		for _, n := range of {
			exists = exists || taken[podAddress(n, host).String()]
		}
		if !exists {
			return host
		}
	}
	t.Fatal("no address is free")
	return 0
}

func podAddress(n corev1.Node, host int) netip.Addr {
	bytes := netip.MustParsePrefix(n.Spec.PodCIDR).Addr().As4()
	bytes[3] = byte(host)
	return netip.AddrFrom4(bytes)
}

var counted = regexp.MustCompile(`ct state invalid counter packets ([0-9]+)`)

// invalidPackets are how many packets each node dropped because they belong to no flow.
func invalidPackets(t *testing.T, of testCluster) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, n := range of.nodes {
		text, err := story.Output("exec", n.Name, "nft", "list", "chain", "inet", "playground", "forward")
		if err != nil {
			t.Fatal(err)
		}
		found := counted.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("node %s does not count what it drops:\n%s", n.Name, text)
		}
		if out[n.Name], err = strconv.Atoi(found[1]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// invalidFlows are the flows of all these packets, by node.
func invalidFlows(t *testing.T, of testCluster) string {
	t.Helper()
	var out strings.Builder
	for _, n := range of.nodes {
		text, err := story.Output("exec", n.Name, "nft", "list", "set", "inet", "playground", "invalid")
		if err != nil {
			t.Fatal(err)
		}
		if _, flows, found := strings.Cut(text, "elements = "); found {
			fmt.Fprintf(&out, "%s: %s\n", n.Name, flows)
		}
	}
	return out.String()
}
