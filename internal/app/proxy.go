// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/proxy"
)

// proxyOptions are the flags of the proxy. Names are the original's.
type proxyOptions struct {
	port, connections             int
	target                        string
	hosts                         []string
	healthAddress, metricsAddress string
	profiling                     program.Profiling
}

// newProxyCommand returns the proxy between peers and the API server. The proxy has no permissions and no token.
func newProxyCommand() *cobra.Command {
	o := &proxyOptions{}
	cmd := &cobra.Command{
		Use: "proxy", Short: "Lead peers to the API server of this cluster", Args: cobra.NoArgs,
		Annotations: map[string]string{program.RootsOnDemand: "true"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return o.runProxy(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.IntVar(&o.port, "port", names.ProxyPort, "where clients are served")
	fs.StringVar(&o.target, "force-host", "", "where clients are led, whatever host they ask for; empty for the API server, as pods of this cluster know it")
	fs.StringSliceVar(&o.hosts, "allowed-hosts", nil, "the hosts that clients may ask for; any if empty")
	fs.IntVar(&o.connections, "max-connections", 1000, "maximum number of concurrent connections; half of them from one address")
	fs.StringVar(&o.healthAddress, "health-probe-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
	fs.StringVar(&o.metricsAddress, "metrics-address", "0", "where /metrics is served, to anybody; 0 for nowhere")
	o.profiling.Flag(fs)
	return cmd
}

func (o *proxyOptions) runProxy(ctx context.Context) error {
	if o.target == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return errors.New("--force-host must be set outside of a cluster: host and port of the API server")
		}
		o.target = net.JoinHostPort(host, port)
	}
	if o.connections <= 0 {
		return errors.New("--max-connections is above zero")
	}
	logger := ctrl.Log.WithName("proxy")
	p, err := proxy.New(proxy.Options{Target: o.target, Hosts: o.hosts, Connections: o.connections, Log: logger})
	if err != nil {
		return err
	}
	on, err := proxy.Listen(ctx, net.JoinHostPort("", strconv.Itoa(o.port)))
	if err != nil {
		return err
	}
	defer on.Close()
	logger.Info("leading peers to the API server", "address", on.Addr().String(), "target", o.target)
	all, serving := errgroup.WithContext(ctx)
	// Health and metrics are served until the proxy has ended.
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	all.Go(func() error {
		defer end()
		return p.Serve(serving, on)
	})
	for _, at := range []struct {
		address string
		handler http.Handler
	}{{o.healthAddress, healthHandler(p.Ready)}, {o.metricsAddress, routePath("/metrics", p.Metrics())}, {o.profiling.Address(), profileHandler()}} {
		if at.address != "" && at.address != "0" {
			all.Go(func() error { return serveBeside(beside, at.address, at.handler) })
		}
	}
	return all.Wait()
}

// serveBeside serves health and metrics of a process until ctx ends.
func serveBeside(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", address, err)
	}
	return nil
}

func routePath(path string, handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	return mux
}

// healthHandler reports ready while the function returns nil.
func healthHandler(ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
