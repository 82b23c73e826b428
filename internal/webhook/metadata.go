// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// consumerMetadata removes labels and annotations obeyed by programs of this cluster, from objects written by a consumer.
// An annotation lists the removed keys: the virtual kubelet must not set them again. consumerMetadata handles objects of
// any kind, and reads only their metadata.
type consumerMetadata struct {
	// dropped lists patterns of keys.
	dropped []string
}

// Handle returns a patch that removes the keys. Objects being deleted are not changed: removing a finalizer must always
// succeed.
func (m consumerMetadata) Handle(_ context.Context, req admission.Request) admission.Response {
	old, err := metadataOf(req.OldObject.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old metadata: %w", err))
	}
	obj, err := metadataOf(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the metadata: %w", err))
	}
	if !obj.DeletionTimestamp.IsZero() {
		return admission.Allowed("")
	}
	changes := m.changes(old, obj)
	if len(changes) == 0 {
		return admission.Allowed("")
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	out := admission.Allowed("")
	out.Patch, out.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return out
}

// metadataOf decodes the metadata of an object, empty for none.
func metadataOf(raw []byte) (*metav1.ObjectMeta, error) {
	var obj struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if len(raw) == 0 {
		return &obj.Metadata, nil
	}
	err := json.Unmarshal(raw, &obj)
	return &obj.Metadata, err
}

// change is an operation of a JSON patch.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// changes returns the patch that removes the forbidden metadata. Metadata of the old object stays, since an
// administrator of this cluster may have set it.
func (m consumerMetadata) changes(old, of *metav1.ObjectMeta) []change {
	var out []change
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(of.Labels)) {
		if isNew(old.Labels, key, of.Labels[key]) && !policy.KeepsLabel(key, of.Labels[key], m.dropped) {
			out, keys = append(out, removal("labels", key)), append(keys, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(of.Annotations)) {
		if isNew(old.Annotations, key, of.Annotations[key]) && !policy.KeepsAnnotation(key, m.dropped) {
			out, keys = append(out, removal("annotations", key)), append(keys, key)
		}
	}
	slices.Sort(keys)
	note, noted := of.Annotations[names.DroppedMetadata]
	switch want := strings.Join(slices.Compact(keys), ","); {
	case want == "" && noted:
		out = append(out, removal("annotations", names.DroppedMetadata))
	case want == "" || want == note:
	case of.Annotations == nil:
		out = append(out, change{"add", "/metadata/annotations", map[string]string{names.DroppedMetadata: want}})
	default:
		out = append(out, change{"add", pointer("annotations", names.DroppedMetadata), want})
	}
	return out
}

func isNew(old map[string]string, key, value string) bool {
	before, had := old[key]
	return !had || before != value
}

func removal(of, key string) change { return change{"remove", pointer(of, key), nil} }

// pointer returns the JSON pointer to a label or annotation.
func pointer(of, key string) string {
	return "/metadata/" + of + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
