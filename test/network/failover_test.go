// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
	"liqo.io/liqo/test/traffic"
)

// failoverLimit is the longest time without an answer through a tunnel whose active replica fails in either cluster, and upgradeLimit through one
// whose replicas are all replaced.
const failoverLimit, upgradeLimit = 3 * time.Second, time.Second

// The active replica of a gateway fails in each cluster. A standby takes over, and a TCP connection through the tunnel stays, also when the failed one
// is back. With LIQO_FAILOVERS, a number, gateways are upgraded, then that many replicas fail, in each way and with a node, and no answer may take
// longer than the limit.
func TestGatewayFailover(t *testing.T) {
	failovers, err := strconv.Atoi(cmp.Or(os.Getenv("LIQO_FAILOVERS"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	const server, dialer = "wireguard-server-high-availability", "wireguard-client-high-availability"
	applied(t, a, dialer)
	applied(t, b, server)
	t.Cleanup(func() {
		if err := unpeer(a, b, "--delete-namespaces"); err != nil {
			t.Error(err)
		}
	})
	out, err := a.Say("peer", "--remote-kubeconfig", b.Kubeconfig, "--create-resource-slice=false", "--gw-server-template-name", server, "--gw-client-template-name", dialer)
	if err != nil {
		show(t)
		t.Fatal(err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			show(t)
		}
	})
	gateways := map[*clusters.Cluster]*replicated{a: {c: a, peer: b.ID}, b: {c: b, peer: a.ID}}
	pods := map[string]traffic.Endpoint{}
	for c, g := range gateways {
		g.settle(t)
		go g.watchLabels(t)
		for _, n := range nodes(t, c) {
			if pods[n.Name], err = traffic.StartPod(t.Context(), c, n.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	type fault struct {
		name string
		fail func(t *testing.T, g *replicated, active corev1.Pod) (heal func())
	}
	faults := []fault{
		{"pod_deleted", func(t *testing.T, g *replicated, active corev1.Pod) func() {
			kubectl(t, g.c, "", "delete", "pod", "-n", active.Namespace, active.Name, "--wait=false")
			return func() {}
		}},
		{"process_killed", func(t *testing.T, _ *replicated, active corev1.Pod) func() {
			signal(t, active, syscall.SIGKILL)
			return func() {}
		}},
		{"process_stopped", func(t *testing.T, _ *replicated, active corev1.Pod) func() {
			signal(t, active, syscall.SIGSTOP)
			return func() { signal(t, active, syscall.SIGCONT) }
		}},
		{"node_disconnected", failNode("--network")},
		{"node_stopped", failNode("--processes")},
	}
	rounds := faults[:3] // those after which no other test finds a node that is just back
	if failovers > 0 {
		upgrade := fault{"upgraded", func(t *testing.T, g *replicated, _ corev1.Pod) func() {
			kind, name := "wggatewayclienttemplate", dialer
			if g.c == b {
				kind, name = "wggatewayservertemplate", server
			}
			g.upgrade(t, kind, name)
			return func() {}
		}}
		rounds = []fault{upgrade, upgrade, upgrade}
	}
	for i := range (failovers + 1) / 2 {
		rounds = append(rounds, faults[i%len(faults)])
	}
	for i, test := range rounds {
		limit := failoverLimit
		if test.name == "upgraded" {
			limit = upgradeLimit
		}
		for c, g := range gateways {
			t.Run(fmt.Sprintf("%d_%s/%s", i, test.name, c.ID), func(t *testing.T) {
				active := g.settle(t)
				if strings.HasPrefix(test.name, "node_") {
					active = g.leaveFirstNode(t, active)
				}
				gateways[at(g.peer)].settle(t)
				near, far := pods[g.standby(t, active).Spec.NodeName], pods[gateways[at(g.peer)].settle(t).Spec.NodeName]
				path := g.path(t, near, far)
				asking, err := path.Watch()
				if err != nil {
					t.Fatal(err)
				}
				defer asking.Close()
				flow := keepFlow(t, path)
				if _, err := asking.Answered(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
				since := time.Now()
				heal := sync.OnceFunc(test.fail(t, g, active))
				defer heal()
				eventually(t, "another active replica", func(ctx context.Context) error {
					now, err := g.activePod(ctx)
					if err == nil && now.UID == active.UID && test.name != "process_killed" { // its next process may be as fast as a standby
						err = fmt.Errorf("it is still %s", now.Name)
					}
					return err
				})
				answered := func(after time.Time) time.Time {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					first, err := asking.Answered(ctx, after)
					if err != nil {
						t.Fatal(err)
					}
					return first
				}
				first := answered(since.Add(100 * time.Millisecond))
				healed := time.Now()
				heal()
				g.settle(t) // what the failed one does when it goes on takes nothing from the next one
				answered(time.Now())
				gap, lost := asking.Gap(since)
				after, _ := asking.Gap(healed)
				t.Logf("no answer for %.2f s, %d questions lost; all is well after %.2f s; then no answer for %.2f s", gap.Seconds(), lost, first.Sub(since).Seconds(), after.Seconds())
				// Limits of time hold for LIQO_FAILOVERS, on a machine that does nothing else. A usual run tells of them, and asserts what comes back.
				if failovers == 0 && (gap > limit || after > upgradeLimit) {
					t.Logf("longer than the limits of LIQO_FAILOVERS, %s and %s", limit, upgradeLimit)
				}
				if failovers > 0 && gap > limit {
					t.Errorf("there was no answer for %.2f s, limit %s", gap.Seconds(), limit)
				}
				if failovers > 0 && after > upgradeLimit {
					t.Errorf("there was no answer for %.2f s while the failed one came back, limit %s", after.Seconds(), upgradeLimit)
				}
				if err := flow.check(); err != nil {
					t.Errorf("the TCP connection: %v", err)
				}
				if node := active.Spec.NodeName; strings.HasPrefix(test.name, "node_") { // the pod that asked from there is in another network namespace now, or ended
					kubectl(t, g.c, "", "delete", "pod", "-n", "default", "-l", traffic.PodLabel+"="+node)
					if pods[node], err = traffic.StartPod(t.Context(), g.c, node); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
	for _, g := range gateways { // the next test finds all nodes
		g.settle(t)
	}
}

// signal sends a signal to the processes of a pod.
func signal(t *testing.T, pod corev1.Pod, what syscall.Signal) {
	t.Helper()
	if err := traffic.Signal(pod.UID, what); err != nil {
		t.Fatal(err)
	}
}

// failNode has the node of the active replica fail.
func failNode(how string) func(*testing.T, *replicated, corev1.Pod) func() {
	return func(t *testing.T, g *replicated, active corev1.Pod) func() {
		node := active.Spec.NodeName
		if err := story.Playground("fail", node, how); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := story.Playground("heal", node); err != nil {
				t.Error(err)
			}
		}
	}
}

// replicated is a gateway of several replicas.
type replicated struct {
	c    *clusters.Cluster
	peer string
}

func (g *replicated) namespace() string { return "liqo-tenant-" + g.peer }

// list returns the pods of the gateway that are not being deleted.
func (g *replicated) list(ctx context.Context, labels client.MatchingLabels) ([]corev1.Pod, error) {
	var pods corev1.PodList
	labels["networking.liqo.io/component"] = "gateway"
	err := g.c.Client.List(ctx, &pods, client.InNamespace(g.namespace()), labels)
	return pods.Items, err
}

// activePod returns the holder of the Lease, if nodes and the Service are led to it.
func (g *replicated) activePod(ctx context.Context) (corev1.Pod, error) {
	var leases coordinationv1.LeaseList
	if err := g.c.Client.List(ctx, &leases, client.InNamespace(g.namespace()), client.MatchingLabels{"networking.liqo.io/component": "gateway"}); err != nil {
		return corev1.Pod{}, err
	}
	if len(leases.Items) != 1 || leases.Items[0].Spec.HolderIdentity == nil {
		return corev1.Pod{}, fmt.Errorf("no replica holds the Lease: %+v", leases.Items)
	}
	pods, err := g.list(ctx, client.MatchingLabels{"networking.liqo.io/active": "true"})
	if err == nil && (len(pods) != 1 || pods[0].Name != *leases.Items[0].Spec.HolderIdentity) {
		err = fmt.Errorf("%s holds the Lease, and %d pods are labelled as active", *leases.Items[0].Spec.HolderIdentity, len(pods))
	}
	if err == nil && g.c == b {
		var ready []string
		if ready, err = g.readyEndpoints(ctx); err == nil && (len(ready) != 1 || ready[0] != pods[0].Name) {
			err = fmt.Errorf("the Service leads to %v, and not to %s", ready, pods[0].Name)
		}
	}
	if err != nil {
		return corev1.Pod{}, err
	}
	return pods[0], nil
}

// settle waits until two replicas are ready on two nodes, of which one is active.
func (g *replicated) settle(t *testing.T) (active corev1.Pod) {
	t.Helper()
	eventually(t, "two replicas in "+g.c.ID, func(ctx context.Context) (err error) {
		var all appsv1.DeploymentList
		if err := g.c.Client.List(ctx, &all, client.InNamespace(g.namespace()), client.MatchingLabels{"networking.liqo.io/component": "gateway"}); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Status.AvailableReplicas != 2 || all.Items[0].Status.Replicas != 2 {
			return fmt.Errorf("there are %d Deployments: %+v", len(all.Items), all.Items)
		}
		local, err := localNodes(ctx, g.c)
		if err != nil {
			return err
		}
		for _, n := range local {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return fmt.Errorf("the node %s is not ready", n.Name)
				}
			}
		}
		var standby corev1.Pod
		if active, err = g.activePod(ctx); err == nil {
			standby, err = g.standbyOf(ctx, active)
		}
		if err == nil && standby.Spec.NodeName == active.Spec.NodeName {
			err = errors.New("both are on one node")
		}
		var lease coordinationv1.Lease
		if err == nil {
			err = g.c.Client.Get(ctx, client.ObjectKey{Namespace: g.namespace(), Name: all.Items[0].Name}, &lease)
		}
		if now := lease.Annotations["networking.liqo.io/standbys"]; err == nil && now != standby.Name {
			err = fmt.Errorf("the standbys are %q", now)
		}
		return err
	})
	return active
}

// upgrade has other pods replace all replicas, as a change of the template does, and waits until they have.
func (g *replicated) upgrade(t *testing.T, kind, template string) {
	t.Helper()
	before, err := g.list(t.Context(), client.MatchingLabels{})
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"deployment":{"spec":{"template":{"metadata":{"annotations":{"upgraded":"%d"}}}}}}}}}`, time.Now().UnixNano())
	kubectl(t, g.c, "", "patch", kind, template, "-n", "liqo", "--type", "merge", "-p", patch)
	eventually(t, "other replicas", func(ctx context.Context) error {
		now, err := g.list(ctx, client.MatchingLabels{})
		if err == nil && slices.ContainsFunc(now, func(p corev1.Pod) bool {
			return slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == p.UID })
		}) {
			err = errors.New("the former ones are left")
		}
		return err
	})
	g.settle(t)
}

// leaveFirstNode has the active replica be on another node than the API server.
func (g *replicated) leaveFirstNode(t *testing.T, active corev1.Pod) corev1.Pod {
	t.Helper()
	first := nodes(t, g.c)[0].Name
	for active.Spec.NodeName == first {
		kubectl(t, g.c, "", "delete", "pod", "-n", active.Namespace, active.Name)
		active = g.settle(t)
	}
	return active
}

// readyEndpoints returns the pods that the Service of a server leads to, by all EndpointSlices.
func (g *replicated) readyEndpoints(ctx context.Context) (out []string, err error) {
	var all discoveryv1.EndpointSliceList
	err = g.c.Client.List(ctx, &all, client.InNamespace(g.namespace()), client.MatchingLabels{"networking.liqo.io/component": "gateway"})
	for _, s := range all.Items {
		for _, e := range s.Endpoints {
			if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out = append(out, e.TargetRef.Name)
			}
		}
	}
	return out, err
}

// standby returns the other replica.
func (g *replicated) standby(t *testing.T, active corev1.Pod) corev1.Pod {
	t.Helper()
	p, err := g.standbyOf(t.Context(), active)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// standbyOf is standby where errors may pass.
func (g *replicated) standbyOf(ctx context.Context, active corev1.Pod) (corev1.Pod, error) {
	pods, err := g.list(ctx, client.MatchingLabels{})
	for _, p := range pods {
		if p.UID != active.UID && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			return p, err
		}
	}
	return active, err
}

// watchLabels fails the test if two pods are ever labelled as active.
func (g *replicated) watchLabels(t *testing.T) {
	for t.Context().Err() == nil {
		if pods, err := g.list(t.Context(), client.MatchingLabels{"networking.liqo.io/active": "true"}); err == nil && len(pods) > 1 {
			t.Errorf("%d pods of %s are labelled as active", len(pods), g.c.ID)
			return
		}
		if ready, err := g.readyEndpoints(t.Context()); err == nil && len(ready) > 1 {
			t.Errorf("the Service in %s leads to %v", g.c.ID, ready)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// path leads from a pod of this cluster to one of its peer.
func (g *replicated) path(t *testing.T, near, far traffic.Endpoint) traffic.Path {
	t.Helper()
	var err error
	if far.Seen, err = traffic.TranslateAddress(t.Context(), g.c, g.namespace(), g.peer, far.Own); err != nil {
		t.Fatal(err)
	}
	peer := at(g.peer)
	if near.Seen, err = traffic.TranslateAddress(t.Context(), peer, "liqo-tenant-"+g.c.ID, g.c.ID, near.Own); err != nil {
		t.Fatal(err)
	}
	return traffic.Path{Name: "pods", From: near, To: far}
}

// flow is a TCP connection in use.
type flow struct {
	mu     sync.Mutex
	failed error
	echoed int
}

// keepFlow has a line sent and returned again and again, on one connection.
func keepFlow(t *testing.T, path traffic.Path) *flow {
	t.Helper()
	var listener net.Listener
	err := path.To.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(path.To.Own, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close() // at once: the FIN of one that is collected later belongs to no connection that nodes know
			lines := bufio.NewReader(conn)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(line))
			}
		}
	}()
	var conn net.Conn
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	err = path.From.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(path.To.Seen, port).String(), 10*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f := &flow{}
	go func() {
		lines := bufio.NewReader(conn)
		for t.Context().Err() == nil {
			_, err := fmt.Fprintln(conn, time.Now())
			if err == nil {
				_, err = lines.ReadString('\n')
			}
			f.mu.Lock()
			if f.echoed++; err != nil {
				f.failed = err
			}
			f.mu.Unlock()
			if err != nil {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-t.Context().Done():
			}
		}
	}()
	return f
}

// check tells why the connection did not stay. It waits for one more line to come back.
func (f *flow) check() error {
	f.mu.Lock()
	before := f.echoed
	f.mu.Unlock()
	return story.Retry(context.Background(), time.Minute, func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.failed == nil && f.echoed == before {
			return errors.New("no line comes back")
		}
		return f.failed
	})
}
