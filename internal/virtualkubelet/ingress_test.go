// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func ingressOf(namespace, name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: networkingv1.IngressSpec{
			IngressClassName: new("ours"),
			TLS:              []networkingv1.IngressTLS{{Hosts: []string{"a.example"}, SecretName: "tls"}},
			Rules: []networkingv1.IngressRule{{Host: "a.example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: "shop", Port: networkingv1.ServiceBackendPort{Name: "http"}},
				}}},
			}}}},
		},
	}
}

func classIs(want string) func(*networkingv1.Ingress) error {
	return func(i *networkingv1.Ingress) error {
		got := ""
		if i.Spec.IngressClassName != nil {
			got = *i.Spec.IngressClassName
		}
		if got != want {
			return fmt.Errorf("the class is %q, want %q", got, want)
		}
		return nil
	}
}

func addressIs(want string) func(*networkingv1.Ingress) error {
	return func(i *networkingv1.Ingress) error {
		got := ""
		for _, at := range i.Status.LoadBalancer.Ingress {
			got += at.IP
		}
		if got != want {
			return fmt.Errorf("the address is %q, want %q", got, want)
		}
		return nil
	}
}

func TestIngressReflection(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	local := ingressOf(s.local, "shop")
	local.Annotations = map[string]string{
		"example.com/timeout": "5", names.AllowReflection: "true",
		corev1.LastAppliedConfigAnnotation: `{"spec":{"ingressClassName":"ours"}}`,
	}
	s.create(s.consumer, local)
	copied := eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), exists)
	reached := func(c *testkit.ControlPlane, i *networkingv1.Ingress, ip string) {
		s.t.Helper()
		status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"`+ip+`"}]}}}`))
		if err := c.Client.Status().Patch(s.t.Context(), i, status); err != nil {
			s.t.Fatal(err)
		}
	}

	s.step("a class of this cluster is not told to a provider that offers none", func() {
		wanted := ingressOf("", "").Spec
		wanted.IngressClassName = nil
		if diff := cmp.Diff(wanted, copied.Spec); diff != "" {
			s.t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"example.com/timeout": "5", names.AllowReflection: "true"}, withoutHash(copied.Annotations)); diff != "" {
			s.t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
	s.step("each cluster says for itself where its Ingress is reached", func() {
		reached(s.provider, copied, "198.51.100.7")
		reached(s.consumer, local, "192.0.2.1")
		s.patch(s.consumer, local, `{"metadata":{"annotations":{"example.com/timeout":"6"}}}`)
		eventually(s, s.provider, copied, func(i *networkingv1.Ingress) error {
			if i.Annotations["example.com/timeout"] != "6" {
				return fmt.Errorf("annotations %v", i.Annotations)
			}
			return addressIs("198.51.100.7")(i)
		})
		eventually(s, s.consumer, local, addressIs("192.0.2.1"))
	})
	stop()
	s.options.IngressClass = "theirs"
	stop = s.run()
	s.step("a class that the provider offers is given to the copies that are there", func() {
		eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), classIs("theirs"))
		s.patch(s.provider, ingressOf(s.remoteNamespace, "shop"), `{"spec":{"ingressClassName":"another"}}`)
		eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), classIs("theirs"))
	})
	stop()
	s.options.IngressClass = ""
	s.run()
	s.step("and taken back with the offer", func() {
		eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), classIs(""))
	})
	s.step("an Ingress that somebody else made there is reported and stays as it is", func() {
		foreign := ingressOf(s.remoteNamespace, "taken")
		foreign.Spec.IngressClassName = new("another")
		s.create(s.provider, foreign)
		s.create(s.consumer, ingressOf(s.local, "taken"))
		s.event(ingressOf(s.local, "taken"), "FailedReflection", "already exists")
		s.deleteNow(s.consumer, ingressOf(s.local, "taken"))
		s.after("later")
		now := eventually(s, s.provider, ingressOf(s.remoteNamespace, "taken"), exists)
		if now.UID != foreign.UID || now.ResourceVersion != foreign.ResourceVersion {
			s.t.Errorf("it was written: %+v", now.ObjectMeta)
		}
	})
	s.step("a copy goes when its Ingress may not leave any more, and with its Ingress", func() {
		s.patch(s.consumer, local, `{"metadata":{"annotations":{"liqo.io/skip-reflection":"true"}}}`)
		s.waitUntilDeleted(s.provider, ingressOf(s.remoteNamespace, "shop"))
		s.patch(s.consumer, local, `{"metadata":{"annotations":{"liqo.io/skip-reflection":null}}}`)
		eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), exists)
		s.deleteNow(s.consumer, local)
		s.waitUntilDeleted(s.provider, ingressOf(s.remoteNamespace, "shop"))
	})
}

// withoutHash are the annotations that users see a reason for.
func withoutHash(annotations map[string]string) map[string]string {
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, names.AppliedHash) })
	return annotations
}
