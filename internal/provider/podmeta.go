// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Pods are created and not applied: server-side apply rejects repeated ports and variables, although valid in a pod, and would
// take over a foreign pod. Therefore later changes of labels and annotations are merge patches, and the managed fields of our
// field manager list the keys to remove.

// podLabels returns the labels of the ShadowPod without the labels that the provider rejects from consumers.
func podLabels(sp *offv1beta1.ShadowPod, dropped ...string) map[string]string {
	out := map[string]string{}
	for key, value := range sp.Labels {
		if policy.KeepsLabel(key, value, dropped) {
			out[key] = value
		}
	}
	out[names.ManagedBy] = madeFrom
	return out
}

// podAnnotations returns the annotations of a Pod with all parts of its ShadowPod.
func podAnnotations(sp *offv1beta1.ShadowPod, dropped ...string) map[string]string {
	return annotationsOf(sp, shadowParts(sp).String(), dropped...)
}

// annotationsOf returns the annotations of the ShadowPod, the parts of its spec that reached the Pod, and a hash of all
// metadata from the ShadowPod: the hash changes on each removal of a key.
func annotationsOf(sp *offv1beta1.ShadowPod, parts string, dropped ...string) map[string]string {
	out := map[string]string{}
	for key, value := range sp.Annotations {
		if key != corev1.LastAppliedConfigAnnotation && !strings.HasPrefix(key, names.AppliedHash) && policy.KeepsAnnotation(key, dropped) {
			out[key] = value
		}
	}
	out[followedParts] = parts
	out[names.AppliedHash] = hashOf(podLabels(sp, dropped...), out)
	return out
}

func hashOf(values ...any) string {
	// Encoding sorts the keys.
	encoded, err := json.Marshal(values)
	if err != nil {
		panic(err) // parts of objects always encode
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// updateMetadata patches the labels and annotations of the pod if the ShadowPod has others. parts are the parts of the spec
// already applied to the pod.
func (s *shadowPods) updateMetadata(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod, parts string) error {
	wantLabels, wantAnnotations := podLabels(sp, s.dropped...), annotationsOf(sp, parts, s.dropped...)
	if includesAll(pod.Labels, wantLabels) && includesAll(pod.Annotations, wantAnnotations) || !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	// The cache has no managed fields.
	live := &corev1.Pod{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("reading the pod: %w", err))
	}
	ours := ownedKeys(live.ManagedFields)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID,
		"labels":      metadataPatch(wantLabels, ours.Labels),
		"annotations": metadataPatch(wantAnnotations, ours.Annotations),
	}})
	if err != nil {
		return fmt.Errorf("encoding the labels: %w", err)
	}
	err = s.client.Patch(ctx, live, client.RawPatch(types.MergePatchType, body), client.FieldOwner(names.ShadowPodFieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling the pod: %w", err)
	}
	return nil
}

func includesAll(current, want map[string]string) bool {
	for key, value := range want {
		if v, ok := current[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// metadataPatch returns the merge patch that sets want and removes the keys of owned missing in want.
func metadataPatch(want map[string]string, owned []string) map[string]any {
	out := map[string]any{}
	for _, key := range owned {
		out[key] = nil
	}
	for key, value := range want {
		out[key] = value
	}
	return out
}

type keys struct{ Labels, Annotations []string }

// ownedKeys returns the labels and annotations set by our field manager, independently of other managers.
func ownedKeys(fields []metav1.ManagedFieldsEntry) keys {
	var out keys
	for _, entry := range fields {
		if entry.Manager != names.ShadowPodFieldManager || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var set struct {
			Metadata struct {
				Labels      map[string]any `json:"f:labels"`
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		out.Labels = append(out.Labels, keysOf(set.Metadata.Labels)...)
		out.Annotations = append(out.Annotations, keysOf(set.Metadata.Annotations)...)
	}
	return out
}

func keysOf(set map[string]any) []string {
	var out []string
	for _, field := range slices.Sorted(maps.Keys(set)) {
		if key, ok := strings.CutPrefix(field, "f:"); ok {
			out = append(out, key)
		}
	}
	return out
}
