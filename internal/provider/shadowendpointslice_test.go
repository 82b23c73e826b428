// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// sliceScene is a provider with one twin namespace of one consumer.
type sliceScene struct {
	t        *testing.T
	c        *testkit.ControlPlane
	id, twin string
	foreign  *liqov1beta1.ForeignCluster
	networks *networkingv1beta1.Configuration
	tunnel   *networkingv1beta1.Connection
}

func newSliceScene(t *testing.T) *sliceScene {
	t.Helper()
	return newSliceSceneIn(t, provider(t, NamespaceMapOptions{}))
}

func newSliceSceneIn(t *testing.T, c *testkit.ControlPlane) *sliceScene {
	t.Helper()
	s := &sliceScene{t: t, c: c, id: testkit.UniqueID()}
	s.foreign = &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.id}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(s.id)}}
	s.create(s.foreign)
	t.Cleanup(func() { _ = s.c.Client.Delete(context.Background(), s.foreign) })
	s.twin = testkit.Namespace(t, s.c, "twin", map[string]string{names.RemoteClusterID: s.id})
	return s
}

func (s *sliceScene) create(obj client.Object) {
	s.t.Helper()
	if err := s.c.Client.Create(s.t.Context(), obj); err != nil {
		s.t.Fatalf("making %T: %v", obj, err)
	}
}

// connect makes the network: pods are 10.200/16 there.
func (s *sliceScene) connect() {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: s.id, Labels: map[string]string{names.RemoteClusterID: s.id}}
	s.networks = &networkingv1beta1.Configuration{ObjectMeta: meta}
	s.networks.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	s.create(s.networks)
	s.tunnel = &networkingv1beta1.Connection{ObjectMeta: *meta.DeepCopy(), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
	s.create(s.tunnel)
	s.t.Cleanup(func() {
		_ = s.c.Client.Delete(context.Background(), s.networks)
		_ = s.c.Client.Delete(context.Background(), s.tunnel)
	})
}

func (s *sliceScene) place(pods networkingv1beta1.CIDR) {
	s.t.Helper()
	testkit.UpdateStatus(s.t, s.c.Client, s.networks, func(c *networkingv1beta1.Configuration) {
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{pods}, External: []networkingv1beta1.CIDR{"10.68.0.0/16"}}}
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Placed",
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}
	})
}

func (s *sliceScene) tunnelIs(value networkingv1beta1.ConnectionStatusValue) {
	s.t.Helper()
	testkit.UpdateStatus(s.t, s.c.Client, s.tunnel, func(c *networkingv1beta1.Connection) { c.Status.Value = value })
}

func (s *sliceScene) ask(name string, addresses ...string) *offv1beta1.ShadowEndpointSlice {
	s.t.Helper()
	ses := &offv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.twin, Name: name, Labels: map[string]string{
			names.OffloadingOrigin: s.id, discoveryv1.LabelServiceName: "web",
		}},
		Spec: offv1beta1.ShadowEndpointSliceSpec{Template: offv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}},
		}},
	}
	for _, a := range addresses {
		ses.Spec.Template.Endpoints = append(ses.Spec.Template.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	s.create(ses)
	return ses
}

func (s *sliceScene) slice(name string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.twin, Name: name}}
}

// shows waits until a slice has exactly these endpoints, each as address and whether it is ready.
func (s *sliceScene) shows(name string, want ...string) *discoveryv1.EndpointSlice {
	s.t.Helper()
	got := s.slice(name)
	eventually(s.t, s.c, got, func() error {
		var have []string
		for _, e := range got.Endpoints {
			have = append(have, fmt.Sprintf("%s ready=%t", strings.Join(e.Addresses, ","), e.Conditions.Ready == nil || *e.Conditions.Ready))
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("endpoints %q, want %q", have, want)
		}
		return nil
	})
	return got
}

func TestShadowEndpointSlices(t *testing.T) {
	s := newSliceScene(t)
	s.connect()
	s.ask("web", "10.200.1.5", "10.96.0.1")
	s.ask("empty")

	s.shows("web")
	s.shows("empty")
	s.place("10.71.0.0/16")
	s.shows("web", "10.71.1.5 ready=false")
	waitForEvent(t, s.c, &offv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.twin, Name: "web"}}, "ForeignEndpoints", "10.96.0.1")
	s.tunnelIs(networkingv1beta1.Connected)
	up := s.shows("web", "10.71.1.5 ready=true")
	if up.Labels[discoveryv1.LabelServiceName] != "web" || up.Labels[names.ManagedBy] != "shadowendpointslice" || len(up.OwnerReferences) != 1 {
		t.Errorf("metadata %+v", up.ObjectMeta)
	}

	t.Run("endpoints of another peer follow its network", func(t *testing.T) {
		other := &sliceScene{t: t, c: s.c, id: testkit.UniqueID(), twin: s.twin}
		ses := s.ask("direct", "10.200.1.5", "10.200.1.5")
		testkit.Update(t, s.c.Client, ses, func(ses *offv1beta1.ShadowEndpointSlice) {
			ses.Annotations = map[string]string{names.DirectConnections: fmt.Sprintf(`{"clusterAddresses":{%q:["10.200.1.5"]}}`, other.id)}
			ses.Spec.Template.Endpoints[1].NodeName = &other.id
		})
		s.shows("direct", "10.71.1.5 ready=true")
		waitForEvent(t, s.c, ses, "ForeignEndpoints", "by direct connections: 10.200.1.5")
		other.connect()
		other.place("10.69.0.0/16")
		s.shows("direct", "10.71.1.5 ready=true", "10.69.1.5 ready=false")
		other.tunnelIs(networkingv1beta1.Connected)
		if got := s.shows("direct", "10.71.1.5 ready=true", "10.69.1.5 ready=true"); got.Annotations[names.DirectConnections] != "" {
			t.Errorf("annotations %v", got.Annotations)
		}
		t.Run("unreadable list", func(t *testing.T) {
			bad := s.ask("unreadable", "10.200.1.5", "10.200.1.5")
			testkit.Update(t, s.c.Client, bad, func(ses *offv1beta1.ShadowEndpointSlice) {
				ses.Annotations = map[string]string{names.DirectConnections: "{"}
				ses.Spec.Template.Endpoints[1].NodeName = &other.id
			})
			s.shows("unreadable", "10.71.1.5 ready=true")
			waitForEvent(t, s.c, bad, "InvalidEndpoints", "direct-connections-data")
		})
	})
	t.Run("latency update and API server outage write nothing", func(t *testing.T) {
		testkit.UpdateStatus(t, s.c.Client, s.tunnel, func(c *networkingv1beta1.Connection) { c.Status.Latency.Value = "7ms" })
		testkit.UpdateStatus(t, s.c.Client, s.foreign, func(f *liqov1beta1.ForeignCluster) {
			f.Status.Modules.Networking.Enabled = true
			f.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionError}}
		})
		s.ask("later", "10.200.1.6") // what came before it was looked at
		s.shows("later", "10.71.1.6 ready=true")
		if now := s.shows("web", "10.71.1.5 ready=true"); now.ResourceVersion != up.ResourceVersion {
			t.Error("it was written")
		}
	})
	t.Run("tunnel down removes endpoints until up", func(t *testing.T) {
		for _, value := range []networkingv1beta1.ConnectionStatusValue{networkingv1beta1.Connecting, networkingv1beta1.Connected, networkingv1beta1.ConnectionError} {
			s.tunnelIs(value)
			s.shows("web", fmt.Sprintf("10.71.1.5 ready=%t", value == networkingv1beta1.Connected))
		}
		for _, reach := range []networkingv1beta1.ConnectionReach{networkingv1beta1.ReachSome, networkingv1beta1.ReachNone} {
			testkit.UpdateStatus(t, s.c.Client, s.tunnel, func(c *networkingv1beta1.Connection) { c.Status.Reach = reach })
			s.shows("web", fmt.Sprintf("10.71.1.5 ready=%t", reach == networkingv1beta1.ReachSome))
		}
		if err := s.c.Client.Delete(t.Context(), s.tunnel); err != nil {
			t.Fatal(err)
		}
		s.shows("web", "10.71.1.5 ready=false")
		s.tunnel.ResourceVersion, s.tunnel.UID = "", ""
		s.create(s.tunnel)
		s.tunnelIs(networkingv1beta1.Connected)
		s.shows("web", "10.71.1.5 ready=true")
	})
	t.Run("remapped networks change endpoints", func(t *testing.T) {
		s.place("10.69.0.0/16")
		s.shows("web", "10.69.1.5 ready=true")
	})
	t.Run("unmapped networks remove endpoints", func(t *testing.T) {
		testkit.Update(t, s.c.Client, s.networks, func(c *networkingv1beta1.Configuration) { c.Spec.Remote.CIDR.Pod[0] = "10.201.0.0/16" })
		s.shows("web")
	})
}

func TestDeniedDirectConnections(t *testing.T) {
	c := testkit.Cluster(t)
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "host"}, func(mgr ctrl.Manager) error {
		return SetupShadowEndpointSlices(mgr, ShadowEndpointSliceOptions{LiqoNamespace: "liqo", DenyDirectConnections: true})
	})
	s := newSliceSceneIn(t, c)
	other := &sliceScene{t: t, c: c, id: testkit.UniqueID(), twin: s.twin}
	for network, scene := range map[networkingv1beta1.CIDR]*sliceScene{"10.71.0.0/16": s, "10.69.0.0/16": other} {
		scene.connect()
		scene.place(network)
		scene.tunnelIs(networkingv1beta1.Connected)
	}
	ses := s.ask("direct", "10.200.1.5", "10.200.1.6")
	s.shows("direct", "10.71.1.5 ready=true", "10.71.1.6 ready=true")
	testkit.Update(t, c.Client, ses, func(ses *offv1beta1.ShadowEndpointSlice) {
		ses.Annotations = map[string]string{names.DirectConnections: fmt.Sprintf(`{"clusterAddresses":{%q:["10.200.1.6"]}}`, other.id)}
		ses.Spec.Template.Endpoints[1].NodeName = &other.id
	})
	waitForEvent(t, c, ses, "ForeignEndpoints", "by direct connections: 10.200.1.6")
	s.shows("direct", "10.71.1.5 ready=true")
}

func TestShadowEndpointSlicesWithoutNetwork(t *testing.T) {
	s := newSliceScene(t)
	kubernetes := &corev1.Service{}
	if err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, kubernetes); err != nil {
		t.Fatal(err)
	}
	// Of these only the first one is not of this cluster, and nobody says so yet of the last four.
	s.ask("web", "192.0.2.7", "127.0.0.1", kubernetes.Spec.ClusterIP, "198.18.7.8", "198.18.8.8", "198.18.9.9", "198.18.10.10")
	s.shows("web", "192.0.2.7 ready=true", "198.18.7.8 ready=true", "198.18.8.8 ready=true", "198.18.9.9 ready=true", "198.18.10.10 ready=true")

	services := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: s.id}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"198.18.10.0/24"}}}
	s.create(services)
	t.Cleanup(func() { _ = s.c.Client.Delete(context.Background(), services) })
	s.shows("web", "192.0.2.7 ready=true", "198.18.7.8 ready=true", "198.18.8.8 ready=true", "198.18.9.9 ready=true")

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.id}, Spec: corev1.NodeSpec{PodCIDR: "198.18.7.0/24", PodCIDRs: []string{"198.18.7.0/24"}}}
	s.create(node)
	t.Cleanup(func() { _ = s.c.Client.Delete(context.Background(), node) })
	s.shows("web", "192.0.2.7 ready=true", "198.18.8.8 ready=true", "198.18.9.9 ready=true")
	testkit.UpdateStatus(t, s.c.Client, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.8.8"}}
	})
	s.shows("web", "192.0.2.7 ready=true", "198.18.9.9 ready=true")
	network := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.twin, Name: "another"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.200.0.0/24"}}
	s.create(network)
	testkit.UpdateStatus(t, s.c.Client, network, func(n *ipamv1alpha1.Network) { n.Status.CIDR = "198.18.9.0/24" })
	s.shows("web", "192.0.2.7 ready=true")
	s.connect()
	s.shows("web")
}

func TestShadowEndpointSlicesWithoutConsumer(t *testing.T) {
	s := newSliceScene(t)
	t.Run("other origin is rejected", func(t *testing.T) {
		ses := s.ask("web", "192.0.2.7")
		s.shows("web", "192.0.2.7 ready=true")
		testkit.Update(t, s.c.Client, ses, func(o *offv1beta1.ShadowEndpointSlice) { o.Labels[names.OffloadingOrigin] = "another" })
		waitUntilDeleted(t, s.c, s.slice("web"))
		waitForEvent(t, s.c, ses, "WrongOrigin", "another")
	})
	t.Run("one of somebody else is left alone", func(t *testing.T) {
		foreign := s.slice("taken")
		foreign.AddressType, foreign.Endpoints = discoveryv1.AddressTypeIPv4, []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}
		s.create(foreign)
		ses := s.ask("taken", "192.0.2.7")
		waitForEvent(t, s.c, ses, "NameTaken", "already exists")
		if now := s.shows("taken", "192.0.2.1 ready=true"); now.ResourceVersion != foreign.ResourceVersion {
			t.Error("it was written")
		}
	})
	t.Run("rejected endpoints are reported", func(t *testing.T) {
		ses := s.ask("odd", "192.0.2.7", "192.0.2.8")
		testkit.Update(t, s.c.Client, ses, func(o *offv1beta1.ShadowEndpointSlice) { o.Spec.Template.Endpoints[0].Hostname = new("Not A Name") })
		waitForEvent(t, s.c, ses, "InvalidEndpoints", "hostname")
		s.shows("odd", "192.0.2.8 ready=true")
	})
	t.Run("foreign endpoints are reported", func(t *testing.T) {
		ses := s.ask("both", "127.0.0.1", "192.0.2.7", "192.0.2.8")
		s.shows("both", "192.0.2.7 ready=true", "192.0.2.8 ready=true")
		testkit.Update(t, s.c.Client, ses, func(o *offv1beta1.ShadowEndpointSlice) {
			o.Spec.Template.Endpoints[0].Addresses[0], o.Spec.Template.Endpoints[1].Hostname = "127.0.0.2", new("Not A Name")
		})
		waitForEvent(t, s.c, ses, "InvalidEndpoints", "hostname")
		waitForEvent(t, s.c, ses, "ForeignEndpoints", "127.0.0.2")
		s.shows("both", "192.0.2.8 ready=true")
	})
	t.Run("changed address type recreates slice", func(t *testing.T) {
		ses := s.ask("dual", "192.0.2.7")
		before := s.shows("dual", "192.0.2.7 ready=true")
		testkit.Update(t, s.c.Client, ses, func(o *offv1beta1.ShadowEndpointSlice) {
			o.Spec.Template.AddressType, o.Spec.Template.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"2001:db8::7"}
		})
		if after := s.shows("dual", "2001:db8::7 ready=true"); after.UID == before.UID {
			t.Error("it is the same one")
		}
	})
	t.Run("changes are reverted and deletion follows", func(t *testing.T) {
		ses := s.ask("kept", "192.0.2.7")
		created := s.shows("kept", "192.0.2.7 ready=true")
		testkit.Update(t, s.c.Client, created, func(e *discoveryv1.EndpointSlice) { e.Endpoints[0].Addresses[0] = "192.0.2.66" })
		s.shows("kept", "192.0.2.7 ready=true")
		if err := s.c.Client.Delete(t.Context(), ses); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, s.c, s.slice("kept"))
	})
	t.Run("a namespace goes with all of it", func(t *testing.T) {
		s.ask("last", "192.0.2.7")
		s.shows("last", "192.0.2.7 ready=true")
		if err := s.c.Client.Delete(t.Context(), namespaceOf(s.twin)); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, s.c, s.slice("last"))
		waitUntilDeleted(t, s.c, namespaceOf(s.twin))
	})
}
