// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// reasonPending is the reason of a condition Ready that becomes True without an action of the user.
const reasonPending = "Pending"

// checkRefused returns an error if the user has to fix something before a gateway can become ready. A condition of an earlier
// generation is ignored: the cause may be fixed already.
func checkRefused(conditions []metav1.Condition, generation int64) error {
	c := apimeta.FindStatusCondition(conditions, networkingv1beta1.ConditionGatewayReady)
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason == reasonPending || c.ObservedGeneration < generation {
		return nil
	}
	return ui.Fail("the gateway is refused: %s: %s", c.Reason, c.Message).See("docs/troubleshooting.md#a-gateway-is-not-ready")
}

// checkObserved returns a Pending until a controller has observed the current generation of the gateway.
func (g *gateway) checkObserved() error {
	c := apimeta.FindStatusCondition(g.statusConditions(), networkingv1beta1.ConditionGatewayReady)
	if c == nil || c.ObservedGeneration < g.GetGeneration() {
		return kube.Pending(fmt.Sprintf("the %s has not been processed yet: is liqo-controller-manager running?", g.kindAndName()))
	}
	return nil
}

// checkExposed returns a Pending until the server has an address to dial.
func (g *gateway) checkExposed() error {
	if err := cmp.Or(checkRefused(g.statusConditions(), g.GetGeneration()), g.checkObserved()); err != nil {
		return err
	}
	if status := &g.server.Status; status.ServerRef == nil || status.Endpoint == nil || len(status.Endpoint.Addresses) == 0 {
		hint := ""
		if g.server.Spec.Endpoint.ServiceType == corev1.ServiceTypeLoadBalancer && status.ServerRef != nil {
			hint = "; it waits for a load balancer, which a Service of type NodePort does not need"
		}
		return kube.Pending(fmt.Sprintf("the %s has no address yet%s%s", g.kindAndName(), ConditionSuffix(g.statusConditions(), networkingv1beta1.ConditionGatewayReady), hint))
	}
	return nil
}

// checkConnected returns a Pending until the Deployment of a gateway and the address of a server follow the current spec: the state before a change
// must not count. Objects of custom templates are not checked.
func (g *gateway) checkConnected(ctx context.Context, cl client.Reader) error {
	var serves networkingv1beta1.WgGatewayServer
	var dials networkingv1beta1.WgGatewayClient
	var ref *corev1.ObjectReference
	var created client.Object
	var conditions *[]metav1.Condition
	if g.server != nil {
		ref, created, conditions = g.server.Status.ServerRef, &serves, &serves.Status.Conditions
	} else {
		ref, created, conditions = g.dialer.Status.ClientRef, &dials, &dials.Status.Conditions
	}
	if ref == nil || ref.Kind != "WgGatewayServer" && ref.Kind != "WgGatewayClient" {
		return nil
	}
	if err := cl.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, created); client.IgnoreNotFound(err) != nil {
		return err
	}
	c := apimeta.FindStatusCondition(*conditions, networkingv1beta1.ConditionGatewayReady)
	if c == nil || c.ObservedGeneration < created.GetGeneration() || g.server != nil && !equality.Semantic.DeepEqual(serves.Status.Endpoint, g.server.Status.Endpoint) {
		return kube.Pending(fmt.Sprintf("the objects of the %s are not up to date%s", g.kindAndName(), ConditionSuffix(*conditions, networkingv1beta1.ConditionGatewayReady)))
	}
	return nil
}

// reasonWaiting is the reason of a Configuration whose networks have no prefixes yet, or cannot have any.
const reasonWaiting = "WaitingForNetworks"

// checkConfigured returns a Pending until the networks of a peer have local prefixes, and an error if no prefix is free.
func checkConfigured(ctx context.Context, cl client.Reader, cfg *networkingv1beta1.Configuration) error {
	name := client.ObjectKeyFromObject(cfg)
	c := apimeta.FindStatusCondition(cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
	switch {
	case c == nil || c.ObservedGeneration < cfg.Generation:
		return kube.Pending(fmt.Sprintf("Configuration %s has not been processed yet: is liqo-controller-manager running?", name))
	case c.Status == metav1.ConditionTrue:
		return nil
	case c.Reason != reasonWaiting:
		return ui.Fail("the Configuration %s is refused: %s: %s", name, c.Reason, c.Message).
			See("docs/troubleshooting.md#a-configuration-is-not-ready")
	}
	var networks ipamv1alpha1.NetworkList
	if err := cl.List(ctx, &networks, client.InNamespace(cfg.Namespace), client.HasLabels{names.CIDRType}); err != nil {
		return fmt.Errorf("reading the networks of the Configuration %s: %w", name, err)
	}
	for i := range networks.Items {
		n := &networks.Items[i]
		if metav1.IsControlledBy(n, cfg) && apimeta.IsStatusConditionFalse(n.Status.Conditions, ipamv1alpha1.ConditionAllocated) {
			return ui.Fail("the network %s of the other cluster cannot be remapped%s", n.Spec.CIDR, ConditionSuffix(n.Status.Conditions, ipamv1alpha1.ConditionAllocated)).
				See("docs/troubleshooting.md#a-network-an-ip-or-an-internalnode-is-given-nothing")
		}
	}
	return kube.Pending(fmt.Sprintf("the Configuration %s is not ready: %s", name, c.Message))
}

// gateway is a GatewayServer or a GatewayClient: exactly one field is set.
type gateway struct {
	client.Object
	server *networkingv1beta1.GatewayServer
	dialer *networkingv1beta1.GatewayClient
}

func newGateway(kind string, key client.ObjectKey) *gateway {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	if kind == server {
		return GatewayOf(&networkingv1beta1.GatewayServer{ObjectMeta: meta})
	}
	return GatewayOf(&networkingv1beta1.GatewayClient{ObjectMeta: meta})
}

// GatewayOf returns the gateway of an object.
func GatewayOf(obj client.Object) *gateway {
	g := &gateway{Object: obj}
	g.server, _ = obj.(*networkingv1beta1.GatewayServer)
	g.dialer, _ = obj.(*networkingv1beta1.GatewayClient)
	return g
}

// deepCopy returns a copy for a goroutine that updates the gateway while the original is in use.
func (g *gateway) deepCopy() *gateway { return GatewayOf(g.DeepCopyObject().(client.Object)) }

func (g *gateway) kindAndName() string {
	return g.keyOwner().Kind + " " + client.ObjectKeyFromObject(g.Object).String()
}

// keyOwner returns the owner of new keys.
func (g *gateway) keyOwner() pki.Gateway {
	if g.dialer != nil {
		return pki.Gateway{Kind: "GatewayClient", Name: g.GetName()}
	}
	return pki.Gateway{Kind: "GatewayServer", Name: g.GetName()}
}

func (g *gateway) newList() client.ObjectList {
	if g.server != nil {
		return &networkingv1beta1.GatewayServerList{}
	}
	return &networkingv1beta1.GatewayClientList{}
}

func (g *gateway) statusConditions() []metav1.Condition {
	if g.server != nil {
		return g.server.Status.Conditions
	}
	return g.dialer.Status.Conditions
}

func (g *gateway) secretReference() *corev1.ObjectReference {
	if g.server != nil {
		return g.server.Status.SecretRef
	}
	return g.dialer.Status.SecretRef
}

// reportedPublicKey returns the public key in the status of the gateway, nil if an earlier version wrote none.
func (g *gateway) reportedPublicKey() []byte {
	if g.server != nil {
		return g.server.Status.PublicKey
	}
	return g.dialer.Status.PublicKey
}

// readGateway reads the gateway anew, and fails if the gateway can never become ready.
func (g *gateway) readGateway(ctx context.Context, cl client.Reader) error {
	err := cl.Get(ctx, client.ObjectKeyFromObject(g.Object), g.Object)
	switch {
	case apierrors.IsNotFound(err):
		return ui.Fail("there is no %s", g.kindAndName())
	case apimeta.IsNoMatchError(err):
		return ui.Fail("the cluster has no gateway kinds: Liqo is not installed in it")
	case err != nil:
		return err
	}
	return checkRefused(g.statusConditions(), g.GetGeneration())
}

// watchSecrets returns the kinds of objects rendered from the templates of Liqo.
func (g *gateway) watchSecrets() kube.Watched {
	in := []client.ListOption{client.InNamespace(g.GetNamespace())}
	if g.server != nil {
		return kube.Watched{List: &networkingv1beta1.WgGatewayServerList{}, Opts: in}
	}
	return kube.Watched{List: &networkingv1beta1.WgGatewayClientList{}, Opts: in}
}

// awaitState waits until check returns nil. It fails if the gateway is rejected or deleted meanwhile.
func (g *gateway) awaitState(ctx context.Context, cl client.WithWatch, check func(context.Context) error, beside ...kube.Watched) error {
	return kube.WaitUntil(ctx, cl, func(ctx context.Context) error {
		if err := g.readGateway(ctx, cl); err != nil {
			return err
		}
		return check(ctx)
	}, append(beside, kube.WatchOne(g.newList(), client.ObjectKeyFromObject(g.Object)))...)
}

// awaitChange waits until the objects of a gateway follow a changed spec. A new gateway has no earlier objects.
func (g *gateway) awaitChange(ctx context.Context, cl client.WithWatch) error {
	if g.GetGeneration() == 1 {
		return nil
	}
	return g.awaitState(ctx, cl, func(ctx context.Context) error {
		if err := g.checkObserved(); err != nil {
			return err
		}
		return g.checkConnected(ctx, cl)
	}, g.watchSecrets())
}

// awaitKeys waits until the gateway names its Secret with keys.
func (g *gateway) awaitKeys(ctx context.Context, cl client.WithWatch) error {
	return g.awaitState(ctx, cl, func(context.Context) error {
		if g.secretReference() == nil {
			return kube.Pending(fmt.Sprintf("the %s has no keys yet%s", g.kindAndName(), ConditionSuffix(g.statusConditions(), networkingv1beta1.ConditionGatewayReady)))
		}
		return nil
	})
}

// awaitPod waits until a pod of the gateway is ready, and all pods of an earlier spec are gone.
func (g *gateway) awaitPod(ctx context.Context, cl client.WithWatch) error {
	key := client.ObjectKey{Namespace: g.GetNamespace(), Name: names.Gateway(g.GetName())}
	mine := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{
		names.GatewayName: names.GatewayLabel(g.GetName()), names.GatewayNamespace: key.Namespace,
	}}
	return g.awaitState(ctx, cl, func(ctx context.Context) error {
		var d appsv1.Deployment
		err := cl.Get(ctx, key, &d)
		switch {
		case apierrors.IsNotFound(err):
			return kube.Pending(fmt.Sprintf("the %s has no Deployment yet%s", g.kindAndName(), ConditionSuffix(g.statusConditions(), networkingv1beta1.ConditionGatewayReady)))
		case err != nil:
			return err
		case !d.DeletionTimestamp.IsZero(), d.Status.ObservedGeneration < d.Generation, d.Status.UpdatedReplicas < d.Status.Replicas:
			return kube.Pending(fmt.Sprintf("the pods of the Deployment %s are not up to date yet", key.Name))
		}
		var pods corev1.PodList
		if err := cl.List(ctx, &pods, mine...); err != nil {
			return err
		}
		if d.Status.ReadyReplicas == 0 {
			return cluster.NotReady(key.Name, pods.Items)
		}
		// The new pod takes over while the old pod ends.
		if i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() }); i >= 0 {
			return kube.Pending(fmt.Sprintf("the last pod of the Deployment %s, %s, has not ended yet", key.Name, pods.Items[i].Name))
		}
		return nil
	}, kube.WatchOne(&appsv1.DeploymentList{}, key), kube.Watched{List: &corev1.PodList{}, Opts: mine})
}

// awaitConnection waits until the gateway has a Connection and, if up is set, until the tunnel is up. It fails if the gateway is
// rejected or deleted meanwhile.
func (g *gateway) awaitConnection(ctx context.Context, cl client.WithWatch, up bool) error {
	key := client.ObjectKey{Namespace: g.GetNamespace(), Name: names.Gateway(g.GetName())}
	return kube.WaitUntil(ctx, cl, func(ctx context.Context) error {
		var connection networkingv1beta1.Connection
		err := cl.Get(ctx, key, &connection)
		if client.IgnoreNotFound(err) != nil || err == nil && (!up || connection.Status.Value == networkingv1beta1.Connected) {
			return err
		}
		if err := g.readGateway(ctx, cl); err != nil { // the server of a client may have moved meanwhile
			return err
		}
		if err != nil {
			return kube.Pending(fmt.Sprintf("the gateway made no Connection %s yet", key))
		}
		return kube.Pending(fmt.Sprintf("the Connection %s is %q: %s", key, connection.Status.Value, g.connectionProblem(connection.Status)))
	}, kube.WatchOne(&networkingv1beta1.ConnectionList{}, key), kube.WatchOne(g.newList(), client.ObjectKeyFromObject(g.Object)))
}

// connectionProblem returns the reason why the tunnel is down: the direction and the addresses without traffic.
func (g *gateway) connectionProblem(s networkingv1beta1.ConnectionStatus) string {
	other := "its client"
	if g.dialer != nil {
		other = "its server, " + dialledEndpoint(g.dialer)
	}
	switch {
	case len(s.FailedNodes) > 0:
		return "the tunnel is up, and pods of these nodes do not reach the peer: " + strings.Join(s.FailedNodes, ", ")
	case s.Lost == networkingv1beta1.LostLarge:
		return "small packets get through, and large ones get lost between it and " + other
	case s.Value == networkingv1beta1.ConnectionError:
		return "nothing comes back from " + other
	}
	return "nothing came back yet from " + other
}

// maxDialled bounds the dialled addresses in a message.
const maxDialled = 5

// dialledEndpoint returns the addresses in the dialling order of a client: the spec first, then the reports of the server.
func dialledEndpoint(gw *networkingv1beta1.GatewayClient) string {
	var all []string
	protocol := corev1.ProtocolUDP
	for _, e := range []*networkingv1beta1.EndpointStatus{&gw.Spec.Endpoint, gw.Status.Endpoint} {
		if e != nil && e.Protocol != nil {
			protocol = *e.Protocol
		}
		for _, one := range cluster.EndpointTexts(e) {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	if len(all) == 0 {
		return "of which no address is known"
	}
	more := ""
	if n := len(all) - maxDialled; n > 0 {
		all, more = all[:maxDialled], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("dialled at %s%s by %s", strings.Join(all, ", "), more, protocol)
}
