// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// deadWebhooks applies the chart's webhooks for as long as the test lasts, with nobody behind them.
func deadWebhooks(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	dead := func(configs ...*admissionv1.WebhookClientConfig) {
		for _, config := range configs {
			*config = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1" + *config.Service.Path)}
		}
	}
	for _, obj := range mustRender(t, values{}).objects {
		var configuration client.Object
		switch obj.GetKind() {
		case "MutatingWebhookConfiguration":
			m := as[admissionv1.MutatingWebhookConfiguration](t, obj)
			for i := range m.Webhooks {
				dead(&m.Webhooks[i].ClientConfig)
			}
			configuration = m
		case "ValidatingWebhookConfiguration":
			v := as[admissionv1.ValidatingWebhookConfiguration](t, obj)
			for i := range v.Webhooks {
				dead(&v.Webhooks[i].ClientConfig)
			}
			configuration = v
		default:
			continue
		}
		if err := c.Client.Create(t.Context(), configuration); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), configuration) })
	}
}

func podIn(namespace string, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// daemonSet returns one that tolerates every taint, like those of CNIs.
func daemonSet(namespace string) client.Object {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cni"}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cni"}}
	ds.Spec.Template.Labels, ds.Spec.Template.Spec = ds.Spec.Selector.MatchLabels, podIn(namespace).Spec
	ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return ds
}

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "owner", UID: "1"}}
	}
}

// Where no controller-manager answers, the cluster itself must go on: only what the webhooks are for is refused.
func TestWebhooksDown(t *testing.T) {
	c := testkit.SecondCluster(t) // which no other test wants to make pods in
	enabled := map[string]string{names.SchedulingEnabled: "true"}
	shop, plain := testkit.Namespace(t, c, "shop", enabled), testkit.Namespace(t, c, "plain", nil)
	for _, name := range []string{"kube-system", "liqo-system"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		testkit.Ensure(t, c, ns)
		testkit.Update(t, c.Client, ns, func(n *corev1.Namespace) { n.Labels[names.SchedulingEnabled] = "true" })
		testkit.Ensure(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	}
	tenants := tenantNamespace(t, c, "milan")
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: tenants, Name: name, Labels: labels, Finalizers: []string{"example.com/held"}}
	}
	skip := map[string]string{"liqo.io/webhook-skip": "true"}
	shadowPod := func(name string) client.Object {
		p := &offv1beta1.ShadowPod{ObjectMeta: meta(name, nil)}
		p.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		return p
	}
	virtualNode := func(name string, labels map[string]string) client.Object {
		v := &offv1beta1.VirtualNode{ObjectMeta: meta(name, labels)}
		v.Spec.ClusterID = "milan"
		return v
	}
	tenant := func(name string, labels map[string]string) client.Object {
		x := &authv1beta1.Tenant{ObjectMeta: meta(name, labels)}
		x.Spec.ClusterID = "milan"
		return x
	}
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "offloading"}}

	living := []client.Object{shadowPod("living"), virtualNode("living", nil), tenant("living", nil)}
	ending := []client.Object{shadowPod("ending"), virtualNode("ending", nil), tenant("ending", nil)}
	testkit.Create(t, c.Client, living...)
	testkit.Create(t, c.Client, ending...)
	testkit.Create(t, c.Client, podIn(shop, func(p *corev1.Pod) { p.Name, p.Finalizers = "old", []string{"example.com/held"} }))
	deadWebhooks(t, c)

	const unanswered = "failed calling webhook"
	attempt := func(obj client.Object) error { return c.Client.Create(t.Context(), obj, client.DryRunAll) }
	testkit.Eventually(t, 3*time.Minute, func() error {
		if err := refusedBy(attempt(podIn(shop)), unanswered); err != nil {
			return err
		}
		return refusedBy(attempt(shadowPod("new")), unanswered)
	})
	for rule, tc := range map[string]struct {
		obj     client.Object
		refused bool
	}{
		"a pod of an offloaded namespace": {podIn(shop), true},
		"a pod of a ReplicaSet there":     {podIn(shop, ownedBy("ReplicaSet")), true},
		"a pod of a DaemonSet there":      {podIn(shop, ownedBy("DaemonSet")), false},
		"a DaemonSet on all nodes":        {daemonSet("kube-system"), false},
		"a pod that a node owns":          {podIn(shop, ownedBy("Node")), false},
		"a pod that has its node":         {podIn(shop, func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), true},
		"one that tolerates virtual nodes": {podIn(shop, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Tolerations = "worker", []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists}}
		}), false},
		"a pod of another namespace":                {podIn(plain), false},
		"a pod of kube-system, whatever its labels": {podIn("kube-system"), false},
		"a pod of Liqo itself, whatever its labels": {podIn("liqo-system"), false},
		"a static pod": {podIn(shop, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Annotations = "worker", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}), false},
		"a ShadowPod":                           {shadowPod("new"), true},
		"a VirtualNode":                         {virtualNode("new", nil), true},
		"a VirtualNode that asks to be left":    {virtualNode("new", skip), true},
		"a Tenant":                              {tenant("new", nil), true},
		"a Tenant that asks to be left":         {tenant("new", skip), true},
		"a NamespaceOffloading, only warned of": {offloading, false},
	} {
		switch err := attempt(tc.obj); {
		case tc.refused:
			if err := refusedBy(err, unanswered); err != nil {
				t.Errorf("%s: %v", rule, err)
			}
		case err != nil:
			t.Errorf("%s: %v", rule, err)
		}
	}

	peer, err := client.New(c.User(t, "slice", "system:masters"), client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for creator, by := range map[string]string{"": "mutate", "somebody-else": "mutate", "slice": "validate"} {
		told := shadowPod("new")
		told.SetLabels(map[string]string{names.CreatorUser: creator})
		if err := refusedBy(peer.Create(t.Context(), told, client.DryRunAll), "shadowpod."+by); err != nil {
			t.Errorf("a ShadowPod that says it was made by %q: %v", creator, err)
		}
	}

	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	let := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	for _, obj := range living {
		if err := refusedBy(c.Client.Patch(t.Context(), obj, label, client.DryRunAll), unanswered); err != nil {
			t.Errorf("a change of a %T: %v", obj, err)
		}
	}
	ending = append(ending, podIn(shop, func(p *corev1.Pod) { p.Name = "old" }))
	for _, obj := range ending {
		if err := c.Client.Delete(t.Context(), obj, client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("a %T cannot be deleted: %v", obj, err)
		}
		if err := c.Client.Patch(t.Context(), obj, let); err != nil {
			t.Errorf("a %T that ends cannot lose its finalizer: %v", obj, err)
		}
	}
}

// refusedBy is nil if err says so.
func refusedBy(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("got %v, want %q", err, text)
	}
	return nil
}
