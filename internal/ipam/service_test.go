// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

func withService(name, address string, spec corev1.ServiceSpec) *ipamv1alpha1.IP {
	return &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(address), ServiceTemplate: &ipamv1alpha1.ServiceTemplate{
			Metadata: metav1.ObjectMeta{Labels: map[string]string{"tier": "db"}, Annotations: map[string]string{"note": "x"}}, Spec: spec,
		}},
	}
}

func TestServiceOfIP(t *testing.T) {
	for name, test := range map[string]struct {
		address string
		spec    corev1.ServiceSpec
		want    string // type of addresses, then the ports of the endpoint; or the beginning of the error
	}{
		"port":             {"192.0.2.7", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}}}, "IPv4 192.0.2.7 sql:5432"},
		"target_port":      {"192.0.2.7", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}}, "IPv4 192.0.2.7 :8080"},
		"named_port":       {"192.0.2.7", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("web")}}}, "IPv4 192.0.2.7 :80"},
		"headless":         {"192.0.2.7", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}, "IPv4 192.0.2.7"},
		"IPv6":             {"2001:db8::7", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}, "IPv6 2001:db8::7 :80"},
		"selector":         {"192.0.2.7", corev1.ServiceSpec{Selector: map[string]string{"app": "x"}}, "the template must"},
		"external_address": {"192.0.2.7", corev1.ServiceSpec{ExternalIPs: []string{"198.51.100.1"}}, "the template must"},
		"external_name":    {"192.0.2.7", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "x.example.com"}, "the template must"},
	} {
		t.Run(name, func(t *testing.T) {
			service, slice, err := serviceOf(withService("db", test.address, test.spec))
			if err != nil {
				if !strings.HasPrefix(err.Error(), test.want) {
					t.Error(err)
				}
				return
			}
			got := []string{string(slice.AddressType), slice.Endpoints[0].Addresses[0]}
			for _, p := range slice.Ports {
				got = append(got, fmt.Sprintf("%s:%d", *p.Name, *p.Port))
			}
			if strings.Join(got, " ") != test.want || service.Labels["tier"] != "db" || service.Annotations["note"] != "x" || slice.Labels[discoveryv1.LabelServiceName] != "db" {
				t.Errorf("got %q, metadata %+v, %+v", got, service.ObjectMeta, slice.ObjectMeta)
			}
		})
	}
}

func TestServiceTemplate(t *testing.T) {
	s := newTestEnv(t, usualPools, installed()...)
	ip := withService("db", "192.0.2.7", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}}})
	s.create(ip)
	key := client.ObjectKeyFromObject(ip)
	var service corev1.Service
	var slice discoveryv1.EndpointSlice
	has := func(port int32) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			service, slice = corev1.Service{}, discoveryv1.EndpointSlice{}
			if err := s.c.Client.Get(t.Context(), key, &service); err != nil {
				return err
			}
			if err := s.c.Client.Get(t.Context(), key, &slice); err != nil {
				return err
			}
			if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Port != port || len(slice.Ports) != 1 || *slice.Ports[0].Port != port {
				return fmt.Errorf("ports %+v, %+v", service.Spec.Ports, slice.Ports)
			}
			return nil
		})
	}
	has(5432)
	if !metav1.IsControlledBy(&service, ip) || !metav1.IsControlledBy(&slice, ip) || slice.Endpoints[0].Addresses[0] != "192.0.2.7" {
		t.Errorf("service %+v, slice %+v", service.ObjectMeta, slice)
	}
	t.Run("change_of_the_template", func(t *testing.T) {
		testkit.Update(t, s.c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Spec.ServiceTemplate.Spec.Ports[0].Port = 5433 })
		has(5433)
	})
	t.Run("slice_deleted_by_hand", func(t *testing.T) {
		if err := s.c.Client.Delete(t.Context(), &slice); err != nil {
			t.Fatal(err)
		}
		has(5433)
	})
	t.Run("no_write_without_change", func(t *testing.T) {
		slicePath, servicePath := "/endpointslices/"+key.Name, "/services/"+key.Name
		s.writes.To(slicePath)
		s.writes.To(servicePath)
		testkit.Update(t, s.c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Annotations = map[string]string{"a": "b"} })
		// A pass that makes the object which is missing has looked at the other one, at the latest when the next pass makes it again.
		for range 2 {
			if err := s.c.Client.Delete(t.Context(), &service); err != nil {
				t.Fatal(err)
			}
			has(5433)
		}
		if err := s.c.Client.Delete(t.Context(), &slice); err != nil {
			t.Fatal(err)
		}
		has(5433)
		if all := append(s.writes.To(slicePath), s.writes.To(servicePath)...); len(all) > 0 {
			t.Errorf("writes that change nothing: %q", all)
		}
	})
	t.Run("service_of_a_user", func(t *testing.T) {
		mine := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		s.create(mine)
		taken := withService("mine", "192.0.2.9", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 81}}})
		s.create(taken)
		testkit.WantEvent(t, s.c, taken, "NameTaken", "already exists")
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(taken), &discoveryv1.EndpointSlice{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Service of a user has an endpoint: %v", err)
		}
	})
	t.Run("template_that_is_refused", func(t *testing.T) {
		bad := withService("bad", "192.0.2.10", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}, {Port: 81}}})
		s.create(bad)
		testkit.WantEvent(t, s.c, bad, "InvalidService", "ports")
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(bad), bad); err != nil || bad.Status.IP == "" {
				return fmt.Errorf("status %+v: %w", bad.Status, err)
			}
			return nil
		})
	})
	t.Run("no_template_any_more", func(t *testing.T) {
		testkit.Update(t, s.c.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Spec.ServiceTemplate = nil })
		testkit.Eventually(t, limit, func() error {
			for _, obj := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
				if err := s.c.Client.Get(t.Context(), key, obj); !apierrors.IsNotFound(err) {
					return fmt.Errorf("%T is there: %v", obj, err)
				}
			}
			return nil
		})
	})
}
