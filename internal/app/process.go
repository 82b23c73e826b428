// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// processOptions are the common flags of all processes of a cluster.
type processOptions struct {
	clusterID, liqoNamespace      string
	healthAddress, metricsAddress string
	leaseDuration, renewal, retry time.Duration
	leaderElection                bool
	profiling                     program.Profiling
}

func (p *processOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.clusterID, "cluster-id", "", "ID of this cluster")
	fs.StringVar(&p.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "namespace that Liqo is installed in")
	fs.StringVar(&p.healthAddress, "health-probe-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
	fs.StringVar(&p.metricsAddress, "metrics-address", ":8082", "where /metrics is served, by TLS to those who may read it; 0 for nowhere")
	p.profiling.Flag(fs)
	fs.BoolVar(&p.leaderElection, "enable-leader-election", true, "let only one replica act")
	fs.DurationVar(&p.leaseDuration, "leader-lease-duration", 15*time.Second, "how long a dead leader is waited for")
	fs.DurationVar(&p.renewal, "leader-renew-deadline", 10*time.Second, "how long a leader tries to stay one")
	fs.DurationVar(&p.retry, "leader-retry-period", 2*time.Second, "time between two tries")
}

func (p *processOptions) checkFlags() error {
	if p.clusterID == "" {
		return errors.New("--cluster-id is missing: it is the CLUSTER_ID of the ConfigMap " + names.ClusterIDConfigMap)
	}
	return nil
}

func (p *processOptions) clusterIdentity() liqov1beta1.ClusterID {
	return liqov1beta1.ClusterID(p.clusterID)
}

// managerOptions returns the manager's options for the process called name.
func (p *processOptions) managerOptions(name string) kube.ManagerOptions {
	return kube.ManagerOptions{
		Name:                    name,
		LeaderElection:          p.leaderElection,
		LeaderElectionNamespace: p.liqoNamespace,
		LeaseDuration:           p.leaseDuration,
		RenewDeadline:           p.renewal,
		RetryPeriod:             p.retry,
		HealthAddress:           p.healthAddress,
		MetricsAddress:          p.metricsAddress,
		ProfilingAddress:        p.profiling.Address(),
	}
}

// setUp calls the constructors of a process in order.
func setUp(mgr ctrl.Manager, list ...func(ctrl.Manager) error) error {
	for _, register := range list {
		if err := register(mgr); err != nil {
			return err
		}
	}
	return nil
}

// withOptions binds a constructor to its options.
func withOptions[O any](register func(ctrl.Manager, O) error, options O) func(ctrl.Manager) error {
	return func(mgr ctrl.Manager) error { return register(mgr, options) }
}

// registerIf returns a no-op unless wanted.
func registerIf(wanted bool, register func(ctrl.Manager) error) func(ctrl.Manager) error {
	if wanted {
		return register
	}
	return func(ctrl.Manager) error { return nil }
}
