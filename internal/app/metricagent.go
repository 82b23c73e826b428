// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/metricagent"
	"liqo.io/liqo/internal/names"
)

type metricAgentOptions struct {
	liqoNamespace                 string
	healthAddress, metricsAddress string
	port                          int
	skipKubeletVerify             bool
	readTimeout, writeTimeout     time.Duration
	accelerators                  metricagent.Accelerators
	profiling                     program.Profiling
}

// Which nodes run pods of a consumer, and the metrics of these nodes. A kubelet lets no other of its endpoints be used with nodes/metrics and
// nodes/stats.
// +kubebuilder:rbac:groups="",resources=namespaces;nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes/metrics;nodes/stats,verbs=get
//
// The certificate of the aggregated API, with the CA bundle, and how the API server authenticates as an aggregator.
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1beta1.metrics.liqo.io,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups="",namespace=liqo,resources=secrets,resourceNames=liqo-metric-agent-certs,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get;list;watch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
//
// Authentication of requests for the agent's own metrics.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// newMetricAgentCommand returns the program that serves the metrics of consumers' pods.
func newMetricAgentCommand() *cobra.Command {
	o := &metricAgentOptions{}
	cmd := &cobra.Command{
		Use: "metric-agent", Short: "Serve the metrics of the pods of consumers", Args: cobra.NoArgs,
		Annotations: map[string]string{program.RootsOnDemand: "true"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return o.runAgent(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "namespace that Liqo is installed in")
	fs.IntVar(&o.port, "port", names.MetricAgentPort, "where the aggregated API is served")
	fs.StringVar(&o.healthAddress, "health-probe-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
	fs.StringVar(&o.metricsAddress, "metrics-address", ":8082", "where /metrics is served, by TLS to those who may read it; 0 for nowhere")
	fs.BoolVar(&o.skipKubeletVerify, "kubelet-insecure-skip-verify", false, "trust any certificate of a kubelet")
	fs.DurationVar(&o.readTimeout, "read-timeout", 30*time.Second, "how long reading a request may take")
	fs.DurationVar(&o.writeTimeout, "write-timeout", 30*time.Second, "how long answering a request may take")
	fs.StringVar(&o.accelerators.PodSelector, "accelerators-pod-selector", "", "labels of the pods that export the metrics of accelerators; empty for none")
	fs.IntVar(&o.accelerators.Port, "accelerators-port", 9400, "port of these pods")
	fs.StringVar(&o.accelerators.Path, "accelerators-path", "/metrics", "path of these metrics")
	o.profiling.Flag(fs)
	return cmd
}

func (o *metricAgentOptions) runAgent(ctx context.Context) error {
	program.LeaveGarbage()
	cfg, err := program.LocalConfig(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	mgr, err := kube.NewManager(cfg, kube.ManagerOptions{
		Name: names.MetricAgent, HealthAddress: o.healthAddress, MetricsAddress: o.metricsAddress, ProfilingAddress: o.profiling.Address(),
		Objects: metricagent.CachedObjects(),
	})
	if err != nil {
		return err
	}
	err = metricagent.Setup(mgr, metricagent.Options{
		Config: cfg, LiqoNamespace: o.liqoNamespace, Port: o.port, SkipKubeletVerify: o.skipKubeletVerify,
		ReadTimeout: o.readTimeout, WriteTimeout: o.writeTimeout, Accelerators: o.accelerators, Log: ctrl.Log.WithName("metric-agent"),
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
