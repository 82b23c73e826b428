// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// ServerVersion returns the version of the installation in the cluster.
func (c *Session) ServerVersion(ctx context.Context, namespace string) error {
	version, err := c.findVersion(ctx, namespace)
	if err != nil {
		fmt.Fprintln(c.Result(), "Server version: Unknown")
		c.Warn("Failed to retrieve Liqo server version: %s", DescribeError(err))
		c.Warn("Is Liqo installed in your cluster? Is the cluster reachable? Do you have the permissions to access the target cluster?")
		return ErrPrinted
	}
	fmt.Fprintf(c.Result(), "Server version: %s\n", version)
	if version != Version {
		c.Warn("The version of liqoctl does not match the Liqo server version. This might cause unexpected behaviors.")
	}
	return nil
}

func (c *Session) findVersion(ctx context.Context, namespace string) (string, error) {
	kube, err := c.NewClient(ctx)
	if err != nil {
		return "", err
	}
	manager, err := ControllerManager(ctx, kube, namespace)
	if err != nil {
		return "", err
	}
	container, err := ManagerContainer(manager)
	if err != nil {
		return "", err
	}
	return ImageVersion(container.Image), nil
}

// ControllerManager returns the Deployment with the installed version.
func ControllerManager(ctx context.Context, c client.Reader, namespace string) (*appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	err := c.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{names.AppName: "controller-manager", names.AppComponent: "controller-manager"})
	if err != nil {
		return nil, fmt.Errorf("looking for the controller-manager: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return nil, fmt.Errorf("namespace %q has no controller-manager of Liqo", namespace)
	case 1:
		return &list.Items[0], nil
	}
	return nil, fmt.Errorf("namespace %q has %d controller-managers of Liqo", namespace, len(list.Items))
}

// ManagerContainer returns the container of the controller-manager.
func ManagerContainer(d *appsv1.Deployment) (*corev1.Container, error) {
	containers := d.Spec.Template.Spec.Containers
	n := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "controller-manager" })
	if n < 0 {
		return nil, errors.New("the controller-manager's Deployment has no container of that name")
	}
	return &containers[n], nil
}

// ImageVersion returns the tag of an image reference or, without a tag, the digest. The port of a registry is neither.
func ImageVersion(reference string) string {
	name, digest, _ := strings.Cut(reference, "@")
	last := name[strings.LastIndex(name, "/")+1:]
	if _, tag, tagged := strings.Cut(last, ":"); tagged {
		return tag
	}
	if digest != "" {
		return digest
	}
	return "latest"
}

// FitTogether fails if the versions of two installations are incompatible. An unreadable version is not compared.
func FitTogether(ctx context.Context, local, remote *Cluster) error {
	own, other, behind := local.installedVersion(ctx), remote.installedVersion(ctx), remote
	switch peer.VersionGap(own, other) {
	case peer.NoGap:
		return nil
	case peer.PeerTooNew:
		behind = local
	}
	return ui.Fail("the local cluster has Liqo %s and the remote one %s, which do not work together", own, other).
		Hint("Upgrade the %s cluster by liqoctl install, one minor version after the other, until it is one behind at most", behind.Name).
		See("docs/troubleshooting.md#versions-do-not-work-together")
}

// installedVersion returns the version of Liqo in a cluster, from the chart's ConfigMap, which peering users may read; "" without one.
func (s *Cluster) installedVersion(ctx context.Context) string {
	var list corev1.ConfigMapList
	err := s.Kube.List(ctx, &list, client.InNamespace(s.LiqoNamespace), client.MatchingLabels{names.AppName: names.ClusterIDApp})
	if err != nil || len(list.Items) != 1 {
		return ""
	}
	return list.Items[0].Labels[names.AppVersion]
}
