// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/replicator"
)

type crdReplicatorOptions struct {
	processOptions
	workers                   int
	pingInterval, pingTimeout time.Duration
	allowLoopbackPeers        bool
}

// Cluster-wide the replicator reads ForeignClusters and writes their status. All other permissions are granted in tenant namespaces,
// by a RoleBinding in each, marked "tenant" below: to replicate specs and statuses, and to keep its finalizers.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters/status,verbs=update;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=liqo,resources=leases,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",namespace=tenant,resources=secrets,verbs=get;list;patch;update;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,namespace=tenant,resources=renews;resourceslices,verbs=get;list;patch;update;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,namespace=tenant,resources=renews/status;resourceslices/status,verbs=patch;update
// +kubebuilder:rbac:groups=offloading.liqo.io,namespace=tenant,resources=namespacemaps,verbs=get;list;patch;update;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,namespace=tenant,resources=namespacemaps/status,verbs=patch;update
// +kubebuilder:rbac:groups=networking.liqo.io,namespace=tenant,resources=configurations;gatewayclients;gatewayservers,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,namespace=tenant,resources=configurations/status;gatewayclients/status,verbs=patch
// +kubebuilder:rbac:groups="";events.k8s.io,namespace=tenant,resources=events,verbs=create;patch

// crdReplicator returns the program that replicates objects to peers, the only holder of control-plane
// credentials.
func crdReplicator() *cobra.Command {
	o := &crdReplicatorOptions{}
	cmd := &cobra.Command{
		Use:   "crd-replicator",
		Short: "Copy objects to the peers they concern, and their status back",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.runReplicator(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *crdReplicatorOptions) addFlags(fs *pflag.FlagSet) {
	o.processOptions.addFlags(fs)
	fs.IntVar(&o.workers, "workers", 4, "objects of a kind that are copied to one peer at once")
	fs.DurationVar(&o.pingInterval, "foreign-cluster-ping-interval", 15*time.Second, "time between two looks at a peer's API server; 0 counts it as reachable")
	fs.BoolVar(&o.allowLoopbackPeers, "allow-loopback-peers", false, "connect to peers on the loopback addresses of this machine, as in tests")
	fs.DurationVar(&o.pingTimeout, "foreign-cluster-ping-timeout", 5*time.Second, "how long one look may take")
}

func (o *crdReplicatorOptions) runReplicator(ctx context.Context) error {
	program.LeaveGarbage()
	program.LimitMemory()
	if err := o.checkFlags(); err != nil {
		return err
	}
	cfg, err := program.LocalConfig(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	mgr, err := kube.NewManager(cfg, o.managerOptions(names.CRDReplicator))
	if err != nil {
		return err
	}
	err = setUp(mgr,
		withOptions(replicator.Setup, o.replicatorOptions()),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// replicatorOptions converts the flags to the package's options, where the zero value is a default.
func (o *crdReplicatorOptions) replicatorOptions() replicator.Options {
	interval := o.pingInterval
	if interval == 0 {
		interval = -1
	}
	return replicator.Options{
		ClusterID: o.clusterIdentity(), Version: program.Version, Workers: o.workers, HealthInterval: interval, HealthTimeout: o.pingTimeout,
		AllowLoopbackPeers: o.allowLoopbackPeers,
	}
}
