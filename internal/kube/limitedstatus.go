// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// limitedStatus is the limitedClient of the status subresource.
type limitedStatus struct {
	client.SubResourceClient
	of *limitedClient
}

const statusPart = "status/"

func (s *limitedStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	var w *pendingWrite
	if status, err := statusOf(obj); err == nil && len(o.DryRun) == 0 {
		w = s.of.newChangeOf(obj, howUpdate, statusPart+o.FieldManager, status)
	}
	return s.of.sendLimited(ctx, w, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) }, identityOf(obj))
}

func (s *limitedStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	w, patch, err := s.of.newPatchOf(obj, patch, statusPart, &o.PatchOptions)
	if err != nil {
		return err
	}
	return s.of.sendLimited(ctx, w, func() error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) }, identityOf(obj))
}

func (s *limitedStatus) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	o := (&client.SubResourceApplyOptions{}).ApplyOpts(opts)
	read := func() (*metav1.PartialObjectMetadata, []byte) {
		meta := &metav1.PartialObjectMetadata{}
		encoded, err := json.Marshal(obj)
		if err != nil || json.Unmarshal(encoded, meta) != nil || meta.Name == "" {
			return nil, nil
		}
		return meta, encoded
	}
	var w *pendingWrite
	if meta, encoded := read(); meta != nil && len(o.DryRun) == 0 {
		w = newWrite(meta.GroupVersionKind(), client.ObjectKeyFromObject(meta), howApply, statusPart+o.FieldManager, encoded)
	}
	return s.of.sendLimited(ctx, w, func() error { return s.SubResourceClient.Apply(ctx, obj, opts...) }, func() (string, types.UID) {
		if meta, _ := read(); meta != nil {
			return meta.ResourceVersion, meta.UID
		}
		return "", ""
	})
}
