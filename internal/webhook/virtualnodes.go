// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// withoutAmounts removes fields unused by the VirtualNode webhook: mutating webhooks run before the schema validation of the CRD, and
// only the validation rejects amounts that take minutes to parse. A patch between two encodings without these fields never changes them.
func withoutAmounts(h admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		for _, obj := range []*runtime.RawExtension{&req.Object, &req.OldObject} {
			var err error
			if obj.Raw, err = withoutFields(obj.Raw, "resourceQuota", "template"); err != nil {
				return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the VirtualNode: %w", err))
			}
		}
		return h.Handle(ctx, req)
	})
}

// withoutFields returns the object without these fields of its spec.
func withoutFields(raw []byte, fields ...string) ([]byte, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	var obj, spec map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	if len(obj["spec"]) == 0 {
		return raw, nil
	}
	if err := json.Unmarshal(obj["spec"], &spec); err != nil {
		return nil, err
	}
	for _, field := range fields {
		delete(spec, field)
	}
	var err error
	if obj["spec"], err = json.Marshal(spec); err != nil {
		return nil, err
	}
	return json.Marshal(obj)
}

// virtualNodeDefaulter denies VirtualNodes with the name of an existing Node. Defaults of the options are not copied
// into the VirtualNode, because a copy would not follow later changes of the options.
type virtualNodeDefaulter struct {
	cachedReader
	template types.NamespacedName
}

func (v *virtualNodeDefaulter) mutateObject(ctx context.Context, req *admission.Request, old, vn *offv1beta1.VirtualNode) error {
	if old != nil {
		if err := policy.CheckVirtualNodeChange(old, vn); err != nil {
			return newRefusal(err)
		}
		return nil
	}
	if err := v.checkNew(ctx, req, vn); err != nil {
		return err
	}
	key := v.templateOf(vn, req.Namespace)
	err := v.getObject(ctx, key, &offv1beta1.VkOptionsTemplate{})
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return newRefusal(fmt.Errorf("the VkOptionsTemplate %q does not exist", key))
	default:
		return fmt.Errorf("reading VkOptionsTemplate %q: %w", key, err)
	}
}

func (v *virtualNodeDefaulter) templateOf(vn *offv1beta1.VirtualNode, namespace string) types.NamespacedName {
	ref := vn.Spec.VkOptionsTemplateRef
	if ref == nil {
		return v.template
	}
	return types.NamespacedName{Namespace: valueOr(ref.Namespace, namespace), Name: ref.Name}
}

func (v *virtualNodeDefaulter) checkNew(ctx context.Context, req *admission.Request, vn *offv1beta1.VirtualNode) error {
	namespace := &corev1.Namespace{}
	if err := v.getObject(ctx, client.ObjectKey{Name: req.Namespace}, namespace); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if vn.Spec.ClusterID != "" {
		if err := policy.CheckVirtualNodePlace(vn, namespace); err != nil {
			return newRefusal(err)
		}
	}
	others := &offv1beta1.VirtualNodeList{}
	if err := v.cached.List(ctx, others); err != nil {
		return fmt.Errorf("listing the VirtualNodes: %w", err)
	}
	vn.Namespace = req.Namespace
	if err := policy.CheckVirtualNode(vn, others.Items); err != nil {
		return newRefusal(err)
	}
	// New VirtualNodes are rare enough for a read from the API server: the cache may still show a deleted Node.
	err := v.live.Get(ctx, client.ObjectKey{Name: vn.Name}, &corev1.Node{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for a Node of that name: %w", err)
	default:
		return newRefusal(fmt.Errorf("node %s already exists", vn.Name))
	}
}
