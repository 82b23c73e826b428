// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policyDelay is the time until API servers apply a new policy: they read policies each second.
const policyDelay = 2 * time.Second

// startSteering creates the policies that change new pods. It runs before an upgrade removes the webhook for these changes: Helm creates policies
// after it changed webhooks, and pods in between would not be steered. Helm adopts the policies.
func (i *Installer) startSteering(ctx context.Context, p *installPlan) error {
	if p.previous.deployed == 0 {
		return nil
	}
	for _, rendered := range p.objects {
		if !strings.HasPrefix(rendered.GetKind(), "MutatingAdmissionPolicy") {
			continue
		}
		obj := rendered.DeepCopy()
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(obj.GroupVersionKind())
		if err := i.Client.Get(ctx, client.ObjectKeyFromObject(obj), current); err == nil {
			continue
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		setHelmOwner(obj, i.Namespace)
		if err := i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("helm")); err != nil {
			return fmt.Errorf("creating %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		p.steering = append(p.steering, obj)
	}
	if len(p.steering) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(policyDelay):
		return nil
	}
}

// stopSteering deletes the policies of startSteering that still exist after Helm's rollback.
func (i *Installer) stopSteering(ctx context.Context, p *installPlan) error {
	for _, obj := range p.steering {
		if err := i.Client.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// setHelmOwner sets the metadata by which Helm recognizes the objects of a release.
func setHelmOwner(obj client.Object, namespace string) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels["app.kubernetes.io/managed-by"] = "Helm"
	annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"] = Release, namespace
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}
