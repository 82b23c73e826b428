// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/internal/kube"
)

// The CRD refuses such amounts, but only after this webhook was asked: to parse them would take it minutes.
func TestShadowPodCreator(t *testing.T) {
	handler := mutatingHandler(admission.NewDecoder(kube.Scheme), shadowPodCreator{})
	response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
		UserInfo:  authenticationv1.UserInfo{Username: "gold-0123456789ab"},
		Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"offloading.liqo.io/v1beta1","kind":"ShadowPod","metadata":{"name":"web"},` +
			`"spec":{"pod":{"overhead":{"cpu":"1e-999999999"}}}}`)},
	}})
	if !response.Allowed || len(response.Patches) != 1 || !strings.HasPrefix(response.Patches[0].Path, "/metadata/labels") {
		t.Errorf("got %+v", response)
	}
}

func TestVirtualNodeAmounts(t *testing.T) {
	handler := withoutAmounts(mutatingHandler(admission.NewDecoder(kube.Scheme), &virtualNodeDefaulter{cachedReader: cachedReader{cached: mute{}, live: mute{}}}))
	const slow = `{"metadata":{"name":"milan"},"spec":{"clusterID":"milan","resourceQuota":{"hard":{"cpu":"1e-999999999"}},` +
		`"template":{"spec":{"template":{"spec":{"overhead":{"cpu":"1E999999999"}}}}}}}`
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"offloading.liqo.io/v1beta1","kind":"VirtualNode",` + slow[1:])}
	response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "tenant", Operation: admissionv1.Update, Object: raw, OldObject: raw,
	}})
	if !response.Allowed || len(response.Patches) > 0 {
		t.Errorf("got %+v", response)
	}
}
