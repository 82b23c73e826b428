// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// empty is a cache that has nothing.
type empty struct{ client.Reader }

func (empty) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
}

// namespaceOf answers that each namespace is one of a consumer.
type namespaceOf struct {
	client.Reader
	consumer string
}

func (n namespaceOf) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetName(key.Name)
	obj.SetLabels(map[string]string{names.RemoteClusterID: n.consumer})
	return nil
}

// A pod that was admitted before the policy became stricter is resized as before; a new one like it is refused.
func TestPodAdmittedBeforeAStricterPolicyGrows(t *testing.T) {
	v := &shadowPodValidator{cachedReader: cachedReader{cached: namespaceOf{consumer: "blue"}, live: mute{}}}
	pod := func(cpu string) *offv1beta1.ShadowPod {
		sp := &offv1beta1.ShadowPod{}
		sp.Labels = map[string]string{names.OffloadingOrigin: "blue"}
		sp.Spec.Pod = corev1.PodSpec{RuntimeClassName: new("gvisor"), Containers: []corev1.Container{{
			Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
		}}}
		return sp
	}
	req := &admission.Request{}
	req.Namespace = "twin"
	if _, err := v.validateObject(t.Context(), req, nil, pod("2")); err == nil || !strings.Contains(err.Error(), "gvisor") {
		t.Errorf("a new pod: %v", err)
	}
	if _, err := v.validateObject(t.Context(), req, pod("1"), pod("2")); err != nil {
		t.Errorf("a pod that grows: %v", err)
	}
}

// An ordinary pod of the provider asks the port about the Quota of a consumer.
func TestThePortTellsNoQuotasOfOthers(t *testing.T) {
	hook := &admission.Webhook{Handler: validatingHandler(admission.NewDecoder(kube.Scheme), &shadowPodValidator{cachedReader: cachedReader{cached: provider{}, live: mute{}}, enforce: true})}
	server := httptest.NewServer(fromCreator(hook))
	t.Cleanup(server.Close)
	ask := func(user, pod string) (int, string) {
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","namespace":"twin","operation":"CREATE","userInfo":{"username":%q},
			"object":{"apiVersion":"offloading.liqo.io/v1beta1","kind":"ShadowPod","metadata":{"name":"web","labels":{"offloading.liqo.io/origin":"blue","liqo.io/creator-user":"slice"}},"spec":{"pod":%s}}}}`, user, pod)
		answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	large := `{"containers":[{"name":"a","resources":{"requests":{"cpu":"123456"}}}]}`
	for _, user := range []string{"nobody", ""} {
		if code, text := ask(user, large); code != http.StatusForbidden || strings.Contains(text, "allowed") || strings.Contains(text, "quota") {
			t.Errorf("%q is told %d %s", user, code, text)
		}
	}
	code, text := ask("slice", large)
	if code != http.StatusOK || !strings.Contains(text, "requested 123456, more than was granted") || strings.Contains(text, "free") {
		t.Errorf("the user itself is told %d %s", code, text)
	}
	if _, text := ask("slice", `{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}`); !strings.Contains(text, `"allowed":true`) {
		t.Errorf("a pod that fits: %s", text)
	}
	for name, body := range map[string]string{"nothing": "", "no JSON": "{", "no review": "[]"} {
		answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 4 {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

// What is refused anyway costs no request to the API server, which does not answer here.
func TestNothingIsReadForAPodThatIsRefusedAnyway(t *testing.T) {
	v := &shadowPodValidator{cachedReader: cachedReader{cached: empty{}, live: mute{}}, enforce: true}
	for pod, want := range map[string]string{
		`{"containers":[{"name":"a"}],"hostNetwork":true}`: "spec.hostNetwork",
		`{"containers":[]}`: "no containers",
		`{"containers":[{"name":"a","resources":{"requests":{"cpu":"-1"}}}]}`:         "cannot be negative",
		`{"containers":[{"name":"a"}],"priorityClassName":"system-cluster-critical"}`: "system pods",
	} {
		sp := &offv1beta1.ShadowPod{}
		sp.Labels = map[string]string{names.OffloadingOrigin: "blue"}
		if err := json.Unmarshal([]byte(pod), &sp.Spec.Pod); err != nil {
			t.Fatal(err)
		}
		req := &admission.Request{}
		req.Namespace = "twin"
		if _, err := v.validateObject(t.Context(), req, nil, sp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pod, err)
		}
	}
}
