// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Virtual nodes report their health all the time, and providers their answers.
func TestWatchPredicates(t *testing.T) {
	ofNodes := predicate.And[client.Object](virtualNode, predicate.LabelChangedPredicate{})
	node := func(change func(*corev1.Node)) client.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode}}}
		change(n)
		return n
	}
	vn := func(change func(*offv1beta1.VirtualNode)) client.Object {
		v := vnode("n", "milan", "")
		v.Generation = 1
		change(&v)
		return &v
	}
	kubelet := func(change func(*appsv1.Deployment)) client.Object {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		change(d)
		return d
	}
	fc := func(change func(*liqov1beta1.ForeignCluster)) client.Object {
		f := &liqov1beta1.ForeignCluster{}
		change(f)
		return f
	}
	for name, tc := range map[string]struct {
		of         predicate.Predicate
		from, into client.Object
		want       bool
	}{
		"a heartbeat of a Node": {of: ofNodes, from: node(func(*corev1.Node) {}), into: node(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
		})},
		"a label of a Node": {of: ofNodes, from: node(func(*corev1.Node) {}), into: node(func(n *corev1.Node) { n.Labels["region"] = "eu" }), want: true},
		"a label of a real Node": {
			of: ofNodes, from: node(func(n *corev1.Node) { n.Labels = nil }), into: node(func(n *corev1.Node) { n.Labels = map[string]string{"region": "eu"} }),
		},
		"the status of a VirtualNode": {of: nodeSpecChanged, from: vn(func(*offv1beta1.VirtualNode) {}), into: vn(func(v *offv1beta1.VirtualNode) {
			v.Status.Conditions = []offv1beta1.VirtualNodeCondition{{Type: nodeCondition, Status: running}}
		})},
		"the spec of a VirtualNode": {of: nodeSpecChanged, from: vn(func(*offv1beta1.VirtualNode) {}), into: vn(func(v *offv1beta1.VirtualNode) { v.Generation = 2 }), want: true},
		"a VirtualNode on its way out": {
			of: nodeSpecChanged, from: vn(func(*offv1beta1.VirtualNode) {}), into: vn(func(v *offv1beta1.VirtualNode) { v.DeletionTimestamp = new(metav1.Now()) }), want: true,
		},
		"a virtual kubelet that becomes available": {
			of: deploymentChanged, from: kubelet(func(*appsv1.Deployment) {}), into: kubelet(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }), want: true,
		},
		"a virtual kubelet that is observed": {
			of: deploymentChanged, from: kubelet(func(*appsv1.Deployment) {}), into: kubelet(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 }),
		},
		"a peer that answers": {of: givenUpChanged, from: fc(func(*liqov1beta1.ForeignCluster) {}), into: fc(func(f *liqov1beta1.ForeignCluster) {
			f.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionEstablished}}
		})},
		"a peer that is given up": {of: givenUpChanged, from: fc(func(*liqov1beta1.ForeignCluster) {}), into: fc(func(f *liqov1beta1.ForeignCluster) {
			f.Annotations = map[string]string{names.PermanentlyUnreachable: "true"}
		}), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.of.Update(event.UpdateEvent{ObjectOld: tc.from, ObjectNew: tc.into}); got != tc.want {
				t.Errorf("wakes = %v, want %v", got, tc.want)
			}
		})
	}
}
