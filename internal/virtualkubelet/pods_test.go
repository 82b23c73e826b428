// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

func TestPodLifecycle(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "web")
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	if shadow.Labels["app"] != "web" || shadow.Labels[names.OffloadingOrigin] != "rome" || shadow.Labels[names.OffloadingNodeName] != s.node {
		t.Errorf("labels are %v", shadow.Labels)
	}
	if translate.UsesToken(&corev1.Pod{Spec: shadow.Spec.Pod}) || len(shadow.Spec.Pod.Volumes) != 1 {
		t.Errorf("the volume of the account is %+v", shadow.Spec.Pod.Volumes)
	}
	s.event(s.localPod("web"), "SuccessfulReflection", "milan")
	s.event(s.localPod("web"), "APIServerSupportDisabled", "stay here")

	remote := s.runRemotely(shadow, "10.7.0.9")
	local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	if local.Labels[names.ShadowPod] != "true" {
		t.Error("the local pod is not labelled")
	}
	got := fmt.Sprint(local.Status.PodIP, local.Status.PodIPs, local.Status.HostIP, local.Status.ContainerStatuses[0].RestartCount)
	if want := "[]127.0.0.12"; got != want {
		t.Errorf("status is %s, want %s", got, want)
	}
	managers := map[string]bool{}
	for _, f := range local.ManagedFields {
		managers[f.Manager+"/"+f.Subresource] = true
	}
	if !managers["reflection.liqo.io/status"] {
		t.Errorf("field managers are %v", managers)
	}

	s.step("labels follow, removed ones too", func() {
		s.patch(s.consumer, s.localPod("web"), `{"metadata":{"labels":{"app":null,"tier":"front"}}}`)
		eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
			if _, old := sp.Labels["app"]; old || sp.Labels["tier"] != "front" {
				return fmt.Errorf("labels are %v", sp.Labels)
			}
			return nil
		})
	})
	s.step("a remote pod made again is one more restart", func() {
		s.deleteNow(s.provider, remote)
		s.waitUntilDeleted(s.provider, remote)
		eventually(s, s.consumer, s.localPod("web"), reasonIs(translate.ReasonRemoteMissing))
		remote = s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.10")
		eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
			if p.Status.ContainerStatuses[0].RestartCount != 5 {
				return fmt.Errorf("restarted %d times", p.Status.ContainerStatuses[0].RestartCount)
			}
			return nil
		})
	})
	s.step("a deleted pod goes when the remote one is gone", func() {
		if err := s.consumer.Client.Delete(s.t.Context(), s.localPod("web")); err != nil {
			s.t.Fatal(err)
		}
		s.waitUntilDeleted(s.provider, s.shadow("web"))
		if err := s.consumer.Client.Get(s.t.Context(), client.ObjectKeyFromObject(s.localPod("web")), local); err != nil {
			s.t.Fatalf("the local pod went before the remote one: %v", err)
		}
		s.deleteNow(s.provider, remote)
		s.waitUntilDeleted(s.consumer, s.localPod("web"))
	})
}

func TestPodAddresses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule   string
		hidden bool
		want   string
	}{
		{"with a network", false, "10.71.0.9 [{10.71.0.9} {fd07::7}]"},
		{"not if they are to be hidden", true, " []"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			s := newTestEnv(t, func(o *Options) {
				o.DisableIPReflection = tc.hidden
				o.Provider = liqov1beta1.ClusterID(o.Node) // ForeignClusters are shared by all tests
			})
			nm := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: s.tenant}}
			s.patch(s.consumer, nm, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, names.RemoteClusterID, s.node))
			fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.node}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: s.options.Provider}}
			s.create(s.consumer, fc)
			stop := s.run()
			s.pod(s.local, "web")
			s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
			shows := func(want string) func(*corev1.Pod) error {
				return func(p *corev1.Pod) error {
					if got := fmt.Sprint(p.Status.PodIP, " ", p.Status.PodIPs); got != want {
						return fmt.Errorf("addresses are %s, want %s", got, want)
					}
					return phaseIs(corev1.PodRunning)(p)
				}
			}
			network := func(enabled bool) {
				fc.Status.Modules.Networking.Enabled = enabled
				if err := s.consumer.Client.Status().Update(t.Context(), fc); err != nil {
					t.Fatalf("setting the network: %v", err)
				}
			}
			local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
			if err := shows(" []")(local); err != nil {
				t.Errorf("without a network: %v", err)
			}
			configuration := s.configuration("10.7.0.0/16", "fd00::/64")
			network(true)
			s.place(configuration, "10.71.0.0/16", "fd07::/64")
			eventually(s, s.consumer, local, shows(tc.want))
			version := local.ResourceVersion
			stop()
			stop = s.run()
			s.pod(s.local, "later")
			eventually(s, s.provider, s.shadow("later"), exists)
			if now := eventually(s, s.consumer, local, shows(tc.want)).ResourceVersion; now != version {
				t.Errorf("a restart wrote the pod: %s, then %s", version, now)
			}
			if !tc.hidden {
				s.patch(s.consumer, configuration, `{"spec":{"remote":{"cidr":{"external":["10.70.0.0/16"]}}}}`)
				s.pod(s.local, "meanwhile") // the networks have no place
				s.runRemotely(eventually(s, s.provider, s.shadow("meanwhile"), exists), "10.7.0.10")
				eventually(s, s.consumer, s.localPod("meanwhile"), shows("10.71.0.10 [{10.71.0.10} {fd07::7}]"))
				if now := eventually(s, s.consumer, local, exists).ResourceVersion; now != version {
					t.Errorf("networks that are placed anew wrote the pod: %s, then %s", version, now)
				}
				s.place(configuration, "10.69.0.0/16", "fd07::/64", "10.68.0.0/16")
				version = eventually(s, s.consumer, local, shows("10.69.0.9 [{10.69.0.9} {fd07::7}]")).ResourceVersion
				s.placeExternal(configuration, "10.68.0.0/16")
				s.pod(s.local, "partly") // the networks of pods have no place, and an external one has
				s.runRemotely(eventually(s, s.provider, s.shadow("partly"), exists), "10.7.0.11")
				eventually(s, s.consumer, s.localPod("partly"), shows("10.69.0.11 [{10.69.0.11} {fd07::7}]"))
				if now := eventually(s, s.consumer, local, exists).ResourceVersion; now != version {
					t.Errorf("networks of pods that wait beside an external one wrote the pod: %s, then %s", version, now)
				}
				s.deleteNow(s.consumer, configuration)
				eventually(s, s.consumer, local, shows(" []"))
			}
			network(false)
			eventually(s, s.consumer, local, shows(" []"))
			stop()
		})
	}
}

// configuration tells of the networks of the provider, whose pods have the first two.
func (s *testEnv) configuration(pods ...networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	s.t.Helper()
	c := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Name: "provider", Namespace: s.tenant, Labels: map[string]string{names.RemoteClusterID: string(s.options.Provider)},
	}}
	c.Spec.Remote.CIDR.Pod = pods
	c.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}}}
	s.create(s.consumer, c)
	return c
}

// place says where the networks of the provider are here: those of the pods, then the external ones.
func (s *testEnv) place(c *networkingv1beta1.Configuration, localCIDRs ...networkingv1beta1.CIDR) {
	s.t.Helper()
	testkit.UpdateStatus(s.t, s.consumer.Client, c, func(c *networkingv1beta1.Configuration) {
		pods := len(c.Spec.Remote.CIDR.Pod)
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: localCIDRs[:pods], External: localCIDRs[pods:]}}
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Placed",
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}
	})
}

// placeExternal says that only the external networks of the provider have a place here.
func (s *testEnv) placeExternal(c *networkingv1beta1.Configuration, localCIDRs ...networkingv1beta1.CIDR) {
	s.t.Helper()
	testkit.UpdateStatus(s.t, s.consumer.Client, c, func(c *networkingv1beta1.Configuration) {
		c.Status.ObservedRemote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{External: c.Spec.Remote.CIDR.External}}
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{External: localCIDRs}}
		c.Status.Conditions[0].Status, c.Status.Conditions[0].Reason = metav1.ConditionFalse, "Waiting"
	})
}

func (s *testEnv) patch(c *testkit.ControlPlane, obj client.Object, patch string) {
	s.t.Helper()
	if err := c.Client.Patch(s.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.t.Fatalf("patching %s: %v", obj.GetName(), err)
	}
}

func (s *testEnv) deleteNow(c *testkit.ControlPlane, obj client.Object) {
	s.t.Helper()
	if err := c.Client.Delete(s.t.Context(), obj, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		s.t.Fatalf("deleting %s: %v", obj.GetName(), err)
	}
}

func TestForeignRemotePod(t *testing.T) {
	s := newTestEnv(t, nil)
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.remoteNamespace},
		Spec:       corev1.PodSpec{NodeName: "somewhere", Containers: []corev1.Container{{Name: "other", Image: "other:1"}}},
	}
	s.create(s.provider, foreign)
	s.run()
	s.pod(s.local, "web")
	s.event(s.localPod("web"), "FailedReflection", "already exists")
	if err := s.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(s.shadow("web")), s.shadow("web")); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a shadow pod was made: %v", err)
	}
	s.deleteNow(s.provider, foreign)
	eventually(s, s.provider, s.shadow("web"), exists)
}

func TestRestart(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	s.pod(s.local, "stays")
	s.pod(s.local, "goes")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("stays"), exists), "10.7.0.9")
	before := eventually(s, s.consumer, s.localPod("stays"), phaseIs(corev1.PodRunning))
	uid := eventually(s, s.provider, s.shadow("stays"), exists).UID
	eventually(s, s.provider, s.shadow("goes"), exists)
	stop()

	s.deleteNow(s.consumer, s.localPod("goes"))
	status := *remote.Status.DeepCopy()
	status.ContainerStatuses[0].RestartCount = 3
	s.report(remote, status)
	stop = s.run()
	s.waitUntilDeleted(s.provider, s.shadow("goes"))
	after := eventually(s, s.consumer, s.localPod("stays"), func(p *corev1.Pod) error {
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 3 {
			return fmt.Errorf("restarted %d times", n)
		}
		return nil
	})
	if after.UID != before.UID || eventually(s, s.provider, s.shadow("stays"), exists).UID != uid {
		t.Error("a pod was made again")
	}
	s.step("and writes nothing when nothing changed", func() {
		stop()
		version := eventually(s, s.consumer, s.localPod("stays"), exists).ResourceVersion
		s.run()
		s.pod(s.local, "later")
		eventually(s, s.provider, s.shadow("later"), exists)
		if now := eventually(s, s.consumer, s.localPod("stays"), exists).ResourceVersion; now != version {
			s.t.Errorf("the pod was written: %s, then %s", version, now)
		}
	})
}

func TestFallbackOtherNamespaces(t *testing.T) {
	s := newTestEnv(t, nil)
	other := testkit.Namespace(t, s.consumer, "other", nil)
	stop := s.run()
	at := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: other}}
	}

	s.pod(other, "waits")
	eventually(s, s.consumer, at("waits"), func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodPending {
			t.Fatalf("a pod that never started is %s", p.Status.Phase)
		}
		return reasonIs(translate.ReasonBackOff)(p)
	})
	s.event(at("waits"), "ReflectionDisabled", "is not offloaded")
	if err := s.consumer.Client.Delete(t.Context(), at("waits")); err != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(s.consumer, at("waits"))

	s.pod(s.local, "runs")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("runs"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("runs"), phaseIs(corev1.PodRunning))

	// A hiccup of the provider is not the end: a later pod shows that the mapping was seen.
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingCreationLoopBackOff}})
	s.pod(s.local, "held")
	eventually(s, s.consumer, s.localPod("held"), reasonIs(translate.ReasonBackOff))
	eventually(s, s.consumer, s.localPod("runs"), phaseIs(corev1.PodRunning))

	// While it lasts, a deleted pod stays as long as its remote one.
	if err := s.consumer.Client.Delete(t.Context(), s.localPod("runs")); err != nil {
		t.Fatal(err)
	}
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingAccepted}})
	s.waitUntilDeleted(s.provider, s.shadow("runs"))
	s.deleteNow(s.provider, remote)
	s.waitUntilDeleted(s.consumer, s.localPod("runs"))

	s.pod(s.local, "aborted")
	s.runRemotely(eventually(s, s.provider, s.shadow("aborted"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("aborted"), phaseIs(corev1.PodRunning))
	s.mapNamespaces(nil)
	eventually(s, s.consumer, s.localPod("aborted"), func(p *corev1.Pod) error {
		if err := phaseIs(corev1.PodFailed)(p); err != nil {
			return err
		}
		return reasonIs(translate.ReasonAborted)(p)
	})

	// Offloaded again, an aborted pod does not come back, and what it left behind goes.
	stop()
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingAccepted}})
	s.run()
	s.waitUntilDeleted(s.provider, s.shadow("aborted"))
	eventually(s, s.consumer, s.localPod("aborted"), reasonIs(translate.ReasonAborted))
}

// A drained Tenant ends the pods of a namespace in the provider: those that ran have failed at once, so that their owners make others,
// and those that come wait until the Tenant is active again.
func TestFallbackDrainedTenant(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "runs")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("runs"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("runs"), phaseIs(corev1.PodRunning))

	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {
		RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingCreationLoopBackOff, Reason: offv1beta1.MappingTenantDrained,
	}})
	eventually(s, s.consumer, s.localPod("runs"), func(p *corev1.Pod) error {
		if err := phaseIs(corev1.PodFailed)(p); err != nil {
			return err
		}
		return reasonIs(translate.ReasonAborted)(p)
	})
	s.event(s.localPod("runs"), reasonDrained, "has drained the Tenant of this cluster")
	s.pod(s.local, "replacement")
	eventually(s, s.consumer, s.localPod("replacement"), func(p *corev1.Pod) error {
		if err := phaseIs(corev1.PodPending)(p); err != nil {
			return err
		}
		return reasonIs(translate.ReasonBackOff)(p)
	})

	s.deleteNow(s.provider, remote)
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingAccepted}})
	s.runRemotely(eventually(s, s.provider, s.shadow("replacement"), exists), "10.7.0.10")
	eventually(s, s.consumer, s.localPod("replacement"), phaseIs(corev1.PodRunning))
	eventually(s, s.consumer, s.localPod("runs"), reasonIs(translate.ReasonAborted))
}

// The provider withdraws the rights before it ends the pods of a drained Tenant. A StatefulSet makes no other pod until the one of that
// name is gone.
func TestFallbackDrainedTenantWithoutPermissions(t *testing.T) {
	s := newTestEnv(t, nil)
	s.chartRights()
	s.run()
	for _, name := range []string{"ended", "ending"} {
		s.pod(s.local, name)
		s.runRemotely(eventually(s, s.provider, s.shadow(name), exists), "10.7.0.9")
		eventually(s, s.consumer, s.localPod(name), phaseIs(corev1.PodRunning))
	}
	if err := s.consumer.Client.Delete(t.Context(), s.localPod("ending")); err != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(s.provider, s.shadow("ending"))
	s.deleteNow(s.provider, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: s.tenant + "-" + names.RoleVirtualKubeletRemote}})
	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {
		RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingCreationLoopBackOff, Reason: offv1beta1.MappingTenantDrained,
	}})
	eventually(s, s.consumer, s.localPod("ended"), reasonIs(translate.ReasonAborted))
	if err := s.consumer.Client.Delete(t.Context(), s.localPod("ended")); err != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(s.consumer, s.localPod("ended"))
	s.waitUntilDeleted(s.consumer, s.localPod("ending"))
}

// The taint of the node evicts them at once, and their owner makes others: one event says why.
func TestFallbackEventOnce(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	other := testkit.Namespace(t, s.consumer, "other", nil)
	for _, name := range []string{"first", "second"} {
		pod := s.newPod(other, name)
		pod.Finalizers = []string{"example.com/held"} // so that it is seen
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1234", Controller: new(true)}}
		s.create(s.consumer, pod)
		if err := s.consumer.Client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, limit, func() error { // the virtual kubelet lets it go
			if err := s.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			if *pod.DeletionGracePeriodSeconds > 0 {
				return fmt.Errorf("it was not dealt with")
			}
			return nil
		})
	}
	s.event(s.newPod(other, "first"), "ReflectionDisabled", "is not offloaded")
	var list corev1.EventList
	if err := s.consumer.Client.List(t.Context(), &list, client.InNamespace(other)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Count > 1 {
		t.Errorf("there are %d events", len(list.Items))
	}
}

// A VirtualNode in a namespace of a user has its NamespaceMap in the tenant namespace of its provider.
func TestNamespaceMapOfOtherNamespace(t *testing.T) {
	s := newTestEnv(t, nil)
	own := &offv1beta1.NamespaceMap{}
	if err := s.consumer.Client.Get(t.Context(), client.ObjectKey{Namespace: s.tenant, Name: string(s.providerID)}, own); err != nil {
		t.Fatal(err)
	}
	s.deleteNow(s.consumer, own)
	s.options.MapNamespace = testkit.Namespace(t, s.consumer, "maps", nil)
	otherMap := &offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.options.MapNamespace, Name: own.Name, Labels: own.Labels}, Spec: own.Spec,
	}
	s.create(s.consumer, otherMap)
	otherMap.Status = own.Status
	if err := s.consumer.Client.Status().Update(t.Context(), otherMap); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.pod(s.local, "web")
	eventually(s, s.provider, s.shadow("web"), exists)
}
