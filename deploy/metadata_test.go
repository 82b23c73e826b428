// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/webhook"
)

// A virtual kubelet writes Services, Ingresses, ConfigMaps and Secrets itself: what they command is dropped as they arrive, and not put back.
func TestMetadataOfConsumers(t *testing.T) {
	c := install(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	peer := clientOf(t, c.User(t, "gold-metadata", "milan", "system:authenticated"))
	staff := clientOf(t, c.User(t, "staff-metadata", "staff", "system:authenticated"))
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-editor-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "get", "patch"}},
	}}
	testkit.Create(t, c.Client, editor)
	bind(t, c, remoteNamespace, names.RoleVirtualKubeletRemote, "gold-metadata")
	bind(t, c, remoteNamespace, editor.Name, "staff-metadata")
	for _, user := range []client.Client{peer, staff} {
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "x"}, &corev1.ConfigMap{})
		})
	}
	serveWebhooks(t, c, webhook.Options{}, "metadata.mutate.liqo.io")

	marks := map[string]string{names.OffloadingOrigin: "milan", names.OffloadingDestination: "rome"}
	meta := func(name string, labels, annotations map[string]string) metav1.ObjectMeta {
		all := maps.Clone(marks)
		maps.Copy(all, labels)
		return metav1.ObjectMeta{Namespace: remoteNamespace, Name: name, Labels: all, Annotations: annotations}
	}
	labels := map[string]string{
		"app": "web", "app.kubernetes.io/part-of": "liqo", "networking.liqo.io/component": "gateway", "grafana_dashboard": "1", "istio.io/rev": "x",
	}
	annotations := map[string]string{
		"note": "kept", "prometheus.io/scrape": "true", "service.cilium.io/global": "true", "external-dns.alpha.kubernetes.io/hostname": "www.example.com",
		"reflector.v1.k8s.emberstack.com/reflection-auto-enabled": "true", "liqo.io/allow-reflection": "true",
	}
	const gone = "app.kubernetes.io/part-of,external-dns.alpha.kubernetes.io/hostname,grafana_dashboard,istio.io/rev,networking.liqo.io/component," +
		"prometheus.io/scrape,reflector.v1.k8s.emberstack.com/reflection-auto-enabled,service.cilium.io/global"
	check := func(obj client.Object) error {
		got := maps.Clone(obj.GetAnnotations())
		maps.DeleteFunc(got, func(key, _ string) bool { return strings.HasPrefix(key, names.AppliedHash) })
		wantLabels := maps.Clone(marks)
		wantLabels["app"] = "web"
		want := map[string]string{"note": "kept", "liqo.io/allow-reflection": "true", names.DroppedMetadata: gone}
		if !maps.Equal(obj.GetLabels(), wantLabels) || !maps.Equal(got, want) {
			return fmt.Errorf("labels %v, annotations %v", obj.GetLabels(), got)
		}
		return nil
	}
	// The webhook is asked once the API server knows of it.
	testkit.Eventually(t, 60*time.Second, func() error {
		probe := &corev1.ConfigMap{ObjectMeta: meta("probe", labels, annotations)}
		if err := peer.Create(t.Context(), probe, client.DryRunAll); err != nil {
			return err
		}
		return check(probe)
	})

	backend := &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	for name, want := range map[string]client.Object{
		"configmap": &corev1.ConfigMap{ObjectMeta: meta("web", labels, annotations), Data: map[string]string{"k": "v"}},
		"secret":    &corev1.Secret{ObjectMeta: meta("web", labels, annotations)},
		"service":   &corev1.Service{ObjectMeta: meta("web", labels, annotations), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80), Protocol: corev1.ProtocolTCP}}}},
		"ingress":   &networkingv1.Ingress{ObjectMeta: meta("web", labels, annotations), Spec: networkingv1.IngressSpec{DefaultBackend: backend}},
	} {
		t.Run(name, func(t *testing.T) {
			gvk, err := apiutil.GVKForObject(want, kube.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			application, err := kube.NewApplication(want, gvk, names.ReflectionFieldManager)
			if err != nil {
				t.Fatal(err)
			}
			if created, err := application.Make(t.Context(), peer); err != nil || !created {
				t.Fatal(created, err)
			}
			now := want.DeepCopyObject().(client.Object)
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(want), now); err != nil {
				t.Fatal(err)
			}
			if err := check(now); err != nil {
				t.Error(err)
			}
			if applied, err := application.Applied(now); err != nil || !applied {
				t.Errorf("it would be written again: %v", err)
			}
			other, err := kube.NewApplication(want, gvk, "another")
			if err != nil {
				t.Fatal(err)
			}
			if applied, _ := other.Applied(now); applied {
				t.Error("the note counts for what was not reflected")
			}

			// Nor does a key come back by a later change; one that an administrator wrote stays.
			version := now.GetResourceVersion()
			if err := c.Client.Patch(t.Context(), now, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"prometheus.io/port":"80"}}}`))); err != nil {
				t.Fatal(err)
			}
			if now.GetResourceVersion() == version {
				t.Fatal("the administrator changed nothing")
			}
			body := []byte(`{"metadata":{"labels":{"grafana_datasource":"1"},"annotations":{"note":"changed"}}}`)
			if err := peer.Patch(t.Context(), now, client.RawPatch(types.MergePatchType, body)); err != nil {
				t.Fatal(err)
			}
			if now.GetLabels()["grafana_datasource"] != "" || now.GetAnnotations()["note"] != "changed" || now.GetAnnotations()["prometheus.io/port"] != "80" ||
				now.GetAnnotations()[names.DroppedMetadata] != "grafana_datasource" {
				t.Errorf("labels %v, annotations %v", now.GetLabels(), now.GetAnnotations())
			}
			if applied, _ := application.Applied(now); applied {
				t.Error("a change of another writer is not seen")
			}
		})
	}
	t.Run("others", func(t *testing.T) {
		own := &corev1.ConfigMap{ObjectMeta: meta("mine", labels, annotations)}
		if err := staff.Create(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		if own.Annotations["prometheus.io/scrape"] == "" || own.Labels["networking.liqo.io/component"] == "" || own.Annotations[names.DroppedMetadata] != "" {
			t.Errorf("labels %v, annotations %v", own.Labels, own.Annotations)
		}
	})
}
