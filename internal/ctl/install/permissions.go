// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// parallel bounds the concurrent checks of objects.
const parallel = 16

// checkObjects is the preflight of the objects: the user has the permissions to create the objects, and the objects have no other owner.
func (i *Installer) checkObjects(ctx context.Context, c *chart.Chart, objects []*unstructured.Unstructured) error {
	crds, err := crdsOf(c)
	if err != nil {
		return err
	}
	wanted, err := i.permissionsFor(crds, objects)
	if err != nil {
		return err
	}
	if err := i.requirePermissions(ctx, wanted); err != nil {
		return err
	}
	return i.checkEach(ctx, objects)
}

// checkReading comes first: without these permissions the cluster cannot be inspected.
func (i *Installer) checkReading(ctx context.Context) error {
	actions := []string{"inspect cluster"}
	if !i.SkipValidation {
		actions = append(actions, "validate cluster")
	}
	if !i.OnlyOutputValues {
		actions = append(actions, "read CRDs")
	}
	return i.requirePermissions(ctx, cluster.PermissionsFor(cluster.Namespaces{Liqo: i.Namespace}, actions...))
}

// requirePermissions fails with all missing permissions.
func (i *Installer) requirePermissions(ctx context.Context, wanted []cluster.Permission) error {
	missing, err := cluster.MissingPermissions(ctx, i.Client, wanted)
	if err != nil || len(missing) == 0 {
		return err
	}
	var text []string
	for _, p := range missing {
		text = append(text, p.String())
	}
	slices.Sort(text)
	return notPermitted("you are not allowed to %s", strings.Join(text, ", "))
}

func notPermitted(format string, args ...any) error {
	return ui.Fail(format, args...).Hint("Run this command as an administrator of the cluster, such as one bound to the ClusterRole cluster-admin")
}

// permissionsFor returns the permissions for Helm and the installer. A missing namespace is checked, too: permissions can be granted in advance.
func (i *Installer) permissionsFor(crds, objects []*unstructured.Unstructured) ([]cluster.Permission, error) {
	all := cluster.PermissionsFor(cluster.Namespaces{Liqo: i.Namespace}, "install")
	for _, obj := range objects {
		resource, namespaced, err := i.resourceOf(obj, crds)
		if err != nil {
			return nil, err
		}
		namespace := ""
		if namespaced {
			namespace = i.namespaceOf(obj)
		}
		all = append(all, cluster.Permissions(namespace, resource.String(), "get create patch delete")...)
	}
	return all, nil
}

// resourceOf returns the resource of a kind, from the cluster or, before the installation, from the CRDs of the chart.
func (i *Installer) resourceOf(obj *unstructured.Unstructured, crds []*unstructured.Unstructured) (schema.GroupResource, bool, error) {
	gk := obj.GroupVersionKind().GroupKind()
	for _, crd := range crds {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if group == gk.Group && kind == gk.Kind {
			plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
			scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
			return schema.GroupResource{Group: group, Resource: plural}, scope == "Namespaced", nil
		}
	}
	mapping, err := i.Client.RESTMapper().RESTMapping(gk, obj.GroupVersionKind().Version)
	if apimeta.IsNoMatchError(err) {
		return schema.GroupResource{}, false, ui.Fail("the cluster does not know %s %s, which the chart needs with these values", obj.GetAPIVersion(), obj.GetKind())
	}
	if err != nil {
		return schema.GroupResource{}, false, fmt.Errorf("looking for the resource of %s: %w", gk, err)
	}
	return mapping.Resource.GroupResource(), mapping.Scope.Name() == apimeta.RESTScopeNameNamespace, nil
}

func (i *Installer) namespaceOf(obj client.Object) string {
	if ns := obj.GetNamespace(); ns != "" {
		return ns
	}
	return i.Namespace
}

func (i *Installer) checkEach(ctx context.Context, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, obj := range objects {
		group.Go(func() error {
			if err := i.checkOwner(ctx, obj); err != nil {
				return err
			}
			return i.checkGrant(ctx, obj)
		})
	}
	return group.Wait()
}

// checkOwner rejects an object with another owner, as Helm would, and before the first change.
func (i *Installer) checkOwner(ctx context.Context, want *unstructured.Unstructured) error {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(want.GroupVersionKind())
	key := client.ObjectKey{Name: want.GetName()}
	// The key of a cluster-scoped object may have a namespace. The namespace is ignored.
	key.Namespace = i.namespaceOf(want)
	if err := i.Client.Get(ctx, key, current); apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("looking at %s %s: %w", want.GetKind(), want.GetName(), err)
	}
	if _, hook := want.GetAnnotations()["helm.sh/hook"]; hook {
		return nil
	}
	name, namespace := current.Annotations["meta.helm.sh/release-name"], current.Annotations["meta.helm.sh/release-namespace"]
	switch {
	case name == Release && namespace == i.Namespace:
		return nil
	case name != "":
		return ui.Fail("%s %q exists already and belongs to Helm release %q in namespace %q", want.GetKind(), want.GetName(), name, namespace).
			Hint("Another installation conflicts: uninstall it, or upgrade it with -n %s", namespace)
	}
	return ui.Fail("%s %q exists already and does not belong to this installation", want.GetKind(), want.GetName()).
		Hint("If nothing needs it any more, delete it: kubectl delete %s %s", strings.ToLower(want.GetKind()), want.GetName())
}

// checkGrant asks the API server whether the user may grant the permissions of a ClusterRole.
func (i *Installer) checkGrant(ctx context.Context, want *unstructured.Unstructured) error {
	if want.GetKind() != "ClusterRole" {
		return nil
	}
	err := i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want.DeepCopy()), client.FieldOwner(names.CLIFieldManager), client.ForceOwnership, client.DryRunAll)
	if apierrors.IsForbidden(err) {
		return notPermitted("you are not allowed to grant what ClusterRole %q holds: you do not have all of it yourself", want.GetName())
	}
	if err != nil {
		return fmt.Errorf("trying ClusterRole %s: %w", want.GetName(), err)
	}
	return nil
}
