// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// mute is an API server that cannot be reached.
type mute struct{ client.Reader }

var errMute = errors.New("no answer")

func (mute) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errMute
}

func (mute) List(context.Context, client.ObjectList, ...client.ListOption) error { return errMute }

// tooLong are amounts that take minutes to read. The schema has refused them before anything that reads them is asked.
var tooLong = regexp.MustCompile(`[eE][+-]?[0-9]{3}`)

// Whatever the API server sends, the webhooks answer: they do not panic, and allow nothing that they cannot read.
func FuzzAdmission(f *testing.F) {
	one := `{"metadata":{"name":"web","labels":{"offloading.liqo.io/origin":"blue"}},"spec":{"pod":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}},{"name":"b"}]}}}`
	f.Add("CREATE", "", one)
	f.Add("UPDATE", one, `{"metadata":{"name":"web"},"spec":{"pod":{"containers":[{"name":"a"}]}}}`)
	f.Add("UPDATE", `{"metadata":{"name":"web"}}`, one)
	f.Add("UPDATE", "", `{"metadata":null,"spec":{"pod":{"containers":[null],"initContainers":[{}],"resources":null}}}`)
	f.Add("DELETE", one, "")
	f.Add("CREATE", "", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["x"]}}`)
	f.Add("CONNECT", "[]", "null")
	decoder := admission.NewDecoder(kube.Scheme)
	in := cachedReader{cached: mute{}, live: mute{}}
	handlers := map[string]admission.Handler{
		"creator":     mutatingHandler(decoder, shadowPodCreator{}),
		"shadow pods": validatingHandler(decoder, &shadowPodValidator{cachedReader: in, enforce: true}),
		"pods":        mutatingHandler(decoder, &podSteerer{cachedReader: in, runtimeClass: "liqo"}),
		"daemon sets": mutatingHandler(decoder, daemonSetSteerer{}),
		"tenants":     mutatingHandler(decoder, tenantDefaults{}),
		"strategies":  validatingHandler(decoder, namespaceOffloadingValidator{}),
		"nodes":       withoutAmounts(mutatingHandler(decoder, &virtualNodeDefaulter{cachedReader: in})),
	}
	f.Fuzz(func(t *testing.T, operation, before, after string) {
		if tooLong.MatchString(before) || tooLong.MatchString(after) {
			return
		}
		for name, h := range handlers {
			response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: types.UID("1"), Namespace: "twin", Operation: admissionv1.Operation(operation),
				UserInfo: authenticationv1.UserInfo{Username: "slice"},
				Object:   runtime.RawExtension{Raw: []byte(after)}, OldObject: runtime.RawExtension{Raw: []byte(before)},
			}})
			if response.Allowed && response.Result != nil && response.Result.Code >= 400 {
				t.Errorf("%s: allowed with %v", name, response.Result)
			}
			if !response.Allowed && (response.Result == nil || response.Result.Code < 400) {
				t.Errorf("%s: refused without a code: %+v", name, response)
			}
		}
	})
}

// provider has one namespace, for the consumer blue, and the Quota of its user.
type provider struct{ client.Reader }

func (provider) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if ns, ok := into.(*corev1.Namespace); ok {
		ns.Name = key.Name
		ns.Labels = map[string]string{names.RemoteClusterID: "blue", policy.PodSecurityLabel: policy.PodSecurityBaseline}
		return nil
	}
	return errMute
}

func (provider) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *corev1.NamespaceList:
		list.Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}}
	case *offv1beta1.QuotaList:
		q := offv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "slice"}}
		q.Spec.User, q.Spec.Resources = "slice", amounts("cpu", "2", "memory", "1Gi")
		list.Items = []offv1beta1.Quota{q}
	default:
		return errMute
	}
	return nil
}

// Whatever a consumer asks for: who asked is written down as it is and stays, and what is let in keeps to the policy and the
// budget.
func FuzzShadowPodAdmission(f *testing.F) {
	const head = `{"metadata":{"name":"web","labels":{"offloading.liqo.io/origin":"blue","liqo.io/creator-user":"slice"}},"spec":{"pod":{`
	for _, pod := range []string{
		`"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]`,
		`"containers":[{"name":"a","resources":{"limits":{"cpu":"3"}}}]`,
		`"containers":[{"name":"a"}],"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"requests":{"cpu":"-1","memory":"2Gi"}}}]`,
		`"containers":[{"name":"a"}],"hostNetwork":true`,
		`"containers":[{"name":"a"}],"nodeName":"n"`,
		`"containers":[{"name":"a","securityContext":{"privileged":true},"ports":[{"hostPort":80}]}],"overhead":{"cpu":"2"}`,
		`"containers":[{"name":"a"}],"volumes":[{"name":"v","hostPath":{"path":"/"}}],"resources":{"requests":{"cpu":"9"}}`,
		`"containers":[{"name":"a"}],"priorityClassName":"system-node-critical"`,
	} {
		f.Add("", head+pod+"}}}")
		f.Add(head+`"containers":[{"name":"a"}]}}}`, head+pod+"}}}")
	}
	f.Add("", `{"metadata":{"labels":{"offloading.liqo.io/origin":"green"}}}`)
	decoder := admission.NewDecoder(kube.Scheme)
	creator := mutatingHandler(decoder, shadowPodCreator{})
	judge := validatingHandler(decoder, &shadowPodValidator{cachedReader: cachedReader{cached: provider{}, live: provider{}}, enforce: true})
	budget := amounts("cpu", "2", "memory", "1Gi")
	f.Fuzz(func(t *testing.T, before, after string) {
		if tooLong.MatchString(before) || tooLong.MatchString(after) {
			return
		}
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Namespace: "twin", Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: "slice"},
			Object: runtime.RawExtension{Raw: []byte(after)},
		}}
		was, is := &offv1beta1.ShadowPod{}, &offv1beta1.ShadowPod{}
		if before != "" {
			req.Operation, req.OldObject.Raw = admissionv1.Update, []byte(before)
			if decoder.DecodeRaw(req.OldObject, was) != nil {
				return
			}
		}
		mutated := creator.Handle(t.Context(), req)
		if !mutated.Allowed || decoder.DecodeRaw(req.Object, is) != nil || !is.DeletionTimestamp.IsZero() {
			return
		}
		for _, op := range mutated.Patches {
			if !strings.HasPrefix(op.Path, "/metadata/labels") {
				t.Fatalf("%s of %s", op.Operation, op.Path)
			}
		}
		encoded, err := json.Marshal(mutated.Patches)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if req.Object.Raw, err = patch.Apply(req.Object.Raw); err != nil {
			return // not what an API server sends: it has normalised objects
		}
		is = &offv1beta1.ShadowPod{}
		if decoder.DecodeRaw(req.Object, is) != nil {
			return
		}
		want := "slice"
		if before != "" {
			want = was.Labels[names.CreatorUser]
		}
		if got := is.Labels[names.CreatorUser]; got != want {
			t.Fatalf("the creator is %q, want %q", got, want)
		}
		if !judge.Handle(t.Context(), req).Allowed {
			return
		}
		pod, need := &is.Spec.Pod, policy.PodRequests(&is.Spec.Pod)
		if before != "" && policy.FindShortages(need, nil, policy.PodRequests(&was.Spec.Pod)) == nil {
			if is.Labels[names.OffloadingOrigin] != was.Labels[names.OffloadingOrigin] || pod.HostNetwork != was.Spec.Pod.HostNetwork || pod.NodeName != was.Spec.Pod.NodeName {
				t.Fatalf("became %+v", is)
			}
			return
		}
		privileged := slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
			return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		})
		switch {
		case is.Labels[names.OffloadingOrigin] != "blue", want != "slice", len(pod.Containers) == 0, pod.NodeName != "", pod.HostNetwork,
			pod.HostPID, pod.HostIPC, privileged, strings.HasPrefix(pod.PriorityClassName, "system-"),
			slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
			t.Fatalf("let in: %+v", is)
		case policy.FindShortages(need, nil, budget) != nil:
			t.Fatalf("needs %v of %v", need, budget)
		}
	})
}
