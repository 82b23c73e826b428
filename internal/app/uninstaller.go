// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/uninstall"
)

// Objects to check, objects to delete because a controller retains them, and objects to free from the finalizer of a
// controller:
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=get;list;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=internalnodes,verbs=get;list;watch;delete;deletecollection
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch;delete;deletecollection
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips;networks,verbs=get;list;watch;delete;deletecollection
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews,verbs=list
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,resourceNames=liqo-binding-liqo-tenant-replication;liqo-binding-liqo-tenant-secrets,verbs=patch

// newUninstallerCommand returns the program for the removal of Liqo. The program refuses while Liqo is in use, and then removes the objects that
// controllers would otherwise recreate.
func newUninstallerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstaller",
		Short: "Refuse the removal of Liqo while it is in use, and clean up after it",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := program.LocalConfig(cmd.Context(), "0")
			if err != nil {
				return err
			}
			c, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.Scheme})
			if err != nil {
				return fmt.Errorf("making a client: %w", err)
			}
			return uninstall.CleanUp(cmd.Context(), c)
		},
	}
}
