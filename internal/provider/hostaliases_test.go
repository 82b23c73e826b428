// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/testkit"
)

func TestHostAliases(t *testing.T) {
	networks := partlyPlaced(t)
	for name, test := range map[string]struct {
		ip    string
		as    string
		want  string
		waits bool
	}{
		"in a network of the consumer":  {"10.70.0.25", "kubernetes.default", "10.68.0.25", false},
		"in one that is not placed yet": {"10.74.0.25", "kubernetes.default", "10.74.0.25", true},
		"in none":                       {"192.0.2.1", "kubernetes.default", "192.0.2.1", false},
		"of another name":               {"10.74.0.25", "printer", "10.74.0.25", false},
		"no address":                    {"x", "kubernetes.default", "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			aliases := []corev1.HostAlias{{IP: test.ip, Hostnames: []string{test.as, "more"}}}
			if err := replaceAliases(aliases, isAPIServerAlias, networks); aliases[0].IP != test.want || (err != nil) != test.waits {
				t.Errorf("got %s (%v), want %s", aliases[0].IP, err, test.want)
			}
		})
	}
}

// partlyPlaced are networks of a consumer, of which 10.74/16 has no place yet.
func partlyPlaced(t *testing.T) prefix.Map {
	t.Helper()
	c := &networkingv1beta1.Configuration{}
	c.Spec.Remote.CIDR.External = []networkingv1beta1.CIDR{"10.74.0.0/16", "10.70.0.0/16"}
	c.Status.ObservedRemote, c.Status.Remote = &networkingv1beta1.ClusterConfig{}, &networkingv1beta1.ClusterConfig{}
	c.Status.ObservedRemote.CIDR.External, c.Status.Remote.CIDR.External = []networkingv1beta1.CIDR{"10.70.0.0/16"}, []networkingv1beta1.CIDR{"10.68.0.0/16"}
	c.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse}}
	networks, placed, err := prefix.Of(c)
	if !placed || err != nil {
		t.Fatal(placed, err)
	}
	return networks
}

// The pod of a consumer that has a token waits until its way home is known, says so, and has it then. Others do not wait.
func TestHostAliasesOfPods(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	nm := consumer(t, c, "silver", map[string]string{"home": "home-silver"})
	mapping(t, c, nm, "home", "home-silver", offv1beta1.MappingAccepted)
	alias := func(ip string) corev1.HostAlias {
		return corev1.HostAlias{IP: ip, Hostnames: []string{"kubernetes.default", "kubernetes.default.svc"}}
	}
	has := func(name string, want ...corev1.HostAlias) {
		t.Helper()
		pod := podNamed("home-silver", name)
		eventually(t, c, pod, func() error {
			if diff := cmp.Diff(want, pod.Spec.HostAliases); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
	}
	homeless := func(name string) *offv1beta1.ShadowPod {
		sp := shadowOf("home-silver", name, "silver")
		sp.Annotations[names.APIServerRoute] = "kubernetes.default:443@10.70.0.25"
		sp.Spec.Pod.HostAliases = []corev1.HostAlias{alias("10.70.0.25"), alias("10.70.0.7")} // the second one is the user's
		return sp
	}
	sp := homeless("web")
	sp.Spec.Pod.Volumes = []corev1.Volume{{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web-token"}}},
	}}}}}
	testkit.Create(t, c.Client, sp)
	refusedBecause(t, c, sp, offv1beta1.ReasonNetworkNotReady, "are not known yet")
	written := shadowOf("home-silver", "written", "silver")
	written.Spec.Pod.HostAliases = []corev1.HostAlias{alias("10.70.0.25")}
	testkit.Create(t, c.Client, written)
	has("written", alias("10.70.0.25"))

	network := func(text string) networkingv1beta1.ClusterConfig {
		return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
			Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{networkingv1beta1.CIDR(text)},
		}}
	}
	configuration := &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Name: "silver", Namespace: nm.Namespace, Labels: map[string]string{names.RemoteClusterID: "silver"}},
		Spec:       networkingv1beta1.ConfigurationSpec{Remote: network("10.70.0.0/16")},
	}
	testkit.Create(t, c.Client, configuration)
	refusedBecause(t, c, sp, offv1beta1.ReasonNetworkNotReady, "are not remapped yet")
	testkit.Create(t, c.Client, homeless("other"))
	has("other", alias("10.70.0.7"))
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(sp), podNamed("", "")); err == nil {
		t.Fatal("the pod was made before its way home was known")
	}

	here := network("10.68.0.0/16")
	testkit.UpdateStatus(t, c.Client, configuration, func(conf *networkingv1beta1.Configuration) {
		conf.Status.Remote, conf.Status.ObservedRemote = &here, conf.Spec.Remote.DeepCopy()
		conf.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, ObservedGeneration: conf.Generation,
			Reason: "NetworkCIDRsConfigured", LastTransitionTime: metav1.Now(),
		}}
	})
	has("web", alias("10.68.0.25"), alias("10.70.0.7"))
	eventually(t, c, sp, func() error {
		if len(sp.Status.Conditions) > 0 {
			return fmt.Errorf("conditions are %v", sp.Status.Conditions)
		}
		return nil
	})
}
