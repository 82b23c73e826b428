// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

type connectOptions struct {
	*networkOptions
	server         gatewayServer
	client         template
	address        string
	port           int32
	mtu            int
	keysNotToShare bool
}

// olderSpellings of flags are accepted for those of today.
var olderSpellings = map[string]string{
	"server-type": "gw-server-type", "server-template-name": "gw-server-template-name", "server-template-namespace": "gw-server-template-namespace",
	"server-service-type": "gw-server-service-type",
	"server-service-port": "gw-server-service-port", "server-port": "gw-server-service-port",
	"server-service-nodeport": "gw-server-service-nodeport", "node-port": "gw-server-service-nodeport",
	"server-service-loadbalancerip": "gw-server-service-loadbalancerip", "load-balancer-ip": "gw-server-service-loadbalancerip",
	"client-type": "gw-client-type", "client-template-name": "gw-client-template-name", "client-template-namespace": "gw-client-template-namespace",
	"client-address": "gw-client-address", "client-port": "gw-client-port",
}

func (c *cli) networkConnect(common *networkOptions) *cobra.Command {
	o := &connectOptions{networkOptions: common}
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect the networks of two clusters by a tunnel",
		Long: "Connect the networks of two clusters by a tunnel. The remote cluster has its server, the local one its client.\n" +
			"Clusters that do not know each other's networks are told first, as by `network init`.\n" +
			"Gateways between the two that are there already, beside the Configuration, are changed.\n" +
			"Flags are accepted without `gw-` too, and `--server-port`, `--node-port` and `--load-balancer-ip` for those of the server's Service.",
		Example: "  liqoctl network connect --remote-kubeconfig milan.kubeconfig --gw-server-service-type NodePort",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.server.dropUnused()
			return c.joining(cmd.Context(), common, func(ctx context.Context, local, remote *side) error {
				return c.runConnect(ctx, o, local, remote)
			})
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.keysNotToShare, "disable-sharing-keys", false, "Do not tell each gateway the key of the other, and do not wait for the tunnel")
	return cmd
}

// flags adds those that say what the tunnel is to be.
func (o *connectOptions) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.server.template.flags(fs, "gw-server-", serverTemplates, "wireguard-server")
	fs.Var(oneOf(&o.server.serviceType, "LoadBalancer", serviceTypes), "gw-server-service-type", "The type of the server's Service: "+strings.Join(serviceTypes, ", "))
	_ = cmd.RegisterFlagCompletionFunc("gw-server-service-type", cobra.FixedCompletions(serviceTypes, cobra.ShellCompDirectiveNoFileComp))
	fs.Int32Var(&o.server.port, "gw-server-service-port", names.TunnelPort, "The port of the server's Service")
	fs.Int32Var(&o.server.nodePort, "gw-server-service-nodeport", 0, "The node port of the server's Service; 0 lets the cluster choose")
	fs.StringVar(&o.server.loadBalancerIP, "gw-server-service-loadbalancerip", "", "The address of the server's load balancer; the cluster chooses if it is empty")
	o.client.flags(fs, "gw-client-", clientTemplates, "wireguard-client")
	fs.StringVar(&o.address, "gw-client-address", "", "The address that the client dials, where it is not the one that the server knows")
	fs.Int32Var(&o.port, "gw-client-port", 0, "The port that the client dials, where it is not the one that the server knows")
	fs.IntVar(&o.mtu, "mtu", names.DefaultMTU, "The MTU of the tunnel; 0 for what the outer networks have room for")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if today, ok := olderSpellings[name]; ok {
			name = today
		}
		return pflag.NormalizedName(name)
	})
}

func (c *cli) runConnect(ctx context.Context, o *connectOptions, local, remote *side) error {
	n, err := o.survey(ctx, local, remote)
	if err != nil {
		return err
	}
	if n.tunnel, err = o.plan(ctx, n.local(), n.remote()); err != nil {
		return err
	}
	if o.asked() {
		return c.previewConnect(ctx, o, n.both, n.tunnel)
	}
	if !n.local().knows(ctx) || !n.remote().knows(ctx) {
		if err := c.exchange(ctx, n.both, true); err != nil {
			return err
		}
	}
	if err := n.initialise(ctx, c, local); err != nil {
		return err
	}
	return n.tunnel.make(ctx, c, o)
}

// connection is two networks that are to be connected, and what there is of that.
type connection struct {
	both   []*told
	tunnel *tunnel
}

func (n *connection) local() *told { return n.both[0] }

func (n *connection) remote() *told { return n.both[1] }

// inOrder is what is told first to that cluster, and then to the other one.
func (n *connection) inOrder(first *side) []*told {
	if n.local().id == first.id {
		return n.both
	}
	return []*told{n.remote(), n.local()}
}

// survey reads what both clusters know of each other.
func (o *connectOptions) survey(ctx context.Context, local, remote *side) (*connection, error) {
	both, err := meet(ctx, local, remote)
	return &connection{both: both}, err
}

// initialise makes room for the gateways of clusters that know each other's networks.
func (n *connection) initialise(ctx context.Context, c *cli, first *side) error {
	local, remote := n.local(), n.remote()
	// Who was told by hand may have been told in another namespace.
	if err := errors.Join(remote.wrong(remote.ensureNamespace(ctx, c, n.tunnel.server)), local.wrong(local.ensureNamespace(ctx, c, n.tunnel.client))); err != nil {
		return err
	}
	for _, t := range n.inOrder(first) {
		t.via(c.Printer).Success("Network correctly initialized")
	}
	return nil
}

// opposite are the gateways of a tunnel whose server is in the local cluster: first those of the local cluster. One that is being
// deleted counts: what it made may have the names of what is to be made.
func opposite(ctx context.Context, local, remote *told) (servers, clients []client.Object, err error) {
	if servers, err = local.find(ctx, newGateway(server, client.ObjectKey{}).list(), remote.id); err != nil {
		return nil, nil, local.wrong(err)
	}
	if clients, err = remote.find(ctx, newGateway(dialer, client.ObjectKey{}).list(), local.id); err != nil {
		return nil, nil, remote.wrong(err)
	}
	return servers, clients, nil
}

// noOpposite fails where there is a tunnel whose server is in the local cluster, or a part of one.
func noOpposite(ctx context.Context, local, remote *told, hint string) error {
	servers, clients, err := opposite(ctx, local, remote)
	if err != nil {
		return err
	}
	for _, reverse := range []struct {
		in    *told
		kind  string
		found []client.Object
	}{{local, server, servers}, {remote, dialer, clients}} {
		if len(reverse.found) > 0 {
			return reverse.in.wrong(out.Fail("there is a gateway %s for the other direction already, %s", reverse.kind, client.ObjectKeyFromObject(reverse.found[0])).
				Hint("%s", hint))
		}
	}
	return nil
}

// plan says what will be made. It changes nothing, and fails where that would not work.
func (o *connectOptions) plan(ctx context.Context, local, remote *told) (*tunnel, error) {
	if err := noOpposite(ctx, local, remote, "Exchange the two clusters, or remove it by: liqoctl network disconnect"); err != nil {
		return nil, err
	}
	t := &tunnel{local: local.side, remote: remote.side}
	serverRef, err := o.usable(ctx, remote.side, o.server.template, func(spec map[string]any) error { return o.server.fits(spec) })
	if err != nil {
		return nil, remote.wrong(err)
	}
	clientRef, err := o.usable(ctx, local.side, o.client, func(map[string]any) error { return nil })
	if err != nil {
		return nil, local.wrong(err)
	}
	key, err := remote.gatewayKey(ctx, server, local.id)
	if err != nil {
		return nil, remote.wrong(err)
	}
	t.server = gatewayOf(o.server.object(key, local.id, serverRef, o.mtu))
	if key, err = local.gatewayKey(ctx, dialer, remote.id); err != nil {
		return nil, local.wrong(err)
	}
	t.client = gatewayOf(newGatewayClient(key, remote.id, clientRef, o.mtu, networkingv1beta1.EndpointStatus{}))
	if err := remote.demand(ctx, remote.gatewayRights(t.server.GetNamespace(), "gatewayservers")...); err != nil {
		return nil, err
	}
	return t, local.demand(ctx, local.gatewayRights(t.client.GetNamespace(), "gatewayclients")...)
}

// gatewayRights are what making a gateway takes.
func (s *side) gatewayRights(in, resource string) []rights {
	return append(s.missingRights(in),
		networking(in, resource, "get", "list", "watch", "create", "patch"),
		networking(in, "publickeies", "get", "list", "create", "patch", "delete"),
		networking(in, "connections", "get", "list", "watch"),
		networking(in, "wg"+resource, "get", "list", "watch"),
		rights{in, schema.GroupResource{Resource: "pods"}, []string{"list", "watch"}},
		rights{in, schema.GroupResource{Group: "apps", Resource: "deployments"}, []string{"get", "list", "watch"}})
}

// watchRights are what waiting for a gateway takes that is there.
func (g *gateway) watchRights() []rights {
	in, resource := g.GetNamespace(), "gatewayservers"
	if g.dialer != nil {
		resource = "gatewayclients"
	}
	return []rights{
		networking(in, resource, "get", "watch"), networking(in, "connections", "get", "watch"),
		{in, schema.GroupResource{Resource: "pods"}, []string{"list", "watch"}},
		{in, schema.GroupResource{Group: "apps", Resource: "deployments"}, []string{"get", "watch"}},
	}
}

// usable resolves a template and, unless told not to, looks whether it is there and fits.
func (o *connectOptions) usable(ctx context.Context, s *side, t template, fits func(spec map[string]any) error) (corev1.ObjectReference, error) {
	ref, err := t.reference(ctx, s.liqoNamespace, func(context.Context) (apimeta.RESTMapper, error) { return s.kube.RESTMapper(), nil })
	if err != nil || o.skipValidation {
		return ref, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	err = s.kube.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, obj)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
		return ref, out.Fail("there is no template %s %s/%s", ref.Kind, ref.Namespace, ref.Name)
	case err != nil:
		return ref, fmt.Errorf("reading the template %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec", "service", "spec")
	if err := fits(spec); err != nil {
		return ref, out.Fail("the template %s/%s cannot be used: %w", ref.Namespace, ref.Name, err)
	}
	return ref, nil
}

// fits tells whether a template passes on what was asked of the Service that it makes.
func (s *gatewayServer) fits(service map[string]any) error {
	if s.loadBalancerIP != "" && !has(service, "loadBalancerIP") {
		return errors.New("it has no loadBalancerIP")
	}
	ports, _, _ := unstructured.NestedSlice(service, "ports")
	if s.nodePort == 0 {
		return nil
	}
	if len(ports) > 0 {
		if port, ok := ports[0].(map[string]any); ok && has(port, "nodePort") {
			return nil
		}
	}
	return errors.New("its first port has no nodePort")
}

// has finds a field that is always there, or only if it has a value.
func has(fields map[string]any, name string) bool {
	_, always := fields[name]
	_, optional := fields["?"+name]
	return always || optional
}
