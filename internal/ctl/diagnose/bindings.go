// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"liqo.io/liqo/internal/names"
)

const pageBinding = "docs/troubleshooting.md#a-binding-of-liqos-rights-is-missing"

// ofLiqo stands for the namespace of Liqo in rightsOf.
const ofLiqo = "liqo"

// rightsOf are the namespaces in the chart's RoleBindings for the ServiceAccounts of workloads, beside a ClusterRole for each.
var rightsOf = map[string][]string{
	"controller-manager": {ofLiqo},
	"crd-replicator":     {ofLiqo},
	"fabric":             {ofLiqo, corev1.NamespaceDefault},
	"metric-agent":       {ofLiqo, "kube-system"},
}

// FindBindings returns ServiceAccounts of installed workloads without the bindings of the chart.
func (f *Facts) FindBindings() (all []Finding) {
	check := func(labels map[string]string, spec *corev1.PodSpec) {
		namespaces, known := rightsOf[labels[names.AppName]]
		if !known || labels[names.AppPartOf] != "liqo" {
			return
		}
		account := cmp.Or(spec.ServiceAccountName, "default")
		isBound := func(to rbacv1.Subject) bool {
			return to.Kind == rbacv1.ServiceAccountKind && to.Name == account && to.Namespace == f.Namespace
		}
		miss := func(kind, where string) {
			found := newFailure(fmt.Sprintf("ServiceAccount %s/%s", f.Namespace, account), fmt.Sprintf("no %s of the chart gives it rights %s", kind, where),
				"run liqoctl install, which creates it again", pageBinding)
			if !slices.Contains(all, found) {
				all = append(all, found)
			}
		}
		if !slices.ContainsFunc(f.ClusterBindings, func(b rbacv1.ClusterRoleBinding) bool { return slices.ContainsFunc(b.Subjects, isBound) }) {
			miss("ClusterRoleBinding", "in the cluster")
		}
		for _, namespace := range namespaces {
			if namespace == ofLiqo {
				namespace = f.Namespace
			}
			if !slices.ContainsFunc(f.Bindings, func(b rbacv1.RoleBinding) bool {
				return b.Namespace == namespace && slices.ContainsFunc(b.Subjects, isBound)
			}) {
				miss("RoleBinding", "in the namespace "+namespace)
			}
		}
	}
	for i := range f.Deployments {
		check(f.Deployments[i].Labels, &f.Deployments[i].Spec.Template.Spec)
	}
	for i := range f.DaemonSets {
		if f.DaemonSets[i].Namespace == f.Namespace {
			check(f.DaemonSets[i].Labels, &f.DaemonSets[i].Spec.Template.Spec)
		}
	}
	return all
}
