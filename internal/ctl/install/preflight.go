// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
)

// GatherPreflight adds the facts for the first checks of an installation.
func GatherPreflight(ctx context.Context, c client.WithWatch, f *diagnose.Facts) {
	p := &f.Preflight
	missing, err := cluster.MissingPermissions(ctx, c, cluster.PermissionsFor(cluster.Namespaces{Liqo: f.Namespace}, "inspect cluster", "validate cluster", "read CRDs", "install"))
	if err != nil {
		f.Unreadable[diagnose.Rights] = cluster.DescribeError(err)
	}
	for _, right := range missing {
		p.MissingRights = append(p.MissingRights, right.String())
	}
	i := &Installer{Environment: Environment{Client: c}}
	if err := i.checkOriginal(ctx); err != nil {
		if _, found := errors.AsType[*ui.Failure](err); found {
			p.Other = err.Error()
		} else {
			f.Unreadable[diagnose.OtherLiqo] = cluster.DescribeError(err)
		}
	}
	if manager, err := cluster.ControllerManager(ctx, c, f.Namespace); err == nil {
		if container, err := cluster.ManagerContainer(manager); err == nil {
			p.Installed = cluster.ImageVersion(container.Image)
		}
	}
	if p.PodCIDRs, p.ServiceCIDR, err = kubeadmCIDRs(ctx, c); err != nil {
		p.RangeProblem = cluster.DescribeError(err)
	}
}
