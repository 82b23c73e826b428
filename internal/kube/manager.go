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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// ManagerOptions configure the manager of a process. The zero value works for a process without leader election.
type ManagerOptions struct {
	// Name of the process: the user agent and, with leader election, the name of the lease.
	Name string
	// LeaderElection makes only one replica of the process active.
	LeaderElection bool
	// LeaderElectionNamespace is the namespace of the lease; empty is the namespace of the process.
	LeaderElectionNamespace string
	// Identity of the process for leader election, usually the name of the pod: a restarted container still holds the
	// lease of its predecessor. Empty is a new identity for each process.
	Identity string
	// LeaseOwner is the owner, in the same namespace, of the lease of a process with an Identity; nil for none.
	LeaseOwner *metav1.OwnerReference
	// LeaseDuration, RenewDeadline and RetryPeriod of the lease; 0 is 15, 10 and 2 seconds.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HealthAddress serves /healthz and /readyz; empty is :8081, "0" is none.
	HealthAddress string
	// MetricsAddress serves /metrics by TLS to authorized clients; empty is :8082, "0" is none.
	MetricsAddress string
	// PlainMetrics serves the metrics by HTTP, without authentication.
	PlainMetrics bool
	// ProfilingAddress serves /debug/pprof/ without authentication; empty is none.
	ProfilingAddress string
	// Objects restricts the cache by kind. A kind without an informer is not cached and cannot be read.
	Objects map[client.Object]cache.ByObject
	// Namespaces restricts the cache to these namespaces; empty is all.
	Namespaces []string
	// Webhooks is the admission webhook server; nil is none.
	Webhooks webhook.Server
	// Log of the manager and its controllers; the zero value is the global logger.
	Log logr.Logger
	// RepeatNames allows controllers of the same name in several managers of one process, as in tests.
	RepeatNames bool
}

// The API server limits requests by priority and fairness; clientQPS and clientBurst only stop a runaway loop.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

// NewManager returns the manager of a process: caches without managed fields that fail for kinds without an informer,
// protobuf for the Kubernetes kinds, metrics for authorized clients only, a lease released on exit, and watches that
// resume as soon as the API server is back.
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

// newLeaseLock returns the leader election lock of a process with an Identity. The request timeout leaves time for
// another attempt before the renew deadline.
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

// cachesSynced returns a readiness check that passes once every cache has synced.
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

// AddCache adds a second cache to the manager, for kinds of which one controller needs a narrower view than the others.
// The cache starts with the manager's cache, on every replica: a cache added as a plain Runnable would wait for leader
// election, and readers on a standby replica would block.
func AddCache(mgr ctrl.Manager, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	made, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:                  mgr.GetHTTPClient(),
		Scheme:                      mgr.GetScheme(),
		Mapper:                      mgr.GetRESTMapper(),
		DefaultTransform:            cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true,
		ByObject:                    objects,
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	if m, ok := mgr.(*gracefulManager); ok {
		made = gracefulCache{made, m.end}
	}
	if err := mgr.Add(uncachedCache{made}); err != nil {
		return nil, fmt.Errorf("adding a cache: %w", err)
	}
	return made, nil
}

// uncachedCache marks a Runnable as a cache: the manager then starts and syncs the cache before any controller.
type uncachedCache struct{ cache.Cache }

func (e uncachedCache) GetCache() cache.Cache { return e.Cache }

// DirectClient returns a client that bypasses the cache, for kinds not cached by the manager and for reads that must not
// be stale.
func DirectClient(mgr ctrl.Manager) (client.Client, error) {
	c, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client without cache: %w", err)
	}
	return LimitWrites(c, c), nil
}

// Scheme contains every API type that Liqo reads or writes. Scheme is complete when the program starts and never
// changes.
var Scheme = newScheme()

// newScheme adds the API groups of Liqo to the scheme of client-go, which every program with a client links anyway: a
// second scheme with all Kubernetes types would take more memory than the groups of Liqo.
func newScheme() *runtime.Scheme {
	scheme := clientgoscheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		authv1beta1.AddToScheme,
		ipamv1alpha1.AddToScheme,
		liqov1beta1.AddToScheme,
		networkingv1beta1.AddToScheme,
		offv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Errorf("registering API types: %w", err))
		}
	}
	return scheme
}
