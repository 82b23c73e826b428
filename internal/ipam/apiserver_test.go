// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestAPIServerIP(t *testing.T) {
	for name, test := range map[string]struct {
		ips  []string
		want string
	}{
		"none yet":           {nil, ""},
		"headless":           {[]string{"None"}, ""},
		"IPv4":               {[]string{"10.96.0.1"}, "10.96.0.1"},
		"IPv6 alone":         {[]string{"fd00:96::1"}, "fd00:96::1"},
		"dual, IPv6 first":   {[]string{"fd00:96::1", "10.96.0.1"}, "10.96.0.1"},
		"dual, IPv4 first":   {[]string{"10.96.0.1", "fd00:96::1"}, "10.96.0.1"},
		"what is no address": {[]string{"x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clusterIP(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: test.ips}}); string(got) != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The API server is shown to peers as long as there is a virtual node, and under one address.
func TestAPIServerIPLifetime(t *testing.T) {
	s := newTestEnv(t, usualPools, installed()...)
	s.network("external-cidr", "10.70.0.0/16")
	service := &corev1.Service{}
	testkit.Eventually(t, limit, func() error {
		return s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: names.APIServerService}, service)
	})
	key := client.ObjectKey{Namespace: s.where, Name: names.IPTypeAPIServer}
	if err := s.c.Client.Get(t.Context(), key, &ipamv1alpha1.IP{}); !apierrors.IsNotFound(err) {
		t.Fatalf("there is an IP without a virtual node: %v", err)
	}
	shown := func(but types.UID) *ipamv1alpha1.IP {
		t.Helper()
		ip := &ipamv1alpha1.IP{}
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), key, ip); err != nil {
				return err
			}
			if string(ip.Spec.IP) != service.Spec.ClusterIP || ip.Status.IP == "" || ip.UID == but || ip.Labels[names.IPType] != names.IPTypeAPIServer {
				return fmt.Errorf("%s is shown as %q, labels %v", ip.Spec.IP, ip.Status.IP, ip.Labels)
			}
			return nil
		})
		return ip
	}
	node := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.where, Namespace: s.where}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
	testkit.Create(t, s.c.Client, node)
	ip := shown("")
	if ip.Spec.Masquerade != nil || ip.Annotations[names.Preinstalled] != "true" {
		t.Errorf("the IP is %+v", ip)
	}

	// Deleted by hand it comes back.
	if err := s.c.Client.Delete(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	shown(ip.UID)

	if err := s.c.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		err := s.c.Client.Get(t.Context(), key, &ipamv1alpha1.IP{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still shown"))
	})

	// What somebody else made of that name is left alone.
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: names.IPTypeAPIServer}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.7"}})
	again := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.where, Namespace: s.where}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
	testkit.Create(t, s.c.Client, again)
	t.Cleanup(func() { _ = s.c.Client.Delete(context.Background(), again) })
	testkit.WantEvent(t, s.c, service, "NameTaken", "is not labelled")
}

// The proxy is shown to peers as long as its Service is there, and under the address that this has now.
func TestAPIServerProxyIP(t *testing.T) {
	s := newTestEnv(t, usualPools, installed()...)
	s.network("external-cidr", "10.70.0.0/16")
	key := client.ObjectKey{Namespace: s.where, Name: names.APIServerProxyIP}
	shown := func(of *corev1.Service, but types.UID) *ipamv1alpha1.IP {
		t.Helper()
		ip := &ipamv1alpha1.IP{}
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), key, ip); err != nil {
				return err
			}
			if string(ip.Spec.IP) != of.Spec.ClusterIP || ip.Status.IP == "" || ip.UID == but || ip.Labels[names.IPType] != names.IPTypeAPIServerProxy {
				return fmt.Errorf("%s is shown as %q, labels %v", ip.Spec.IP, ip.Status.IP, ip.Labels)
			}
			if o := ip.OwnerReferences; len(o) != 1 || o[0].UID != of.UID { // with it the IP goes
				return fmt.Errorf("its owners are %v", o)
			}
			return nil
		})
		return ip
	}
	service := func() *corev1.Service {
		t.Helper()
		out := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: names.ProxyService, Namespace: s.where},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: names.ProxyPort}}},
		}
		testkit.Create(t, s.c.Client, out)
		return out
	}
	first := service()
	ip := shown(first, "")
	if ip.Spec.Masquerade != nil || ip.Annotations[names.Preinstalled] != "true" || len(ip.Finalizers) != 0 {
		t.Errorf("the IP is %+v", ip)
	}
	if err := s.c.Client.Delete(t.Context(), ip); err != nil { // by hand
		t.Fatal(err)
	}
	ip = shown(first, ip.UID)

	// Services of that name elsewhere are none of ours, and another one in its place has another address.
	testkit.Create(t, s.c.Client, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: names.ProxyService, Namespace: testkit.Namespace(t, s.c, "elsewhere", nil)},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: names.ProxyPort}}},
	})
	holder := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "holder", Namespace: s.where},
		Spec:       corev1.ServiceSpec{ClusterIP: first.Spec.ClusterIP, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	if err := s.c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	testkit.Create(t, s.c.Client, holder) // it is not given the same again
	if now := shown(service(), ip.UID); now.Status.IP != ip.Status.IP {
		t.Errorf("consumers that peered through the tunnel know %s, and it is %s now", ip.Status.IP, now.Status.IP)
	}
}
