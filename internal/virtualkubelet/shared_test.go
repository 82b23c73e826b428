// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// letIn gives a user of the provider all rights there, until the returned binding is deleted.
func (s *testEnv) letIn(user string) *rbacv1.ClusterRoleBinding {
	s.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	s.create(s.provider, binding)
	t := s.t
	t.Cleanup(func() { _ = s.provider.Client.Delete(context.Background(), binding.DeepCopy()) }) // may be gone already
	return binding
}

// second is another virtual node of the same provider, with credentials of its own.
func (s *testEnv) second(kubeconfig []byte) Options {
	s.t.Helper()
	o := s.options
	o.Node, o.PodName, o.ListenPort = s.node+"-b", "b", testkit.Port(s.t)
	s.create(s.consumer, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig-b", Namespace: s.tenant}, Data: map[string][]byte{names.KubeconfigKey: kubeconfig},
	})
	vn := eventually(s, s.consumer, s.virtualNode(), exists)
	s.create(s.consumer, &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: o.Node, Namespace: s.tenant}, Spec: *vn.Spec.DeepCopy()})
	s.patch(s.consumer, &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: o.Node, Namespace: s.tenant}},
		`{"spec":{"kubeconfigSecretRef":{"name":"kubeconfig-b"}}}`)
	return o
}

func (s *testEnv) holder() string {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: sharedLease, Namespace: s.tenant}}
	held := eventually(s, s.consumer, lease, func(l *coordinationv1.Lease) error {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
			return errors.New("nobody reflects what is shared")
		}
		return nil
	})
	node, _, _ := strings.Cut(*held.Spec.HolderIdentity, "/")
	return node
}

func TestSharedLeaseHandover(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, func(o *Options) {
		electing(o)
		o.PodName = "a"
		o.ConfigMaps.Workers = 1
	})
	one, two := testkit.UniqueID(), testkit.UniqueID()
	let := s.letIn(one)
	s.letIn(two)
	s.useKubeconfig(testkit.Kubeconfig(t, s.provider.User(t, one)))
	first := s.options
	second := s.second(testkit.Kubeconfig(t, s.provider.User(t, two)))
	s.run()
	if got := s.holder(); got != first.Node {
		t.Fatalf("%s reflects what is shared", got)
	}
	s.options = second
	s.run()
	nodes := map[string]*corev1.Node{}
	for _, name := range []string{first.Node, second.Node} {
		nodes[name] = eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nodeReady(corev1.ConditionTrue))
	}
	copied := func(name string) {
		s.t.Helper()
		s.create(s.consumer, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.local}, Data: map[string]string{"for": "both"}})
		eventually(s, s.provider, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.remoteNamespace}}, exists)
	}
	copied("before")

	attached := func(lease string, to ...string) {
		s.t.Helper()
		eventually(s, s.consumer, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease, Namespace: s.tenant}}, func(l *coordinationv1.Lease) error {
			var owners []string
			for _, ref := range l.OwnerReferences {
				owners = append(owners, ref.Kind+" "+ref.Name)
			}
			if slices.Sort(owners); !slices.Equal(owners, to) {
				return fmt.Errorf("it goes with %v, not %v", owners, to)
			}
			return nil
		})
	}
	s.step("leases go with the virtual nodes that held them", func() {
		attached(first.Node, "VirtualNode "+first.Node)
		attached(second.Node, "VirtualNode "+second.Node)
		attached(sharedLease, "VirtualNode "+first.Node)
	})
	s.step("the other one goes on with what is shared", func() {
		if err := s.provider.Client.Delete(s.t.Context(), let); err != nil {
			s.t.Fatal(err)
		}
		eventually(s, s.consumer, nodes[first.Node], func(n *corev1.Node) error {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && c.Reason == "CredentialsRefused" {
					return nil
				}
			}
			return fmt.Errorf("conditions are %v", n.Status.Conditions)
		})
		copied("after")
		if got := s.holder(); got != second.Node {
			s.t.Errorf("%s reflects what is shared", got)
		}
		attached(sharedLease, "VirtualNode "+first.Node, "VirtualNode "+second.Node)
	})
	s.step("a node that is let in again is ready again", func() {
		s.create(s.provider, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: let.Name + "-back"}, RoleRef: let.RoleRef, Subjects: let.Subjects,
		})
		eventually(s, s.consumer, nodes[first.Node], nodeReady(corev1.ConditionTrue))
	})
}

func TestNodeWithdrawnSlice(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
	s.pod(s.local, "web")
	s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), isReady(corev1.ConditionTrue))
	looks := func(want string, taint bool) func(*corev1.Node) error {
		return func(n *corev1.Node) error {
			c, _ := conditionOf(n, "ResourceSliceWithdrawn")
			if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); got != want {
				return fmt.Errorf("got  %s\nwant %s", got, want)
			}
			tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == "virtual-node.liqo.io/withdrawn" && t.Effect == corev1.TaintEffectNoSchedule
			})
			if tainted != taint {
				return fmt.Errorf("taints are %v", n.Spec.Taints)
			}
			return nodeReady(corev1.ConditionTrue)(n)
		}
	}
	s.patch(s.consumer, s.virtualNode(), `{"metadata":{"annotations":{"liqo.io/withdrawn":"the tenant is drained"}}}`)
	eventually(s, s.consumer, node, looks("True Withdrawn The ResourceSlice of this node accepts no more pods: the tenant is drained", true))
	if err := isReady(corev1.ConditionTrue)(eventually(s, s.consumer, s.localPod("web"), exists)); err != nil {
		t.Error(err)
	}
	s.patch(s.consumer, s.virtualNode(), `{"metadata":{"annotations":{"liqo.io/withdrawn":null}}}`)
	eventually(s, s.consumer, node, looks("  ", false))
}
