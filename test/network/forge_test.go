// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/story"
)

const (
	fabricPort = 6091
	closedPort = 4444 // of pods: a datagram that gets there is counted
)

// scraper may read the metrics of the fabric.
const scraper = `apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
`

// told has what this program sends instead of testing, where it is told to.
const told = "LIQO_TEST_SEND"

// A sender sends packets, whatever they say, by the way to an address.
type sender func(to netip.Addr, packet []byte) error

// forge has a host of the world and ordinary pods pose as the gateway and as a pod of the peer, towards each node. No pod gets any of it:
// frames that are not the gateway's to send, and packets in the name of the peer that come not by the fabric, are refused and counted;
// reverse path filters stop the rest. Only what is beside the gateway is believed, see docs/threat-model.md: the network of the nodes, if pods are
// routed there, and pods on the bridge of the gateway, if the CNI has one. This shows that these frames are good ones.
func forge(t *testing.T, here, peer testCluster) {
	t.Helper()
	kubectl(t, here.Cluster, scraper, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, here.Cluster, scraper, "delete", "-f", "-") })
	token := strings.TrimSpace(kubectl(t, here.Cluster, "", "create", "token", "-n", "default", "scraper"))
	stranger, gateway := here.seen(peer.pods[0].Status.PodIP), netip.MustParseAddr(here.gateway.Status.PodIP)
	world, pods := senders(t, here)
	for i, n := range here.nodes {
		j := (i + 1) % len(here.pods)
		node, victim, neighbour := address(t, n), here.pods[i], netip.MustParseAddr(here.pods[j].Status.PodIP)
		to, identity := netip.MustParseAddr(victim.Status.PodIP), netip.MustParseAddr(external(t, here, n))
		own := netip.IPv4Unspecified() // the kernel puts the address there
		frame := func(outer, inner netip.Addr) []byte {
			return datagram(outer, node, fabricPort, carried(identity, datagram(inner, to, closedPort, nil)))
		}
		gatewayDevice := device(t, n, gateway)
		byUplink, byPod, byOther := 0, 0, 0 // frames in the name of the gateway that the reverse path filters of their way let pass
		if gatewayDevice == device(t, n, address(t, here.nodes[j])) {
			byUplink = 1
		}
		if gatewayDevice == device(t, n, to) && gatewayDevice != "cilium_host" { // Cilium verifies the sources of pods
			byPod = 1
		}
		if device(t, here.nodes[j], gateway) == device(t, here.nodes[j], neighbour) {
			byOther = byUplink
		}
		delivered, dropped := datagrams(t, here, victim), countRefused(t, node, token)
		for _, step := range []struct {
			what               string
			from               sender
			packet             []byte
			delivered, dropped int
		}{
			{"a host of the world in its own name", world, frame(own, stranger), 0, 1},
			{"a host of the world as the gateway, with a packet of a pod here", world, frame(gateway, neighbour), 0, 1},
			{"a host of the world as the gateway", world, frame(gateway, stranger), byUplink, 0},
			{"a host of the world as a pod of the peer", world, datagram(stranger, to, closedPort, nil), 0, 1},
			{"a pod of the node in its own name", pods[i], frame(own, stranger), 0, 1},
			{"a pod of the node as the gateway", pods[i], frame(gateway, stranger), byPod, 0},
			{"a pod elsewhere in its own name", pods[j], frame(own, stranger), 0, 1},
			{"a pod elsewhere as the gateway", pods[j], frame(gateway, stranger), byOther, 0},
			{"a pod elsewhere as a pod of the peer", pods[j], datagram(stranger, to, closedPort, nil), 0, 0},
			{"the truth, after all that", pods[j], datagram(own, to, closedPort, nil), 1, 0},
		} {
			if err := step.from(node, step.packet); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			delivered, dropped = delivered+step.delivered, dropped+step.dropped
		}
		eventually(t, "what was forged to be refused", func(context.Context) error {
			if d, r := datagrams(t, here, victim), countRefused(t, node, token); d != delivered || r != dropped {
				return fmt.Errorf("%s got %d datagrams, want %d; %s refused %d, want %d", victim.Name, d, delivered, n.Name, r, dropped)
			}
			return nil
		})
	}
}

// device is the interface by which a node reaches an address.
func device(t *testing.T, n corev1.Node, to netip.Addr) string {
	t.Helper()
	out, err := story.Output("exec", n.Name, "ip", "route", "get", to.String())
	_, after, found := strings.Cut(out, " dev ")
	if err != nil || !found {
		t.Fatalf("the route of %s to %s: %q, %v", n.Name, to, out, err)
	}
	return strings.Fields(after)[0]
}

// senders are a host of the world and the pods of a cluster: they run this program.
func senders(t *testing.T, of testCluster) (world sender, pods []sender) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	words := func(to netip.Addr, packet []byte) string { return fmt.Sprintf("%s=%s %x", told, to, packet) }
	for _, p := range of.pods {
		in := []string{"exec", "-i", "-n", "default", p.Name, "--"}
		kubectl(t, of.Cluster, string(program), append(in, "sh", "-c", "cat > /send; chmod +x /send")...)
		pods = append(pods, func(to netip.Addr, packet []byte) error {
			_, err := of.Kubectl("", append(in, "env", words(to, packet), "/send")...)
			return err
		})
	}
	cluster := filepath.Base(filepath.Dir(of.Kubeconfig))
	return func(to netip.Addr, packet []byte) error {
		return story.Playground("exec", cluster, "env", words(to, packet), path)
	}, pods
}

// send does what senders are told.
func send(text string) error {
	var by string
	var packet []byte
	if _, err := fmt.Sscanf(text, "%s %x", &by, &packet); err != nil {
		return fmt.Errorf("reading %q: %w", text, err)
	}
	to, err := netip.ParseAddr(by)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("opening a raw socket: %w", err)
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.As4()})
}

// datagrams are how many a pod got at closed ports.
func datagrams(t *testing.T, of testCluster, pod corev1.Pod) int {
	t.Helper()
	out := kubectl(t, of.Cluster, "", "exec", "-n", "default", pod.Name, "--", "sed", "-n", `s/^Udp: [0-9]* \([0-9]*\) .*/\1/p`, "/proc/net/snmp")
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// countRefused returns the number of packets that a node dropped from the fabric, and of strays.
func countRefused(t *testing.T, node netip.Addr, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s:8082/metrics", node), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} // it is self-signed
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum, reasons := 0, map[string]bool{`reason="outer_refused"`: true, `reason="stray_refused"`: true}
	for line := range strings.Lines(string(text)) {
		for reason := range reasons {
			if !strings.HasPrefix(line, "liqo_node_dropped_packets_total{") || !strings.Contains(line, reason) {
				continue
			}
			n, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += int(n)
			delete(reasons, reason)
		}
	}
	if len(reasons) > 0 {
		t.Fatalf("%s: node %s does not say what it refused:\n%s", response.Status, node, text)
	}
	return sum
}

// datagram is a packet of UDP.
func datagram(from, to netip.Addr, port uint16, payload []byte) []byte {
	p := []byte{0: 0x45, 8: 64, 9: unix.IPPROTO_UDP, 27: 0}
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)+len(payload)))
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(p[20:], 40000)
	binary.BigEndian.PutUint16(p[22:], port)
	binary.BigEndian.PutUint16(p[24:], uint16(8+len(payload))) // without a checksum, as IPv4 allows
	return append(p, payload...)
}

// carried is what the fabric brings to a node, which is known by its address in front of peers, in a datagram.
func carried(node netip.Addr, packet []byte) []byte {
	out := []byte{0: 0x08, 6: 1, 8: 0x02, 9: 0x6c, 14: 0x02, 19: 1, 20: 0x08, 21: 0x00}
	copy(out[10:14], node.AsSlice())
	return append(out, packet...)
}
