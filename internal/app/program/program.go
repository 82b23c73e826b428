// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package program is the common part of the programs that run inside a cluster: start, logging and exit.
package program

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/kube"
)

// Version is set by the linker.
var Version = "dev"

// Complete makes a command a program.
func Complete(cmd *cobra.Command) *cobra.Command {
	cmd.Version, cmd.SilenceUsage, cmd.SilenceErrors = Version, true, true
	logs := &logOptions{}
	logs.addFlags(cmd.PersistentFlags())
	cmd.PersistentPreRunE = func(role *cobra.Command, _ []string) error {
		if role.Annotations[RootsOnDemand] == "" {
			PublicRoots()
		}
		if shown := role.Flags().Lookup(profilingFlag); shown == nil || shown.Value.String() != "true" {
			runtime.MemProfileRate = 0 // no profile is served, so recording is useless
		}
		debug.SetGCPercent(cachesPercent)
		return logs.setUp()
	}
	return cmd
}

// RootsOnDemand is the annotation of a role that calls PublicRoots itself, on demand: few roles need the roots, which take
// half a MiB.
const RootsOnDemand = "roots-on-demand"

// PublicRoots has public certificate authorities trusted where the system names none: the image is scratch.
var PublicRoots = sync.OnceFunc(func() {
	roots := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			panic(fmt.Errorf("reading a root that is part of the program: %w", err))
		}
		if root.Constraint == nil {
			roots.AddCert(certificate)
			continue
		}
		roots.AddCertWithConstraint(certificate, root.Constraint)
	}
	x509.SetFallbackRoots(roots)
})

// Main runs a program until it returns or is signalled, and exits.
func Main(cmd *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := cmd.ExecuteContext(ctx)
	ended := ctx.Err() != nil
	stop()
	if errors.Is(err, kube.ErrLeadershipLost) && !ended {
		// The whole process restarts, but not the container.
		ctrl.Log.Error(err, "beginning again")
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	if err != nil {
		if ended := new(exec.ExitError); !errors.As(err, &ended) { // the child has logged the reason
			fmt.Fprintln(os.Stderr, "liqo:", err)
		}
		os.Exit(1)
	}
}

// Profiling is whether a process serves its profiles.
type Profiling bool

const profilingFlag = "enable-profiling"

// Flag adds the flag of Profiling.
func (p *Profiling) Flag(fs *pflag.FlagSet) {
	fs.BoolVar((*bool)(p), profilingFlag, false, "serve /debug/pprof/ on "+ProfilingAddress+", for kubectl port-forward")
}

// ProfilingAddress is loopback, because profiles reveal the memory of a process to other pods.
const ProfilingAddress = "127.0.0.1:6060"

// Address is where profiles are served, empty for nowhere.
func (p Profiling) Address() string {
	if p {
		return ProfilingAddress
	}
	return ""
}

// LocalConfig returns the configuration for the local cluster: of the pod, or from KUBECONFIG. It blocks until the API server responds, and
// serves /healthz at the given address meanwhile ("0" for none): if the process exited instead, the backoff of the kubelet would delay its
// restart by up to five minutes after the API server is back.
func LocalConfig(ctx context.Context, health string) (*rest.Config, error) {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding this cluster's API server: %w", err)
	}
	return cfg, awaitAnswer(ctx, cfg, health)
}
