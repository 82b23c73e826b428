// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"liqo.io/liqo/internal/names"
)

// ManagerOptions say how a process runs its controllers. The zero value works for a process without leader election.
type ManagerOptions struct {
	// Name of the process: its user agent and, with leader election, its lease.
	Name string
	// LeaderElection lets only one replica of the process act.
	LeaderElection bool
	// LeaderElectionNamespace holds the lease; empty is the namespace the process runs in.
	LeaderElectionNamespace string
	// Identity of the process, as its pod has; a container that is started again is the holder of the lease that the one
	// before it had. Empty is a new one for each process.
	Identity string
	// LeaseOwner is the object of the same namespace that the lease of a process with an identity goes with; nil for none.
	LeaseOwner *metav1.OwnerReference
	// LeaseDuration, RenewDeadline and RetryPeriod of the lease; 0 is 15, 10 and 2 seconds.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HealthAddress serves /healthz and /readyz; empty is :8081, "0" is none.
	HealthAddress string
	// MetricsAddress serves /metrics by TLS to those who may get it; empty is :8082, "0" is none.
	MetricsAddress string
	// PlainMetrics serves them by HTTP to anybody.
	PlainMetrics bool
	// ProfilingAddress serves /debug/pprof/ to all who reach it; empty is none.
	ProfilingAddress string
	// Objects narrows what is cached, by kind. A kind that nobody watches is not cached at all and cannot be read.
	Objects map[client.Object]cache.ByObject
	// Namespaces narrows all that is cached to these namespaces; empty is all.
	Namespaces []string
	// Webhooks serves admission; nil is none.
	Webhooks webhook.Server
	// Log of the manager and its controllers; the zero value is the global one.
	Log logr.Logger
	// RepeatNames lets several managers of one process have controllers of the same name, as tests do.
	RepeatNames bool
}

// Requests of a process are limited by the API server's priority and fairness; these limits only stop a runaway loop.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

// NewManager makes the manager of a process: caches without managed fields that fail on kinds nobody watches, protobuf
// for the Kubernetes kinds, metrics for authorised clients only, a lease given up on exit, watches that go on as soon as an API server is back.
func NewManager(cfg *rest.Config, o ManagerOptions) (ctrl.Manager, error) {
	cfg = rest.CopyConfig(cfg)
	if o.Name != "" {
		rest.AddUserAgent(cfg, o.Name)
	}
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = clientQPS, clientBurst
	}
	wrapRetrying(cfg)
	options := managerOptions(o)
	end := make(stopping)
	options.NewCache = end.newCache
	if o.LeaderElection && o.Identity != "" {
		var err error
		if options.LeaderElectionResourceLockInterface, err = newLeaseLock(cfg, o); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache().(gracefulCache).Cache)); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return &gracefulManager{mgr, end}, nil
}

// newLeaseLock is the lock of a process with an identity of its own. A call must end in time for another try to renew.
func newLeaseLock(cfg *rest.Config, o ManagerOptions) (resourcelock.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = cmp.Or(o.RenewDeadline, defaultRenewDeadline) / 2
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client of the lease: %w", err)
	}
	return NewLease(clients.CoordinationV1(), o.LeaderElectionNamespace, o.Name, o.Identity, o.LeaseOwner), nil
}

const defaultRenewDeadline = 10 * time.Second

// cachesSynced is ready once every cache holds what the API server has.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches are not synced")
		}
		return nil
	}
}

func managerOptions(o ManagerOptions) ctrl.Options {
	out := ctrl.Options{
		Scheme:                        Scheme,
		Logger:                        o.Log,
		Cache:                         cacheOptions(o),
		NewClient:                     newLimitedClient,
		WebhookServer:                 o.Webhooks,
		HealthProbeBindAddress:        addressOr(o.HealthAddress, names.HealthPort),
		Metrics:                       metricsOptions(o),
		PprofBindAddress:              o.ProfilingAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              o.Name,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{
			EnableWarmup:       new(true),
			SkipNameValidation: new(o.RepeatNames),
		},
	}
	if o.LeaseDuration > 0 {
		out.LeaseDuration = new(o.LeaseDuration)
	}
	if o.RenewDeadline > 0 {
		out.RenewDeadline = new(o.RenewDeadline)
	}
	if o.RetryPeriod > 0 {
		out.RetryPeriod = new(o.RetryPeriod)
	}
	return out
}

func cacheOptions(o ManagerOptions) cache.Options {
	out := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		ByObject:                    o.Objects,
	}
	if len(o.Namespaces) > 0 {
		out.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range o.Namespaces {
			out.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return out
}

func metricsOptions(o ManagerOptions) metricsserver.Options {
	if o.PlainMetrics {
		return metricsserver.Options{BindAddress: addressOr(o.MetricsAddress, names.MetricsPort)}
	}
	return metricsserver.Options{
		BindAddress:    addressOr(o.MetricsAddress, names.MetricsPort),
		SecureServing:  true,
		FilterProvider: metricsFilter,
	}
}

func addressOr(address string, port int) string {
	if address != "" {
		return address
	}
	return fmt.Sprintf(":%d", port)
}
