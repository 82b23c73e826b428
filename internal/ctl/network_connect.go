// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/kube"
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
			"Flags are accepted without `gw-` too, and `--server-port`, `--node-port` and `--load-balancer-ip` for those of the server's Service.",
		Example: "  liqoctl network connect --remote-kubeconfig milan.kubeconfig --gw-server-service-type NodePort",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return c.between(cmd.Context(), common, func(ctx context.Context, local, remote *side) error {
				return c.runConnect(ctx, o, local, remote)
			})
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *connectOptions) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.server.template.flags(fs, "gw-server-", serverTemplates, "wireguard-server")
	fs.Var(oneOf(&o.server.serviceType, "LoadBalancer", serviceTypes), "gw-server-service-type", "The type of the server's Service: "+strings.Join(serviceTypes, ", "))
	_ = cmd.RegisterFlagCompletionFunc("gw-server-service-type", cobra.FixedCompletions(serviceTypes, cobra.ShellCompDirectiveNoFileComp))
	fs.Int32Var(&o.server.port, "gw-server-service-port", defaultPort, "The port of the server's Service")
	fs.Int32Var(&o.server.nodePort, "gw-server-service-nodeport", 0, "The node port of the server's Service; 0 lets the cluster choose")
	fs.StringVar(&o.server.loadBalancerIP, "gw-server-service-loadbalancerip", "", "The address of the server's load balancer; the cluster chooses if it is empty")
	o.client.flags(fs, "gw-client-", clientTemplates, "wireguard-client")
	fs.StringVar(&o.address, "gw-client-address", "", "The address that the client dials, where it is not the one that the server knows")
	fs.Int32Var(&o.port, "gw-client-port", 0, "The port that the client dials, where it is not the one that the server knows")
	fs.IntVar(&o.mtu, "mtu", defaultMTU, "The MTU of the tunnel")
	fs.BoolVar(&o.keysNotToShare, "disable-sharing-keys", false, "Do not tell each gateway the key of the other, and do not wait for the tunnel")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if today, ok := olderSpellings[name]; ok {
			name = today
		}
		return pflag.NormalizedName(name)
	})
}

func (o *connectOptions) check() error {
	if o.port < 0 || o.port > 65535 {
		return out.Fail("%d is no port", o.port)
	}
	if err := o.server.check(); err != nil {
		return err
	}
	return checkMTU(o.mtu)
}

// tunnel is the two gateways to make. The server is in the remote cluster.
type tunnel struct {
	local, remote *side
	server        *gateway
	client        *gateway
}

func (c *cli) runConnect(ctx context.Context, o *connectOptions, local, remote *side) error {
	both, err := meet(ctx, local, remote)
	if err != nil {
		return err
	}
	t, err := o.plan(ctx, local, remote)
	if err != nil {
		return err
	}
	if !both[0].knows(ctx) || !both[1].knows(ctx) {
		if err := c.exchange(ctx, both, true); err != nil {
			return err
		}
	}
	local.Success("Network correctly initialized")
	remote.Success("Network correctly initialized")
	if err := t.make(ctx, c, o); err != nil {
		return err
	}
	if !o.wait || o.keysNotToShare {
		return nil
	}
	return t.await(ctx)
}

// plan says what will be made. It changes nothing, and fails where that would not work.
func (o *connectOptions) plan(ctx context.Context, local, remote *side) (*tunnel, error) {
	for _, reverse := range []struct {
		in, other *side
		kind      string
	}{{local, remote, server}, {remote, local, dialer}} {
		name, err := reverse.in.gatewayName(ctx, reverse.kind, reverse.other.id)
		if err != nil {
			return nil, reverse.in.wrong(err)
		}
		if name != "" {
			return nil, reverse.in.wrong(out.Fail("there is a gateway %s for the other direction already, the %s %q", reverse.kind, reverse.kind, name).
				Hint("Exchange the two clusters, or remove it by: liqoctl network disconnect"))
		}
	}
	t := &tunnel{local: local, remote: remote}
	serverRef, err := o.usable(ctx, remote, o.server.template, func(spec map[string]any) error { return o.server.fits(spec) })
	if err != nil {
		return nil, remote.wrong(err)
	}
	clientRef, err := o.usable(ctx, local, o.client, func(map[string]any) error { return nil })
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
	return t, errors.Join(remote.demand(ctx, gatewayRights("gatewayservers")...), local.demand(ctx, gatewayRights("gatewayclients")...))
}

// gatewayRights are what making a gateway takes.
func gatewayRights(resource string) []rights {
	return []rights{
		networking(resource, "get", "list", "watch", "create", "patch"),
		networking("publickeies", "get", "list", "create", "patch", "delete"),
		networking("connections", "get", "list", "watch"),
		networking("wg"+resource, "get", "list", "watch"),
		{schema.GroupResource{Resource: "secrets"}, []string{"get"}},
		{schema.GroupResource{Resource: "pods"}, []string{"list", "watch"}},
		{schema.GroupResource{Group: "apps", Resource: "deployments"}, []string{"get", "list", "watch"}},
	}
}

// gatewayName is the name of the gateway of a kind to the other cluster, "" for none.
func (s *side) gatewayName(ctx context.Context, kind, other string) (string, error) {
	list := newGateway(kind, client.ObjectKey{}).list()
	err := s.kube.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{names.RemoteClusterID: other})
	if err != nil {
		return "", fmt.Errorf("reading the gateways: %w", err)
	}
	var found []string
	err = apimeta.EachListItem(list, func(item runtime.Object) error {
		found = append(found, item.(client.Object).GetName())
		return nil
	})
	if len(found) > 1 {
		return "", out.Fail("namespace %q has several gateways to %s: %s", s.namespace, other, strings.Join(found, ", ")).
			Hint("Delete all but one of them")
	}
	return strings.Join(found, ""), err
}

// gatewayKey is where the gateway of a kind is or will be.
func (s *side) gatewayKey(ctx context.Context, kind, other string) (client.ObjectKey, error) {
	name, err := s.gatewayName(ctx, kind, other)
	if name == "" {
		name = other
	}
	return client.ObjectKey{Namespace: s.namespace, Name: name}, err
}

// usable resolves a template and, unless told not to, looks whether it is there and fits.
func (o *connectOptions) usable(ctx context.Context, s *side, t template, fits func(spec map[string]any) error) (corev1.ObjectReference, error) {
	ref, err := t.reference(s.liqoNamespace, func() (apimeta.RESTMapper, error) { return s.kube.RESTMapper(), nil })
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

// make makes both gateways, and tells each the key of the other. The client starts while the server still does; the lines are in the
// order in which one needs the other.
func (t *tunnel) make(ctx context.Context, c *cli, o *connectOptions) error {
	if err := t.remote.applyGateway(ctx, c, t.server, "Gateway server correctly set up"); err != nil {
		return err
	}
	if err := t.makeClient(ctx, c, o); err != nil {
		return err
	}
	if !o.keysNotToShare {
		if err := t.shareKeys(ctx, c); err != nil {
			return err
		}
	}
	if err := t.remote.awaitPod(ctx, t.server); err != nil {
		return err
	}
	t.remote.Success("Gateway server Service created successfully")
	t.local.Success("Gateway client correctly set up")
	if err := t.local.awaitPod(ctx, t.client); err != nil || o.keysNotToShare {
		return err
	}
	t.remote.Success("Gateway server Secret created successfully")
	t.local.Success("Public key correctly created")
	t.local.Success("Gateway client Secret created successfully")
	t.remote.Success("Public key correctly created")
	return nil
}

// makeClient makes the client as soon as it is known where the server is.
func (t *tunnel) makeClient(ctx context.Context, c *cli, o *connectOptions) error {
	err := t.remote.during("Waiting for gateway server Service to be created", "", func() error {
		return await(ctx, t.remote.kube, func(ctx context.Context) error {
			if err := t.server.read(ctx, t.remote.kube); err != nil {
				return err
			}
			if err := exposed(t.server.server); err != nil {
				return err
			}
			return settled(ctx, t.remote.kube, t.server.server)
		}, t.server.self(), watched{&networkingv1beta1.WgGatewayServerList{}, []client.ListOption{client.InNamespace(t.server.GetNamespace())}})
	})
	if err != nil {
		return err
	}
	endpoint := t.server.server.Status.Endpoint.DeepCopy()
	if o.address != "" {
		endpoint.Addresses = []string{o.address}
	}
	if o.port != 0 {
		endpoint.Port, endpoint.Ports = o.port, nil
	}
	t.client.dialer.Spec.Endpoint = *endpoint
	return t.local.applyGateway(ctx, c, t.client, "")
}

func (s *side) applyGateway(ctx context.Context, c *cli, gw *gateway, done string) error {
	return s.during("Setting up the gateway", done, func() error {
		c.stamp(gw.Object)
		if err := apply(ctx, s.kube, gw.Object); err != nil {
			return err
		}
		return gw.read(ctx, s.kube)
	})
}

func (s *side) awaitPod(ctx context.Context, gw *gateway) error {
	pod := names.Gateway(gw.GetName())
	return s.during("Waiting for gateway pod "+pod+" to be ready", "Gateway pod "+pod+" is ready", func() error { return gw.awaitPod(ctx, s.kube) })
}

// shareKeys tells each gateway the public key of the other.
func (t *tunnel) shareKeys(ctx context.Context, c *cli) error {
	for _, from := range []struct {
		side  *side
		gw    *gateway
		to    *side
		owner *gateway
	}{{t.remote, t.server, t.local, t.client}, {t.local, t.client, t.remote, t.server}} {
		var public [32]byte
		if err := from.side.during("Waiting for the keys of the gateway", "", func() (err error) {
			if err = from.gw.awaitKeys(ctx, from.side.kube); err == nil {
				public, err = from.gw.publicKey(ctx, from.side.kube)
			}
			return err
		}); err != nil {
			return err
		}
		if err := from.to.during("Creating public key", "", func() error {
			return from.to.learnKey(ctx, c, from.side.id, public, from.owner)
		}); err != nil {
			return err
		}
	}
	return nil
}

// learnKey has the gateway of this cluster know the key of the other. It goes with the gateway.
func (s *side) learnKey(ctx context.Context, c *cli, other string, public [32]byte, owner *gateway) error {
	want := newPublicKey(client.ObjectKey{Namespace: s.namespace, Name: other}, other, public)
	var have networkingv1beta1.PublicKeyList
	if err := s.kube.List(ctx, &have, client.InNamespace(s.namespace), client.MatchingLabels{names.RemoteClusterID: other}); err != nil {
		return fmt.Errorf("reading PublicKeys: %w", err)
	}
	// Of several the gateway takes the newest.
	slices.SortFunc(have.Items, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range have.Items {
		key := &have.Items[i]
		if of := metav1.GetControllerOf(key); of == nil || of.UID == owner.GetUID() {
			want.Name = key.Name
			continue
		}
		// It was that of a gateway which is gone, and would go any moment.
		if err := client.IgnoreNotFound(s.kube.Delete(ctx, key, client.Preconditions{UID: &key.UID})); err != nil {
			return fmt.Errorf("deleting the PublicKey of an earlier gateway: %w", err)
		}
	}
	c.stamp(want)
	return apply(ctx, s.kube, want, kube.OwnedBy(owner.Object, s.kube.Scheme()))
}

// await waits until both gateways say that the tunnel is up.
func (t *tunnel) await(ctx context.Context) error {
	type end struct {
		*side
		gw *gateway
	}
	for _, e := range []end{{t.remote, t.server}, {t.local, t.client}} {
		if err := e.during("Waiting for Connection to be created", "Connection created successfully", func() error {
			return e.gw.awaitConnection(ctx, e.kube, false)
		}); err != nil {
			return err
		}
	}
	for _, e := range []end{{t.local, t.client}, {t.remote, t.server}} {
		if err := e.during("Waiting for Connection status to be established", "Connection is established", func() error {
			return e.gw.awaitConnection(ctx, e.kube, true)
		}); err != nil {
			return err
		}
	}
	return nil
}
