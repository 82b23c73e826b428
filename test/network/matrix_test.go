// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
)

// where everything of a tunnel is.
const where = "default"

// pod answers at a port with what fills many packets, its name, and whom it sees; one on the host's network stands for all processes of
// its node.
const pod = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  hostNetwork: %[3]t
  dnsPolicy: ClusterFirstWithHostNet
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  containers:
  - name: web
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command:
    - sh
    - -c
    - |
      mkdir -p /www/cgi-bin
      (printf 'Content-Type: text/plain\r\n\r\n'; head -c 20000 /dev/zero | tr '\0' x; echo) > /www/much
      cat > /www/cgi-bin/who <<'EOF'
      #!/bin/sh
      cat /www/much
      who=${REMOTE_ADDR#"["}
      who=${who#::ffff:}
      echo %[1]s sees ${who%%%%"]"*}
      EOF
      chmod +x /www/cgi-bin/who
      exec httpd -f -p %[4]d -h /www
    resources: {requests: {cpu: 5m, memory: 8Mi}}
---
`

// NodePorts up to 30085 are given to who asks for none only where no other is free, see
// https://kubernetes.io/docs/concepts/services-networking/service/#avoid-nodeport-collisions.
const (
	port          = 8080
	hostPort      = 18080 // of processes of nodes
	nodePort      = 30080 // with externalTrafficPolicy Cluster
	localNodePort = 30081 // with externalTrafficPolicy Local
	otherNodePort = 30082 // of a gateway that moves
)

const request = "GET /cgi-bin/who HTTP/1.0\r\n\r\n"

// nobody is the answer where nobody answers.
const nobody = "-"

// probeSource is a pod, node or machine that sends probes.
type probeSource struct {
	name, node string     // no node outside
	seen       netip.Addr // by the peer; none where that depends on the way
	unmasked   bool       // other nodes see its own address, so kube-proxy serves it as a pod of the cluster
	// ask fails where the question could not be asked at all.
	ask func(host string, port uint16) (string, error)
	run func(script string) (string, error) // nil where nothing can be run
}

// probeTarget is an address that is probed, with the expected result.
type probeTarget struct {
	name     string
	host     string
	port     uint16
	answer   string // who must answer
	only     string // if set, the node from where he does; nobody elsewhere, unless unmasked
	anywhere bool   // only does not hold
	sees     bool   // he sees who asks
}

// wanted is what the answer has to be, or to begin with if it ends with a space.
func (g probeTarget) wanted(from probeSource) string {
	switch {
	case g.answer == nobody || g.only != "" && g.only != from.node && !from.unmasked && !g.anywhere:
		return nobody
	case g.sees && from.seen.IsValid():
		return g.answer + " sees " + from.seen.String()
	default:
		return g.answer + " sees "
	}
}

func (g probeTarget) fits(from probeSource, response string) bool {
	want := g.wanted(from)
	return response == want || strings.HasSuffix(want, " ") && strings.HasPrefix(response, want)
}

// testCluster is one of both clusters, with the pods of the matrix.
type testCluster struct {
	*clusters.Cluster
	nodes   []corev1.Node
	pods    []corev1.Pod // one on each node, with the very address of that of the other cluster there
	gateway corev1.Pod
	twin    corev1.Pod              // with the address of the other cluster's gateway
	seen    func(string) netip.Addr // how this cluster sees an address of the other one
	cilium  map[string]string       // settings of Cilium, nil with another CNI
}

// Everybody who may reach something of the other cluster does, and nobody reaches what is not for peers, from the node of the gateway
// and from another one; pods are seen under their own addresses; what they say passes the network between the clusters in secret, and
// connection tracking finds nothing of it invalid. See docs/network-reach.md, "Who reaches what". Here the consumer has the server of the tunnel.
func TestMatrix(t *testing.T) {
	p := peer(t, "matrix")
	eventually(t, "the virtual kubelet to run", func(ctx context.Context) error {
		_, err := theVirtualNode(ctx)
		return err
	})
	for i, c := range []*clusters.Cluster{a, b} { // so that nobody in one cluster has the address of the other one's gateway
		for _, n := range nodes(t, c) {
			after(t, n, 150+50*i)
		}
	}
	tunnel := clusters.NewTunnel(a, b, "")
	tunnel.ServerNamespace, tunnel.ClientNamespace = p.ConsumerTenant, p.ProviderTenant
	dig(t, tunnel)
	sides := newTestClusters(t)
	invalid := make([]map[string]int, len(sides))
	for i, s := range sides {
		invalid[i] = invalidPackets(t, s)
	}
	services := [][]probeTarget{remoteServices(t, sides[0], sides[1]), remoteServices(t, sides[1], sides[0])}
	captured := capture(t)
	for i, from := range sides {
		to := sides[1-i]
		for k := range services[i] {
			services[i][k].anywhere = from.replacesKubeProxy() // docs/network-reach.md#cilium-without-kube-proxy
		}
		goals := slices.Concat(podGoals(from, to), services[i], forbidden(t, from, to))
		grid(t, fmt.Sprintf("from %s, whose gateway is on %s, to %s, whose gateway is on %s", from.ID, from.gateway.Spec.NodeName, to.ID, to.gateway.Spec.NodeName),
			places(t, from, to), goals)
		large(t, places(t, from, to), podGoals(from, to))
		if from.replacesKubeProxy() {
			continue // such requests are lost, of which check and an event tell
		}
		outside := slices.DeleteFunc(services[i], func(g probeTarget) bool { return !strings.HasPrefix(g.name, "NodePort") })
		grid(t, "from outside, by "+from.ID, []probeSource{{name: "a host of the world", ask: dial}}, outside)
	}
	inSecret(t, captured(), sides)
	for i, s := range sides {
		if diff := cmp.Diff(invalid[i], invalidPackets(t, s)); diff != "" {
			t.Errorf("the nodes of %s dropped packets as invalid (-before +after):\n%s\n%s", s.ID, diff, invalidFlows(t, s))
		}
	}
	isTold(t, tunnel)
	forge(t, sides[0], sides[1])
}

// replacesKubeProxy tells whether Cilium does the work of kube-proxy.
func (s testCluster) replacesKubeProxy() bool { return s.cilium["kube-proxy-replacement"] == "true" }

// ciliumSettings are the settings of Cilium in a cluster, nil if another CNI runs there.
func ciliumSettings(t *testing.T, of *clusters.Cluster) map[string]string {
	t.Helper()
	var settings corev1.ConfigMap
	err := of.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cilium-config"}, &settings)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return settings.Data
}

func newTestClusters(t *testing.T) []testCluster {
	t.Helper()
	sides := []testCluster{newTestCluster(t, a, b), newTestCluster(t, b, a)}
	for _, s := range sides {
		for _, n := range s.nodes {
			start(t, s.Cluster, fmt.Sprintf(pod, "node-"+n.Name, n.Name, true, hostPort))
		}
	}
	for i := range sides[0].nodes {
		same := []corev1.Node{sides[0].nodes[i], sides[1].nodes[i]}
		pods := podsAt(t, sides, same, func() int { return free(t, same) }, "pod-")
		for j, s := range sides {
			running(t, s.Cluster, "node-"+s.nodes[i].Name)
			sides[j].pods = append(s.pods, pods[j])
		}
		if one, other := pods[0].Status.PodIP, pods[1].Status.PodIP; one != other {
			t.Fatalf("pods have the addresses %s and %s, want the very same", one, other)
		}
	}
	for i := range sides {
		sides[i].twin = twin(t, sides[i], sides[1-i].gateway.Status.PodIP)
	}
	return sides
}

func newTestCluster(t *testing.T, c, peer *clusters.Cluster) testCluster {
	t.Helper()
	s := testCluster{Cluster: c, nodes: nodes(t, c), seen: seen(t, c, peer.ID), cilium: ciliumSettings(t, c)}
	var gateways corev1.PodList
	if err := c.Client.List(t.Context(), &gateways, client.MatchingLabels{"networking.liqo.io/component": "gateway"}); err != nil {
		t.Fatal(err)
	}
	gateways.Items = slices.DeleteFunc(gateways.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(gateways.Items) != 1 || !slices.ContainsFunc(s.nodes, func(n corev1.Node) bool { return n.Name == gateways.Items[0].Spec.NodeName }) {
		t.Fatalf("cluster %s has %d gateways, want one on one of its nodes", c.ID, len(gateways.Items))
	}
	s.gateway = gateways.Items[0]
	return s
}

// beside says where the gateway is, as a node sees it.
func (s testCluster) beside(node string) string {
	if node == s.gateway.Spec.NodeName {
		return " by gateway"
	}
	return ""
}

// atOnce is the number of parallel probes of a source: probes without an answer mostly wait.
const atOnce = 3

// grid probes each target from each source, and prints which server answered.
func grid(t *testing.T, title string, from []probeSource, to []probeTarget) {
	t.Helper()
	answers := make([][]string, len(from))
	var asking sync.WaitGroup
	for i, p := range from {
		answers[i] = make([]string, len(to))
		remaining := make(chan int, len(to))
		for j := range to {
			remaining <- j
		}
		close(remaining)
		for range atOnce {
			asking.Go(func() {
				for j := range remaining {
					answers[i][j] = try(p, to[j])
				}
			})
		}
	}
	asking.Wait()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, title, "\nto")
	for _, p := range from {
		fmt.Fprint(table, "\t", p.name)
	}
	for j, g := range to {
		fmt.Fprint(table, "\n", g.name)
		for i, p := range from {
			fmt.Fprint(table, "\t", answers[i][j])
			if !g.fits(p, answers[i][j]) {
				t.Errorf("from %s to %s (%s %d): %q answered, want %q", p.name, g.name, g.host, g.port, answers[i][j], g.wanted(p))
			}
		}
	}
	_ = table.Flush() // to memory
	t.Log(text.String())
	if t.Failed() {
		show(t)
	}
}

// try asks again where an answer is wanted, for news of a Service take a moment to be everywhere. What could not be asked stays empty.
func try(p probeSource, g probeTarget) string {
	response, want := "", g.wanted(p)
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(250 * time.Millisecond) {
		if got, err := p.ask(g.host, g.port); err == nil {
			response = got
		}
		if g.fits(p, response) || response != "" && want == nobody {
			break
		}
	}
	return response
}

// places are a pod and a process of each node, and the pod with the address of the peer's gateway.
func places(t *testing.T, s, peer testCluster) []probeSource {
	t.Helper()
	var out []probeSource
	for i, n := range s.nodes {
		out = append(out,
			s.podPlace(t, s.pods[i], peer),
			s.place("node-"+n.Name, n.Name, peer.seen(external(t, s, n))))
	}
	return append(out, s.podPlace(t, s.twin, peer))
}

// podPlace returns a pod as a source of probes, after it asked a process of another node whom it sees: some CNIs masquerade such requests.
func (s testCluster) podPlace(t *testing.T, p corev1.Pod, peer testCluster) probeSource {
	t.Helper()
	out := s.place(p.Name, p.Spec.NodeName, peer.seen(p.Status.PodIP))
	other := s.nodes[slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return n.Name != p.Spec.NodeName })]
	eventually(t, "the answer of a process of "+other.Name+" to "+p.Name, func(context.Context) error {
		response, err := out.ask(address(t, other).String(), hostPort)
		if err == nil && response == nobody {
			err = errors.New("it does not answer")
		}
		out.unmasked = strings.HasSuffix(response, " sees "+p.Status.PodIP)
		return err
	})
	return out
}

// place returns a pod as a source of probes.
func (s testCluster) place(pod, node string, seen netip.Addr) probeSource {
	run := func(script string) (string, error) {
		out, err := s.Kubectl("", "exec", "-n", "default", pod, "--", "sh", "-c", script)
		return strings.TrimSpace(out), err
	}
	ask := func(host string, port uint16) (string, error) {
		response, err := run(fmt.Sprintf(`printf '%s' | nc -w 2 %s %d 2>/dev/null | tail -n 1`, strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(request), host, port))
		if response == "" {
			response = nobody
		}
		return response, err
	}
	return probeSource{name: pod + s.beside(node), node: node, seen: seen, ask: ask, run: run}
}

// dial asks from where the test runs, which is no part of any cluster.
func dial(host string, port uint16) (string, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", host, port), time.Second)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() || errors.Is(err, syscall.ECONNREFUSED) {
		return nobody, nil
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	data, err := io.ReadAll(conn)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.TrimSpace(lines[len(lines)-1]), err
}

// nodes are those of flesh, by name.
func nodes(t *testing.T, c *clusters.Cluster) []corev1.Node {
	t.Helper()
	out, err := localNodes(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 2 {
		t.Fatalf("cluster %s has %d nodes: a gateway on another node cannot be tried", c.ID, len(out))
	}
	return out
}

// localNodes returns the nodes of a cluster that are not virtual.
func localNodes(ctx context.Context, c *clusters.Cluster) ([]corev1.Node, error) {
	var list corev1.NodeList
	err := c.Client.List(ctx, &list)
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return n.Labels["liqo.io/type"] == "virtual-node" }), err
}

// twin runs a pod with an address, on the node that has the pods of that range.
func twin(t *testing.T, of testCluster, address string) corev1.Pod {
	t.Helper()
	at := netip.MustParseAddr(address)
	for _, n := range of.nodes {
		if !netip.MustParsePrefix(n.Spec.PodCIDR).Contains(at) {
			continue
		}
		return podsAt(t, []testCluster{of}, []corev1.Node{n}, func() int { return int(at.As4()[3]) }, "twin-")[0]
	}
	t.Fatalf("no node of %s has pods beside %s", of.ID, address)
	return corev1.Pod{}
}

// podsAt runs a pod on a node of each cluster, all with one last byte of their address: again if another pod that was made meanwhile got one of
// these addresses.
func podsAt(t *testing.T, of []testCluster, on []corev1.Node, host func() int, prefix string) []corev1.Pod {
	t.Helper()
	var others []string
	for range 5 {
		var pods []corev1.Pod
		last := host()
		for i, n := range on {
			next(t, n, last)
			start(t, of[i].Cluster, fmt.Sprintf(pod, prefix+n.Name, n.Name, false, port))
		}
		others = nil
		for i, n := range on {
			pods = append(pods, running(t, of[i].Cluster, prefix+n.Name))
			if want := podAddress(n, last).String(); pods[i].Status.PodIP != want {
				others = append(others, fmt.Sprintf("pod %s of %s has %s instead of %s", pods[i].Name, of[i].ID, pods[i].Status.PodIP, want))
			}
		}
		if len(others) == 0 {
			return pods
		}
		for i, n := range on {
			release(t, n)
			kubectl(t, of[i].Cluster, "", "delete", "pod", "-n", pods[i].Namespace, pods[i].Name)
		}
	}
	t.Fatalf("somebody else was faster each time: %s", strings.Join(others, "; "))
	return nil
}

// start starts pods that end with the test.
func start(t *testing.T, c *clusters.Cluster, manifest string) {
	t.Helper()
	kubectl(t, c, manifest, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, c, manifest, "delete", "--ignore-not-found", "-f", "-") })
}

// running waits until a pod runs.
func running(t *testing.T, c *clusters.Cluster, name string) (p corev1.Pod) {
	t.Helper()
	eventually(t, "the pod "+name+" of "+c.ID, func(ctx context.Context) error {
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &p); err != nil {
			return err
		}
		if p.Status.PodIP == "" || !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Ready }) {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
	return p
}

func podGoals(from, to testCluster) []probeTarget {
	var out []probeTarget
	for _, p := range append(slices.Clone(to.pods), to.twin) {
		out = append(out, probeTarget{name: p.Name + to.beside(p.Spec.NodeName), host: from.seen(p.Status.PodIP).String(), port: port, answer: p.Name, sees: true})
	}
	return out
}

// forbidden is what peers must not reach: nodes by whatever address, their kubelets and NodePorts, gateways.
func forbidden(t *testing.T, from, to testCluster) []probeTarget {
	t.Helper()
	var out []probeTarget
	refused := func(name, address string, port uint16) {
		out = append(out, probeTarget{name: name, host: from.seen(address).String(), port: port, answer: nobody})
	}
	for _, n := range to.nodes {
		bridge := netip.MustParsePrefix(n.Spec.PodCIDR).Addr().Next().String() // of pods
		refused("bridge of "+n.Name, bridge, hostPort)
		refused("kubelet of "+n.Name, bridge, 10250)
		refused("process of "+n.Name, external(t, to, n), hostPort)
		refused("peer's NodePort of "+n.Name, external(t, to, n), nodePort)
	}
	refused("peer's gateway", to.gateway.Status.PodIP, 8083)
	return out
}

// external is the address that a node has in front of peers.
func external(t *testing.T, of testCluster, n corev1.Node) string {
	t.Helper()
	var internal networkingv1beta1.InternalNode
	if err := of.Client.Get(t.Context(), client.ObjectKey{Name: n.Name}, &internal); err != nil {
		t.Fatal(err)
	}
	return string(internal.Spec.Interface.Node.IP)
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
	remoteCIDRs := append(slices.Clone(cfg.Spec.Remote.CIDR.Pod), cfg.Spec.Remote.CIDR.External...)
	localCIDRs := append(slices.Clone(cfg.Status.Remote.CIDR.Pod), cfg.Status.Remote.CIDR.External...)
	return func(text string) netip.Addr {
		addr := netip.MustParseAddr(text)
		for i := range remoteCIDRs {
			if netip.MustParsePrefix(string(remoteCIDRs[i])).Contains(addr) {
				return moved(addr, netip.MustParsePrefix(string(localCIDRs[i])))
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

// remoteServices makes Services whose only endpoint is in the other cluster, on a node that is none of flesh, and returns the ways to it.
func remoteServices(t *testing.T, from, to testCluster) []probeTarget {
	t.Helper()
	backend := to.pods[0]
	manifest := ""
	for name, spec := range map[string]string{
		"far":          fmt.Sprintf("{type: NodePort, ports: [{port: 80, targetPort: %d, nodePort: %d}]}", port, nodePort),
		"far-local":    fmt.Sprintf("{type: NodePort, externalTrafficPolicy: Local, ports: [{port: 80, targetPort: %d, nodePort: %d}]}", port, localNodePort),
		"far-headless": fmt.Sprintf("{clusterIP: None, ports: [{port: %d}]}", port),
	} {
		manifest += fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: %[2]s
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: %[3]d, protocol: TCP}]
endpoints: [{addresses: [%[4]s], nodeName: %[5]s, conditions: {ready: true}}]
---
`, name, spec, port, from.seen(backend.Status.PodIP), to.ID)
	}
	kubectl(t, from.Cluster, manifest, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, from.Cluster, manifest, "delete", "-f", "-") })
	var service corev1.Service
	if err := from.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "far"}, &service); err != nil {
		t.Fatal(err)
	}
	out := []probeTarget{
		{name: "ClusterIP", host: service.Spec.ClusterIP, port: 80, answer: backend.Name, sees: true},
		{name: "name of headless Service", host: "far-headless.default.svc", port: port, answer: backend.Name, sees: true},
	}
	for _, n := range from.nodes {
		at := address(t, n).String()
		out = append(out,
			probeTarget{name: "NodePort of " + n.Name, host: at, port: nodePort, answer: backend.Name},
			// No endpoint is local to any node; who is on the node itself is served as by policy Cluster.
			probeTarget{name: "NodePort (Local) of " + n.Name, host: at, port: localNodePort, answer: backend.Name, only: n.Name},
		)
	}
	return out
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
