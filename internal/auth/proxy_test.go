// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// A kubeconfig has the present address of the proxy in the tunnel, also a new one with an earlier address, and while networks have no prefix; one
// with another proxy has that.
func TestIdentityTunnelProxy(t *testing.T) {
	l := newIdentityLab(t)
	cfg := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "provider", Labels: map[string]string{names.RemoteClusterID: l.peer}}}
	networks := func(external networkingv1beta1.CIDR) networkingv1beta1.ClusterConfig {
		return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{external}}}
	}
	cfg.Spec.Remote = networks("10.70.0.0/16")
	testkit.Create(t, l.c.Client, cfg)
	report := func(external networkingv1beta1.CIDR, proxy networkingv1beta1.IP) {
		t.Helper()
		testkit.UpdateStatus(t, l.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
			cfg.Status.ReportedRemote = new(networks(external))
			cfg.Status.ReportedRemote.APIServerProxyIP = proxy
		})
	}
	place := func(external, local networkingv1beta1.CIDR) {
		t.Helper()
		testkit.Update(t, l.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) { cfg.Spec.Remote = networks(external) })
		testkit.UpdateStatus(t, l.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
			cfg.Status.Conditions = []metav1.Condition{{
				Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", LastTransitionTime: metav1.Now(), ObservedGeneration: cfg.Generation,
			}}
			cfg.Status.ObservedRemote, cfg.Status.Remote = new(networks(external)), new(networks(local))
		})
	}
	create := func(name string, kind authv1beta1.IdentityType, proxyURL string) *authv1beta1.Identity {
		t.Helper()
		identity := l.identity(name, kind, l.cert)
		if kind == authv1beta1.ControlPlaneIdentityType {
			identity.Spec.AuthParams.SignedCRT, identity.Spec.Namespace = l.ownCert, new("tenant-there")
		}
		identity.Spec.AuthParams.ProxyURL = &proxyURL
		testkit.Create(t, l.c.Client, identity)
		return identity
	}
	wait := func(identity *authv1beta1.Identity, tunnel bool, proxy string) {
		t.Helper()
		testkit.Eventually(t, patient, func() error {
			if got := parse(t, l.kubeconfig(t, identity)).ProxyURL; got != proxy {
				return fmt.Errorf("the kubeconfig of %s has %s, want %s", identity.Name, got, proxy)
			}
			got, want := &authv1beta1.Identity{}, (*authv1beta1.TunnelProxy)(nil)
			if tunnel {
				want = &authv1beta1.TunnelProxy{ConfiguredURL: *identity.Spec.AuthParams.ProxyURL, URL: proxy}
			}
			if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), got); err != nil {
				return err
			}
			if diff := cmp.Diff(want, got.Status.TunnelProxy); diff != "" {
				return fmt.Errorf("the status of %s: -want +got:\n%s", identity.Name, diff)
			}
			return nil
		})
	}
	const configured, moved = "http://10.71.0.9:8118", "http://10.42.0.9:8118"
	report("10.70.0.0/16", "10.70.0.9")
	place("10.70.0.0/16", "10.71.0.0/16")
	plane := create("plane", authv1beta1.ControlPlaneIdentityType, configured)
	another := create("another", authv1beta1.ResourceSliceIdentityType, "http://10.71.0.8:8118")
	wait(plane, true, configured)
	wait(another, false, "http://10.71.0.8:8118")

	// The report is first, as the tunnel leads to the previous address until the network is mapped.
	report("10.120.0.0/14", "10.122.0.9")
	slice := create("slice", authv1beta1.ResourceSliceIdentityType, configured)
	wait(slice, true, configured)
	place("10.120.0.0/14", "10.40.0.0/14")
	wait(plane, true, moved)
	wait(slice, true, moved)
	wait(another, false, "http://10.71.0.8:8118")
	wait(create("after", authv1beta1.ResourceSliceIdentityType, configured), true, moved)

	// Nothing is mapped for now, and a kubeconfig is made again.
	testkit.UpdateStatus(t, l.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) { cfg.Status.Conditions, cfg.Status.Remote = nil, nil })
	l.renewCertificate(t, slice)
	wait(slice, true, moved)
	l.deleteKubeconfig(t, slice)
	wait(slice, true, moved)

	// The address alone is another one.
	place("10.120.0.0/14", "10.40.0.0/14")
	report("10.120.0.0/14", "10.122.0.10")
	wait(slice, true, "http://10.42.0.10:8118")
	slice.Spec.AuthParams.ProxyURL = new("http://proxy.example:3128")
	testkit.Update(t, l.c.Client, slice, func(i *authv1beta1.Identity) { i.Spec.AuthParams.ProxyURL = new("http://proxy.example:3128") })
	wait(slice, false, "http://proxy.example:3128")
}

// Without networking the proxy stays as it was.
func TestIdentityTunnelProxyWithoutNetworking(t *testing.T) {
	l := startIdentityLab(t, IdentityOptions{})
	known := l.identity("known", authv1beta1.ResourceSliceIdentityType, nil) // has no kubeconfig, but a status of earlier
	known.Spec.AuthParams.ProxyURL = new("http://10.71.0.9:8118")
	testkit.Create(t, l.c.Client, known)
	testkit.UpdateStatus(t, l.c.Client, known, func(i *authv1beta1.Identity) {
		i.Status.TunnelProxy = &authv1beta1.TunnelProxy{ConfiguredURL: "http://10.71.0.9:8118", URL: "http://10.42.0.9:8118"}
	})
	testkit.Update(t, l.c.Client, known, func(i *authv1beta1.Identity) {
		i.Spec.AuthParams.CA, i.Spec.AuthParams.SignedCRT = l.cert, l.cert
	})
	if got := parse(t, l.kubeconfig(t, known)).ProxyURL; got != "http://10.42.0.9:8118" {
		t.Errorf("the proxy is %s", got)
	}
}

// A provider that moves its proxy all the time has clients connect again at an interval; all of its Identities follow one move.
func TestProxyMoves(t *testing.T) {
	m := &proxyMoves{interval: time.Minute, last: map[liqov1beta1.ClusterID]proxyMove{}}
	at := func(url string) *authv1beta1.TunnelProxy {
		return &authv1beta1.TunnelProxy{ConfiguredURL: "configured", URL: url}
	}
	begin := time.Now()
	for i, v := range []struct {
		provider       liqov1beta1.ClusterID
		previous, next *authv1beta1.TunnelProxy
		after          time.Duration
		want           *authv1beta1.TunnelProxy
		waits          time.Duration
	}{
		{"milan", nil, at("a"), 0, at("a"), 0}, // recognized, not moved
		{"milan", at("a"), at("a"), 0, at("a"), 0},
		{"milan", at("a"), at("b"), 0, at("b"), 0},
		{"milan", at("a"), at("b"), time.Second, at("b"), 0}, // another Identity
		{"milan", at("b"), at("a"), time.Second, at("b"), 59 * time.Second},
		{"naples", at("b"), at("a"), time.Second, at("a"), 0},
		{"milan", at("b"), nil, time.Second, nil, 0}, // the Identity has another proxy
		{"milan", at("b"), at("c"), time.Minute, at("c"), 0},
		{"milan", at("c"), at("b"), time.Minute, at("c"), time.Minute},
	} {
		got, err := m.limitMoves(v.provider, v.previous, v.next, begin.Add(v.after))
		_, waits, _ := kube.WaitReason(err)
		if diff := cmp.Diff(v.want, got); diff != "" || waits != v.waits {
			t.Errorf("%d: waits %s, want %s: %v\n%s", i, waits, v.waits, err, diff)
		}
	}
}

func TestRecognizedProxy(t *testing.T) {
	const configured = "http://10.71.0.9:8118"
	identity := func(uid types.UID, provider liqov1beta1.ClusterID, kind authv1beta1.IdentityType, proxy *authv1beta1.TunnelProxy) authv1beta1.Identity {
		out := authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: authv1beta1.IdentitySpec{ClusterID: provider, Type: kind}}
		out.Spec.AuthParams.ProxyURL, out.Status.TunnelProxy = new(configured), proxy
		return out
	}
	proxy := func(url string) *authv1beta1.TunnelProxy {
		return &authv1beta1.TunnelProxy{ConfiguredURL: configured, URL: url}
	}
	const plane, slice = authv1beta1.ControlPlaneIdentityType, authv1beta1.ResourceSliceIdentityType
	stale := &authv1beta1.TunnelProxy{ConfiguredURL: "http://10.99.0.9:8118", URL: "stale"}
	for name, v := range map[string]struct {
		own    *authv1beta1.TunnelProxy
		others []authv1beta1.Identity
		want   string
	}{
		"none":              {nil, nil, ""},
		"own":               {proxy("own"), []authv1beta1.Identity{identity("2", "milan", plane, proxy("plane"))}, "own"},
		"control_plane":     {nil, []authv1beta1.Identity{identity("2", "milan", plane, proxy("plane")), identity("3", "milan", slice, proxy("slice"))}, "plane"},
		"any":               {nil, []authv1beta1.Identity{identity("3", "milan", slice, proxy("slice"))}, "slice"},
		"another_provider":  {nil, []authv1beta1.Identity{identity("2", "naples", plane, proxy("plane"))}, ""},
		"of_another_URL":    {stale, []authv1beta1.Identity{identity("2", "milan", plane, stale)}, ""},
		"own_stale_in_list": {proxy("own"), []authv1beta1.Identity{identity("1", "milan", slice, proxy("earlier"))}, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			own, got := identity("1", "milan", slice, v.own), ""
			if p := recognizedProxy(&own, v.others); p != nil {
				got = p.URL
			}
			if got != v.want {
				t.Errorf("got %q, want %q", got, v.want)
			}
		})
	}
}
