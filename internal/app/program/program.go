// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package program is the common part of the programs that run inside a cluster: start, logging and exit.
package program

import (
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
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
			runtime.MemProfileRate = 0 // recording is useless, since no profile is served
		}
		debug.SetGCPercent(cachesPercent)
		return logs.setUp()
	}
	return cmd
}

// RootsOnDemand is the annotation of a role that calls PublicRoots on demand: few roles need the roots, half a MiB of memory.
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

const (
	// cachesPercent is the GOGC value, in percent of the live heap: where caches dominate, half the garbage costs little more CPU.
	cachesPercent = 50
	// leastGarbage is the minimum garbage that LeaveGarbage allows, in bytes.
	leastGarbage = 16 << 20
)

// LeaveGarbage allows 16 MiB of garbage before a collection, and more for a larger live heap. With small caches the live heap is a few MiB,
// half of that is garbage after a few API responses, and most of the CPU of a burst would go into collections: BenchmarkGarbage measures a quarter
// of the CPU of GOGC=100. A memory limit alone (GOMEMLIMIT with GOGC=off) would fill the limit.
func LeaveGarbage() {
	runtime.SetFinalizer(&collection{}, func(*collection) { LeaveGarbage() }) // the live heap is known after each collection
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentOf(live[0].Value.Uint64()))
}

// collection becomes garbage in the next cycle. The type is too large for the tiny allocator, where an instance would share memory with live objects.
type collection [32]byte

// percentOf rounds the live heap up to 4 MiB: the runtime does not collect a heap smaller than 4 MiB times
// the percentage.
func percentOf(live uint64) int {
	return int(max(cachesPercent, leastGarbage*100/max(live, 4<<20)))
}

// LimitMemory sets the soft memory limit below the limit of the container: GOMEMLIMIT is the whole limit, and some memory is not managed
// by the collector.
func LimitMemory() {
	if most := debug.SetMemoryLimit(-1); most != math.MaxInt64 {
		debug.SetMemoryLimit(most / 10 * 9)
	}
}

// Alone reports whether this process is PID 1 of its container, the case for Keep.
func Alone() bool { return os.Getpid() == 1 }

// Settled is the minimum uptime of a process for an immediate restart. After a shorter uptime the kubelet restarts the container with backoff.
const Settled = 10 * time.Second

// Keep runs the command in a child process until the child exits or ctx ends. If a settled child is killed or panics, Keep restarts the child at
// once: the kubelet notices the end of a container only once per second, and backs off for 10 s the second time. Keep returns nil, or the
// *exec.ExitError of the last child. The child has logged the reason.
func Keep(ctx context.Context, settled time.Duration, command func() *exec.Cmd) error {
	for {
		began := time.Now()
		err := runChild(ctx, command())
		if ctx.Err() != nil || !hasCrashed(err) || time.Since(began) < settled {
			return err
		}
		ctrl.Log.Error(err, "the process ended, beginning another one")
	}
}

// self is the path of the running program.
const self = "/proc/self/exe"

// Again is the command line of this process.
func Again() *exec.Cmd {
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func runChild(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // a child that has exited already is no error
	defer stop()
	return cmd.Wait()
}

// panicked is the exit status of the Go runtime after a panic; errors of our programs exit with 1.
const panicked = 2

// hasCrashed reports whether a process was killed or panicked.
func hasCrashed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() || status.ExitStatus() == panicked)
}

// logOptions selects between klog's text format, parsed by scripts for the original, and JSON.
type logOptions struct {
	format string
	klog   *flag.FlagSet
}

func (o *logOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.format, "log-format", "text", "text (klog's format) or json")
	o.klog = flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(o.klog)
	fs.AddGoFlag(o.klog.Lookup("v"))
	fs.AddGoFlag(o.klog.Lookup("vmodule"))
}

func (o *logOptions) setUp() error {
	switch o.format {
	case "text":
	case "json":
		handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-4)})
		klog.SetLogger(logr.FromSlogHandler(handler))
	default:
		return fmt.Errorf("--log-format is text or json, not %q", o.format)
	}
	ctrl.SetLogger(klog.Background())
	return nil
}
