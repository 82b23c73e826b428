// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
)

// where everything of a tunnel is.
const where = "default"

// pod answers at a port with what fills many packets, and its name; one on the host's network stands for all processes of its node.
const pod = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  hostNetwork: %[3]t
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  containers:
  - name: web
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "mkdir /www; (head -c 20000 /dev/zero | tr '\\0' x; echo; echo %[1]s) > /www/index.html; exec httpd -f -p %[4]d -h /www"]
    resources: {requests: {cpu: 5m, memory: 8Mi}}
---
`

const (
	port     = 8080
	hostPort = 18080 // of processes of nodes
	nodePort = 31080
)

// A place is where somebody asks from.
type place struct {
	name string
	ask  func(netip.AddrPort) (string, error)
	run  func(script string) (string, error) // nil where nothing can be run
}

// A goal is where somebody wants to go.
type goal struct {
	name string
	at   netip.AddrPort
	// answer is who must answer; "" if nobody may.
	answer string
}

// Everybody who may reach something of the other cluster does, and nobody reaches what is not for peers.
func TestMatrix(t *testing.T) {
	connect(t)
	nodesA, nodesB := nodes(t, a), nodes(t, b)
	podsA, podsB := web(t, a, nodesA), web(t, b, nodesB)
	fromA, fromB := places(a, nodesA), places(b, nodesB)
	ofA, ofB := seen(t, b, a.ID), seen(t, a, b.ID) // as the other cluster sees them

	goalsOfA := pods(podsB, ofB)
	service := remoteService(t, a, ofB(podsB[0].Status.PodIP))
	goalsOfA = append(goalsOfA, goal{"ClusterIP", netip.AddrPortFrom(service, 80), podsB[0].Name})
	for _, n := range nodesA {
		goalsOfA = append(goalsOfA, goal{"NodePort of " + n.Name, netip.AddrPortFrom(address(t, n), nodePort), podsB[0].Name})
	}
	goalsOfA = append(goalsOfA, forbidden(t, b, nodesB, ofB)...)
	grid(t, "from the cluster of the client", fromA, goalsOfA)
	grid(t, "from the cluster of the server", fromB, append(pods(podsA, ofA), forbidden(t, a, nodesA, ofA)...))
	large(t, fromA, pods(podsB, ofB))
	large(t, fromB, pods(podsA, ofA))

	world := place{name: "a host of the world", ask: dial}
	var outside []goal
	for _, n := range nodesA {
		outside = append(outside, goal{"NodePort of " + n.Name, netip.AddrPortFrom(address(t, n), nodePort), podsB[0].Name})
	}
	grid(t, "from outside", []place{world}, outside)
}

// grid asks from each place for each goal, and prints who answered.
func grid(t *testing.T, title string, from []place, to []goal) {
	t.Helper()
	answers := make([][]string, len(from))
	var asking sync.WaitGroup
	for i, p := range from { // of one place one after the other
		answers[i] = make([]string, len(to))
		asking.Go(func() {
			for j, g := range to {
				answers[i][j] = try(p, g)
			}
		})
	}
	asking.Wait()
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", title)
	for j, g := range to {
		fmt.Fprintf(&text, "  %-34s", g.name)
		for i, p := range from {
			fmt.Fprintf(&text, "  %s: %-12s", p.name, orNothing(answers[i][j]))
			if answers[i][j] != g.answer {
				t.Errorf("from %s to %s (%s): %q answered, want %q", p.name, g.name, g.at, answers[i][j], g.answer)
			}
		}
		text.WriteByte('\n')
	}
	t.Log(text.String())
	if t.Failed() {
		show(t)
	}
}

func orNothing(answer string) string {
	if answer == "" {
		return "-"
	}
	return answer
}

// try asks again where an answer is wanted, for news of a Service take a moment to be everywhere.
func try(p place, g goal) string {
	last := ""
	for range 5 {
		answer, err := p.ask(g.at)
		if err == nil && answer == g.answer || g.answer == "" {
			return answer
		}
		last = answer
	}
	return last
}

// places are a pod and a process of each node.
func places(c *clusters.Cluster, of []corev1.Node) []place {
	var out []place
	for _, n := range of {
		for _, name := range []string{"pod-" + n.Name, "node-" + n.Name} {
			run := func(script string) (string, error) {
				out, err := c.Kubectl("", "exec", "-n", "default", name, "--", "sh", "-c", script)
				return strings.TrimSpace(out), err
			}
			ask := func(at netip.AddrPort) (string, error) {
				return run(fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 2 %s %d 2>/dev/null | tail -n 1`, at.Addr(), at.Port()))
			}
			out = append(out, place{name, ask, run})
		}
	}
	return out
}

// dial asks from where the test runs, which is no part of any cluster.
func dial(at netip.AddrPort) (string, error) {
	conn, err := net.DialTimeout("tcp", at.String(), 3*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		return "", err
	}
	data, err := io.ReadAll(conn)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.TrimSpace(lines[len(lines)-1]), err
}

// nodes are those of flesh, by name.
func nodes(t *testing.T, c *clusters.Cluster) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := c.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	out := slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return n.Labels["liqo.io/type"] == "virtual-node" })
	if len(out) < 2 {
		t.Fatalf("cluster %s has %d nodes: a gateway on another node cannot be tried", c.ID, len(out))
	}
	return out
}

// web runs a pod and a process on each node, and returns the pods.
func web(t *testing.T, c *clusters.Cluster, on []corev1.Node) []corev1.Pod {
	t.Helper()
	manifest := ""
	for _, n := range on {
		manifest += fmt.Sprintf(pod, "pod-"+n.Name, n.Name, false, port) + fmt.Sprintf(pod, "node-"+n.Name, n.Name, true, hostPort)
	}
	kubectl(t, c, manifest, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, c, manifest, "delete", "--ignore-not-found", "-f", "-") })
	out := make([]corev1.Pod, len(on))
	eventually(t, "the pods of "+c.ID, func(ctx context.Context) error {
		for i, n := range on {
			for _, name := range []string{"node-" + n.Name, "pod-" + n.Name} {
				if err := c.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &out[i]); err != nil {
					return err
				}
				if out[i].Status.PodIP == "" || !slices.ContainsFunc(out[i].Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Ready }) {
					return fmt.Errorf("pod %s is %s", name, out[i].Status.Phase)
				}
			}
		}
		return nil
	})
	return out
}

// pods are goals, as the other cluster sees them.
func pods(of []corev1.Pod, seen func(string) netip.Addr) []goal {
	var out []goal
	for _, p := range of {
		out = append(out, goal{p.Name, netip.AddrPortFrom(seen(p.Status.PodIP), port), p.Name})
	}
	return out
}

// forbidden is what peers must not reach: nodes by whatever address, their kubelets and NodePorts, gateways.
func forbidden(t *testing.T, of *clusters.Cluster, on []corev1.Node, seen func(string) netip.Addr) []goal {
	t.Helper()
	var out []goal
	for _, n := range on {
		first := netip.MustParsePrefix(n.Spec.PodCIDR).Addr().Next() // of the bridge of pods
		var internal networkingv1beta1.InternalNode
		if err := of.Client.Get(t.Context(), client.ObjectKey{Name: n.Name}, &internal); err != nil {
			t.Fatal(err)
		}
		external := seen(string(internal.Spec.Interface.Node.IP))
		out = append(out,
			goal{"bridge of " + n.Name, netip.AddrPortFrom(seen(first.String()), hostPort), ""},
			goal{"kubelet of " + n.Name, netip.AddrPortFrom(seen(first.String()), 10250), ""},
			goal{"process of " + n.Name, netip.AddrPortFrom(external, hostPort), ""},
			goal{"NodePort of peer's " + n.Name, netip.AddrPortFrom(external, nodePort), ""},
		)
	}
	var gateways corev1.PodList
	if err := of.Client.List(t.Context(), &gateways, client.InNamespace(where), client.MatchingLabels{"networking.liqo.io/component": "gateway"}); err != nil {
		t.Fatal(err)
	}
	for _, g := range gateways.Items {
		out = append(out, goal{"gateway", netip.AddrPortFrom(seen(g.Status.PodIP), 8083), ""})
	}
	return out
}

// seen is how a cluster sees the addresses of a peer.
func seen(t *testing.T, by *clusters.Cluster, peer string) func(string) netip.Addr {
	t.Helper()
	var list networkingv1beta1.ConfigurationList
	if err := by.Client.List(t.Context(), &list, client.MatchingLabels{"liqo.io/remote-cluster-id": peer}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Status.Remote == nil {
		t.Fatalf("the networks of %s are seen under no prefixes, or by %d Configurations", peer, len(list.Items))
	}
	cfg := list.Items[0]
	there := append(slices.Clone(cfg.Spec.Remote.CIDR.Pod), cfg.Spec.Remote.CIDR.External...)
	here := append(slices.Clone(cfg.Status.Remote.CIDR.Pod), cfg.Status.Remote.CIDR.External...)
	return func(text string) netip.Addr {
		addr := netip.MustParseAddr(text)
		for i := range there {
			if netip.MustParsePrefix(string(there[i])).Contains(addr) {
				return moved(addr, netip.MustParsePrefix(string(here[i])))
			}
		}
		t.Fatalf("%s of %s is in no network of its", text, peer)
		return netip.Addr{}
	}
}

// moved is the address with the same host part in another network.
func moved(addr netip.Addr, to netip.Prefix) netip.Addr {
	out, host := to.Addr().As4(), addr.As4()
	for i := to.Bits(); i < 32; i++ {
		out[i/8] |= host[i/8] & (0x80 >> (i % 8))
	}
	return netip.AddrFrom4(out)
}

// remoteService makes a Service whose only endpoint is in the other cluster, and returns its address.
func remoteService(t *testing.T, c *clusters.Cluster, endpoint netip.Addr) netip.Addr {
	t.Helper()
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: far, namespace: default}
spec: {type: NodePort, ports: [{port: 80, targetPort: %d, nodePort: %d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: far, namespace: default, labels: {kubernetes.io/service-name: far}}
addressType: IPv4
ports: [{port: %[1]d, protocol: TCP}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}}]
`, port, nodePort, endpoint)
	kubectl(t, c, manifest, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, c, manifest, "delete", "-f", "-") })
	var service corev1.Service
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "far"}, &service); err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddr(service.Spec.ClusterIP)
}

func address(t *testing.T, n corev1.Node) netip.Addr {
	t.Helper()
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(a.Address)
		}
	}
	t.Fatalf("node %s has no address", n.Name)
	return netip.Addr{}
}
