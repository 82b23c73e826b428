// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestNodeConditions(t *testing.T) {
	network := func(status liqov1beta1.ConditionStatus) *liqov1beta1.ForeignCluster {
		return &liqov1beta1.ForeignCluster{Status: liqov1beta1.ForeignClusterStatus{Modules: liqov1beta1.Modules{Networking: liqov1beta1.Module{
			Enabled: true, Conditions: []liqov1beta1.Condition{{Type: liqov1beta1.NetworkConnectionStatus, Status: status}},
		}}}}
	}
	was := func(ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	for _, tc := range []struct {
		rule string
		edit func(in *nodeFacts)
		want string
	}{
		{"all is well", nil, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"an unreachable provider", func(in *nodeFacts) { in.provider = silent }, "Ready=False MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"a provider nobody asked yet, and a new node", func(in *nodeFacts) { in.provider = undecided }, "Ready=False MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"a provider nobody asked yet, and a node that was ready", func(in *nodeFacts) { in.provider, in.current = undecided, was(corev1.ConditionTrue) }, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"a provider nobody asked yet, and a node that was lost", func(in *nodeFacts) { in.provider, in.current = undecided, was(corev1.ConditionUnknown) }, "Ready=Unknown MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"an unreachable provider, and a node that was ready", func(in *nodeFacts) { in.provider, in.current = silent, was(corev1.ConditionTrue) }, "Ready=False MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"a provider that refuses our credentials", func(in *nodeFacts) { in.provider, in.current = refuses, was(corev1.ConditionTrue) }, "Ready=False MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"a slice that was withdrawn", func(in *nodeFacts) {
			in.virtualNode.Annotations = map[string]string{names.Withdrawn: "no"}
		}, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False ResourceSliceWithdrawn=True"},
		{"a slice that was withdrawn, with the credentials", func(in *nodeFacts) {
			in.virtualNode.Annotations, in.provider = map[string]string{names.Withdrawn: "no"}, refuses
		}, "Ready=False MemoryPressure=False DiskPressure=False PIDPressure=False ResourceSliceWithdrawn=True"},
		{"nothing granted", func(in *nodeFacts) { in.virtualNode.Spec.ResourceQuota.Hard = nil }, "Ready=False MemoryPressure=True DiskPressure=True PIDPressure=True"},
		{"no network yet", func(in *nodeFacts) { in.peer = network(liqov1beta1.ConditionPending) }, "Ready=False MemoryPressure=False DiskPressure=False PIDPressure=False NetworkUnavailable=True"},
		{"a network", func(in *nodeFacts) { in.peer = network(liqov1beta1.ConditionEstablished) }, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False NetworkUnavailable=False"},
		{"a network of some nodes", func(in *nodeFacts) { in.peer = network(liqov1beta1.ConditionSomeNotReady) }, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False NetworkUnavailable=False"},
		{"a network nobody asks about", func(in *nodeFacts) { in.peer, in.checkNetwork = network(liqov1beta1.ConditionError), false }, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"a cloud without routes to the node", func(in *nodeFacts) {
			in.current = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"}}}}
		}, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False NetworkUnavailable=False"},
		{"our own condition of a network that nobody asks about any more", func(in *nodeFacts) {
			in.current = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "LiqoNetworkingDown"}}}}
		}, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False"},
		{"no foreign cluster", func(in *nodeFacts) { in.peer = nil }, "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			in := nodeFacts{
				provider: answers, checkNetwork: true, peer: &liqov1beta1.ForeignCluster{}, now: time.Unix(1000, 0),
				virtualNode: &offv1beta1.VirtualNode{Spec: offv1beta1.VirtualNodeSpec{ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				}}}},
			}
			if tc.edit != nil {
				tc.edit(&in)
			}
			got := ""
			for _, c := range nodeConditions(in) {
				got += fmt.Sprintf(" %s=%s", c.Type, c.Status)
			}
			if got[1:] != tc.want {
				t.Errorf("got  %s\nwant %s", got[1:], tc.want)
			}
		})
	}
}

func TestNodeDisabled(t *testing.T) {
	for want, h := range map[string]*providerHealth{
		"[true]":  {lastOK: time.Now(), failureThreshold: time.Hour, now: time.Now},
		"[false]": {began: time.Now(), now: time.Now}, // and not one answer since
		"[]":      {now: time.Now},                    // nobody asked yet
	} {
		var got []bool
		s := &nodeSync{
			options: Options{Node: "milan"}, health: h, seen: func(*offv1beta1.VirtualNode) {},
			ready: func(_ context.Context, is bool) { got = append(got, is) },
		}
		if err := s.Sync(t.Context(), &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("told %v, want %s", got, want)
		}
	}
}

func TestNodeTransitionTime(t *testing.T) {
	in := nodeFacts{virtualNode: &offv1beta1.VirtualNode{}, now: time.Unix(1000, 0)}
	in.current = &corev1.Node{Status: corev1.NodeStatus{Conditions: nodeConditions(in)}}
	in.now = time.Unix(2000, 0)
	for _, c := range nodeConditions(in) {
		if c.LastTransitionTime.Unix() != 1000 || c.LastHeartbeatTime.Unix() != 2000 {
			t.Errorf("%s changed at %d, was seen at %d", c.Type, c.LastTransitionTime.Unix(), c.LastHeartbeatTime.Unix())
		}
	}
}

func TestNodeForeignTaints(t *testing.T) {
	ours := corev1.Taint{Key: "ours", Effect: corev1.TaintEffectNoExecute}
	old := corev1.Taint{Key: "old", Effect: corev1.TaintEffectNoSchedule}
	theirs := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}
	got := mergeTaints([]corev1.Taint{theirs, old, ours}, []corev1.Taint{old, ours}, []corev1.Taint{ours})
	if diff := cmp.Diff([]corev1.Taint{theirs, ours}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodeIdentityLabels(t *testing.T) {
	vn := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", Labels: map[string]string{
			names.NodeType: "other", corev1.LabelHostname: "other", names.RemoteClusterID: "other", corev1.LabelArchStable: "arm64",
		}},
	}
	got := wantedNode(nodeFacts{virtualNode: vn}).Labels
	for key, want := range map[string]string{
		names.NodeType: names.NodeTypeVirtualNode, corev1.LabelHostname: "milan", names.RemoteClusterID: "milan", corev1.LabelArchStable: "arm64",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
}

// The first heartbeat does not wait for its next turn, which is in a quarter of an hour.
func TestNodeLease(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.NodeLeaseDuration = time.Hour })
	s.run()
	eventually(s, s.consumer, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: corev1.NamespaceNodeLease}}, exists)
}

func TestNodeReconciliation(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.NodeLeaseDuration = patience })
	s.run()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
	for key, want := range map[string]string{
		"kubernetes.io/role": "agent", "kubernetes.io/hostname": s.node, "type": "virtual-kubelet", "zone": "north",
		names.NodeType: "virtual-node", names.RemoteClusterID: "milan", names.StorageAvailable: "true",
	} {
		if node.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	if node.Status.DaemonEndpoints.KubeletEndpoint.Port != int32(s.options.ListenPort) || node.Status.Addresses[0].Address != "127.0.0.1" {
		t.Errorf("reached at %+v %+v", node.Status.Addresses, node.Status.DaemonEndpoints)
	}
	lease := eventually(s, s.consumer, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: corev1.NamespaceNodeLease}}, exists)
	if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != node.UID {
		t.Errorf("the lease is owned by %+v", lease.OwnerReferences)
	}

	s.step("changes of resources, labels and taints arrive, and what others wrote stays", func() {
		s.patch(s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, `{"metadata":{"labels":{"mine":"kept"}},"spec":{"unschedulable":true}}`)
		s.patch(s.consumer, &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}, `{"spec":{
			"labels":{"zone":null,"rack":"7"},"taints":[{"key":"extra","effect":"NoSchedule"}],"declaredFeatures":["RestartAllContainers","B","not one"],
			"resourceQuota":{"hard":{"cpu":"6","pods":null}}}}`)
		eventually(s, s.consumer, node, func(n *corev1.Node) error {
			got := fmt.Sprint(n.Labels["zone"], n.Labels["rack"], n.Labels["mine"], n.Spec.Unschedulable, n.Status.Capacity.Cpu(), n.Status.Allocatable.Pods(), taints(n), n.Status.DeclaredFeatures)
			if want := "7kepttrue 6 0 [extra virtual-node.liqo.io/not-allowed] [B RestartAllContainers]"; got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		})
		s.patch(s.consumer, &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}, `{"spec":{"taints":null}}`)
		eventually(s, s.consumer, node, func(n *corev1.Node) error {
			if got := taints(n); len(got) != 1 {
				return fmt.Errorf("taints are %v", got)
			}
			return nil
		})
	})
	s.step("the status is repaired, and else left alone", func() {
		testkit.Eventually(s.t, limit, func() error {
			current := eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
			current.Status.Conditions[0].Status = corev1.ConditionUnknown
			return s.consumer.Client.Status().Update(s.t.Context(), current)
		})
		eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
		version := node.ResourceVersion
		renewed := lease.Spec.RenewTime.Time
		eventually(s, s.consumer, lease, func(l *coordinationv1.Lease) error {
			if l.Spec.RenewTime.Sub(renewed) < time.Second {
				return errors.New("not renewed yet")
			}
			return nil
		})
		if now := eventually(s, s.consumer, node, exists).ResourceVersion; now != version {
			s.t.Errorf("the node was written: %s, then %s", version, now)
		}
	})
	s.step("a node deleted by mistake comes back", func() {
		uid := node.UID
		s.deleteNow(s.consumer, node)
		eventually(s, s.consumer, node, func(n *corev1.Node) error {
			if n.UID == uid {
				return errors.New("still the old one")
			}
			return nodeReady(corev1.ConditionTrue)(n)
		})
	})
	s.step("an unreachable provider makes it not ready, and pods stay", func() {
		s.pod(s.local, "web")
		s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
		eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
		s.provider.StopAPIServer(s.t)
		eventually(s, s.consumer, node, nodeReady(corev1.ConditionFalse))
		last := eventually(s, s.consumer, lease, exists).Spec.RenewTime.Time
		s.provider.StartAPIServer(s.t)
		eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
		eventually(s, s.consumer, lease, func(l *coordinationv1.Lease) error {
			if !l.Spec.RenewTime.After(last) {
				return errors.New("the lease is not renewed")
			}
			return nil
		})
		eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
		s.pod(s.local, "after")
		eventually(s, s.provider, s.shadow("after"), exists)
	})
}

// A virtual kubelet ended while its provider misbehaved; the next one has not seen that.
func TestNodePeerMisbehavesAfterRestart(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	node := eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
	stop()
	eventually(s, s.consumer, node, exists)
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: conditionMisbehaves, Status: corev1.ConditionTrue, Reason: "AnswerTooLarge"})
	sync := &nodeSync{client: s.consumer.Client}
	if err := sync.sendStatus(t.Context(), node.Name, withoutNetwork(node.Status), names.ReflectionFieldManager); err != nil {
		t.Fatal(err)
	}
	s.run()
	eventually(s, s.consumer, node, func(n *corev1.Node) error {
		if c, ok := conditionOf(n, conditionMisbehaves); ok {
			return fmt.Errorf("the node still has %+v", c)
		}
		return nodeReady(corev1.ConditionTrue)(n)
	})
}

func (s *testEnv) patchStatus(c *testkit.ControlPlane, obj client.Object, patch string) {
	s.t.Helper()
	if err := c.Client.Status().Patch(s.t.Context(), obj, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		s.t.Fatal(err)
	}
}

// A cloud controller without routes to the node says again and again that its network is unavailable. Each time the node is usable again
// soon, and what the control plane says of it does not wait for that.
func TestNodeNetworkUnavailable(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	s.run()
	node := eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
	for range 11 {
		s.patchStatus(s.consumer, node, `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True","reason":"NoRouteCreated"}]}}`)
		testkit.Eventually(t, limit, func() error {
			if err := s.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			if c, ok := conditionOf(node, corev1.NodeNetworkUnavailable); !ok || c.Status != corev1.ConditionFalse {
				return fmt.Errorf("the condition is %s, %s", c.Status, c.Reason)
			}
			return nil
		})
	}
	s.patchStatus(s.consumer, node, `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True","reason":"NoRouteCreated"},{"type":"Ready","status":"Unknown"}]}}`)
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
}

func TestNodeCreation(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.NodeAnnotations = map[string]string{"team": "blue"} })
	seen := s.watchNode()
	s.run()
	node := <-seen
	for key, want := range map[string]string{
		"zone": "north", "type": "virtual-kubelet", corev1.LabelHostname: s.node, names.NodeType: names.NodeTypeVirtualNode,
		names.RemoteClusterID: "milan", names.StorageAvailable: "true",
	} {
		if node.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	if node.Annotations["team"] != "blue" || len(taints(node)) != 1 {
		t.Errorf("annotations are %v, taints %v", node.Annotations, node.Spec.Taints)
	}
	s.step("and what it was made with can be taken away", func() {
		eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
		s.patch(s.consumer, &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}, `{"spec":{"labels":{"zone":null}}}`)
		eventually(s, s.consumer, node, func(n *corev1.Node) error {
			if zone, ok := n.Labels["zone"]; ok {
				return fmt.Errorf("the zone is still %q", zone)
			}
			if _, ok := n.Annotations[registering]; ok {
				return errors.New("the node is still being registered")
			}
			return nil
		})
	})
}

// watchNode shows every state of the node from now on.
func (s *testEnv) watchNode() <-chan *corev1.Node {
	s.t.Helper()
	clients, err := kubernetes.NewForConfig(s.consumer.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := clients.CoreV1().Nodes().Watch(s.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + s.node})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	out := make(chan *corev1.Node, 100)
	go func() {
		for e := range w.ResultChan() {
			if node, ok := e.Object.(*corev1.Node); ok {
				out <- node
			}
		}
	}()
	return out
}

func taints(n *corev1.Node) []string {
	var out []string
	for _, t := range n.Spec.Taints {
		if t.Key == "extra" || t.Key == names.VirtualNodeTaint {
			out = append(out, t.Key)
		}
	}
	slices.Sort(out)
	return out
}

func nodeReady(want corev1.ConditionStatus) func(*corev1.Node) error {
	return func(n *corev1.Node) error {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", n.Status.Conditions)
	}
}

func TestHealthThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		var changes atomic.Int32
		answer := func(context.Context) error {
			if gone.Load() {
				return errors.New("gone")
			}
			return nil
		}
		h := &providerHealth{
			ping: answer, interval: 10 * time.Second, timeout: time.Second,
			failureThreshold: 40 * time.Second, now: time.Now, changed: func() { changes.Add(1) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = h.runChecks(ctx) }()
		expect := func(when string, well bool, want reachability) {
			t.Helper()
			synctest.Wait()
			if h.isHealthy() != well || h.classify() != want {
				t.Errorf("%s: well %v, verdict %v", when, h.isHealthy(), h.classify())
			}
		}
		expect("at the start", true, answers)
		gone.Store(true)
		time.Sleep(15 * time.Second)
		expect("after one lost answer the lease stops", false, answers)
		time.Sleep(40 * time.Second)
		expect("after a while", false, silent)
		gone.Store(false)
		time.Sleep(10 * time.Second)
		expect("when it answers again", true, answers)
		if n := changes.Load(); n != 3 {
			t.Errorf("told of %d changes", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestHealthNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32
		h := &providerHealth{
			ping: func(context.Context) error { return errors.New("gone") }, interval: 10 * time.Second, timeout: time.Second,
			failureThreshold: 40 * time.Second, now: time.Now, changed: func() { changes.Add(1) },
		}
		if got := h.classify(); got != undecided {
			t.Errorf("before the first question: %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = h.runChecks(ctx) }()
		synctest.Wait()
		if got := h.classify(); got != undecided || h.isHealthy() {
			t.Errorf("after one lost answer: %v, well %v", got, h.isHealthy())
		}
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if got := h.classify(); got != silent || changes.Load() != 1 {
			t.Errorf("after a while: %v, told of %d changes", got, changes.Load())
		}
		cancel()
		synctest.Wait()
	})
}

func TestHealthTiming(t *testing.T) {
	for _, tc := range []struct {
		rule string
		// hangs is how long a question to a provider that is gone goes without an answer, and after when it went.
		hangs, after time.Duration
	}{
		{"it refuses, just after it answered", 0, 20*time.Second + time.Millisecond},
		{"it is silent, just after it answered", time.Hour, 20*time.Second + time.Millisecond},
		{"it refuses, just before it was asked", 0, 20*time.Second - time.Millisecond},
		{"it is silent, between two questions", time.Hour, 25 * time.Second},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gone atomic.Bool
				o := Options{}.withDefaults()
				changes := make(chan struct{}, 10)
				h := &providerHealth{
					interval: o.PingInterval, timeout: o.PingTimeout, failureThreshold: o.NodeLeaseDuration, now: time.Now,
					changed: func() { changes <- struct{}{} },
					ping: func(ctx context.Context) error {
						if !gone.Load() {
							return nil
						}
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(tc.hangs):
							return errors.New("refused")
						}
					},
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = h.runChecks(ctx) }()
				<-changes
				time.Sleep(tc.after)
				gone.Store(true)
				lost := time.Now()
				<-changes
				if took := time.Since(lost); took > 45*time.Second || h.classify() != silent {
					t.Errorf("missed after %v: %v", took, h.classify())
				}
				time.Sleep(2 * time.Minute)
				gone.Store(false)
				back := time.Now()
				<-changes
				if took := time.Since(back); took > 12*time.Second || h.classify() != answers {
					t.Errorf("found after %v: %v", took, h.classify())
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestNodeDeclaredFeatures(t *testing.T) {
	vn := &offv1beta1.VirtualNode{Spec: offv1beta1.VirtualNodeSpec{DeclaredFeatures: []string{"B", "A", "not one"}}}
	for version, want := range map[string]string{"v1.34.9": "[]", "v1.35.0-eks-1": "[A B]", "v1.37.2": "[A B]", "unknown": "[]"} {
		status := nodeStatus(nodeFacts{virtualNode: vn, kubernetesVersion: version}, nil)
		if got := fmt.Sprint(status.DeclaredFeatures); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

// TestNodeResources: storage is granted to claims, not to pods.
func TestNodeResources(t *testing.T) {
	vn := &offv1beta1.VirtualNode{}
	vn.Spec.ResourceQuota.Hard = corev1.ResourceList{"cpu": resource.MustParse("1"), "requests.storage": resource.MustParse("1Gi"), "persistentvolumeclaims": resource.MustParse("3")}
	if got := nodeStatus(nodeFacts{virtualNode: vn}, nil).Capacity; len(got) != 1 || got.Cpu().Value() != 1 {
		t.Errorf("capacity is %v", got)
	}
}

func TestNodeArchitecture(t *testing.T) {
	vn := &offv1beta1.VirtualNode{Spec: offv1beta1.VirtualNodeSpec{Labels: map[string]string{
		corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "windows",
	}}}
	if info := wantedNode(nodeFacts{virtualNode: vn}).Status.NodeInfo; info.Architecture != "arm64" || info.OperatingSystem != "windows" {
		t.Errorf("the node is %s %s", info.OperatingSystem, info.Architecture)
	}
}

func TestNodeRestart(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
	stop()
	seen := s.watchNode()
	s.run()
	s.patch(s.consumer, &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}, `{"spec":{"labels":{"zone":"south"}}}`)
	s.pod(s.local, "web")
	eventually(s, s.provider, s.shadow("web"), exists) // the provider is connected to by then
	s.patch(s.consumer, node, `{"metadata":{"labels":{"last":"yes"}}}`)
	for now := range seen {
		if err := nodeReady(corev1.ConditionTrue)(now); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if now.Labels["last"] == "yes" && now.Labels["zone"] == "south" {
			return
		}
	}
}
