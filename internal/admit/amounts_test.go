// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// The CRD refuses such amounts, but only after this webhook was asked: to parse them would take it minutes.
func TestTheCreatorIsWrittenDownWithoutReadingThePod(t *testing.T) {
	handler := mutating(admission.NewDecoder(kube.Scheme), shadowPodCreator{})
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

func TestAVirtualNodeTakesItsDefaultsWithoutReadingItsAmounts(t *testing.T) {
	template := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "default"}, Spec: offv1beta1.VkOptionsTemplateSpec{CreateNode: true}}
	reader := oneObject{mute{}, template}
	handler := withoutAmounts(mutating(admission.NewDecoder(kube.Scheme), &virtualNodes{
		reading: reading{cached: reader, live: reader}, template: client.ObjectKeyFromObject(template),
	}))
	const slow = `{"metadata":{"name":"milan"},"spec":{"clusterID":"milan","resourceQuota":{"hard":{"cpu":"1e-999999999"}},` +
		`"template":{"spec":{"template":{"spec":{"overhead":{"cpu":"1E999999999"}}}}}}}`
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"offloading.liqo.io/v1beta1","kind":"VirtualNode",` + slow[1:])}
	response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "tenant", Operation: admissionv1.Update, Object: raw, OldObject: raw,
	}})
	if !response.Allowed {
		t.Fatalf("got %+v", response)
	}
	var changed []string
	for _, patch := range response.Patches {
		changed = append(changed, patch.Path)
	}
	slices.Sort(changed)
	if diff := cmp.Diff([]string{"/spec/createNode", "/spec/disableNetworkCheck", "/spec/offloadingPatch"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// oneObject is all that there is.
type oneObject struct {
	mute
	template *offv1beta1.VkOptionsTemplate
}

func (o oneObject) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.template.DeepCopyInto(into.(*offv1beta1.VkOptionsTemplate))
	return nil
}
