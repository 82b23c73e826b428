// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ingressClass is the annotation of an Ingress's class from before the field existed.
const ingressClass = "kubernetes.io/ingress.class"

// Ingress returns the remote copy of an Ingress. Local classes mean nothing in the provider: class is one of the provider's,
// empty to leave the choice to the provider.
func (t Target) Ingress(local *networkingv1.Ingress, class string) *networkingv1.Ingress {
	from := local.Spec.DeepCopy()
	out := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: t.objectMeta(local.Name, local),
		Spec:       networkingv1.IngressSpec{DefaultBackend: from.DefaultBackend, TLS: from.TLS, Rules: from.Rules},
	}
	delete(out.Annotations, ingressClass)
	if class != "" {
		out.Spec.IngressClassName = &class
	}
	return out
}

// Object returns the remote copy of an object of an unknown kind: everything but its status and the metadata that the API
// server and controllers of this cluster maintain.
func (t Target) Object(local *unstructured.Unstructured) *unstructured.Unstructured {
	out := local.DeepCopy()
	for _, field := range []string{"metadata", "status"} {
		delete(out.Object, field)
	}
	out.SetName(local.GetName())
	out.SetNamespace(t.Namespace)
	out.SetLabels(t.Labels(local.GetLabels()))
	if annotations := t.Annotations(local.GetAnnotations()); len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	return out
}

// guarded are the groups whose objects are never copied on request: objects that run code past the
// provider's rules for pods, grant permissions, or are copied already, in their own way.
var guarded = []string{
	"", "apps", "batch", "extensions", "networking.k8s.io", "policy",
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"rbac.authorization.k8s.io",
}

// MayReflect returns why objects of a resource are not copied on request.
func MayReflect(r schema.GroupVersionResource) error {
	switch {
	case r.Resource == "" || r.Version == "":
		return fmt.Errorf("%q is not of the form resource.version.group", strings.Trim(r.Resource+"."+r.Version+"."+r.Group, "."))
	case strings.Contains(r.Resource+r.Version+r.Group, "*"):
		return fmt.Errorf("resource %s: every one must be named", r.GroupResource())
	case strings.Contains(r.Resource, "/"):
		return fmt.Errorf("resource %s is a part of another one", r.GroupResource())
	case slices.Contains(guarded, r.Group), r.Group == "liqo.io", strings.HasSuffix(r.Group, ".liqo.io"):
		return fmt.Errorf("resource %s is never copied on request", r.GroupResource())
	}
	return nil
}
