// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

const (
	mergePatch = types.MergePatchType
	background = metav1.DeletePropagationBackground
)

// groups are the API groups of Liqo, in all versions.
var groups = []string{"core.liqo.io", "authentication.liqo.io", "offloading.liqo.io", "networking.liqo.io", "ipam.liqo.io"}

// PurgeCRDs deletes the CRDs of Liqo with all objects, and waits. It also removes the finalizers, because the controllers are gone.
func PurgeCRDs(ctx context.Context, c client.WithWatch) error {
	p := kube.WrapCalls(c, kube.RetryTransient)
	crds, err := ourCRDs(ctx, p)
	if err != nil {
		return err
	}
	for i := range crds {
		if err := releaseObjects(ctx, p, &crds[i]); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(p.Delete(ctx, &crds[i])); err != nil {
			return fmt.Errorf("deleting CRD %s: %w", crds[i].GetName(), err)
		}
	}
	for i := range crds {
		// An object created after the finalizers of its siblings were removed would block the CRD.
		if err := releaseObjects(ctx, p, &crds[i]); err != nil {
			return err
		}
		if err := kube.WaitForNone(ctx, c, listOf(crdKind), client.MatchingFields{"metadata.name": crds[i].GetName()}); err != nil {
			return err
		}
	}
	return nil
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func listOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

func ourCRDs(ctx context.Context, c client.Reader) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(crdKind.GroupVersion().WithKind("CustomResourceDefinitionList"))
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(crd unstructured.Unstructured) bool {
		_, group, _ := strings.Cut(crd.GetName(), ".")
		return !slices.Contains(groups, group)
	}), nil
}

// releaseObjects removes the finalizers from all objects of a CRD.
func releaseObjects(ctx context.Context, c client.Client, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		list := listOf(schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		return forEach(ctx, c, list, func(obj client.Object) error { return removeFinalizers(ctx, c, obj) })
	}
	return nil
}

func removeFinalizers(ctx context.Context, c client.Client, obj client.Object) error {
	if len(obj.GetFinalizers()) == 0 {
		return nil
	}
	return c.Patch(ctx, obj, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
}

// PurgeNamespaces deletes the namespaces of peerings, of virtual volumes and of Liqo itself, and the controllers' objects outside of
// them, and waits.
func PurgeNamespaces(ctx context.Context, c client.WithWatch, liqo string) error {
	p := kube.WrapCalls(c, kube.RetryTransient)
	if err := purgeClusterWide(ctx, p); err != nil {
		return err
	}
	for _, s := range namespacesOf(liqo) {
		if err := forEach(ctx, p, s.list, func(ns client.Object) error {
			if err := releaseNamespace(ctx, p, ns.GetName()); err != nil {
				return err
			}
			return p.Delete(ctx, ns)
		}, s.opts); err != nil {
			return err
		}
	}
	for _, s := range namespacesOf(liqo) {
		if err := kube.WaitForNone(ctx, c, s.list, s.opts); err != nil {
			return err
		}
	}
	return nil
}

var roleBindingKind = rbacv1.SchemeGroupVersion.WithKind("RoleBinding")

// holders are the finalizers of Liqo on objects of foreign owners.
var holders = map[schema.GroupVersionKind][]string{
	corev1.SchemeGroupVersion.WithKind("Secret"): {names.ReplicatorSecretFinalizer, names.VirtualNodeFinalizer},
	roleBindingKind: {names.TenantRightsFinalizer},
}

// releaseNamespace removes the finalizers of Liqo from objects of foreign owners in a namespace.
func releaseNamespace(ctx context.Context, c client.Client, namespace string) error {
	for kind, finalizers := range holders {
		if err := forEach(ctx, c, listOf(kind), func(obj client.Object) error {
			return letGo(ctx, c, obj, finalizers...)
		}, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	return nil
}

// letGo removes some finalizers from an object and keeps the rest.
func letGo(ctx context.Context, c client.Client, obj client.Object, finalizers ...string) error {
	before, held := obj.DeepCopyObject().(client.Object), false
	for _, f := range finalizers {
		held = controllerutil.RemoveFinalizer(obj, f) || held
	}
	if !held {
		return nil
	}
	return c.Patch(ctx, obj, client.MergeFrom(before))
}

// selection is a list of objects of a kind with list options.
type selection struct {
	list client.ObjectList
	opts client.ListOption
}

func namespacesOf(liqo string) []selection {
	return []selection{
		{&corev1.NamespaceList{}, client.MatchingLabels{names.TenantNamespace: "true"}},
		{&corev1.NamespaceList{}, client.HasLabels{names.StorageProvisioner}},
		{&corev1.NamespaceList{}, client.MatchingFields{"metadata.name": liqo}},
	}
}

func clusterWide() []selection {
	return []selection{
		{&corev1.NodeList{}, client.MatchingLabels{names.NodeType: names.NodeTypeVirtualNode}},
		{&certv1.CertificateSigningRequestList{}, client.HasLabels{names.RemoteTenantCSR}},
		{&rbacv1.ClusterRoleBindingList{}, client.MatchingLabels{names.Managed: "true"}},
		{&rbacv1.ClusterRoleBindingList{}, client.HasLabels{names.RemoteClusterID}},
	}
}

// Purged returns the objects deleted by PurgeCRDs and PurgeNamespaces.
func Purged(ctx context.Context, c client.Client, liqo string) (all []client.Object, err error) {
	crds, err := ourCRDs(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range crds {
		all = append(all, &crds[i])
	}
	for _, s := range slices.Concat(clusterWide(), namespacesOf(liqo)) {
		if err := forEach(ctx, c, s.list, func(obj client.Object) error {
			if !slices.ContainsFunc(all, func(o client.Object) bool { return o.GetUID() == obj.GetUID() }) {
				all = append(all, obj)
			}
			return nil
		}, s.opts); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func purgeClusterWide(ctx context.Context, c client.Client) error {
	for _, what := range clusterWide() {
		if err := deleteAll(ctx, c, what.list, what.opts); err != nil {
			return err
		}
	}
	forget := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, names.SchedulingEnabled)
	return forEach(ctx, c, &corev1.NamespaceList{}, func(ns client.Object) error {
		return c.Patch(ctx, ns, client.RawPatch(mergePatch, forget))
	}, client.HasLabels{names.SchedulingEnabled})
}

// isAbsent reports whether an error means a missing object or an unknown kind.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) }

// forEach calls do for all objects of the list's kind. Objects and kinds that vanish meanwhile are skipped.
func forEach(ctx context.Context, c client.Client, list client.ObjectList, do func(client.Object) error, opts ...client.ListOption) error {
	if err := c.List(ctx, list, opts...); isAbsent(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("listing %s: %w", kube.ListKind(list), err)
	}
	return apimeta.EachListItem(list, func(o runtime.Object) error {
		obj := o.(client.Object)
		if err := do(obj); !isAbsent(err) && err != nil {
			return fmt.Errorf("removing %s %s: %w", kube.ListKind(list), obj.GetName(), err)
		}
		return nil
	})
}
