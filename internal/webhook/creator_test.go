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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
