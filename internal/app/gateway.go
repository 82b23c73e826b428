// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	agents "liqo.io/liqo/internal/agent"
	agent "liqo.io/liqo/internal/agent/gateway"
	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// gatewayOptions are the flags of a gateway. Names and defaults are the original's, where they have a meaning.
type gatewayOptions struct {
	agent.Options
	uid, mode, address            string
	endpointAddresses             []string
	endpointPorts, listenPorts    []int
	implementation                string
	ping                          bool
	healthAddress, metricsAddress string
	profiling                     program.Profiling
}

// gatewayMemory bounds the growth of WireGuard's buffers, in bytes: a busy gateway should collect garbage rather than grow.
const gatewayMemory = 192 << 20

// giveWay sets SCHED_BATCH (see sched(7)) for processes started by this goroutine: an arriving packet does not preempt the running thread before the
// end of its time slice. An idle CPU handles the packet at once. Without SCHED_BATCH each datagram would interrupt its sender, and be read, encrypted
// and sent alone, for several times the cost of a batch.
func giveWay() error {
	runtime.LockOSThread() // processes inherit the policy from threads
	attr, err := unix.SchedGetAttr(0, 0)
	if err == nil {
		attr.Policy = unix.SCHED_BATCH
		err = unix.SchedSetAttr(0, attr, 0)
	}
	if err != nil {
		return fmt.Errorf("giving way to other threads: %w", err)
	}
	return nil
}

// withParentDeath makes the runtime of a command check its threads each 10 ms. By default the monitor thread (sysmon) sleeps when idle, and the next
// system call wakes it: once per packet of a sparse flow, a source of latency. The setting also prints a line on stderr each 25 days, the longest
// possible interval; on a machine with a longer uptime the first line is printed at once.
func withParentDeath(cmd *exec.Cmd) *exec.Cmd {
	const name = "GODEBUG"
	value := os.Getenv(name)
	if strings.Contains(value, "schedtrace=") {
		return cmd
	}
	trace := "schedtrace=" + strconv.Itoa(math.MaxInt32) // in milliseconds
	if value != "" {
		trace = value + "," + trace
	}
	cmd.Env = append(cmd.Environ(), name+"="+trace)
	return cmd
}

// newGatewayCommand returns the program of a gateway, an end of the tunnel to a peer. The permissions of gateways are the ClusterRoles of the chart
// named after the gateway.
func newGatewayCommand() *cobra.Command {
	o := &gatewayOptions{}
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "One end of the tunnel to a peer",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if program.Alone() {
				if err := giveWay(); err != nil {
					ctrl.Log.Error(err, "many small datagrams will be slow")
				}
				return program.Keep(cmd.Context(), program.Settled, func() *exec.Cmd { return withParentDeath(program.Again()) })
			}
			return o.runGateway(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.AddCommand(&cobra.Command{
		Use:   "prepare",
		Short: "Have the pod of a gateway forward packets, if it does not yet",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return forwardPackets(sysctls) },
	})
	return cmd
}

func (o *gatewayOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Name, "name", "", "name of the gateway")
	fs.StringVar(&o.Namespace, "namespace", "", "namespace of the gateway")
	fs.StringVar(&o.uid, "gateway-uid", "", "UID of the GatewayServer or GatewayClient")
	fs.StringVar(&o.RemoteClusterID, "remote-cluster-id", "", "ID of the peer")
	fs.StringVar(&o.mode, "mode", "", "server or client")
	fs.StringVar(&o.LiqoNamespace, "liqo-namespace", names.LiqoNamespace, "namespace that Liqo is installed in")
	fs.StringVar(&o.Node, "node-name", "", "node that this runs on")
	fs.StringVar(&o.Pod, "pod-name", "", "name of this pod")
	fs.StringVar(&o.address, "pod-ip", "", "address of this pod")
	fs.IntVar(&o.MTU, "mtu", names.DefaultMTU, "upper bound of the tunnel's MTU, in bytes; 0 uses the room of the link of --pod-ip")
	fs.IntSliceVar(&o.listenPorts, "listen-ports", []int{names.TunnelPort}, "where a server listens; the first one is used")
	fs.StringSliceVar(&o.endpointAddresses, "endpoint-address", nil, "where a client finds its server: addresses or names, tried in turn")
	fs.IntSliceVar(&o.endpointPorts, "endpoint-ports", []int{names.TunnelPort}, "ports of the server, tried in turn")
	fs.StringVar(&o.KeysDir, "keys-dir", "/etc/wireguard/keys", "directory with the file "+names.PrivateKeyKey)
	fs.StringVar(&o.StateDir, "state-dir", os.TempDir(), "directory that outlives this process, for the last endpoint of a server's client")
	fs.StringVar(&o.implementation, "implementation", string(wg.Auto), "of WireGuard: kernel, userspace, or auto for the kernel's where available")
	fs.BoolVar(&o.ping, "ping-enabled", true, "watch the tunnel; without that it counts as connected")
	fs.Uint16Var(&o.PingPort, "ping-port", names.ConnectionCheckPort, "UDP port of the connection check")
	fs.DurationVar(&o.PingInterval, "ping-interval", time.Second, "time between two probes of the tunnel")
	fs.IntVar(&o.PingLossThreshold, "ping-loss-threshold", 4, "lost probes in a row after which the tunnel is down")
	fs.DurationVar(&o.StatusInterval, "ping-update-status-interval", 10*time.Second, "time between two updates of the latency")
	fs.Bool("mss-clamp", true, "")
	fs.Int("mss-clamp-value", 0, "")
	fs.BoolVar(&o.LeaderElection, "leader-election", false, "of the active one of several replicas")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8083", "where /healthz and /readyz are served; 0 for nowhere")
	fs.StringVar(&o.metricsAddress, "metrics-address", "0", "where /metrics is served, by TLS to those who may read it; 0 for nowhere")
	o.profiling.Flag(fs)
}

// setDefaults parses the flags given as text.
func (o *gatewayOptions) setDefaults() error {
	for flag, value := range map[string]string{"name": o.Name, "namespace": o.Namespace, "remote-cluster-id": o.RemoteClusterID, "gateway-uid": o.uid, "node-name": o.Node} {
		if value == "" {
			return fmt.Errorf("--%s is missing", flag)
		}
	}
	var err error
	if o.Address, err = netip.ParseAddr(o.address); err != nil {
		return fmt.Errorf("reading --pod-ip: %w", err)
	}
	if o.LeaderElection && o.Pod == "" {
		return errors.New("--pod-name is missing: replicas of a gateway are known by it")
	}
	if o.PingInterval <= 0 || o.PingLossThreshold <= 0 {
		return errors.New("--ping-interval and --ping-loss-threshold are above zero")
	}
	o.UID, o.Unwatched = types.UID(o.uid), !o.ping
	switch o.mode {
	case "server":
		o.Server = true
		if len(o.listenPorts) == 0 || !isPort(o.listenPorts[0]) {
			return fmt.Errorf("--listen-ports %v has no port", o.listenPorts)
		}
		o.ListenPort = uint16(o.listenPorts[0])
	case "client":
		if i := slices.IndexFunc(o.endpointPorts, func(port int) bool { return !isPort(port) }); i >= 0 {
			return fmt.Errorf("--endpoint-ports: invalid port %d", o.endpointPorts[i])
		}
		for _, address := range o.endpointAddresses {
			for _, port := range o.endpointPorts {
				o.Endpoints = append(o.Endpoints, net.JoinHostPort(address, strconv.Itoa(port)))
			}
		}
	default:
		return fmt.Errorf("--mode is server or client, not %q", o.mode)
	}
	return nil
}

func isPort(n int) bool { return n > 0 && n <= math.MaxUint16 }

func (o *gatewayOptions) runGateway(ctx context.Context) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	debug.SetMemoryLimit(gatewayMemory)
	cfg, err := program.LocalConfig(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	k, err := kernel.Open(kernel.Options{})
	if err != nil {
		return err
	}
	defer k.Close()
	if o.MTU == 0 {
		if o.MTU, err = wg.Room(o.Address); err != nil {
			return fmt.Errorf("finding the MTU of the tunnel: %w", err)
		}
	}
	o.NoIPv6 = !hasIPv6(sysctls)
	device, err := wg.Open(names.TunnelDevice, wg.Implementation(o.implementation), slog.New(logr.ToSlogHandler(ctrl.Log.WithName("wireguard"))))
	if err != nil {
		return err
	}
	defer device.Close()
	mgr, err := kube.NewManager(cfg, kube.ManagerOptions{
		Name: names.Gateway(o.Name), HealthAddress: o.healthAddress, MetricsAddress: o.metricsAddress, ProfilingAddress: o.profiling.Address(),
		Objects: o.cachedKinds(),
	})
	if err != nil {
		return err
	}
	if err := agents.ServeState(mgr, k); err != nil {
		return err
	}
	running, err := agent.Setup(ctx, mgr, k, device, o.Options)
	if err != nil {
		return err
	}
	calm := func(context.Context) error { // until the caches are filled all CPUs are welcome
		runtime.GOMAXPROCS(threadCount(os.Getenv("GOMAXPROCS"), runtime.GOMAXPROCS(0)))
		return nil
	}
	if err := mgr.Add(manager.RunnableFunc(calm)); err != nil {
		return err
	}
	return mgr.Start(running)
}

// threadCount returns GOMAXPROCS, where procs is its default: half of procs, unless the user sets GOMAXPROCS. A packet passes from goroutine to
// goroutine, and waking a thread for the next step takes longer than the step.
func threadCount(setting string, procs int) int {
	if n, err := strconv.Atoi(setting); err == nil && n > 0 {
		return procs // the Go runtime has applied the setting
	}
	return max(1, procs/2)
}

// cachedKinds restricts the cache of a gateway to the objects readable by its roles.
func (o *gatewayOptions) cachedKinds() map[client.Object]cache.ByObject {
	own := cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {}}}
	rules := cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {}, o.LiqoNamespace: {}}}
	election := cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", names.Gateway(o.Name))}}}
	return map[client.Object]cache.ByObject{
		&networkingv1beta1.PublicKey{}:             own,
		&networkingv1beta1.Connection{}:            own,
		&networkingv1beta1.RouteConfiguration{}:    rules,
		&networkingv1beta1.FirewallConfiguration{}: rules,
		&coordinationv1.Lease{}:                    gatewayLeases(),
		&discoveryv1.EndpointSlice{}:               election,
	}
}

// gatewayLeases restricts a cache to the Leases of gateways with several replicas, of all peers.
func gatewayLeases() cache.ByObject {
	return cache.ByObject{Label: labels.SelectorFromSet(labels.Set{names.NetworkingComponent: names.ComponentGateway})}
}

// sysctls is the directory of the network settings of this process.
const sysctls = "/proc/sys/net"

func hasIPv6(sysctls string) bool {
	_, err := os.Stat(sysctls + "/ipv6")
	return !errors.Is(err, os.ErrNotExist)
}

// forwardPackets writes only values that differ: the process may lack the permission to write.
func forwardPackets(sysctls string) error {
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		path := sysctls + "/" + name
		current, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // IPv6 is disabled
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if strings.TrimSpace(string(current)) == "1" {
			continue
		}
		if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("having packets forwarded: %w", err)
		}
	}
	return nil
}
