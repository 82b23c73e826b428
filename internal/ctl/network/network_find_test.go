// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// lone is a side of which only the API server is known.
func lone(t *testing.T, c *testkit.ControlPlane, namespace string) *cluster.Cluster {
	t.Helper()
	kubeClient, err := client.NewWithWatch(c.Config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster.Cluster{Scope: ui.NewPrinter(strings.NewReader(""), io.Discard, io.Discard).Scope("local"), Name: "local", Kube: kubeClient, Namespace: namespace}
}

func TestFindIgnoresDeleted(t *testing.T) {
	c := testkit.Cluster(t)
	s := lone(t, c, testkit.Namespace(t, c, "found", nil))
	// held makes a Configuration that stays when it is deleted.
	held := func(name string) *networkingv1beta1.Configuration {
		cfg := NewConfiguration(client.ObjectKey{Namespace: s.Namespace, Name: name}, s.Namespace, networkingv1beta1.ClusterConfigCIDR{})
		cfg.Finalizers = []string{"example.org/held"}
		testkit.Create(t, c.Client, cfg)
		return cfg
	}
	remove := func(cfg *networkingv1beta1.Configuration) {
		t.Helper()
		if err := c.Client.Delete(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	wantOne := func(want string) {
		t.Helper()
		var got string
		obj, err := FindOne(t.Context(), s, &networkingv1beta1.ConfigurationList{}, s.Namespace)
		if obj != nil {
			got = obj.GetName()
		}
		if err != nil || got != want {
			t.Errorf("found %q, want %q: %v", got, want, err)
		}
	}

	old := held("old")
	wantOne("old")
	remove(old)
	wantOne("")
	next := held("next")
	wantOne("next")
	remove(next)
	wantOne("")
	all, err := FindOfPeer(t.Context(), s, &networkingv1beta1.ConfigurationList{}, s.Namespace)
	if err != nil || len(all) != 2 {
		t.Errorf("%d are there to be waited for: %v", len(all), err)
	}
	for _, cfg := range []*networkingv1beta1.Configuration{old, next} {
		testkit.Update(t, c.Client, cfg, func(cfg *networkingv1beta1.Configuration) { cfg.Finalizers = nil })
	}
}

func TestTakeBackKeepsForeignFields(t *testing.T) {
	c := testkit.Cluster(t)
	s := lone(t, c, testkit.Namespace(t, c, "taken-back", nil))
	key := client.ObjectKey{Namespace: s.Namespace, Name: "milan"}
	named := func(pods networkingv1beta1.CIDR, labels, annotations map[string]string) *networkingv1beta1.Configuration {
		cfg := NewConfiguration(key, "milan", networkingv1beta1.ClusterConfigCIDR{
			Pod: []networkingv1beta1.CIDR{pods}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
		})
		(&cluster.Session{Labels: labels, Annotations: annotations}).SetCommonMetadata(cfg)
		if err := cluster.ApplyObject(t.Context(), s.Kube, cfg); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	read := func() *networkingv1beta1.Configuration {
		cfg := &networkingv1beta1.Configuration{}
		if err := c.Client.Get(t.Context(), key, cfg); err != nil {
			t.Fatal(err)
		}
		return cfg
	}

	named("10.201.0.0/16", map[string]string{"earlier": "yes", "both": "earlier"}, nil)
	before := read()
	want := named("10.202.0.0/16", map[string]string{"both": "later", "later": "yes"}, map[string]string{"later": "yes", "kept": "no"})
	const account = names.AppliedHash + ".liqo-configuration-local"
	testkit.Update(t, c.Client, read(), func(cfg *networkingv1beta1.Configuration) {
		cfg.Labels["hers"] = "yes"
		cfg.Annotations["kept"] = "yes"
		cfg.Annotations[account] = "0123"
		cfg.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: before.Spec.Remote.CIDR}
	})
	if err := (&peerConfig{Cluster: s, have: before, want: want, written: true}).takeBack(t.Context()); err != nil {
		t.Fatal(err)
	}

	after := read()
	before.Labels["hers"] = "yes"
	before.Annotations["kept"], before.Annotations[account] = "yes", "0123"
	before.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: before.Spec.Remote.CIDR}
	type said struct {
		Labels, Annotations map[string]string
		Spec                networkingv1beta1.ConfigurationSpec
	}
	if diff := cmp.Diff(said{before.Labels, before.Annotations, before.Spec}, said{after.Labels, after.Annotations, after.Spec}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A gateway in another namespace than the Configuration would never use it.
func TestGatewayNamespace(t *testing.T) {
	c := testkit.Cluster(t)
	s := lone(t, c, testkit.Namespace(t, c, "beside", nil))
	id, otherNamespace := s.Namespace, testkit.Namespace(t, c, "elsewhere", nil)
	in := func(namespace string) *peerConfig {
		return &peerConfig{Cluster: s, want: NewConfiguration(client.ObjectKey{Namespace: namespace, Name: "peer"}, id, networkingv1beta1.ClusterConfigCIDR{})}
	}
	if got, err := in(otherNamespace).gatewayKey(t.Context(), server, id); err != nil || got != (client.ObjectKey{Namespace: otherNamespace, Name: id}) {
		t.Errorf("a new one goes to %s: %v", got, err)
	}
	gw := newGateway(server, client.ObjectKey{Namespace: s.Namespace, Name: "milan"}).server
	gw.Labels = map[string]string{names.RemoteClusterID: id}
	testkit.Create(t, c.Client, gw)
	if got, err := in(s.Namespace).gatewayKey(t.Context(), server, id); err != nil || got != client.ObjectKeyFromObject(gw) {
		t.Errorf("beside the Configuration, %s is found: %v", got, err)
	}
	want := "the gateway server " + s.Namespace + "/milan would not use the Configuration of " + id + ", whose namespace is " + otherNamespace
	if got, err := in(otherNamespace).gatewayKey(t.Context(), server, id); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("elsewhere %s is found: %v", got, err)
	}
	if err := c.Client.Delete(t.Context(), gw); err != nil {
		t.Fatal(err)
	}
}

// What it made may have the names of what is to be made.
func TestOppositeGatewayBlocks(t *testing.T) {
	c := testkit.Cluster(t)
	s := lone(t, c, testkit.Namespace(t, c, "reverse", nil))
	gw := newGateway(server, client.ObjectKey{Namespace: s.Namespace, Name: "milan"}).server
	gw.Labels, gw.Finalizers = map[string]string{names.RemoteClusterID: s.Namespace}, []string{"example.org/held"}
	testkit.Create(t, c.Client, gw)
	if err := c.Client.Delete(t.Context(), gw); err != nil {
		t.Fatal(err)
	}
	_, err := (&ConnectOptions{}).PlanTunnel(t.Context(), &peerConfig{Cluster: s}, &peerConfig{Cluster: &cluster.Cluster{ID: s.Namespace, Kube: s.Kube}})
	if err == nil || !strings.Contains(err.Error(), "gateway server for the other direction already exists: "+s.Namespace+"/milan") {
		t.Errorf("it is planned: %v", err)
	}
	testkit.Update(t, c.Client, gw, func(gw *networkingv1beta1.GatewayServer) { gw.Finalizers = nil })
}
