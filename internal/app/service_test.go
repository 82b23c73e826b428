// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// worker is a node of a side, so that Kubernetes believes in the pods on it.
func (w *topology) worker(t *testing.T, s *testCluster) string {
	t.Helper()
	name := "worker" + w.tag
	testkit.Create(t, s.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

// network connects a side with a peer that has the same pods, 10.200/16, as far as that goes without gateways. It returns the Connection, and
// the first half of the addresses that the peer's pods have here.
func (w *topology) network(t *testing.T, s *testCluster, peer string) (tunnel *networkingv1beta1.Connection, prefix string) {
	t.Helper()
	testkit.Ensure(t, s.ControlPlane, &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: names.LiqoNamespace, Name: "pod-cidr", Annotations: map[string]string{names.Preinstalled: "true"},
			Labels: map[string]string{names.NetworkType: names.NetworkTypePod, names.NetworkNotRemapped: "true", names.NetworkShared: "true"},
		},
		Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.200.0.0/16"},
	})
	meta := metav1.ObjectMeta{Namespace: "default", Name: "network" + w.tag, Labels: map[string]string{names.RemoteClusterID: peer}}
	cidrs := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	c := &networkingv1beta1.Configuration{ObjectMeta: meta, Spec: networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{CIDR: cidrs}}}
	tunnel = &networkingv1beta1.Connection{ObjectMeta: *meta.DeepCopy(), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
	testkit.Create(t, s.Client, c, tunnel)
	w.eventually(t, "the networks of "+peer+" to be placed", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(c.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured) || c.Spec.Local == nil {
			return fmt.Errorf("the Configuration is %+v", c)
		}
		return nil
	})
	tunnelIs(t, s, tunnel, networkingv1beta1.Connected)
	prefix, ok := strings.CutSuffix(string(c.Status.Remote.CIDR.Pod[0]), ".0.0/16")
	if !ok || prefix == "10.200" {
		t.Fatalf("the pods of %s are seen at %s", peer, c.Status.Remote.CIDR.Pod[0])
	}
	return tunnel, prefix
}

func tunnelIs(t *testing.T, s *testCluster, tunnel *networkingv1beta1.Connection, value networkingv1beta1.ConnectionStatusValue) {
	t.Helper()
	testkit.UpdateStatus(t, s.Client, tunnel, func(c *networkingv1beta1.Connection) { c.Status.Value = value })
}

// backend makes a pod of the Service web on a node.
func backend(t *testing.T, s *testCluster, namespace, name, node string) {
	t.Helper()
	testkit.Create(t, s.Client, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Tolerations: []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "web", Image: "none"}},
		},
	})
}

// runs reports what the kubelet of a pod would.
func runs(t *testing.T, s *testCluster, namespace, name, ip string) {
	t.Helper()
	testkit.UpdateStatus(t, s.Client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "web", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
}

// backends waits until the Service web has these, of ready endpoints.
func (w *topology) backends(t *testing.T, s *testCluster, namespace string, want ...string) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("%s to have the backends %v", s.id, want), func(ctx context.Context) error {
		var all discoveryv1.EndpointSliceList
		if err := s.Client.List(ctx, &all, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: "web"}); err != nil {
			return err
		}
		var got []string
		for _, slice := range all.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					got = append(got, e.Addresses...)
				}
			}
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// A Service has the same backends in both clusters, each under the address that it has there.
func TestServiceBackends(t *testing.T) {
	t.Parallel()
	w := newTopology(t, testkit.WithControllers("endpointslice-controller"))
	w.named(t, 900)
	defer w.deleteAll(t)
	w.startAll(t)
	for _, d := range w.documents(t) {
		w.apply(t, d)
	}
	w.eventually(t, "the peering to work", w.works)
	consumerNode, providerNode := w.worker(t, w.consumer), w.worker(t, w.provider)
	_, provider := w.network(t, w.consumer, w.Provider)
	tunnel, consumer := w.network(t, w.provider, w.Consumer)

	testkit.Create(t, w.consumer.Client, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	backend(t, w.consumer, w.Namespace, "home", consumerNode)
	runs(t, w.consumer, w.Namespace, "home", "10.200.1.5")
	backend(t, w.consumer, w.Namespace, "away", w.Slice)
	w.eventually(t, "the pod to be bound in the provider", func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Twin(), Name: "away"}}
		return w.provider.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: providerNode}})
	})
	runs(t, w.provider, w.Twin(), "away", "10.200.2.7")

	w.backends(t, w.consumer, w.Namespace, "10.200.1.5", provider+".2.7")
	w.backends(t, w.provider, w.Twin(), "10.200.2.7", consumer+".1.5")

	t.Run("tunnel down removes remote backends", func(t *testing.T) {
		tunnelIs(t, w.provider, tunnel, networkingv1beta1.Connecting)
		w.backends(t, w.provider, w.Twin(), "10.200.2.7")
		tunnelIs(t, w.provider, tunnel, networkingv1beta1.Connected)
		w.backends(t, w.provider, w.Twin(), "10.200.2.7", consumer+".1.5")
	})
	t.Run("consumer API server down keeps backends", func(t *testing.T) {
		w.consumer.StopAPIServer(t)
		defer w.consumer.StartAPIServer(t)
		tunnelIs(t, w.provider, tunnel, networkingv1beta1.Connecting) // so that it looks once more
		w.backends(t, w.provider, w.Twin(), "10.200.2.7")
		tunnelIs(t, w.provider, tunnel, networkingv1beta1.Connected)
		w.backends(t, w.provider, w.Twin(), "10.200.2.7", consumer+".1.5")
	})
	t.Run("deleted backend is removed", func(t *testing.T) {
		if err := w.consumer.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "home"}}); err != nil {
			t.Fatal(err)
		}
		w.backends(t, w.provider, w.Twin(), "10.200.2.7")
		w.backends(t, w.consumer, w.Namespace, provider+".2.7")
	})
	t.Run("deleted Service is removed", func(t *testing.T) {
		if err := w.consumer.Client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"}}); err != nil {
			t.Fatal(err)
		}
		w.eventually(t, "the copy and the endpoints to go", func(ctx context.Context) error {
			err := w.provider.Client.Get(ctx, client.ObjectKey{Namespace: w.Twin(), Name: "web"}, &corev1.Service{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the copy: %v", err)
			}
			for _, list := range []client.ObjectList{&offv1beta1.ShadowEndpointSliceList{}, &discoveryv1.EndpointSliceList{}} {
				if err := w.provider.Client.List(ctx, list, client.InNamespace(w.Twin())); err != nil {
					return err
				}
				if remaining := fmt.Sprint(list); strings.Contains(remaining, "web-") {
					return fmt.Errorf("left: %s", remaining)
				}
			}
			return nil
		})
	})
}
