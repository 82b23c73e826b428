// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

func serviceOf(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 80, Protocol: corev1.ProtocolUDP}},
		},
	}
}

func localSlice(namespace, name, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	if endpoints == nil {
		endpoints = []discoveryv1.Endpoint{}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
}

// at is an endpoint on a node, or outside if there is none.
func at(node, address string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
	if node != "" {
		e.NodeName = &node
	}
	return e
}

func shadowSlice(namespace, name string) *offv1beta1.ShadowEndpointSlice {
	return &offv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func asksFor(addresses ...string) func(*offv1beta1.ShadowEndpointSlice) error {
	return func(s *offv1beta1.ShadowEndpointSlice) error {
		var got []string
		for _, e := range s.Spec.Template.Endpoints {
			got = append(got, e.Addresses...)
		}
		if fmt.Sprint(got) != fmt.Sprint(addresses) {
			return fmt.Errorf("asks for %q, not %q", got, addresses)
		}
		return nil
	}
}

func clusterIPIs(headless bool) func(*corev1.Service) error {
	return func(s *corev1.Service) error {
		if is := s.Spec.ClusterIP == corev1.ClusterIPNone; is != headless || s.Spec.ClusterIP == "" {
			return fmt.Errorf("the address is %s", s.Spec.ClusterIP)
		}
		return nil
	}
}

// networked returns a testEnv with a network to the provider, whose pods are 10.71/16 here. Its ID is its own, because
// ForeignClusters are shared by all tests.
func networked(t *testing.T, edit func(*Options)) (*testEnv, *networkingv1beta1.Configuration) {
	t.Helper()
	s := newTestEnv(t, func(o *Options) {
		o.Provider = liqov1beta1.ClusterID(o.Node)
		if edit != nil {
			edit(o)
		}
	})
	s.patch(s.consumer, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: s.tenant}},
		fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, names.RemoteClusterID, s.node))
	foreign := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.node}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: s.options.Provider}}
	s.create(s.consumer, foreign)
	testkit.UpdateStatus(t, s.consumer.Client, foreign, func(f *liqov1beta1.ForeignCluster) { f.Status.Modules.Networking.Enabled = true })
	return s, s.configuration("10.7.0.0/16")
}

func TestServiceReflection(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	local := serviceOf(s.local, "web")
	local.Spec.Type, local.Spec.SessionAffinity = corev1.ServiceTypeNodePort, corev1.ServiceAffinityClientIP
	s.create(s.consumer, local)
	copied := eventually(s, s.provider, serviceOf(s.remoteNamespace, "web"), clusterIPIs(false))

	s.step("addresses and node ports are the provider's, the rest is the same", func() {
		if copied.Spec.Type != corev1.ServiceTypeNodePort || len(copied.Spec.Ports) != 2 || copied.Spec.Selector["app"] != "web" ||
			copied.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || copied.Spec.Ports[0].NodePort == 0 {
			s.t.Errorf("%+v", copied.Spec)
		}
	})
	s.step("a change follows, and one there is put back", func() {
		s.patch(s.consumer, local, `{"spec":{"type":"ClusterIP","ports":[{"name":"http","port":81,"nodePort":null}]}}`)
		ports := func(want int32) func(*corev1.Service) error {
			return func(c *corev1.Service) error {
				if len(c.Spec.Ports) != 1 || c.Spec.Ports[0].Port != want || c.Spec.Type != corev1.ServiceTypeClusterIP || c.Spec.Ports[0].NodePort != 0 {
					return fmt.Errorf("%+v", c.Spec)
				}
				return nil
			}
		}
		eventually(s, s.provider, copied, ports(81))
		s.patch(s.provider, copied, `{"spec":{"selector":{"app":"hacked"}}}`)
		eventually(s, s.provider, copied, func(c *corev1.Service) error {
			if c.Spec.Selector["app"] != "web" {
				return fmt.Errorf("selector %v", c.Spec.Selector)
			}
			return ports(81)(c)
		})
	})
	s.step("a headless Service is headless there, and another one when it is not any more", func() {
		headless := serviceOf(s.local, "db")
		headless.Spec.ClusterIP = corev1.ClusterIPNone
		s.create(s.consumer, headless)
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "db"), clusterIPIs(true))
		s.deleteNow(s.consumer, headless)
		s.create(s.consumer, serviceOf(s.local, "db"))
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "db"), clusterIPIs(false))
	})
	s.step("a Service of an external address keeps that to itself", func() {
		outside := serviceOf(s.local, "outside")
		outside.Spec.ExternalIPs = []string{"192.0.2.9"}
		s.create(s.consumer, outside)
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "outside"), func(c *corev1.Service) error {
			if len(c.Spec.ExternalIPs) != 0 {
				return fmt.Errorf("external addresses %v", c.Spec.ExternalIPs)
			}
			return nil
		})
	})
	s.step("a Service that somebody else made there is reported and stays as it is", func() {
		foreign := serviceOf(s.remoteNamespace, "taken")
		s.create(s.provider, foreign)
		mine := serviceOf(s.local, "taken")
		s.create(s.consumer, mine)
		s.event(mine, "FailedReflection", "already exists")
		if now := eventually(s, s.provider, serviceOf(s.remoteNamespace, "taken"), exists); now.ResourceVersion != foreign.ResourceVersion {
			s.t.Errorf("it was written: %+v", now.ObjectMeta)
		}
		s.deleteNow(s.consumer, mine)
	})
	s.step("one that may not leave stays", func() {
		secretive := serviceOf(s.local, "inner")
		secretive.Annotations = map[string]string{names.SkipReflection: "true"}
		s.create(s.consumer, secretive)
		s.after("after-inner")
		s.absent(s.provider, serviceOf(s.remoteNamespace, "inner"))
	})
	stop()
	s.options.LoadBalancerClass = "theirs"
	s.run()
	s.step("a load balancer gets a class of the provider", func() {
		balanced := serviceOf(s.local, "balanced")
		balanced.Spec.Type, balanced.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("ours")
		balanced.Spec.Ports = balanced.Spec.Ports[:1]
		s.create(s.consumer, balanced)
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "balanced"), func(c *corev1.Service) error {
			if c.Spec.LoadBalancerClass == nil || *c.Spec.LoadBalancerClass != "theirs" {
				return fmt.Errorf("class %v", c.Spec.LoadBalancerClass)
			}
			return nil
		})
	})
	s.step("a copy goes with its Service", func() {
		s.deleteNow(s.consumer, local)
		s.waitUntilDeleted(s.provider, serviceOf(s.remoteNamespace, "web"))
	})
}

// What a provider never changes of a Service is another Service.
func TestServiceReplaced(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.LoadBalancerClass = "theirs" })
	balanced := func(name string) *corev1.Service {
		out := serviceOf(s.local, name)
		out.Spec.Type, out.Spec.Ports = corev1.ServiceTypeLoadBalancer, out.Spec.Ports[:1]
		return out
	}
	headless := func(name string) *corev1.Service {
		out := serviceOf(s.local, name)
		out.Spec.ClusterIP = corev1.ClusterIPNone
		return out
	}
	before := map[string]*corev1.Service{"db": headless("db"), "web": serviceOf(s.local, "web"), "balanced": balanced("balanced")}
	made := map[string]types.UID{}
	stop := s.run()
	for name, local := range before {
		s.create(s.consumer, local)
		made[name] = eventually(s, s.provider, serviceOf(s.remoteNamespace, name), exists).UID
	}
	stop()
	// Nobody sees that these go.
	for name, now := range map[string]*corev1.Service{"db": serviceOf(s.local, "db"), "web": headless("web")} {
		s.deleteNow(s.consumer, before[name])
		s.create(s.consumer, now)
		before[name] = now
	}
	another := func(name string, is func(*corev1.Service) error) {
		s.t.Helper()
		now := eventually(s, s.provider, serviceOf(s.remoteNamespace, name), func(c *corev1.Service) error {
			if c.UID == made[name] {
				return fmt.Errorf("it is the same one: %+v", c.Spec)
			}
			return is(c)
		})
		made[name] = now.UID
		s.event(before[name], "SuccessfulReflection", "Successfully reflected")
	}
	class := func(want *string) func(*corev1.Service) error {
		return func(c *corev1.Service) error {
			if !ptr.Equal(c.Spec.LoadBalancerClass, want) {
				return fmt.Errorf("class %v", c.Spec.LoadBalancerClass)
			}
			return nil
		}
	}
	s.options.LoadBalancerClass = "of-late"
	stop = s.run()
	s.step("headless no more", func() { another("db", clusterIPIs(false)) })
	s.step("headless now", func() { another("web", clusterIPIs(true)) })
	s.step("of another class of load balancers", func() { another("balanced", class(new("of-late"))) })
	stop()
	s.options.LoadBalancerClass = ""
	stop = s.run()
	s.step("of none", func() { another("balanced", class(nil)) })
	stop()
	s.options.LoadBalancerClass = "no class"
	stop = s.run()
	s.step("one with which none can be made leaves the copy as it is", func() {
		s.event(before["balanced"], "FailedReflection", "stays as it was")
		if now := eventually(s, s.provider, serviceOf(s.remoteNamespace, "balanced"), class(nil)); now.UID != made["balanced"] {
			s.t.Error("it was made anew")
		}
	})
	stop()
	s.options.LoadBalancerClass = ""
	s.run()
	s.step("what can change does", func() {
		s.patch(s.consumer, before["balanced"], `{"metadata":{"labels":{"x":"y"}}}`)
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "balanced"), func(c *corev1.Service) error {
			if c.Labels["x"] != "y" || c.UID != made["balanced"] {
				return fmt.Errorf("%+v", c.ObjectMeta)
			}
			return nil
		})
	})
}

func TestEndpointSliceReflection(t *testing.T) {
	s, networks := networked(t, nil)
	stop := s.run()
	s.create(s.consumer, serviceOf(s.local, "web"))
	mixed := localSlice(s.local, "web-1", "web",
		at("worker", "10.200.1.5"), at(s.node, "10.71.0.9"), at("another-of-milan", "10.71.0.8"), at("turin", "10.69.0.7"), at("", "203.0.113.9"))
	s.create(s.consumer, mixed)
	empty := localSlice(s.local, "web-0", "web")
	s.create(s.consumer, empty)

	s.step("nothing is asked for before the networks have a place", func() {
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "web"), exists)
		s.after("before-place")
		s.absent(s.provider, shadowSlice(s.remoteNamespace, "web-1"))
	})
	s.step("pods of this cluster are asked for, and those of the provider are not", func() {
		s.place(networks, "10.71.0.0/16")
		got := eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5"))
		if got.Labels[discoveryv1.LabelServiceName] != "web" || got.Labels[discoveryv1.LabelManagedBy] != "endpointslice.reflection.liqo.io" ||
			*got.Spec.Template.Endpoints[0].NodeName != string(s.consumerID) || len(got.Spec.Template.Ports) != 1 {
			s.t.Errorf("%+v", got)
		}
		s.event(mixed, "EndpointsNotReflected", "2 endpoints")
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-0"), asksFor())
	})
	s.step("an IP shows others", func() {
		show := func(namespace string, shown networkingv1beta1.IP) *ipamv1alpha1.IP {
			out := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "turin"}, Spec: ipamv1alpha1.IPSpec{IP: "10.69.0.7"}}
			s.create(s.consumer, out)
			testkit.UpdateStatus(s.t, s.consumer.Client, out, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = shown, "10.70.0.0/16" })
			return out
		}
		elder := show(s.tenant, "10.70.0.8") // also in the order of names, if they are of one second
		ip := show(s.local, "10.70.0.9")
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5", "10.70.0.8"))
		s.deleteNow(s.consumer, elder)
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5", "10.70.0.9"))
		s.deleteNow(s.consumer, ip)
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5"))
	})
	s.step("pods of another provider keep their addresses by direct connections", func() {
		turin := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: "turin", Labels: map[string]string{names.RemoteClusterID: "turin"}}}
		turin.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
		s.create(s.consumer, turin)
		s.place(turin, "10.69.0.0/16", "10.64.0.0/16")
		s.patch(s.consumer, serviceOf(s.local, "web"), `{"metadata":{"annotations":{"liqo.io/use-direct-connections":"true"},"labels":{"seen":"direct"}}}`)
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "web"), func(c *corev1.Service) error {
			if c.Labels["seen"] != "direct" {
				return fmt.Errorf("labels %v", c.Labels)
			}
			return nil
		})
		testkit.Update(s.t, s.consumer.Client, empty, func(e *discoveryv1.EndpointSlice) { e.Endpoints = []discoveryv1.Endpoint{at("turin", "10.69.0.7")} })
		s.event(empty, "EndpointsNotReflected", "10.69.0.7") // a provider of an older version maps every address
		foreign := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
		testkit.UpdateStatus(s.t, s.consumer.Client, foreign, func(f *liqov1beta1.ForeignCluster) { f.Status.Capabilities = []string{peer.DirectConnections} })
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-0"), asksFor("10.200.0.7"))
		testkit.Update(s.t, s.consumer.Client, empty, func(e *discoveryv1.EndpointSlice) { e.Endpoints = []discoveryv1.Endpoint{} })
		got := eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5", "10.200.0.7"))
		if data := got.Annotations[names.DirectConnections]; data != `{"clusterAddresses":{"turin":["10.200.0.7"]}}` || *got.Spec.Template.Endpoints[1].NodeName != "turin" {
			s.t.Errorf("%s, %+v", data, got.Spec.Template.Endpoints)
		}
		s.patch(s.consumer, serviceOf(s.local, "web"), `{"metadata":{"annotations":{"liqo.io/use-direct-connections":null}}}`)
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5"))
		s.deleteNow(s.consumer, turin)
	})
	s.step("what its Service says counts", func() {
		s.patch(s.consumer, serviceOf(s.local, "web"), `{"metadata":{"annotations":{"liqo.io/skip-reflection":"true"}}}`)
		s.waitUntilDeleted(s.provider, shadowSlice(s.remoteNamespace, "web-1"))
		s.waitUntilDeleted(s.provider, serviceOf(s.remoteNamespace, "web"))
		s.patch(s.consumer, serviceOf(s.local, "web"), `{"metadata":{"annotations":{"liqo.io/skip-reflection":null}}}`)
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), asksFor("10.200.1.5"))
	})
	s.step("what the provider says of it is told here", func() {
		shadow := eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-1"), exists)
		s.create(s.provider, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: "web-1.1"}, Type: corev1.EventTypeWarning, Reason: "ForeignEndpoints", Message: "left out",
			InvolvedObject: corev1.ObjectReference{
				APIVersion: offv1beta1.GroupVersion.String(), Kind: "ShadowEndpointSlice", Namespace: s.remoteNamespace, Name: "web-1", UID: shadow.UID,
			},
			FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
		})
		s.event(mixed, "ForeignEndpoints", "left out")
	})
	s.step("what somebody else made there is reported and stays as it is", func() {
		foreign := shadowSlice(s.remoteNamespace, "taken")
		s.create(s.provider, foreign)
		local := localSlice(s.local, "taken", "web", at("worker", "10.200.1.6"))
		s.create(s.consumer, local)
		s.event(local, "FailedReflection", "already exists")
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "taken"), asksFor())
		s.deleteNow(s.consumer, local)
	})
	s.step("a slice that changes is followed, and goes", func() {
		testkit.Update(s.t, s.consumer.Client, empty, func(e *discoveryv1.EndpointSlice) { e.Endpoints = []discoveryv1.Endpoint{at("worker", "10.200.1.7")} })
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-0"), asksFor("10.200.1.7"))
		testkit.Update(s.t, s.consumer.Client, empty, func(e *discoveryv1.EndpointSlice) { e.Endpoints = []discoveryv1.Endpoint{} })
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web-0"), asksFor())
		s.deleteNow(s.consumer, empty)
		s.waitUntilDeleted(s.provider, shadowSlice(s.remoteNamespace, "web-0"))
	})
	stop()
	s.options.DisableIPReflection = true
	s.run()
	s.step("without addresses there are no endpoints either", func() {
		s.waitUntilDeleted(s.provider, shadowSlice(s.remoteNamespace, "web-1"))
		eventually(s, s.provider, serviceOf(s.remoteNamespace, "web"), exists)
	})
}

func TestServicesAfterRestart(t *testing.T) {
	s, networks := networked(t, nil)
	s.place(networks, "10.71.0.0/16")
	remoteProxy, remoteConfig := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, remoteConfig))
	stop := s.run()
	for _, service := range []*corev1.Service{serviceOf(s.local, "plain"), serviceOf(s.local, "ports"), serviceOf(s.local, "headless"), serviceOf(s.local, "name")} {
		switch service.Name {
		case "ports":
			service.Spec.Type = corev1.ServiceTypeNodePort
		case "headless":
			service.Spec.ClusterIP = corev1.ClusterIPNone
		case "name":
			service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"}
		}
		s.create(s.consumer, service)
		s.create(s.consumer, localSlice(s.local, service.Name, service.Name, at("worker", "10.200.1.5"), at("worker", "10.200.1.6")))
		eventually(s, s.provider, serviceOf(s.remoteNamespace, service.Name), exists)
		eventually(s, s.provider, shadowSlice(s.remoteNamespace, service.Name), asksFor("10.200.1.5", "10.200.1.6"))
	}
	s.create(s.consumer, localSlice(s.local, "nothing", "plain"))
	eventually(s, s.provider, shadowSlice(s.remoteNamespace, "nothing"), asksFor())
	eventually(s, s.provider, configMap(s.remoteNamespace, names.RootCA(string(s.consumerID)), nil), exists) // it may be copied late
	stop()
	remoteProxy.take(s.remoteNamespace)
	s.run()
	s.after("restarted")
	s.create(s.consumer, localSlice(s.local, "later", "plain", at("worker", "10.200.1.8")))
	eventually(s, s.provider, shadowSlice(s.remoteNamespace, "later"), asksFor("10.200.1.8"))
	for _, write := range remoteProxy.take(s.remoteNamespace) {
		if !strings.HasSuffix(write, "/restarted") && !strings.HasSuffix(write, "/later") {
			t.Errorf("written: %s", write)
		}
	}
}

// A Service that stands for one in another offloaded namespace does so in the provider, too, where that namespace has another name.
func TestServiceExternalName(t *testing.T) {
	s := newTestEnv(t, nil)
	databases := testkit.Namespace(t, s.consumer, "databases", nil)
	alias := serviceOf(s.local, "alias")
	alias.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db." + databases + ".svc.cluster.local"}
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{
		s.local:   {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingAccepted},
		databases: {RemoteNamespace: databases + "-rome", Phase: offv1beta1.MappingAccepted},
	})
	testkit.Create(t, s.provider.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: databases + "-rome"}})
	s.create(s.consumer, alias)
	s.run()
	eventually(s, s.provider, serviceOf(s.remoteNamespace, "alias"), func(got *corev1.Service) error {
		if want := "db." + databases + "-rome.svc.cluster.local"; got.Spec.ExternalName != want {
			return fmt.Errorf("stands for %q, want %q", got.Spec.ExternalName, want)
		}
		return nil
	})
}
