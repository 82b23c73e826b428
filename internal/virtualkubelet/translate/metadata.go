// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/internal/names"
)

// notReflected are the keys that only mean something in this cluster.
var notReflected = []string{
	names.ShadowPod, names.RemoteUnavailable, names.AppliedHash, names.DroppedMetadata, names.ImposedAffinity, names.APIServerRoute, names.RoleTolerations,
	names.ServiceAccountName, names.TokenPodName, names.TokenPodUID, names.TokenExpiration, names.TokenRenewal,
	corev1.LastAppliedConfigAnnotation,
}

// Labels returns the labels of the remote object: the local ones without the filtered, and the marks of this peering.
func (t Target) Labels(local map[string]string) map[string]string {
	var filter []string
	if t.Patch != nil {
		filter = t.Patch.LabelsNotReflected
	}
	out := withoutKeys(local, filter)
	maps.Copy(out, t.Marks())
	return out
}

// Annotations returns the annotations of the remote object: the local ones without the filtered.
func (t Target) Annotations(local map[string]string) map[string]string {
	var filter []string
	if t.Patch != nil {
		filter = t.Patch.AnnotationsNotReflected
	}
	return withoutKeys(local, filter)
}

// Marks returns the labels of all objects that this cluster reflects into the provider.
func (t Target) Marks() map[string]string {
	return map[string]string{
		names.OffloadingOrigin:      string(t.Origin),
		names.OffloadingDestination: string(t.Destination),
	}
}

// Owns reports whether a remote object was reflected by this cluster. Foreign objects are never touched.
func (t Target) Owns(remote metav1.Object) bool {
	labels := remote.GetLabels()
	return labels[names.OffloadingOrigin] == string(t.Origin) && labels[names.OffloadingDestination] == string(t.Destination)
}

// OwnsPod is Owns for pods and ShadowPods, owned by one of several virtual nodes of the same provider.
func (t Target) OwnsPod(remote metav1.Object) bool {
	return t.Owns(remote) && remote.GetLabels()[names.OffloadingNodeName] == t.Node
}

func withoutKeys(in map[string]string, filter []string) map[string]string {
	out := make(map[string]string, len(in)+3)
	for k, v := range in {
		if !slices.Contains(notReflected, k) && !slices.Contains(filter, k) {
			out[k] = v
		}
	}
	return out
}

// Meaningless returns, for each annotation of a pod with an invalid value, the valid values. The pod
// is reflected as if the annotation were absent.
func Meaningless(pod *corev1.Pod) []string {
	var out []string
	for _, a := range []struct {
		key    string
		values []string
	}{
		{names.AntiAffinityPreset, []string{presetPropagate, presetSoft, presetHard}},
		{names.APIServerSupport, []string{names.APIServerSupportRemote, names.APIServerSupportDisabled}},
		{names.DownwardAPINamespace, []string{names.DownwardAPINamespaceRemote, names.DownwardAPINamespaceLocal}},
	} {
		if value := pod.Annotations[a.key]; value != "" && !slices.Contains(a.values, value) {
			out = append(out, fmt.Sprintf("the annotation %s is %q, which means nothing: it can be %s", a.key, value, strings.Join(a.values, ", ")))
		}
	}
	if value := pod.Annotations[names.AntiAffinityLabels]; value != "" && len(listedLabels(pod, pod.Labels)) == 0 {
		out = append(out, fmt.Sprintf("the annotation %s is %q, which means nothing: it can be labels of the pod, with commas between them",
			names.AntiAffinityLabels, value))
	}
	return out
}

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

// Object returns the remote copy of an object of an unknown kind: everything except the status and the metadata maintained by the API
// server and controllers of this cluster.
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
