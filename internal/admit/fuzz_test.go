// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"context"
	"errors"
	"regexp"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/internal/kube"
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
	in := reading{cached: mute{}, live: mute{}}
	handlers := map[string]admission.Handler{
		"creator":     mutating(decoder, shadowPodCreator{}),
		"shadow pods": validating(decoder, &shadowPods{reading: in, enforce: true}),
		"pods":        mutating(decoder, &pods{reading: in, runtimeClass: "liqo"}),
		"tenants":     mutating(decoder, tenantDefaults{}),
		"strategies":  validating(decoder, namespaceOffloadings{}),
		"nodes":       withoutAmounts(mutating(decoder, &virtualNodes{reading: in})),
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
