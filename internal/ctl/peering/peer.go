// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package peering holds the commands about peers: peer, unpeer, authenticate, offload, and their objects.
package peering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

type peerOptions struct {
	local, remote      cluster.ClusterFlags
	timeout            time.Duration
	networkingDisabled bool
	location           string
	connect            network.ConnectOptions
	inBand             bool
	proxyURL           string
	createSlice        bool
	class              string
	createVirtualNode  bool
	cluster.Amounts
	cluster.DryRunOptions
	// resources are the parsed amounts.
	resources corev1.ResourceList
	// tunnelAsked reports that a flag about the tunnel was given.
	tunnelAsked bool
	// wayAsked reports that a flag about the path to the provider's API server was given.
	wayAsked bool
}

// Clusters that may have the server of the tunnel.
const (
	atConsumer = "Consumer"
	atProvider = "Provider"
)

// NewPeerCommand returns the command "peer".
func NewPeerCommand(c *cluster.Session) *cobra.Command {
	o := &peerOptions{connect: network.ConnectOptions{NetworkOptions: &network.NetworkOptions{Wait: true}}}
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Use the resources of another cluster: connect the networks, authenticate, and ask for resources",
		Long: "Make the remote cluster a provider of the local cluster: connect the networks, authenticate, and request resources, which are shown as a virtual\n" +
			"node. The command combines network connect, authenticate and create resourceslice.\n" +
			"A second run continues the first, or applies changed flags. For the other direction, run the command from the other cluster; both directions\n" +
			"share a tunnel. unpeer undoes it.",
		Example: "  liqoctl peer --remote-kubeconfig milan.kubeconfig\n" +
			"  liqoctl peer --remote-kubeconfig milan.kubeconfig --gw-server-service-type NodePort --cpu 4 --memory 8Gi --pods 30\n" +
			"  liqoctl peer --remote-kubeconfig milan.kubeconfig --create-resource-slice=false",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.tunnelAsked, o.wayAsked = asksForTunnel(cmd.Flags()), asksForWay(cmd.Flags())
			if err := o.checkFlags(); err != nil {
				return err
			}
			return c.WithBothAndMessage(cmd.Context(), "", o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *cluster.Cluster) error {
				return c.RunOrPrint(ctx, &o.DryRunOptions, cluster.ToApply, func(ctx context.Context, c *cluster.Session) error {
					return (&peeringRun{Session: c, options: o, consumer: local, provider: remote}).runSteps(ctx)
				}, local, remote)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *peerOptions) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long all of it may take")
	fs.BoolVar(&o.connect.SkipValidation, "skip-validation", false, "Do not look at the templates of gateways first")
	fs.BoolVar(&o.networkingDisabled, "networking-disabled", false, "Do not connect the networks")
	locations := []string{atConsumer, atProvider}
	fs.Var(cluster.OneOf(&o.location, atProvider, locations), "gw-server-service-location", "Which cluster has the server of the tunnel: "+strings.Join(locations, ", "))
	o.connect.AddFlags(cmd)
	fs.BoolVar(&o.inBand, "in-band", false, "Reach the API server of the provider through the tunnel between the networks")
	fs.StringVar(&o.proxyURL, "proxy-url", "", "The proxy through which this cluster reaches the API server of the provider")
	fs.BoolVar(&o.createSlice, "create-resource-slice", true, "Ask for resources")
	fs.StringVar(&o.class, "resource-slice-class", string(authv1beta1.ResourceSliceClassDefault), "The class of the ResourceSlice")
	fs.BoolVar(&o.createVirtualNode, "create-virtual-node", true, "Show the granted resources as a virtual node")
	o.Amounts.AddFlags(fs, "", "", "")
	o.DryRunOptions.AddFlags(fs)
	twoInstallations(cmd, &o.local, &o.remote)
}

// asksForTunnel reports whether a flag about gateways was given.
func asksForTunnel(fs *pflag.FlagSet) bool {
	requested := false
	fs.Visit(func(f *pflag.Flag) { requested = requested || strings.HasPrefix(f.Name, "gw-") || f.Name == "mtu" })
	return requested
}

func (o *peerOptions) checkFlags() (err error) {
	o.connect.Server.DropUnused()
	o.resources, err = o.Amounts.ParseAll()
	return err
}

// peeringRun is a run of the command peer. The run makes the remote cluster a provider of the local cluster.
type peeringRun struct {
	*cluster.Session
	options            *peerOptions
	consumer, provider *cluster.Cluster

	network  *network.Connection // nil with --networking-disabled
	slice    *authv1beta1.ResourceSlice
	proxyURL string // the path of the consumer to the API server, "" if unknown before the networks are connected
}

// runSteps reads the state of both clusters first, and changes nothing if a precondition fails. Then it connects the networks,
// authenticates and requests resources, concurrently as far as possible: only in-band authentication needs the networks, and the
// ResourceSlice needs the authentication.
func (r *peeringRun) runSteps(ctx context.Context) error {
	if err := r.readState(ctx); err != nil {
		return withRetryHint(ctx, err)
	}
	for _, s := range []struct {
		*cluster.Cluster
		other string
	}{{r.consumer, r.provider.ID}, {r.provider, r.consumer.ID}} {
		if err := ensureTenantNamespace(ctx, s.Cluster, r.Session, s.other); err != nil {
			return withRetryHint(ctx, wrapEnsuring("authentication", s.WrapWithCluster(err)))
		}
	}
	p := ui.NewPlan(r.Printer)
	var networks []*ui.Step
	if r.network != nil {
		networks = append(networks, p.Add(r.exchangeNetworks))
		p.Add(r.buildTunnel, networks...)
	}
	if !r.throughTunnel() {
		networks = nil
	}
	authenticated := p.Add(r.authenticateConsumer, networks...)
	if r.options.createSlice {
		p.Add(r.requestResources, authenticated)
	}
	return withRetryHint(ctx, p.Run(ctx))
}

// throughTunnel reports whether the consumer reaches the provider's API server through the tunnel.
func (r *peeringRun) throughTunnel() bool { return r.options.inBand && r.options.proxyURL == "" }

// readState reads the state of both clusters concurrently, and checks all preconditions.
func (r *peeringRun) readState(ctx context.Context) error {
	p := ui.NewPlan(r.Printer)
	p.Add(func(ctx context.Context, _ *ui.Printer) error {
		return cluster.FitTogether(ctx, r.consumer, r.provider)
	})
	if !r.options.networkingDisabled {
		p.Add(func(ctx context.Context, _ *ui.Printer) error {
			return wrapEnsuring("networking", r.surveyNetworks(ctx))
		})
	}
	p.Add(func(ctx context.Context, _ *ui.Printer) error {
		return wrapEnsuring("authentication", r.surveyAuthentication(ctx))
	})
	if r.options.createSlice {
		key := client.ObjectKey{Namespace: r.consumer.Namespace, Name: r.provider.ID}
		r.slice = newResourceSlice(key, r.provider.ID, r.options.class, r.options.resources, r.options.createVirtualNode)
		p.Add(func(ctx context.Context, _ *ui.Printer) error {
			if err := r.consumer.RequirePermissions(ctx, r.consumer.PermissionsFor(key.Namespace, "create ResourceSlice")...); err != nil {
				return wrapEnsuring("offloading", err)
			}
			return wrapEnsuring("offloading", r.consumer.WrapWithCluster((&sliceRequest{kube: r.consumer.Kube, slice: r.slice}).readSlice(ctx)))
		})
	}
	return p.Run(ctx)
}

// surveyAuthentication reads the state of the authentication, and how the consumer reaches the API server.
func (r *peeringRun) surveyAuthentication(ctx context.Context) error {
	if r.throughTunnel() { // the address of the proxy is unknown before the networks are connected
		if _, err := apiServerProxy(ctx, r.provider); err != nil {
			return r.provider.WrapWithCluster(err)
		}
	}
	a := &Authentication{Session: r.Session, Consumer: r.consumer, Provider: r.provider, proxyURL: r.options.proxyURL, asBefore: !r.options.wayAsked}
	a.inBand = r.options.inBand && r.options.networkingDisabled // through an existing tunnel
	err := a.readState(ctx)
	if r.proxyURL = a.proxyURL; a.inBand && a.asBefore && !r.options.networkingDisabled { // the exchange of networks may move the proxy
		r.options.inBand, r.proxyURL = true, ""
	}
	return err
}

// surveyNetworks plans the tunnel. An existing tunnel of the opposite direction is reused.
func (r *peeringRun) surveyNetworks(ctx context.Context) error {
	client, server := r.consumer, r.provider
	if r.options.location == atConsumer {
		client, server = server, client
	}
	n, err := r.options.connect.ReadConnection(ctx, client, server)
	if err != nil {
		return err
	}
	if err := network.RequireConfigurationPermissions(ctx, n.Both); err != nil {
		return err
	}
	if n.Tunnel, err = r.existingTunnel(ctx, n); err != nil {
		return err
	}
	if n.Tunnel == nil {
		n.Tunnel, err = r.options.connect.PlanTunnel(ctx, n.LocalConfig(), n.RemoteConfig())
	}
	r.network = n
	return err
}

// existingTunnel returns the tunnel whose server is in the local cluster, nil for none.
func (r *peeringRun) existingTunnel(ctx context.Context, n *network.Connection) (*network.GatewayPair, error) {
	local, remote := n.LocalConfig(), n.RemoteConfig()
	servers, clients, err := network.OppositeGateways(ctx, local, remote)
	if err != nil || len(servers) != 1 || len(clients) != 1 || servers[0].GetDeletionTimestamp() != nil || clients[0].GetDeletionTimestamp() != nil {
		return nil, err
	}
	if r.options.tunnelAsked {
		r.consumer.Warn("The existing tunnel is used, whose server is in the other cluster: flags of gateways are ignored")
	}
	t := &network.GatewayPair{Local: local.Cluster, Remote: remote.Cluster, Server: network.GatewayOf(servers[0]), Client: network.GatewayOf(clients[0]), Opposite: true}
	if err := t.Local.RequirePermissions(ctx, t.Local.PermissionsFor(t.Server.GetNamespace(), "watch GatewayServer", "watch gateway")...); err != nil {
		return nil, err
	}
	return t, t.Remote.RequirePermissions(ctx, t.Remote.PermissionsFor(t.Client.GetNamespace(), "watch GatewayClient", "watch gateway")...)
}

func (r *peeringRun) exchangeNetworks(ctx context.Context, printer *ui.Printer) error {
	c := r.WithPrinter(printer)
	err := network.ExchangeConfigurations(ctx, c, r.network.InOrder(r.consumer), true)
	if err == nil {
		err = r.network.InitNetwork(ctx, c, r.consumer)
	}
	return wrapEnsuring("networking", err)
}

func (r *peeringRun) buildTunnel(ctx context.Context, printer *ui.Printer) error {
	c, t := r.WithPrinter(printer), r.network.Tunnel
	if !t.Opposite { // a peering of the opposite direction may run concurrently
		now, err := r.existingTunnel(ctx, r.network)
		if err == nil && now == nil {
			err = network.NoOpposite(ctx, r.network.LocalConfig(), r.network.RemoteConfig(), "The other direction is being created: run the command again afterwards, and both share a tunnel")
		}
		if err != nil {
			return wrapEnsuring("networking", err)
		}
		t = cmp.Or(now, t)
	}
	if t.Opposite {
		p := ui.NewPlan(c.Printer)
		t.WaitForTunnel(p)
		return wrapEnsuring("networking", p.Run(ctx))
	}
	return wrapEnsuring("networking", t.CreateTunnel(ctx, c, &r.options.connect))
}

func (r *peeringRun) authenticateConsumer(ctx context.Context, printer *ui.Printer) error {
	a := &Authentication{Session: r.WithPrinter(printer), Consumer: r.consumer.WithPrinter(printer), Provider: r.provider.WithPrinter(printer), inBand: r.options.inBand, proxyURL: r.proxyURL}
	a.connects = r.network != nil && r.options.IsRequested()
	return wrapEnsuring("authentication", a.runSteps(ctx))
}

func (r *peeringRun) requestResources(ctx context.Context, printer *ui.Printer) error {
	r.SetCommonMetadata(r.slice)
	s := r.consumer.WithPrinter(printer)
	asked := &sliceRequest{kube: s.Kube, slice: r.slice, tell: s}
	err := asked.runSteps(ctx)
	if err == nil {
		err = r.awaitNode(ctx, s, asked.slice)
	}
	return wrapEnsuring("offloading", s.WrapWithCluster(kube.IgnoreSkipped(err)))
}

// awaitNode waits for the virtual node, to let the user schedule pods at once. Only a spinner shows the wait, since the printed lines are the
// original's.
func (r *peeringRun) awaitNode(ctx context.Context, s *cluster.Cluster, slice *authv1beta1.ResourceSlice) error {
	if !r.options.createVirtualNode || conditionOf(slice.Status.Conditions, ofResources).Status != authv1beta1.ResourceSliceConditionAccepted || noVirtualNodes(ctx, s) {
		return nil
	}
	doing := "Waiting for node " + slice.Name + " to be ready"
	step := s.Spin(doing)
	defer step.Stop()
	within := kube.WithProgress(ctx, func(missing string) { step.Text(doing + ": " + missing) })
	err := cluster.AwaitNode(within, s.Kube, client.ObjectKeyFromObject(slice))
	if apierrors.IsForbidden(err) {
		return nil // the user may not read nodes: success
	}
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cluster.QuietPeriod)
	defer cancel()
	if reason := explainState(late, s, slice); reason != "" {
		return fmt.Errorf("the ResourceSlice %s: %s: %w", slice.Name, reason, err)
	}
	return err
}

// noVirtualNodes reports whether the controllers of a cluster are configured to create no VirtualNodes.
func noVirtualNodes(ctx context.Context, s *cluster.Cluster) bool {
	manager, err := cluster.ControllerManager(ctx, s.Kube, s.LiqoNamespace)
	if err != nil {
		return false
	}
	container, err := cluster.ManagerContainer(manager)
	return err == nil && cluster.FlagValue(slices.Concat(container.Command, container.Args), "offloading-enabled") == "false"
}

// wrapEnsuring adds the failed part of the peering to an error, and to a timeout the page of the documentation.
func wrapEnsuring(what string, err error) error {
	if err == nil {
		return nil
	}
	failure := ui.Fail("Unable to ensure %s: %w", what, err).In("global")
	if !errors.Is(err, context.DeadlineExceeded) {
		return failure
	}
	switch what {
	case "networking":
		failure.See("docs/troubleshooting.md#a-connection-is-not-connected")
	case "authentication":
		failure.See("docs/troubleshooting.md#a-slice-is-not-accepted")
	case "offloading":
		failure.See("docs/troubleshooting.md#the-node-is-not-there-or-not-ready")
	}
	return failure
}

// withRetryHint adds a hint to repeat the command to the error of a timeout.
func withRetryHint(ctx context.Context, err error) error {
	f, ok := err.(*ui.Failure)
	if err == nil || !ok || ctx.Err() == nil {
		return err
	}
	return f.Hint("Run the command again to continue, or undo it with: liqoctl unpeer")
}
