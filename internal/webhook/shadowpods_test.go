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
	"testing/synctest"
	"time"

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
func TestResizeAfterStricterPolicy(t *testing.T) {
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

// The answers of the port contain no amount of a Quota, and none about the Quota of another user than that of the request.
func TestQuotaDisclosure(t *testing.T) {
	hook := &admission.Webhook{Handler: validatingHandler(admission.NewDecoder(kube.Scheme), &shadowPodValidator{cachedReader: cachedReader{cached: provider{}, live: mute{}}, enforce: true})}
	server := httptest.NewServer(hook)
	t.Cleanup(server.Close)
	ask := func(user, pod string) string {
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","namespace":"twin","operation":"CREATE","userInfo":{"username":%q},
			"object":{"apiVersion":"offloading.liqo.io/v1beta1","kind":"ShadowPod","metadata":{"name":"web","labels":{"offloading.liqo.io/origin":"blue","liqo.io/creator-user":"slice"}},"spec":{"pod":%s}}}}`, user, pod)
		response, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	large := `{"containers":[{"name":"a","resources":{"requests":{"cpu":"123456"}}}]}`
	for _, user := range []string{"nobody", ""} {
		if text := ask(user, large); !strings.Contains(text, `"allowed":false`) || !strings.Contains(text, "did not create the object") || strings.Contains(text, "quota") {
			t.Errorf("the user %q reads %s", user, text)
		}
	}
	if text := ask("slice", large); !strings.Contains(text, "requested 123456, more than was granted") || strings.Contains(text, "free") {
		t.Errorf("the creator reads %s", text)
	}
	if text := ask("slice", `{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}`); !strings.Contains(text, `"allowed":true`) {
		t.Errorf("a pod that fits: %s", text)
	}
}

// countingReader has no object, and counts the requests.
type countingReader struct {
	empty
	requests int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.requests++
	return r.empty.Get(ctx, key, into)
}

func (r *countingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	r.requests++
	return nil
}

// Forged requests cause a bounded number of requests to the API server. The answer to the others is "try again".
func TestLookupRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &countingReader{}
		newHandler := func() admission.Handler {
			return mutatingHandler(admission.NewDecoder(kube.Scheme), &podSteerer{cachedReader: cachedReader{cached: empty{}, live: newRateLimitedReader(api)}})
		}
		pods := newHandler()
		req := admission.Request{}
		req.Operation, req.Namespace = "CREATE", "forged"
		req.Object.Raw = []byte(`{"metadata":{"name":"web"}}`)
		var last admission.Response
		for range 10 * lookupBurst {
			last = pods.Handle(t.Context(), req)
		}
		if api.requests != lookupBurst {
			t.Errorf("%d requests", api.requests)
		}
		if last.Allowed || last.Result.Code != http.StatusTooManyRequests || last.Result.Reason != "TooManyRequests" || last.Result.Details.RetryAfterSeconds != 1 ||
			!strings.Contains(last.Result.Message, "try again") {
			t.Errorf("the last answer: %+v", last.Result)
		}
		if other := newHandler().Handle(t.Context(), req); other.Result.Code == http.StatusTooManyRequests || api.requests != lookupBurst+1 {
			t.Errorf("another webhook: %+v after %d requests", other.Result, api.requests)
		}
		time.Sleep(time.Second)
		if last = pods.Handle(t.Context(), req); last.Result.Code == http.StatusTooManyRequests {
			t.Errorf("a second later: %+v", last.Result)
		}
	})
}

// What is refused anyway costs no request to the API server, which does not answer here.
func TestCheapChecksFirst(t *testing.T) {
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
