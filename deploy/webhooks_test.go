// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/webhook"
)

// serveWebhooks runs the webhooks of these names as the chart has them, but reached by URL.
func serveWebhooks(t testing.TB, c *testkit.ControlPlane, o webhook.Options, only ...string) {
	t.Helper()
	namespace, port := testkit.Namespace(t, c, "webhooks", nil), testkit.Port(t)
	url := func(of *admissionv1.WebhookClientConfig) {
		*of = admissionv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://127.0.0.1:%d%s", port, *of.Service.Path))}
	}
	var dropped []string
	mutating, validating, manager := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}, &appsv1.Deployment{}
	for _, obj := range mustRender(t, values{}).objects {
		var into client.Object
		switch {
		case obj.GetKind() == "MutatingWebhookConfiguration":
			into = mutating
		case obj.GetKind() == "ValidatingWebhookConfiguration":
			into = validating
		case obj.GetKind() == "Deployment" && obj.GetName() == "liqo-controller-manager":
			into = manager
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	for _, arg := range manager.Spec.Template.Spec.Containers[0].Args {
		if list, ok := strings.CutPrefix(arg, "--dropped-metadata="); ok {
			dropped = strings.Split(list, ",")
		}
	}
	mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return !slices.Contains(only, w.Name) })
	validating.Webhooks = slices.DeleteFunc(validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !slices.Contains(only, w.Name) })
	if got := len(mutating.Webhooks) + len(validating.Webhooks); got != len(only) || len(dropped) == 0 {
		t.Fatalf("%d webhooks, which drop %v", got, dropped)
	}
	for i := range mutating.Webhooks {
		url(&mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		url(&validating.Webhooks[i].ClientConfig)
	}
	for _, configuration := range []client.Object{mutating, validating} {
		configuration.SetName(namespace)
		if err := c.Client.Create(t.Context(), configuration); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), configuration) })
	}
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "webhook"}, func(mgr ctrl.Manager) error {
		o.LiqoNamespace, o.Configuration, o.Hosts, o.Host, o.Port, o.DroppedMetadata = namespace, namespace, []string{"127.0.0.1"}, "127.0.0.1", port, dropped
		return webhook.SetupWebhooks(mgr, o)
	})
}

// One consumer fills neither etcd nor the controllers by objects, however it spreads them over its namespaces, and others are not affected.
func TestConsumerObjectCounts(t *testing.T) {
	c := install(t)
	first, second := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"}), testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	tenant := tenantNamespace(t, c, "milan")
	other := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "turin"})
	peer := clientOf(t, c.User(t, "gold-counts", "milan", "system:authenticated"))
	for _, namespace := range []string{first, second, other} {
		bind(t, c, namespace, names.RoleVirtualKubeletRemote, "gold-counts")
		rights(t, func() error {
			return peer.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, &offv1beta1.ShadowPod{})
		})
	}
	bind(t, c, tenant, names.RoleRemoteControlPlane, "gold-counts")
	rights(t, func() error {
		return peer.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "x"}, &offv1beta1.NamespaceMap{})
	})
	serveWebhooks(t, c, webhook.Options{MaxObjects: webhook.MaxObjects{ShadowPods: 3, ShadowEndpointSlices: 2, NamespaceMaps: 1}}, "shadowpod.validate.liqo.io", "count.validate.liqo.io")

	n := 0
	meta := func(namespace, origin string) metav1.ObjectMeta {
		n++
		return metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("web-", n), Labels: map[string]string{
			names.OffloadingOrigin: origin, names.Replicated: "true", names.ReplicationOrigin: origin, names.RemoteClusterID: origin,
		}}
	}
	pod := func(namespace, origin string) client.Object {
		sp := &offv1beta1.ShadowPod{ObjectMeta: meta(namespace, origin)}
		sp.Spec.Pod.AutomountServiceAccountToken = new(false)
		sp.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		return sp
	}
	endpoints := func(namespace, origin string) client.Object {
		ses := &offv1beta1.ShadowEndpointSlice{ObjectMeta: meta(namespace, origin)}
		ses.Spec.Template.AddressType = discoveryv1.AddressTypeIPv4
		return ses
	}
	mapping := func(namespace, origin string) client.Object {
		return &offv1beta1.NamespaceMap{ObjectMeta: meta(namespace, origin)}
	}
	for name, tc := range map[string]struct {
		of    func(namespace, origin string) client.Object
		where []string // one for each that fits
		text  string
	}{
		"shadowpods":           {pod, []string{first, second, first}, "cluster \"milan\" has as many shadowpods as this provider takes from one consumer: 3"},
		"shadowendpointslices": {endpoints, []string{first, second}, "as many shadowendpointslices as this provider takes from one consumer: 2"},
		"namespacemaps":        {mapping, []string{tenant}, "as many namespacemaps as this provider takes from one consumer: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var created []client.Object
			for _, namespace := range tc.where {
				obj := tc.of(namespace, "milan")
				testkit.Eventually(t, 60*time.Second, func() error { return peer.Create(t.Context(), obj) }) // the webhooks may have begun just now
				created = append(created, obj)
			}
			last := tc.where[len(tc.where)-1]
			testkit.Eventually(t, 60*time.Second, func() error { // caches show it soon
				return refused(peer.Create(t.Context(), tc.of(last, "milan"), client.DryRunAll), tc.text)
			})
			if name != "namespacemaps" {
				if err := peer.Create(t.Context(), tc.of(other, "turin"), client.DryRunAll); err != nil {
					t.Error("another consumer:", err)
				}
			} else if err := c.Client.Create(t.Context(), &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "ours"}}); err != nil {
				t.Error("a NamespaceMap of this cluster:", err)
			}
			// What is there may change, and one that goes makes room.
			created[0].SetAnnotations(map[string]string{"note": "changed"})
			if err := peer.Update(t.Context(), created[0]); err != nil {
				t.Error("a change:", err)
			}
			if err := c.Client.Delete(t.Context(), created[0]); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 60*time.Second, func() error { return peer.Create(t.Context(), tc.of(last, "milan"), client.DryRunAll) })
		})
	}
}
