// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// originalImages is the prefix of the original's images, and originalDeployments are Deployments of the original only: enough to detect the original
// behind a registry mirror.
const originalImages = "ghcr.io/liqotech/"

var originalDeployments = map[string]bool{"liqo-ipam": true, "liqo-webhook": true, "liqo-telemetry": true}

// checkOriginal rejects a cluster where liqotech's Liqo runs: both would write the same objects.
func (i *Installer) checkOriginal(ctx context.Context) error {
	var deployments appsv1.DeploymentList
	part := client.MatchingLabels{names.AppPartOf: "liqo"}
	if err := i.Client.List(ctx, &deployments, part); err != nil {
		return fmt.Errorf("looking for other installations: %w", err)
	}
	for _, d := range deployments.Items {
		if isOriginal(d.Name, d.Spec.Template.Spec.Containers) {
			return otherProduct("Deployment", d.Namespace, d.Name)
		}
	}
	var daemons appsv1.DaemonSetList
	if err := i.Client.List(ctx, &daemons, part); err != nil {
		return fmt.Errorf("looking for other installations: %w", err)
	}
	for _, d := range daemons.Items {
		if isOriginal(d.Name, d.Spec.Template.Spec.Containers) {
			return otherProduct("DaemonSet", d.Namespace, d.Name)
		}
	}
	return nil
}

func isOriginal(name string, containers []corev1.Container) bool {
	if originalDeployments[name] {
		return true
	}
	for _, c := range containers {
		if strings.HasPrefix(c.Image, originalImages) {
			return true
		}
	}
	return false
}

func otherProduct(kind, namespace, name string) error {
	return ui.Fail("this cluster runs liqotech's Liqo, which cannot be upgraded to this one: %s %s/%s", kind, namespace, name).
		Hint("Unpeer and uninstall it with its own liqoctl (liqoctl uninstall --purge), then run this command again")
}

// warnLeftovers warns about orphaned CRDs of the original: they are harmless, and confusing in a list of CRDs.
func (i *Installer) warnLeftovers(ctx context.Context) {
	for _, name := range []string{"internalfabrics.networking.liqo.io", "genevetunnels.networking.liqo.io"} {
		crd := crdObject(name)
		if err := i.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err == nil {
			i.Printer.Warn("CRD %s is left over from another version and is not used any more: kubectl delete crd %s", name, name)
		} else if !apierrors.IsNotFound(err) {
			return
		}
	}
}
