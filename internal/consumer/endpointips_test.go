// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// podAt is the endpoint of a pod; the UID of a pod is its name and "-uid".
func podAt(node, pod, address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: pod, UID: types.UID(pod + "-uid")},
	}
}

func endpointsOf(service string, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
	}
}

func localNetwork(t *testing.T, cidr string) prefix.Map {
	t.Helper()
	m, err := prefix.New([]netip.Prefix{netip.MustParsePrefix("10.200.0.0/16")}, []netip.Prefix{netip.MustParsePrefix(cidr)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEndpointsThatNeedIPs(t *testing.T) {
	annotated := func(key string) func(*endpointView) {
		return func(v *endpointView) {
			v.services["web"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "true"}}}
		}
	}
	copied := func(provider string, types ...translate.ReflectionType) func(*endpointView) {
		return func(v *endpointView) { v.reflections[provider] = types }
	}
	allowListed := func(edit func(*endpointView)) func(*endpointView) {
		return func(v *endpointView) {
			edit(v)
			copied("milan", translate.AllowList)(v)
			copied("turin", translate.AllowList)(v)
		}
	}
	both := []discoveryv1.Endpoint{podAt("milan-1", "b", "10.71.1.5"), podAt("turin-1", "c", "10.69.1.5")}
	apiServer := []discoveryv1.Endpoint{podAt("milan-1", "b", "10.71.1.5")}
	apiServer[0].TargetRef.Namespace = "default"
	inMilan := podAt("milan-1", "b", "10.71.1.5")
	outside := inMilan
	outside.NodeName, outside.TargetRef = nil, nil
	elsewhere := inMilan
	elsewhere.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "other", Name: "b", UID: "b-uid"}
	byHand := inMilan
	byHand.TargetRef = nil
	for name, test := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		edit      func(*endpointView)
		want      string
	}{
		"one of each provider":              {[]discoveryv1.Endpoint{inMilan, podAt("turin-1", "c", "10.69.1.5")}, nil, "b=10.71.1.5 c=10.69.1.5"},
		"local pod":                         {[]discoveryv1.Endpoint{podAt("worker", "a", "10.200.1.5")}, nil, ""},
		"one provider":                      {[]discoveryv1.Endpoint{inMilan}, func(v *endpointView) { delete(v.providers, "turin") }, ""},
		"two virtual nodes of a provider":   {[]discoveryv1.Endpoint{inMilan, podAt("milan-2", "b2", "10.71.1.6")}, func(v *endpointView) { delete(v.providers, "turin") }, ""},
		"address of a node of the cluster":  {[]discoveryv1.Endpoint{podAt("milan-1", "b", "172.29.1.1")}, nil, ""},
		"address of another provider":       {[]discoveryv1.Endpoint{podAt("milan-1", "b", "10.69.1.5")}, nil, ""},
		"local address":                     {[]discoveryv1.Endpoint{podAt("milan-1", "b", "10.200.1.5")}, nil, ""},
		"no address":                        {[]discoveryv1.Endpoint{podAt("milan-1", "b", "db.example.com")}, nil, ""},
		"outside":                           {[]discoveryv1.Endpoint{outside}, nil, ""},
		"pod of another namespace":          {[]discoveryv1.Endpoint{elsewhere}, nil, ""},
		"no pod":                            {[]discoveryv1.Endpoint{byHand}, nil, ""},
		"networks not known":                {[]discoveryv1.Endpoint{inMilan}, func(v *endpointView) { delete(v.pods, "milan") }, "b=undecided"},
		"service that is not reflected":     {[]discoveryv1.Endpoint{inMilan}, annotated(names.SkipReflection), ""},
		"allow list, service not annotated": {both, allowListed(func(*endpointView) {}), ""},
		"allow list, service annotated":     {both, allowListed(annotated(names.AllowReflection)), "b=10.71.1.5 c=10.69.1.5"},
		"one provider with an allow list":   {both, copied("turin", translate.AllowList), "c=10.69.1.5"},
		"two virtual nodes, one copies":     {both, copied("turin", translate.AllowList, translate.DenyList), "b=10.71.1.5 c=10.69.1.5"},
		"no slices to one provider":         {both, copied("milan"), "b=10.71.1.5"},
		"service of the API server": {apiServer, func(v *endpointView) {
			v.namespace, v.slices = "default", []discoveryv1.EndpointSlice{endpointsOf("kubernetes", apiServer...)}
		}, ""},
		"service with direct connections": {both, func(v *endpointView) {
			annotated(names.UseDirectConnections)(v)
			v.direct = map[string]bool{"milan": true, "turin": true}
		}, ""},
		"direct connections, one provider cannot": {both, func(v *endpointView) {
			annotated(names.UseDirectConnections)(v)
			v.direct = map[string]bool{"milan": true}
		}, "b=10.71.1.5"},
		"two families": {
			[]discoveryv1.Endpoint{podAt("milan-1", "b", "fd00::5"), inMilan},
			func(v *endpointView) {
				m, err := prefix.New([]netip.Prefix{netip.MustParsePrefix("10.200.0.0/16"), netip.MustParsePrefix("fd02::/64")}, []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("fd00::/64")})
				if err != nil {
					t.Fatal(err)
				}
				v.pods["milan"] = m
			}, "b=10.71.1.5",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			view := &endpointView{
				namespace: "shop", providers: map[string]bool{"milan": true, "turin": true},
				reflections: map[string][]translate.ReflectionType{"milan": {translate.DenyList}, "turin": {translate.DenyList}},
				nodes:       map[string]string{"milan-1": "milan", "milan-2": "milan", "turin-1": "turin"},
				pods:        map[string]prefix.Map{"milan": localNetwork(t, "10.71.0.0/16"), "turin": localNetwork(t, "10.69.0.0/16")},
				slices:      []discoveryv1.EndpointSlice{endpointsOf("web", test.endpoints...)}, services: map[string]*corev1.Service{},
			}
			if test.edit != nil {
				test.edit(view)
			}
			pods := view.remotePods()
			var got []string
			for _, name := range slices.Sorted(maps.Keys(pods)) {
				value := pods[name].address.String()
				if pods[name].undecided {
					value = "undecided"
				}
				got = append(got, name+"="+value)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// endpointStory is a cluster with two providers, one namespace in both, and one slice.
type endpointStory struct {
	*testing.T
	c         *testkit.ControlPlane
	namespace string
	slice     *discoveryv1.EndpointSlice
	writes    *testkit.Writes // of the controller
}

// newEndpointStory returns a cluster with the providers PREFIX-milan and PREFIX-turin.
func newEndpointStory(t *testing.T, prefix string) *endpointStory {
	t.Helper()
	s := &endpointStory{T: t, c: testkit.Cluster(t, testkit.WithControllers("garbage-collector-controller"))}
	s.namespace = testkit.Namespace(t, s.c, "shop", map[string]string{names.SchedulingEnabled: "true"})
	for id, local := range map[string]networkingv1beta1.CIDR{prefix + "-milan": "10.71.0.0/16", prefix + "-turin": "10.69.0.0/16"} {
		tenant := testkit.Namespace(t, s.c, id, nil)
		vn := vnode(id+"-1", id, "")
		vn.Namespace = tenant
		label := map[string]string{names.RemoteClusterID: id}
		configuration := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: id, Labels: label}}
		configuration.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
		testkit.Create(t, s.c.Client, &vn, configuration, &offv1beta1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: id, Labels: map[string]string{names.ReplicationDestination: id}},
			Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{s.namespace: "shop-home"}},
		})
		testkit.UpdateStatus(t, s.c.Client, configuration, func(c *networkingv1beta1.Configuration) {
			c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{local}, External: []networkingv1beta1.CIDR{"10.68.0.0/16"}}}
			c.Status.Conditions = []metav1.Condition{{
				Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Placed", ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
			}}
		})
	}
	slice := endpointsOf("web")
	slice.Namespace, slice.Endpoints = s.namespace, []discoveryv1.Endpoint{}
	s.slice = &slice
	testkit.Create(t, s.c.Client, s.slice)
	testkit.Create(t, s.c.Client, &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names.VkOptionsTemplate}})
	return s
}

// start runs the controller.
func (s *endpointStory) start() {
	s.Helper()
	var cfg *rest.Config
	cfg, s.writes = testkit.RecordWrites(s.c.Config)
	testkit.Manager(s.T, cfg, kube.ManagerOptions{Name: "endpoint-ips"}, func(mgr ctrl.Manager) error {
		return SetupEndpointIPs(mgr, VirtualNodeOptions{LiqoNamespace: s.namespace})
	})
}

// pod runs a pod in a provider and returns its endpoint.
func (s *endpointStory) pod(node, name, address string) (*corev1.Pod, discoveryv1.Endpoint) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(0)), AutomountServiceAccountToken: new(false)},
	}
	testkit.Create(s.T, s.c.Client, pod)
	testkit.UpdateStatus(s.T, s.c.Client, pod, func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = address, []corev1.PodIP{{IP: address}} })
	e := podAt(node, name, address)
	e.TargetRef.Namespace, e.TargetRef.UID = s.namespace, pod.UID
	return pod, e
}

func (s *endpointStory) endpoints(all ...discoveryv1.Endpoint) {
	s.Helper()
	testkit.Update(s.T, s.c.Client, s.slice, func(e *discoveryv1.EndpointSlice) { e.Endpoints = append([]discoveryv1.Endpoint{}, all...) })
}

// wants waits until the namespace has exactly these IPs.
func (s *endpointStory) wants(want ...string) []ipamv1alpha1.IP {
	s.Helper()
	var list ipamv1alpha1.IPList
	testkit.Eventually(s.T, patience, func() error {
		if err := s.c.Client.List(s.Context(), &list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			got = append(got, fmt.Sprintf("%s=%s", list.Items[i].Name, list.Items[i].Spec.IP))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	return list.Items
}

func TestEndpointIPs(t *testing.T) {
	s := newEndpointStory(t, "endpoints")
	s.start()
	podB, b := s.pod("endpoints-milan-1", "b", "10.71.1.5")
	_, c := s.pod("endpoints-turin-1", "c", "10.69.1.5")
	_, hidden := s.pod("endpoints-milan-1", "hidden", "10.71.1.6")
	s.endpoints(b, c)
	first := s.wants("b=10.71.1.5", "c=10.69.1.5")
	if len(first[0].OwnerReferences) != 1 || first[0].OwnerReferences[0].UID != podB.UID {
		t.Errorf("owners %+v", first[0].OwnerReferences)
	}
	allowed := func(want string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			ip := &ipamv1alpha1.IP{}
			if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(&first[0]), ip); err != nil || ip.Annotations[names.AllowedPeers] == want {
				return err
			}
			return fmt.Errorf("the IP is for %q", ip.Annotations[names.AllowedPeers])
		})
	}
	allowed("endpoints-milan,endpoints-turin")

	t.Run("third_provider", func(t *testing.T) {
		tenant := testkit.Namespace(t, s.c, "endpoints-bern", nil)
		nm := &offv1beta1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "endpoints-bern", Labels: map[string]string{names.ReplicationDestination: "endpoints-bern"}},
			Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{s.namespace: "shop-home"}},
		}
		testkit.Create(t, s.c.Client, nm)
		allowed("endpoints-bern,endpoints-milan,endpoints-turin")
		if err := s.c.Client.Delete(t.Context(), nm); err != nil {
			t.Fatal(err)
		}
		allowed("endpoints-milan,endpoints-turin")
	})
	t.Run("peers_changed_by_hand", func(t *testing.T) {
		testkit.Update(t, s.c.Client, &first[0], func(ip *ipamv1alpha1.IP) { ip.Annotations[names.AllowedPeers] = "mallory" })
		allowed("endpoints-milan,endpoints-turin")
	})
	s.wants("b=10.71.1.5", "c=10.69.1.5")

	t.Run("endpoint_that_no_pod_confirms", func(*testing.T) {
		forged := hidden
		forged.Addresses = []string{"10.71.9.9"}
		other := b
		other.TargetRef = other.TargetRef.DeepCopy()
		other.TargetRef.Name, other.TargetRef.UID = "nobody", "x"
		s.endpoints(b, forged, other)
		s.wants("b=10.71.1.5")
	})
	t.Run("change_without_effect_writes_nothing", func(t *testing.T) {
		s.writes.To("/ips/b")
		notReady := b
		notReady.Conditions.Ready = new(false)
		s.endpoints(notReady, c, hidden)
		s.wants("b=10.71.1.5", "c=10.69.1.5", "hidden=10.71.1.6") // the last one shows that this change was seen
		if all := s.writes.To("/ips/b"); len(all) > 0 {
			t.Errorf("writes that change nothing: %q", all)
		}
		s.endpoints(b, c)
		s.wants("b=10.71.1.5", "c=10.69.1.5")
	})
	t.Run("service_changes", func(*testing.T) {
		capable := func(id string, capabilities ...string) {
			foreign := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}}
			testkit.Ensure(s.T, s.c, foreign)
			testkit.UpdateStatus(s.T, s.c.Client, foreign, func(f *liqov1beta1.ForeignCluster) { f.Status.Capabilities = capabilities })
		}
		capable("endpoints-milan", peer.DirectConnections)
		capable("endpoints-turin", peer.DirectConnections)
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web", Annotations: map[string]string{names.UseDirectConnections: "true"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		testkit.Create(s.T, s.c.Client, service)
		s.wants()
		capable("endpoints-milan", peer.BoundNonces)
		s.wants("c=10.69.1.5")
		capable("endpoints-milan", peer.BoundNonces, peer.DirectConnections)
		s.wants()
		testkit.Update(s.T, s.c.Client, service, func(service *corev1.Service) { service.Annotations = nil })
		s.wants("b=10.71.1.5", "c=10.69.1.5")
	})
	t.Run("slices_are_not_reflected", func(*testing.T) {
		template := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names.VkOptionsTemplate}}
		testkit.Update(s.T, s.c.Client, template, func(o *offv1beta1.VkOptionsTemplate) { o.Spec.ExtraArgs = []string{"--disable-ip-reflection"} })
		s.wants()
		testkit.Update(s.T, s.c.Client, template, func(o *offv1beta1.VkOptionsTemplate) { o.Spec.ExtraArgs = nil })
		s.wants("b=10.71.1.5", "c=10.69.1.5")
	})
	t.Run("pod_gets_another_address", func(*testing.T) {
		testkit.UpdateStatus(s.T, s.c.Client, podB, func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "10.71.2.8", []corev1.PodIP{{IP: "10.71.2.8"}} })
		b.Addresses = []string{"10.71.2.8"}
		s.endpoints(b, c)
		s.wants("b=10.71.2.8", "c=10.69.1.5")
	})
	t.Run("IP_of_a_user", func(t *testing.T) {
		mine := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hidden"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}}
		testkit.Create(s.T, s.c.Client, mine)
		s.endpoints(b, c, hidden)
		testkit.WantEvent(s.T, s.c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hidden"}}, "NameTaken", "another address")
		s.wants("b=10.71.2.8", "c=10.69.1.5", "hidden=192.0.2.1")
		if err := s.c.Client.Delete(s.Context(), mine); err != nil {
			t.Fatal(err)
		}
		s.wants("b=10.71.2.8", "c=10.69.1.5", "hidden=10.71.1.6")
		s.endpoints(b, c)
		s.wants("b=10.71.2.8", "c=10.69.1.5")
	})
	t.Run("IP_deleted_by_hand", func(t *testing.T) {
		if err := s.c.Client.Delete(s.Context(), &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		s.wants("b=10.71.2.8", "c=10.69.1.5")
	})
	t.Run("namespace_leaves_a_provider", func(*testing.T) {
		var maps offv1beta1.NamespaceMapList
		if err := s.c.Client.List(s.Context(), &maps); err != nil {
			s.Fatal(err)
		}
		for i := range maps.Items {
			if nm := &maps.Items[i]; nm.Name == "endpoints-turin" {
				testkit.Update(s.T, s.c.Client, nm, func(nm *offv1beta1.NamespaceMap) { nm.Spec.DesiredMapping = nil })
				s.wants()
				testkit.Update(s.T, s.c.Client, nm, func(nm *offv1beta1.NamespaceMap) {
					nm.Spec.DesiredMapping = map[string]string{s.namespace: "shop-home"}
				})
			}
		}
		s.wants("b=10.71.2.8", "c=10.69.1.5")
	})
	t.Run("pod_ends", func(t *testing.T) {
		if err := s.c.Client.Delete(s.Context(), podB); err != nil {
			t.Fatal(err)
		}
		s.wants("c=10.69.1.5") // by the garbage collector: the slice still has it
	})
	t.Run("offloading_ends", func(*testing.T) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		testkit.Update(s.T, s.c.Client, ns, func(ns *corev1.Namespace) { delete(ns.Labels, names.SchedulingEnabled) })
		s.wants()
	})
}

// countedClient counts the objects that are read and created.
type countedClient struct {
	client.Client
	reads, creations int
}

func (c *countedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.reads++
	return c.Client.Get(ctx, key, obj, opts...)
}

func (c *countedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	c.creations++
	return c.Client.Create(ctx, obj, opts...)
}

func TestEndpointIPsRejected(t *testing.T) {
	s := newEndpointStory(t, "rejected")
	_, forged := s.pod("rejected-milan-1", "forged", "10.71.1.5")
	forged.Addresses = []string{"10.71.9.9"}
	_, taken := s.pod("rejected-milan-1", "taken", "10.71.1.6")
	_, mine := s.pod("rejected-milan-1", "mine", "10.71.1.7")
	none := podAt("rejected-turin-1", "none", "10.69.1.5")
	none.TargetRef.Namespace = s.namespace
	ofUser := func(name string, address networkingv1beta1.IP) *ipamv1alpha1.IP {
		ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: ipamv1alpha1.IPSpec{IP: address}}
		testkit.Create(t, s.c.Client, ip)
		return ip
	}
	other := ofUser("taken", "192.0.2.1")
	ofUser("mine", "10.71.1.7")
	s.endpoints(forged, taken, mine, none)

	live, writer := &countedClient{Client: s.c.Client}, &countedClient{Client: s.c.Client}
	var recorded []string
	e := &endpointIPs{
		client: writer, live: live, slices: s.c.Client, kubelets: VirtualNodeOptions{LiqoNamespace: s.namespace}, rejected: map[string]map[string]rejection{},
		events: kube.NewEventRecorder(func(obj client.Object, e kube.Event) { recorded = append(recorded, obj.GetName()+" "+e.Reason) }),
	}
	pass := func(reads, creations int, events ...string) {
		t.Helper()
		live.reads, writer.creations, recorded = 0, 0, nil
		if err := e.syncNamespace(t.Context(), s.namespace); err != nil {
			t.Fatal(err)
		}
		if live.reads != reads || writer.creations != creations || !slices.Equal(recorded, events) {
			t.Errorf("%d live reads, %d creations, events %q; want %d, %d, %q", live.reads, writer.creations, recorded, reads, creations, events)
		}
	}
	pass(4, 0, "taken NameTaken")
	pass(0, 0)
	if result, err := e.Reconcile(t.Context(), requestFor(s.namespace)); err != nil || result.RequeueAfter != rejectionTTL {
		t.Errorf("rejected endpoints are tried again after %s, %v", result.RequeueAfter, err)
	}
	for name, r := range e.rejected[s.namespace] {
		r.at = r.at.Add(-rejectionTTL)
		e.rejected[s.namespace][name] = r
	}
	pass(4, 0)

	forged.Addresses = []string{"10.71.1.5"}
	s.endpoints(forged, taken, mine, none)
	pass(1, 1)
	if err := s.c.Client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	pass(1, 1)
	pass(0, 0)
	s.wants("forged=10.71.1.5", "mine=10.71.1.7", "taken=10.71.1.6")
	s.endpoints()
	pass(0, 0)
	s.wants("mine=10.71.1.7")
	if len(e.rejected) != 0 {
		t.Errorf("remembered: %v", e.rejected)
	}
}

// lostOffloadings is a client that cannot read NamespaceOffloadings.
type lostOffloadings struct{ client.Client }

func (c lostOffloadings) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, is := obj.(*offv1beta1.NamespaceOffloading); is {
		return errors.New("no answer")
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

func TestEndpointIPsTooManyProviders(t *testing.T) {
	s := newEndpointStory(t, "crowded")
	testkit.Create(t, s.c.Client, &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names.NamespaceOffloading}})
	_, web := s.pod("crowded-milan-1", "web", "10.71.1.5")
	s.endpoints(web)
	var recorded []string
	e := &endpointIPs{
		client: s.c.Client, live: s.c.Client, slices: s.c.Client, kubelets: VirtualNodeOptions{LiqoNamespace: s.namespace}, rejected: map[string]map[string]rejection{},
		events: kube.NewEventRecorder(func(obj client.Object, e kube.Event) {
			recorded = append(recorded, fmt.Sprintf("%s %s: %s", obj.GetName(), e.Reason, e.Message))
		}),
	}
	sync := func(want ...string) {
		t.Helper()
		recorded = nil
		if err := e.syncNamespace(t.Context(), s.namespace); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(recorded, want) {
			t.Errorf("recorded %q, want %q", recorded, want)
		}
	}
	add := func(id string) {
		t.Helper()
		testkit.Create(t, s.c.Client, &offv1beta1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: id, Labels: map[string]string{names.ReplicationDestination: id}},
			Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{s.namespace: "shop-home"}},
		})
	}
	for i := range names.MaxAllowedPeers - 2 { // beside milan and turin
		add(fmt.Sprint("crowded-", i))
	}
	sync()
	s.wants("web=10.71.1.5")
	add("crowded-one-more")
	s.endpoints()
	sync()
	s.wants()

	s.endpoints(web)
	e.client = lostOffloadings{s.c.Client}
	if err := e.syncNamespace(t.Context(), s.namespace); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	s.wants("web=10.71.1.5")
	e.client = s.c.Client
	sync("offloading TooManyProviders: 1 of 257 providers do not reach the pods of this namespace in other providers, since at most 256 may: select fewer clusters")
	sync()
}
