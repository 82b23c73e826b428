// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"

	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// What does not hang on the networks is looked at before they are connected.
func TestInBandPreflight(t *testing.T) {
	c := testkit.Cluster(t)
	rome, _ := ctltest.NewBareCluster(t, c, "local", "rome-in-band")
	milan, output := ctltest.NewBareCluster(t, c, "remote", "milan-in-band")
	survey := func() error {
		r := &peeringRun{
			Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, consumer: rome, provider: milan,
			options: &peerOptions{networkingDisabled: true, inBand: true}, // the networks are somebody else's
		}
		return r.readState(t.Context())
	}
	refused := func(want string) {
		t.Helper()
		if err := survey(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it is not refused because %s: %v", want, err)
		}
	}
	refused("IP " + milan.LiqoNamespace)
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: milan.LiqoNamespace, Name: names.APIServerProxyIP}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.20"}}
	testkit.Create(t, c.Client, ip)
	testkit.UpdateStatus(t, c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = "10.70.0.9", "10.70.0.0/16" })
	refused("the networks are not connected: no Configuration of " + milan.ID + " found")
	// The networks that the command would connect need not be connected for its preview.
	a := &Authentication{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, Consumer: rome, Provider: milan, inBand: true}
	if err := a.readState(t.Context()); err == nil || !strings.Contains(err.Error(), "the networks are not connected: no Configuration of "+milan.ID+" found") {
		t.Errorf("authenticate is not refused: %v", err)
	}
	a.connects = true
	if err := a.readState(t.Context()); err != nil || a.proxyURL != cluster.Assigned {
		t.Errorf("the preview has the proxy %q: %v", a.proxyURL, err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: "default", Name: "in-band"}, rome.ID), Spec: authv1beta1.TenantSpec{ClusterID: "rome-in-band"}}
	testkit.Create(t, c.Client, tenant)
	refused("the Tenant default/in-band of rome-in-band is not in its tenant namespace")
	if err := c.Client.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
}

func TestInBandPathStays(t *testing.T) {
	c := testkit.Cluster(t)
	rome, _ := ctltest.NewBareCluster(t, c, "local", "rome-tunnel")
	milan, output := ctltest.NewBareCluster(t, c, "remote", "milan-tunnel")
	networks := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	cfg := network.NewConfiguration(client.ObjectKey{Namespace: rome.Namespace, Name: milan.ID}, milan.ID, networks)
	testkit.Create(t, c.Client, cfg)
	place := func(local networkingv1beta1.CIDR) {
		t.Helper()
		testkit.UpdateStatus(t, c.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
			seen := networks
			seen.External = []networkingv1beta1.CIDR{local}
			cfg.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: seen}
			cfg.Status.Conditions = []metav1.Condition{{
				Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", LastTransitionTime: metav1.Now(), ObservedGeneration: cfg.Generation,
			}}
		})
	}
	place("10.71.0.0/16")
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: milan.LiqoNamespace, Name: names.APIServerProxyIP}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.20"}}
	testkit.Create(t, c.Client, ip)
	testkit.UpdateStatus(t, c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = "10.70.0.9", "10.70.0.0/16" })
	tenant := &authv1beta1.Tenant{ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: milan.Namespace, Name: rome.ID}, rome.ID), Spec: authv1beta1.TenantSpec{ClusterID: "rome-tunnel"}}
	testkit.Create(t, c.Client, tenant)
	const tunnel = "http://10.71.0.9:8118"
	for _, v := range []struct{ name, have, asked, want string }{
		{"none", "", "", ""},
		{"that of the tunnel", tunnel, "", tunnel},
		{"another", "http://proxy.example:3128", "", ""},
		{"another is asked for", tunnel, "http://proxy.example:3128", "http://proxy.example:3128"},
		{"none is asked for", tunnel, "none", ""},
	} {
		testkit.Update(t, c.Client, tenant, func(tenant *authv1beta1.Tenant) {
			tenant.Spec.ProxyURL = nil
			if v.have != "" {
				tenant.Spec.ProxyURL = &v.have
			}
		})
		o := &peerOptions{networkingDisabled: true, wayAsked: v.asked != "", proxyURL: strings.TrimPrefix(v.asked, "none")}
		r := &peeringRun{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, consumer: rome, provider: milan, options: o}
		if err := r.readState(t.Context()); err != nil || r.proxyURL != v.want {
			t.Errorf("%s: it is %q: %v", v.name, r.proxyURL, err)
		}
	}
	// The networks are not connected for now, or the provider's external CIDR is another one, which the consumer does not know yet.
	for _, address := range []ipamv1alpha1.IPStatus{{IP: "10.99.0.9", CIDR: "10.99.0.0/16"}, {IP: "10.70.0.9", CIDR: "10.70.0.0/16"}} {
		if err := c.Client.Delete(t.Context(), ip); err != nil {
			t.Fatal(err)
		}
		ip = &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: ip.Namespace, Name: ip.Name}, Spec: ip.Spec}
		testkit.Create(t, c.Client, ip)
		testkit.UpdateStatus(t, c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = address.IP, address.CIDR })
		for have, want := range map[string]string{tunnel: tunnel, "http://proxy.example:3128": "", "http://10.71.0.9:3128": "", "https://10.71.0.9:8118": ""} {
			testkit.Update(t, c.Client, tenant, func(tenant *authv1beta1.Tenant) { tenant.Spec.ProxyURL = &have })
			a := &Authentication{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, Consumer: rome, Provider: milan, asBefore: true}
			if err := a.readState(t.Context()); err != nil || a.proxyURL != want || a.inBand != (want != "") {
				t.Errorf("%s becomes %q, in-band %v, with the IP %s: %v", have, a.proxyURL, a.inBand, address.IP, err)
			}
		}
		testkit.UpdateStatus(t, c.Client, cfg, func(cfg *networkingv1beta1.Configuration) { cfg.Status.Remote, cfg.Status.Conditions = nil, nil })
	}
	testkit.Update(t, c.Client, tenant, func(tenant *authv1beta1.Tenant) { tenant.Spec.ProxyURL = new(tunnel) })
	// The consumer followed the proxy into another network, of which the Tenant does not know.
	place("10.81.0.0/16")
	for _, follows := range []bool{false, true} {
		want := ""
		if follows {
			want = "http://10.81.0.9:8118"
			identity := &authv1beta1.Identity{ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: rome.Namespace, Name: "plane"}, milan.ID)}
			identity.Spec.ClusterID, identity.Spec.Type = liqov1beta1.ClusterID(milan.ID), authv1beta1.ControlPlaneIdentityType
			testkit.Create(t, c.Client, identity)
			testkit.UpdateStatus(t, c.Client, identity, func(i *authv1beta1.Identity) {
				i.Status.TunnelProxy = &authv1beta1.TunnelProxy{ConfiguredURL: tunnel, URL: want}
			})
		}
		a := &Authentication{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, Consumer: rome, Provider: milan, asBefore: true}
		if err := a.readState(t.Context()); err != nil || a.proxyURL != want || a.inBand != follows {
			t.Errorf("a proxy that moved, followed %v, becomes %q, in-band %v: %v", follows, a.proxyURL, a.inBand, err)
		}
	}
	// A command that connects the networks looks for the address afterwards.
	r := &peeringRun{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, consumer: rome, provider: milan, options: &peerOptions{}}
	if err := r.surveyAuthentication(t.Context()); err != nil || r.proxyURL != "" || !r.throughTunnel() {
		t.Errorf("peer goes by %q, through the tunnel %v: %v", r.proxyURL, r.throughTunnel(), err)
	}
	if err := c.Client.Delete(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	a := &Authentication{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, Consumer: rome, Provider: milan, asBefore: true}
	if err := a.readState(t.Context()); err != nil || a.have == nil || a.proxyURL != "" {
		t.Errorf("without a proxy it is %q: %v", a.proxyURL, err)
	}
}

// What the consumer copied to the provider is removed by the tunnel, which must not end before, whoever made the credentials.
func TestUnpeerInBandConsumer(t *testing.T) {
	c := testkit.Cluster(t)
	rome, output := ctltest.NewBareCluster(t, c, "local", "rome-by-proxy")
	milan, _ := ctltest.NewBareCluster(t, c, "remote", "milan-by-proxy")
	byProxy := func() bool {
		t.Helper()
		u := &unpeering{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, options: &unpeerOptions{}, consumer: rome, provider: milan}
		if err := u.readState(t.Context()); err != nil {
			t.Fatal(err)
		}
		return u.byProxy
	}
	if byProxy() {
		t.Error("nothing is there, and it goes by the tunnel")
	}
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: milan.ID}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(milan.ID)}}
	ctltest.Lend(t, c, fc)
	if byProxy() {
		t.Error("credentials without a proxy go by the tunnel")
	}
	testkit.UpdateStatus(t, c.Client, fc, func(fc *liqov1beta1.ForeignCluster) { fc.Status.ForeignProxyURL = "http://10.71.0.9:8118" })
	if !byProxy() {
		t.Error("credentials with a proxy, made by hand, do not go by the tunnel")
	}
}

// Who has no pod in the provider waits for none to end before the tunnel does.
func TestUnpeerPodsNeedTunnel(t *testing.T) {
	c := testkit.Cluster(t)
	rome, output := ctltest.NewBareCluster(t, c, "local", "rome-of-pods")
	milan, _ := ctltest.NewBareCluster(t, c, "remote", "milan-of-pods")
	runs := func() bool {
		t.Helper()
		u := &unpeering{Session: &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}, options: &unpeerOptions{}, consumer: rome, provider: milan}
		if err := u.readState(t.Context()); err != nil {
			t.Fatal(err)
		}
		return u.runs
	}
	vn := &offv1beta1.VirtualNode{
		ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: rome.Namespace, Name: "node-of-pods"}, milan.ID),
		Spec:       offv1beta1.VirtualNodeSpec{ClusterID: liqov1beta1.ClusterID(milan.ID)},
	}
	ctltest.Lend(t, c, vn)
	if runs() {
		t.Error("an empty virtual node is waited for")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: rome.Namespace, Name: "x"},
		Spec:       corev1.PodSpec{NodeName: vn.Name, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	}
	ctltest.Lend(t, c, pod)
	if !runs() {
		t.Error("a pod on the virtual node is not waited for")
	}
}
