// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/testkit"
)

// cluster is an installation whose own networks are granted, with room for a few of peers.
type cluster struct {
	*testing.T
	c                *testkit.ControlPlane
	installation, ns string
	stop             func()
}

func newCluster(t *testing.T, pools ...string) *cluster {
	t.Helper()
	s := installed(t)
	s.start(pools...)
	return s
}

// installed is one whose controllers are not started yet.
func installed(t *testing.T) *cluster {
	t.Helper()
	s := &cluster{stop: func() {}, T: t, c: testkit.Cluster(t, testkit.WithControllers("garbage-collector-controller"))}
	s.installation, s.ns = testkit.Namespace(t, s.c, "liqo", nil), testkit.Namespace(t, s.c, "tenant", nil)
	for kind, cidr := range map[string]string{names.NetworkTypePod: "10.200.0.0/16", names.NetworkTypeExternal: "10.70.0.0/16"} {
		n := &ipamv1alpha1.Network{Spec: ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(cidr)}}
		n.Namespace, n.Name = s.installation, kind
		n.Labels = map[string]string{names.NetworkType: kind}
		n.Annotations = map[string]string{names.Preinstalled: "true"}
		if kind == names.NetworkTypePod {
			n.Labels[names.NetworkNotRemapped], n.Labels[names.NetworkShared] = "true", "true"
		} else {
			n.Spec.PreAllocated = 1
		}
		testkit.Create(t, s.c.Client, n)
	}
	t.Cleanup(func() {
		s.stop()
		deleteAll(t, s.c.Client)
	})
	return s
}

func (s *cluster) start(pools ...string) {
	s.Helper()
	var of []netip.Prefix
	for _, p := range pools {
		of = append(of, netip.MustParsePrefix(p))
	}
	s.stop = testkit.Manager(s.T, s.c.Config, kube.ManagerOptions{Name: "network"}, func(mgr ctrl.Manager) error {
		return errors.Join(
			ipam.Setup(mgr, ipam.Options{LiqoNamespace: s.installation, Pools: of}),
			SetupConfigurations(mgr, ConfigurationOptions{LiqoNamespace: s.installation}),
		)
	})
}

// deleteAll deletes what the next test, on the same API server, would find in its way.
func deleteAll(t *testing.T, c client.Client) {
	t.Helper()
	ctx := context.Background() // that of the test may have ended
	var configurations networkingv1beta1.ConfigurationList
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	if err := errors.Join(c.List(ctx, &configurations), c.List(ctx, &networks), c.List(ctx, &ips)); err != nil {
		t.Fatal(err)
	}
	var objs []client.Object
	for i := range configurations.Items {
		objs = append(objs, &configurations.Items[i])
	}
	for i := range networks.Items {
		objs = append(objs, &networks.Items[i])
	}
	for i := range ips.Items {
		objs = append(objs, &ips.Items[i])
	}
	for _, obj := range objs {
		held := obj.DeepCopyObject().(client.Object)
		obj.SetFinalizers(nil)
		if err := errors.Join(client.IgnoreNotFound(c.Patch(ctx, obj, client.MergeFrom(held))), client.IgnoreNotFound(c.Delete(ctx, obj))); err != nil {
			t.Fatal(err)
		}
	}
}

func cidrs(texts ...string) (out []networkingv1beta1.CIDR) {
	for _, t := range texts {
		out = append(out, networkingv1beta1.CIDR(t))
	}
	return out
}

func configuration(ns, name, id string, pod, external []networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	return &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{names.RemoteClusterID: id}},
		Spec:       networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: pod, External: external}}},
	}
}

// waitForPrefixes waits until a Configuration has a view of every network.
func (s *cluster) waitForPrefixes(cfg *networkingv1beta1.Configuration, want networkingv1beta1.ClusterConfigCIDR) {
	s.Helper()
	s.waitForCondition(cfg, metav1.ConditionTrue, ReasonConfigured, "")
	if diff := cmp.Diff(&networkingv1beta1.ClusterConfig{CIDR: want}, cfg.Status.Remote); diff != "" {
		s.Errorf("the views of %s: %s", cfg.Name, diff)
	}
	if diff := cmp.Diff(&cfg.Spec.Remote, cfg.Status.ObservedRemote); diff != "" {
		s.Errorf("what the views of %s are of: %s", cfg.Name, diff)
	}
}

// waitForCondition waits for the condition of a Configuration, as it is now.
func (s *cluster) waitForCondition(cfg *networkingv1beta1.Configuration, status metav1.ConditionStatus, reason, text string) {
	s.Helper()
	testkit.Eventually(s.T, limit, func() error {
		if err := s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != cfg.Generation || !strings.Contains(c.Message, text) {
			return fmt.Errorf("the condition of %s is %+v, want %s %s with %q", cfg.Name, c, status, reason, text)
		}
		return nil
	})
}

func (s *cluster) waitUntilDeleted(obj client.Object) {
	s.Helper()
	testkit.Eventually(s.T, limit, func() error {
		if err := s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there (%v)", obj.GetName(), err)
		}
		return nil
	})
}

var pools = []string{"10.64.0.0/12", "10.192.0.0/12"}

func TestConfigurationPrefixes(t *testing.T) {
	s := newCluster(t, pools...)
	cfg := configuration(s.ns, "milan", "milan", cidrs("10.200.0.0/16", "10.205.0.0/16"), cidrs("10.70.0.0/16"))
	testkit.Create(t, s.c.Client, cfg)
	s.waitForCondition(cfg, metav1.ConditionTrue, ReasonConfigured, "")
	local := cfg.Status.Remote.CIDR
	if len(local.Pod) != 2 || local.Pod[0] == "10.200.0.0/16" || local.Pod[1] != "10.205.0.0/16" || len(local.External) != 1 || local.External[0] == "10.70.0.0/16" {
		t.Errorf("the views are %+v", local)
	}
	testkit.WantEvent(t, s.c, cfg, ReasonConfigured, "")

	// The networks of this cluster are filled in, and the peer's unknown source has an alias here.
	testkit.Eventually(t, limit, func() error {
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
			return err
		}
		want := &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.200.0.0/16"), External: cidrs("10.70.0.0/16")}}
		if diff := cmp.Diff(want, cfg.Spec.Local); diff != "" {
			return fmt.Errorf("spec.local: %s", diff)
		}
		ip := &ipamv1alpha1.IP{}
		if err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "milan-unknown-source"}, ip); err != nil {
			return err
		}
		unknown := netip.MustParsePrefix(string(local.External[0])).Addr().String()
		if string(ip.Spec.IP) != unknown || !strings.HasPrefix(string(ip.Status.IP), "10.70.") {
			return fmt.Errorf("the IP of the unknown source %s is %+v", unknown, ip)
		}
		return nil
	})

	// A process that starts anew writes nothing, when the first one had nothing left to write.
	s.waitForCondition(cfg, metav1.ConditionTrue, ReasonConfigured, "") // also of the networks of this cluster
	testkit.Eventually(t, limit, s.settled)
	s.stop()
	before := s.versions()
	s.start(pools...)
	other := configuration(s.ns, "rome", "rome", cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, other) // once it is handled, the first one was
	s.waitForPrefixes(other, networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.201.0.0/16"), External: cidrs("10.75.0.0/16")})
	after := s.versions()
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s was written", name)
		}
	}

	// What is deleted leaves nothing.
	if err := s.c.Client.Delete(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(cfg)
	s.waitUntilDeleted(&ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-pod-10-200-0-0-16"}})
	s.waitUntilDeleted(&ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-external-10-70-0-0-16"}})
	s.waitUntilDeleted(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-unknown-source"}})
}

// settled tells what has no prefix or address yet, or does not say so yet, which is written last.
func (s *cluster) settled() error {
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	in := client.InNamespace(s.ns)
	if err := errors.Join(s.c.Client.List(s.Context(), &networks, in), s.c.Client.List(s.Context(), &ips, in)); err != nil {
		return err
	}
	var waiting []error
	for _, n := range networks.Items {
		if !apimeta.IsStatusConditionTrue(n.Status.Conditions, ipamv1alpha1.ConditionAllocated) {
			waiting = append(waiting, fmt.Errorf("Network %s", n.Name))
		}
	}
	for _, ip := range ips.Items {
		if !apimeta.IsStatusConditionTrue(ip.Status.Conditions, ipamv1alpha1.ConditionAllocated) {
			waiting = append(waiting, fmt.Errorf("IP %s", ip.Name))
		}
	}
	return errors.Join(waiting...)
}

// versions are the resourceVersions of everything in the namespace of the peer.
func (s *cluster) versions() map[string]string {
	s.Helper()
	var configurations networkingv1beta1.ConfigurationList
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	in := client.InNamespace(s.ns)
	if err := errors.Join(s.c.Client.List(s.Context(), &configurations, in), s.c.Client.List(s.Context(), &networks, in), s.c.Client.List(s.Context(), &ips, in)); err != nil {
		s.Fatal(err)
	}
	out := map[string]string{}
	for _, o := range configurations.Items {
		out["Configuration "+o.Name] = o.ResourceVersion
	}
	for _, o := range networks.Items {
		out["Network "+o.Name] = o.ResourceVersion
	}
	for _, o := range ips.Items {
		out["IP "+o.Name] = o.ResourceVersion
	}
	return out
}

func TestConfigurationPoolExhausted(t *testing.T) {
	s := newCluster(t, "10.200.0.0/15", "10.70.0.0/15") // half of each is the cluster's own
	first := configuration(s.ns, "milan", "milan", cidrs("10.200.0.0/16"), cidrs("10.70.0.0/16"))
	testkit.Create(t, s.c.Client, first)
	s.waitForCondition(first, metav1.ConditionTrue, ReasonConfigured, "")
	second := configuration(s.ns, "rome", "rome", cidrs("10.200.0.0/16"), cidrs("10.70.0.0/16"))
	testkit.Create(t, s.c.Client, second)
	s.waitForCondition(second, metav1.ConditionFalse, ReasonWaiting, "no prefix is allocated for the pod network 10.200.0.0/16: ")
	s.waitForCondition(second, metav1.ConditionFalse, ReasonWaiting, "10.70.0.0/15")
	if err := s.c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	s.waitForCondition(second, metav1.ConditionTrue, ReasonConfigured, "")
}

// A network that is added takes none of the others away, whether or not it gets a prefix.
func TestConfigurationAddedNetwork(t *testing.T) {
	s := newCluster(t, "10.200.0.0/15", "10.70.0.0/15") // half of each is the cluster's own
	cfg := configuration(s.ns, "milan", "milan", cidrs("10.201.0.0/17"), cidrs("10.71.0.0/16"))
	testkit.Create(t, s.c.Client, cfg)
	s.waitForPrefixes(cfg, cfg.Spec.Remote.CIDR)
	change := func(pod ...string) {
		t.Helper()
		testkit.Update(t, s.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) { cfg.Spec.Remote.CIDR.Pod = cidrs(pod...) })
	}
	placed := func(pod ...string) {
		t.Helper()
		want := networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs(pod...), External: cidrs("10.71.0.0/16")}}
		if diff := cmp.Diff([]*networkingv1beta1.ClusterConfig{&want, &want}, []*networkingv1beta1.ClusterConfig{cfg.Status.ObservedRemote, cfg.Status.Remote}); diff != "" {
			t.Errorf("networks with prefixes, and these: %s", diff)
		}
		if _, ok, err := prefix.Of(cfg); !ok || err != nil {
			t.Errorf("the peer is not placed: %v", err)
		}
	}
	change("10.9.0.0/16", "10.201.0.0/17")
	s.waitForCondition(cfg, metav1.ConditionFalse, ReasonWaiting, "no prefix is allocated for the pod network 10.9.0.0/16: ")
	placed("10.201.0.0/17")

	t.Log("the unknown source has its IP beside what waits")
	source := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-unknown-source"}}
	if err := errors.Join(s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(source), source), s.c.Client.Delete(t.Context(), source)); err != nil {
		t.Fatal(err)
	}
	deleted := source.UID
	testkit.Eventually(t, limit, func() error {
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil || source.UID == deleted || source.Spec.IP != "10.71.0.0" {
			return fmt.Errorf("the IP of the unknown source is %+v (%v)", source.Spec, err)
		}
		return nil
	})

	t.Log("networks that cannot be used take none away, either")
	for _, unusable := range []string{"10.201.1.0/24", "10.203.1.0/16"} {
		change(unusable, "10.201.0.0/17")
		s.waitForCondition(cfg, metav1.ConditionFalse, ReasonUnusable, unusable)
		placed("10.201.0.0/17")
	}
	change("10.9.0.0/16", "10.201.128.0/17", "10.201.0.0/17")
	testkit.Eventually(t, limit, func() error {
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil || len(cfg.Status.ObservedRemote.CIDR.Pod) != 2 {
			return fmt.Errorf("the networks with prefixes are %+v (%v)", cfg.Status.ObservedRemote, err)
		}
		return nil
	})
	s.waitForCondition(cfg, metav1.ConditionFalse, ReasonWaiting, "10.9.0.0/16")
	placed("10.201.128.0/17", "10.201.0.0/17")

	t.Log("an event tells of what stays so")
	testkit.UpdateStatus(t, s.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
		cfg.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-waitingPatience))
	})
	testkit.WantEvent(t, s.c, cfg, ReasonWaiting, "10.9.0.0/16")

	t.Log("a name that is taken is of one network, too")
	taken := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-pod-10-8-0-0-16"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.8.0.0/16"}}
	testkit.Create(t, s.c.Client, taken)
	change("10.8.0.0/16", "10.201.0.0/17")
	s.waitForCondition(cfg, metav1.ConditionFalse, ReasonNameTaken, "Network milan-pod-10-8-0-0-16")
	placed("10.201.0.0/17")

	change("10.201.0.0/17")
	s.waitForPrefixes(cfg, cfg.Spec.Remote.CIDR)
}

// Only a wait that lasts is an event.
func TestConfigurationWaitEvents(t *testing.T) {
	for since, want := range map[time.Duration]int{0: 0, waitingPatience / 2: 0, waitingPatience: 1} {
		cfg := &networkingv1beta1.Configuration{}
		cfg.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse, Reason: ReasonWaiting, LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
		}}
		if got := conditionEvents(cfg); len(got) != want {
			t.Errorf("after %s: %v", since, got)
		}
	}

	cfg := &networkingv1beta1.Configuration{}
	hour := metav1.NewTime(time.Now().Add(-time.Hour))
	cfg.Status.Conditions = []metav1.Condition{{
		Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse, Reason: ReasonNameTaken, LastTransitionTime: hour,
	}}
	for range 2 { // the wait begins with its reason, once
		if got := (&configurations{}).Report(cfg, kube.Wait(0, "no prefix")); len(got) > 0 {
			t.Errorf("after another problem: %v", got)
		}
	}
	cfg.Status.Conditions[0].LastTransitionTime = hour
	if got := (&configurations{}).Report(cfg, errors.Join(kube.Wait(0, "no prefix"), kube.Invalid(ReasonNameTaken, errors.New("taken")))); len(got) != 1 || got[0].Reason != ReasonNameTaken || got[0].Message != "taken" {
		t.Errorf("of a wait and a problem: %v", got)
	}
}

func TestConfigurationDuplicates(t *testing.T) {
	s := newCluster(t, pools...)
	otherNamespace := testkit.Namespace(t, s.c, "default", nil)
	first := configuration(otherNamespace, "milan", "milan", cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, first)
	s.waitForPrefixes(first, first.Spec.Remote.CIDR)
	second := configuration(s.ns, "milan", "milan", cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	own := &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.9.0.0/16")}}
	second.Spec.Local = own.DeepCopy()
	testkit.Create(t, s.c.Client, second)
	if policy.RankOf(second).Compare(policy.RankOf(first)) < 0 {
		first, second = second, first // both were made within a second
	}
	s.waitForCondition(second, metav1.ConditionFalse, ReasonSecond, fmt.Sprintf("the Configuration %s/milan is of the cluster milan, too", first.Namespace))
	testkit.WantEvent(t, s.c, second, ReasonSecond, "")
	testkit.Update(t, s.c.Client, first, func(c *networkingv1beta1.Configuration) { c.Finalizers = []string{"test.liqo.io/held"} })
	if err := s.c.Client.Delete(t.Context(), first); err != nil { // it leaves its place at once, and goes later
		t.Fatal(err)
	}
	s.waitForPrefixes(second, second.Spec.Remote.CIDR)
	s.bare(first.Namespace)
	if second.Namespace == s.ns { // what its user says of the own networks stays
		if diff := cmp.Diff(own, second.Spec.Local); diff != "" {
			t.Error(diff)
		}
	}
}

// Whoever writes Configurations somewhere does not keep the administrator's from counting.
func TestConfigurationPrecedence(t *testing.T) {
	s := newCluster(t, pools...)
	otherNamespace := testkit.Namespace(t, s.c, "default", nil)
	id := testkit.UniqueID()
	first := configuration(otherNamespace, "taken", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, first)
	s.waitForPrefixes(first, first.Spec.Remote.CIDR)
	second := configuration(s.ns, "milan", id, cidrs("10.202.0.0/16"), cidrs("10.76.0.0/16"))
	testkit.Create(t, s.c.Client, second)
	if policy.RankOf(first).Compare(policy.RankOf(second)) < 0 { // both may have been made within a second
		s.waitForCondition(second, metav1.ConditionFalse, ReasonSecond, "")
	}
	s.tenant(s.ns, id)
	s.waitForPrefixes(second, second.Spec.Remote.CIDR)
	s.waitForCondition(first, metav1.ConditionFalse, ReasonSecond, fmt.Sprintf("the Configuration %s/milan is of the cluster", s.ns))
}

// tenant makes a namespace that of a peer.
func (s *cluster) tenant(namespace, id string) {
	s.Helper()
	testkit.Update(s.T, s.c.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		n.Labels = map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: id}
	})
}

// bare waits until nothing is left of what a Configuration was granted.
func (s *cluster) bare(namespace string) {
	s.Helper()
	testkit.Eventually(s.T, limit, func() error {
		var networks ipamv1alpha1.NetworkList
		var ips ipamv1alpha1.IPList
		in := client.InNamespace(namespace)
		if err := errors.Join(s.c.Client.List(s.Context(), &networks, in), s.c.Client.List(s.Context(), &ips, in)); err != nil {
			return err
		}
		if len(networks.Items)+len(ips.Items) > 0 {
			return fmt.Errorf("in %s there are %d Networks and %d IPs", namespace, len(networks.Items), len(ips.Items))
		}
		return nil
	})
}

func TestConfigurationTakesOverPrefixes(t *testing.T) {
	s := newCluster(t, pools...)
	otherNamespace, id := testkit.Namespace(t, s.c, "default", nil), testkit.UniqueID()
	s.tenant(s.ns, id)
	first := configuration(otherNamespace, "taken", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, first)
	s.waitForPrefixes(first, first.Spec.Remote.CIDR)
	second := configuration(s.ns, "milan", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, second)
	s.waitForPrefixes(second, second.Spec.Remote.CIDR)
	s.waitForCondition(first, metav1.ConditionFalse, ReasonSecond, "")
	s.bare(otherNamespace)

	// Others that come, new or from another peer, change nothing of it.
	testkit.Eventually(t, limit, func() error {
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(second), second); err != nil || second.Spec.Local == nil {
			return fmt.Errorf("spec.local is not there yet (%v)", err)
		}
		return s.settled()
	})
	s.waitForCondition(second, metav1.ConditionTrue, ReasonConfigured, "") // also of spec.local
	before := s.versions()
	third := configuration(otherNamespace, "third", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, third)
	s.waitForCondition(third, metav1.ConditionFalse, ReasonSecond, "")
	other := configuration(otherNamespace, "other", id+"-2", cidrs("10.203.0.0/16"), cidrs("10.77.0.0/16"))
	testkit.Create(t, s.c.Client, other)
	s.waitForPrefixes(other, other.Spec.Remote.CIDR)
	testkit.Update(t, s.c.Client, other, func(c *networkingv1beta1.Configuration) { c.Labels[names.RemoteClusterID] = id })
	s.waitForCondition(other, metav1.ConditionFalse, ReasonSecond, "")
	s.bare(otherNamespace)
	if diff := cmp.Diff(before, s.versions()); diff != "" {
		t.Errorf("written: %s", diff)
	}
}

// A mistake costs nobody the prefixes that are in use: they are there when it is mended.
func TestConfigurationUnused(t *testing.T) {
	s := newCluster(t, pools...)
	otherNamespace, id := testkit.Namespace(t, s.c, "default", nil), testkit.UniqueID()
	s.tenant(s.ns, id)
	first := configuration(otherNamespace, "taken", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, first)
	s.waitForPrefixes(first, first.Spec.Remote.CIDR)
	second := configuration(s.ns, "milan", id, cidrs("10.201.0.1/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, second)
	s.waitForCondition(second, metav1.ConditionFalse, ReasonUnusable, "")
	s.waitForCondition(first, metav1.ConditionFalse, ReasonSecond, "")
	var kept ipamv1alpha1.NetworkList
	if err := s.c.Client.List(t.Context(), &kept, client.InNamespace(otherNamespace)); err != nil || len(kept.Items) != 2 {
		t.Errorf("there are %d Networks, want 2 (%v)", len(kept.Items), err)
	}
	testkit.Update(t, s.c.Client, second, func(c *networkingv1beta1.Configuration) { c.Spec.Remote.CIDR.Pod = cidrs("10.201.0.0/16") })
	s.waitForPrefixes(second, second.Spec.Remote.CIDR)
	s.bare(otherNamespace)
}

// One that moves to another peer takes its Networks along, whoever looks first.
func TestConfigurationCleanup(t *testing.T) {
	s := newCluster(t, pools...)
	id, hand := testkit.UniqueID(), &configurations{client: s.c.Client}
	owner := configuration(s.ns, "milan", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, owner)
	s.waitForPrefixes(owner, owner.Spec.Remote.CIDR)
	var networks ipamv1alpha1.NetworkList
	if err := s.c.Client.List(t.Context(), &networks, client.InNamespace(s.ns)); err != nil || len(networks.Items) == 0 {
		t.Fatalf("there are %d Networks: %v", len(networks.Items), err)
	}
	n, another := &networks.Items[0], &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "other", UID: "other"}}
	stranger := n.DeepCopy()
	stranger.OwnerReferences[0].Kind = "ConfigMap"
	for name, c := range map[string]struct {
		network *ipamv1alpha1.Network
		of      *networkingv1beta1.Configuration
		peer    string
		left    bool
	}{
		"its own":              {n, owner, id, false},
		"of another":           {n, another, id, true},
		"of one that moved on": {n, another, id + "-before", false},
		"of somebody else":     {stranger, another, id, false},
	} {
		if exists, err := hand.isLeft(t.Context(), c.network, c.of, c.peer); err != nil || exists != c.left {
			t.Errorf("%s: is left: %v (%v)", name, exists, err)
		}
	}
}

func TestConfigurationNetworkInUse(t *testing.T) {
	now := time.Unix(1000, 0)
	going := func(ago time.Duration) *ipamv1alpha1.Network {
		return &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.NewTime(now.Add(-ago)))}}
	}
	if remaining := awaitedSince(&ipamv1alpha1.Network{}, now); remaining != handOver {
		t.Errorf("one that is deleted now is awaited for %v", remaining)
	}
	if remaining := awaitedSince(going(handOver/2), now); remaining != handOver/2 {
		t.Errorf("one that is going is awaited for %v", remaining)
	}
	if remaining := awaitedSince(going(handOver), now); remaining > 0 {
		t.Errorf("one that does not go is awaited for %v more", remaining)
	}
}

func TestConfigurationTenantNamespaces(t *testing.T) {
	s := newCluster(t, pools...)
	otherNamespace, remoteNamespace, id := testkit.Namespace(t, s.c, "default", nil), testkit.Namespace(t, s.c, "tenant", nil), testkit.UniqueID()
	s.tenant(s.ns, id)
	s.tenant(remoteNamespace, id)
	taken := configuration(otherNamespace, "taken", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, taken)
	s.waitForPrefixes(taken, taken.Spec.Remote.CIDR)
	first := configuration(s.ns, "milan", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, first)
	s.waitForPrefixes(first, first.Spec.Remote.CIDR)
	second := configuration(remoteNamespace, "milan", id, cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, second)
	if policy.RankOf(second).Compare(policy.RankOf(first)) < 0 {
		first, second = second, first // both were made within a second
	}
	s.waitForCondition(second, metav1.ConditionFalse, ReasonSecond, "")
	testkit.Eventually(t, limit, func() error {
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil || first.Spec.Local == nil {
			return fmt.Errorf("spec.local is not there yet (%v)", err)
		}
		return s.settled()
	})
	s.waitForPrefixes(first, first.Spec.Remote.CIDR)
	after := configuration(otherNamespace, "after", id+"-2", cidrs("10.203.0.0/16"), cidrs("10.77.0.0/16"))
	testkit.Create(t, s.c.Client, after) // once it is handled, all before it was
	s.waitForPrefixes(after, after.Spec.Remote.CIDR)
	// Nobody empties namespaces here: that of the first one stays, being deleted.
	if err := s.c.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first.Namespace}}); err != nil {
		t.Fatal(err)
	}
	s.waitForPrefixes(second, second.Spec.Remote.CIDR)
	s.waitForCondition(first, metav1.ConditionFalse, ReasonSecond, "")
	s.waitForCondition(taken, metav1.ConditionFalse, ReasonSecond, "")
}

func TestConfigurationChangedNetworks(t *testing.T) {
	s := newCluster(t, pools...)
	cfg := configuration(s.ns, "milan", "milan", cidrs("10.201.0.0/16", "10.202.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, cfg)
	s.waitForPrefixes(cfg, cfg.Spec.Remote.CIDR)
	// One goes, one comes that overlaps it, and the external one, which is larger, moves with its unknown source.
	testkit.Update(t, s.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
		cfg.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.202.0.0/16", "10.201.128.0/17"), External: cidrs("10.76.0.0/15")}
	})
	s.waitForPrefixes(cfg, cfg.Spec.Remote.CIDR)
	s.waitUntilDeleted(&ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-pod-10-201-0-0-16"}})
	testkit.Eventually(t, limit, func() error {
		ip := &ipamv1alpha1.IP{}
		err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "milan-unknown-source"}, ip)
		if err == nil && ip.Spec.IP != "10.76.0.0" {
			err = fmt.Errorf("the unknown source is %s", ip.Spec.IP)
		}
		return err
	})
	testkit.Update(t, s.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) { cfg.Labels[names.RemoteClusterID] = "" })
	s.waitForCondition(cfg, metav1.ConditionFalse, ReasonNoCluster, names.RemoteClusterID)
	if cfg.Status.Remote != nil {
		t.Errorf("nobody's networks are shown as %+v", cfg.Status.Remote)
	}
	s.bare(s.ns)
}

func TestConfigurationNameTaken(t *testing.T) {
	s := newCluster(t, pools...)
	taken := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "milan-pod-10-201-0-0-16"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.66.0.0/16"}}
	testkit.Create(t, s.c.Client, taken)
	cfg := configuration(s.ns, "milan", "milan", cidrs("10.201.0.0/16"), cidrs("10.75.0.0/16"))
	testkit.Create(t, s.c.Client, cfg)
	s.waitForCondition(cfg, metav1.ConditionFalse, ReasonNameTaken, "Network milan-pod-10-201-0-0-16 already exists and was not created for this Configuration")
}

func TestConfigurationInvalidNetworks(t *testing.T) {
	pod, external := cidrs("10.1.0.0/16"), cidrs("10.2.0.0/16")
	for name, tc := range map[string]struct {
		of   networkingv1beta1.ClusterConfigCIDR
		want string
	}{
		"fine":              {networkingv1beta1.ClusterConfigCIDR{Pod: pod, External: external}, ""},
		"two families":      {networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.1.0.0/16", "fd00:1::/64"), External: external}, ""},
		"no pods":           {networkingv1beta1.ClusterConfigCIDR{External: external}, "spec.remote.cidr.pod is empty: it takes the pod networks of the other cluster"},
		"nothing external":  {networkingv1beta1.ClusterConfigCIDR{Pod: pod}, "spec.remote.cidr.external is empty: it takes the external networks of the other cluster"},
		"no prefix":         {networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.1.0.0"), External: external}, `spec.remote.cidr.pod: "10.1.0.0" is not an address range such as 10.200.0.0/16`},
		"mapped":            {networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("::ffff:10.1.0.0/112"), External: external}, `spec.remote.cidr.pod: "::ffff:10.1.0.0/112" is not an address range such as 10.200.0.0/16`},
		"host bits":         {networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.1.2.0/16"), External: external}, `spec.remote.cidr.pod has "10.1.2.0/16": did you mean "10.1.0.0/16"?`},
		"overlapping kinds": {networkingv1beta1.ClusterConfigCIDR{Pod: pod, External: cidrs("10.1.7.0/24")}, "10.1.0.0/16 and 10.1.7.0/24 of spec.remote.cidr overlap"},
		"the same twice":    {networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.1.0.0/16", "10.1.0.0/16"), External: external}, "10.1.0.0/16 and 10.1.0.0/16 of spec.remote.cidr overlap"},
	} {
		got := ""
		if err := checkUsable(tc.of); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Gateways of a peer have the first address of the lowest of its external networks that hosts can have, which need not be named first.
func TestUnknownSource(t *testing.T) {
	type cidrs = []networkingv1beta1.CIDR
	for _, rule := range []struct {
		all, remote, local cidrs
		want               string
		waits              bool
	}{
		{nil, cidrs{"10.70.0.0/16"}, cidrs{"10.68.0.0/16"}, "10.68.0.0", false},
		{nil, cidrs{"10.90.0.0/16", "10.70.0.0/16"}, cidrs{"10.66.0.0/16", "10.68.0.0/16"}, "10.68.0.0", false},
		{nil, cidrs{"fd00:70::/64", "10.70.0.0/16"}, cidrs{"fd00:68::/64", "10.68.0.0/16"}, "10.68.0.0", false},
		{nil, cidrs{"fd00:70::/64"}, cidrs{"fd00:68::/64"}, "fd00:68::", false},
		{nil, cidrs{"0.70.0.0/16", "10.70.0.0/16"}, cidrs{"10.66.0.0/16", "10.68.0.0/16"}, "10.68.0.0", false}, // no host has an address of the first
		{nil, cidrs{"127.70.0.0/16"}, cidrs{"10.68.0.0/16"}, "invalid IP", false},
		{cidrs{"10.70.0.0/16", "10.90.0.0/16"}, cidrs{"10.90.0.0/16"}, cidrs{"10.66.0.0/16"}, "invalid IP", true}, // that of the gateways waits
		{cidrs{"10.90.0.0/16", "10.70.0.0/16"}, cidrs{"10.70.0.0/16"}, cidrs{"10.68.0.0/16"}, "10.68.0.0", false},
		{cidrs{"10.70.0.0/16"}, nil, nil, "invalid IP", true},
	} {
		if rule.all == nil {
			rule.all = rule.remote
		}
		if got, waits, err := unknownSource(rule.all, rule.remote, rule.local); err != nil || got.String() != rule.want || waits != rule.waits {
			t.Errorf("%v of %v as %v: %s, waits %t, %v; want %s", rule.remote, rule.all, rule.local, got, waits, err, rule.want)
		}
	}
}

// Networks that a peer reports are followed while spec.remote is what both agreed on, and an author's own are kept.
func TestConfigurationFollowsPeer(t *testing.T) {
	s := newCluster(t, pools...)
	cfg := configuration(s.installation, "milan", "milan", cidrs("10.201.0.0/16"), cidrs("10.70.0.0/16"))
	testkit.Create(t, s.c.Client, cfg)
	report := func(pods ...string) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, cfg, func(c *networkingv1beta1.Configuration) {
			c.Status.ReportedRemote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs(pods...), External: cidrs("10.70.0.0/16")}}
		})
	}
	remoteIs := func(agreed bool, pods ...string) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
				return err
			}
			want := networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs(pods...), External: cidrs("10.70.0.0/16")}}
			placed := cfg.Status.Remote != nil && len(cfg.Status.Remote.CIDR.Pod) == len(pods) && apimeta.IsStatusConditionTrue(cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
			if diff := cmp.Diff(want, cfg.Spec.Remote); diff != "" || !placed || agreed != (cfg.Status.AgreedRemote != nil && cmp.Equal(*cfg.Status.AgreedRemote, want)) {
				return fmt.Errorf("placed is %t, agreed %+v: %s", placed, cfg.Status.AgreedRemote, diff)
			}
			return nil
		})
	}
	remoteIs(false, "10.201.0.0/16")
	report("10.201.0.0/16")
	remoteIs(true, "10.201.0.0/16")
	report("10.202.0.0/16", "10.201.0.0/16")
	remoteIs(true, "10.201.0.0/16", "10.202.0.0/16")

	// The author takes one away: it is not added again, and an event tells.
	testkit.Update(t, s.c.Client, cfg, func(c *networkingv1beta1.Configuration) { c.Spec.Remote.CIDR.Pod = cidrs("10.201.0.0/16") })
	testkit.WantEvent(t, s.c, cfg, ReasonDiffers, "10.202.0.0/16")
	remoteIs(false, "10.201.0.0/16")
}

// Networks that take the place of others get their local prefixes, so that addresses in them stay the same here.
func TestConfigurationKeepsLocalPrefixes(t *testing.T) {
	s := newCluster(t, pools...)
	cfg := configuration(s.installation, "milan", "milan", cidrs("10.200.0.0/16"), cidrs("10.70.0.0/16"))
	testkit.Create(t, s.c.Client, cfg)
	localIs := func(remote []networkingv1beta1.CIDR, external ...networkingv1beta1.CIDR) (placed networkingv1beta1.ClusterConfigCIDR) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
				return err
			}
			is := cfg.Status
			if is.Remote == nil || is.ObservedRemote == nil || !slices.Equal(is.ObservedRemote.CIDR.External, remote) || len(is.Remote.CIDR.External) != len(remote) ||
				len(external) > 0 && !slices.Equal(is.Remote.CIDR.External, external) {
				return fmt.Errorf("status %+v", is)
			}
			placed = is.Remote.CIDR
			return nil
		})
		return placed
	}
	first := localIs(cidrs("10.70.0.0/16"))
	if slices.Equal(first.External, cidrs("10.70.0.0/16")) {
		t.Fatal("the network is not remapped: nothing to keep")
	}
	replace := func(external ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR {
		t.Helper()
		testkit.Update(t, s.c.Client, cfg, func(c *networkingv1beta1.Configuration) { c.Spec.Remote.CIDR.External = external })
		return external
	}
	localIs(replace("10.99.0.0/16"), first.External...)
	smaller := networkingv1beta1.CIDR(strings.TrimSuffix(string(first.External[0]), "/16") + "/20")
	if after := localIs(replace("10.98.0.0/20"), smaller); !slices.Equal(after.Pod, first.Pod) {
		t.Errorf("pods are at %v, and were at %v", after.Pod, first.Pod)
	}
}

// A peer that changes its networks all the time is followed at an interval, and stays reachable meanwhile.
func TestConfigurationFollowInterval(t *testing.T) {
	at := func(pods ...string) *networkingv1beta1.ClusterConfig {
		return &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs(pods...), External: cidrs("10.70.0.0/16")}}
	}
	cfg := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	cfg.Spec.Remote, cfg.Status.AgreedRemote, cfg.Status.ReportedRemote = *at("10.1.0.0/16"), at("10.1.0.0/16"), at("10.2.0.0/16")
	s := &configurations{followed: map[types.UID]time.Time{}}
	if wait := s.Next(cfg); wait != 0 {
		t.Errorf("the first change waits %s", wait)
	}
	s.followed["1"] = time.Now()
	if wait := s.Next(cfg); wait <= 0 || wait > followInterval {
		t.Errorf("the second change waits %s", wait)
	}
	if err := s.followPeer(t.Context(), cfg); err != nil { // writes nothing, and reports nothing
		t.Error(err)
	}
	cfg.Status.ReportedRemote = at("10.1.0.0/16")
	if wait := s.Next(cfg); wait != 0 {
		t.Errorf("no change waits %s", wait)
	}
}
