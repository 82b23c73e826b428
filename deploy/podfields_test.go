// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

// fieldValues are values that decode, by the last part of a path.
var fieldValues = map[string]any{
	"protocol": "HTTP1", "grpc.mode": "TLS", "emptyDir.mode": int64(448), "user": int64(1), "defaultUser": int64(1), "bindMountOptions": []any{"noexec"},
	"clusterTrustBundle": map[string]any{"path": "x"}, "podCertificate": map[string]any{"keyType": "ED25519"},
}

// withField returns a pod with one field.
func withField(t *testing.T, namespace, path string) *unstructured.Unstructured {
	t.Helper()
	var value any
	for suffix, v := range fieldValues {
		if path == suffix || strings.HasSuffix(path, "."+suffix) {
			value = v
		}
	}
	if value == nil {
		t.Fatalf("no value is known for %s", path)
	}
	parts := strings.Split(path, ".")
	for _, part := range slices.Backward(parts) {
		name, isList := strings.CutSuffix(part, "[*]")
		if isList {
			value = []any{value}
		}
		value = map[string]any{name: value}
	}
	u := &unstructured.Unstructured{Object: value.(map[string]any)}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	u.SetNamespace(namespace)
	u.SetName("web")
	return u
}

// The API server sends the pods with new fields to the webhook, and no other one.
func TestPodFieldsCondition(t *testing.T) {
	c := testkit.NthCluster(t, 2) // which no other test wants to make pods in
	shop := testkit.Namespace(t, c, "shop", map[string]string{names.SchedulingEnabled: "true"})
	for _, obj := range mustRender(t, values{}).objects {
		if obj.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		m := as[admissionv1.MutatingWebhookConfiguration](t, obj)
		m.Webhooks = slices.DeleteFunc(m.Webhooks, func(w admissionv1.MutatingWebhook) bool { return w.Name != "podfields.mutate.liqo.io" })
		m.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
		testkit.Create(t, c.Client, m)
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), m) })
	}
	attempt := func(obj client.Object) error { return c.Client.Create(t.Context(), obj, client.DryRunAll) }
	const unanswered = `failed calling webhook "podfields.mutate.liqo.io"`
	fields := policy.NewPodFields()
	testkit.Eventually(t, 3*time.Minute, func() error { return refusedBy(attempt(withField(t, shop, fields[0].Path)), unanswered) })
	for _, f := range fields {
		if err := refusedBy(attempt(withField(t, shop, f.Path)), unanswered); err != nil {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	if err := attempt(podIn(shop)); err != nil {
		t.Errorf("a pod without new fields: %v", err)
	}
}
