// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/peer"
)

// RefusalOptions say where the installation is.
type RefusalOptions struct {
	// LiqoNamespace holds the Networks of this cluster.
	LiqoNamespace string
}

// reasonApplied is the reason of the event when a rejected object is applied at last.
const reasonApplied = "Applied"

// problemReporter sets a condition on Configurations, gateways and IPs that nodes and gateways ignore, with the reason. All objects are evaluated
// together, as on nodes, because objects can conflict. There may be thousands of IPs, so only rejected objects have a condition.
type problemReporter struct {
	client client.Client
	events events.EventRecorder
	home   string
}

// gathering is how long news wait for more of them: pods come with their IPs, many at once.
const gathering = time.Second

// SetupRefusals registers the controller that reports objects applied by no agent.
func SetupRefusals(mgr ctrl.Manager, o RefusalOptions) error {
	r := &problemReporter{client: mgr.GetClient(), events: mgr.GetEventRecorder("liqo-refusals"), home: o.LiqoNamespace}
	b := ctrl.NewControllerManagedBy(mgr).Named("refusals")
	for _, kind := range []client.Object{
		&networkingv1beta1.Configuration{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{},
		&networkingv1beta1.InternalNode{}, &ipamv1alpha1.IP{}, &ipamv1alpha1.Network{}, &corev1.Node{},
	} {
		b.Watches(kind, allToOne(), builder.WithPredicates(predicate.Funcs{UpdateFunc: changesDecision}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("registering controller refusals: %w", err)
	}
	return nil
}

// allToOne has a controller look at everything at once, a while after the first news.
func allToOne() handler.Funcs {
	once := reconcile.Request{NamespacedName: client.ObjectKey{Name: "all"}}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(once, gathering) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(once, gathering) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(once, gathering) },
	}
}

// changesDecision drops frequent changes without influence on the decision.
func changesDecision(e event.UpdateEvent) bool {
	switch now := e.ObjectNew.(type) {
	case *corev1.Node:
		return !slices.Equal(e.ObjectOld.(*corev1.Node).Status.Addresses, now.Status.Addresses)
	case *networkingv1beta1.Configuration: // the peer may report other networks at any rate
		was, is := e.ObjectOld.(*networkingv1beta1.Configuration), now
		before, after := was.Status, is.Status
		before.ReportedRemote, after.ReportedRemote = nil, nil
		return peer.NetworksChanged(was, is) || !apiequality.Semantic.DeepEqual(before, after)
	case *networkingv1beta1.GatewayClient: // and other endpoints
		was, is := e.ObjectOld.(*networkingv1beta1.GatewayClient).DeepCopy(), now.DeepCopy()
		for _, c := range []*networkingv1beta1.GatewayClient{was, is} {
			c.Status.Endpoint, c.ResourceVersion, c.ManagedFields = nil, "", nil
		}
		return !apiequality.Semantic.DeepEqual(was, is)
	case *networkingv1beta1.InternalNode:
		was, is := e.ObjectOld.(*networkingv1beta1.InternalNode).Status, now.Status
		was.Peers, is.Peers = nil, nil
		was.Conditions, is.Conditions = nil, nil
		return e.ObjectOld.GetGeneration() != now.Generation || !apiequality.Semantic.DeepEqual(was, is)
	case *ipamv1alpha1.IP:
		was, stood, _ := plan.AliasOf(e.ObjectOld.(*ipamv1alpha1.IP))
		is, stands, _ := plan.AliasOf(now)
		return !was.IsSameTranslation(is) || was.Masquerade != is.Masquerade || stood != stands
	}
	return true
}

// Reconcile looks at all of them.
func (r *problemReporter) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return kube.Result(r.syncAll(ctx))
}

func (r *problemReporter) syncAll(ctx context.Context) error {
	seen := &clusterSnapshot{}
	for _, look := range []func(context.Context, *clusterSnapshot) error{r.readNetworks, r.readPeers, r.readGateways, r.readNodes, r.readIPs} {
		if err := look(ctx, seen); err != nil {
			return err
		}
	}
	refused := map[plan.Object][]plan.Problem{}
	problems, outside := plan.Refused(seen.cluster)
	for _, p := range append(seen.problems, problems...) {
		if p.Reason != "" {
			refused[p.Of] = append(refused[p.Of], p)
		}
	}
	var errs []error
	for _, s := range seen.subjects {
		want := problemCondition(refused[s.of])
		if ip, is := s.obj.(*ipamv1alpha1.IP); is && want == nil && outside[s.of] && !isMadeByLiqo(ip) {
			want = routeCondition(ip)
		}
		errs = append(errs, r.writeCondition(ctx, s.obj, want))
	}
	return errors.Join(errs...)
}

// clusterSnapshot is the nodes' view of a cluster, as far as the view decides about rejected objects.
type clusterSnapshot struct {
	cluster  plan.Cluster
	problems []plan.Problem
	subjects []subject
}

// subject is a possibly rejected object, shared with the cache.
type subject struct {
	of  plan.Object
	obj client.Object
}

func (s *clusterSnapshot) addProblems(of plan.Object, obj client.Object, problems []plan.Problem) {
	s.subjects, s.problems = append(s.subjects, subject{of, obj}), append(s.problems, problems...)
}

func (r *problemReporter) readNetworks(ctx context.Context, out *clusterSnapshot) error {
	var list ipamv1alpha1.NetworkList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Networks: %w", err)
	}
	out.cluster.Held, _ = plan.Held(list.Items)
	out.cluster.Pods, out.cluster.Services, out.cluster.External, _ = plan.Own(list.Items, r.home)
	return nil
}

func (r *problemReporter) readPeers(ctx context.Context, out *clusterSnapshot) error {
	var list networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Configurations: %w", err)
	}
	for i := range list.Items {
		c := &list.Items[i]
		p, placed, problems := plan.PeerOf(c)
		out.addProblems(p.Of, c, problems)
		if placed && peer.Configuration(list.Items, liqov1beta1.ClusterID(p.Key.ClusterID)) == c {
			out.cluster.Peers = append(out.cluster.Peers, p)
		}
	}
	return nil
}

func (r *problemReporter) readGateways(ctx context.Context, out *clusterSnapshot) error {
	add := func(obj client.Object, t plan.Tunnel, stays bool, problems []plan.Problem) {
		out.addProblems(t.Of, obj, problems)
		if stays {
			out.cluster.Tunnels = append(out.cluster.Tunnels, t)
		}
	}
	var servers networkingv1beta1.GatewayServerList
	if err := r.client.List(ctx, &servers, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing GatewayServers: %w", err)
	}
	for i := range servers.Items {
		t, stays, problems := plan.TunnelOfServer(&servers.Items[i])
		add(&servers.Items[i], t, stays, problems)
	}
	var clients networkingv1beta1.GatewayClientList
	if err := r.client.List(ctx, &clients, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing GatewayClients: %w", err)
	}
	for i := range clients.Items {
		t, stays, problems := plan.TunnelOfClient(&clients.Items[i])
		add(&clients.Items[i], t, stays, problems)
	}
	return nil
}

// readNodes are in the way of networks of peers.
func (r *problemReporter) readNodes(ctx context.Context, out *clusterSnapshot) error {
	var internal networkingv1beta1.InternalNodeList
	if err := r.client.List(ctx, &internal, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing InternalNodes: %w", err)
	}
	for i := range internal.Items {
		m, _ := plan.MemberOf(&internal.Items[i])
		out.cluster.Members = append(out.cluster.Members, m)
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		out.cluster.Taken = append(out.cluster.Taken, plan.TakenByNode(&nodes.Items[i])...)
	}
	return nil
}

func (r *problemReporter) readIPs(ctx context.Context, out *clusterSnapshot) error {
	var list ipamv1alpha1.IPList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing IPs: %w", err)
	}
	for i := range list.Items {
		alias, ready, problems := plan.AliasOf(&list.Items[i])
		out.addProblems(alias.Of, &list.Items[i], problems)
		if ready {
			out.cluster.Aliases = append(out.cluster.Aliases, alias)
		}
	}
	return nil
}

// writeCondition writes the condition of an object if it changed, and emits an event after the write.
func (r *problemReporter) writeCondition(ctx context.Context, obj client.Object, is *metav1.Condition) error {
	was := apimeta.FindStatusCondition(*conditionsOf(obj), networkingv1beta1.ConditionApplied)
	if was == nil && is == nil || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	changed := obj.DeepCopyObject().(client.Object)
	if is == nil {
		apimeta.RemoveStatusCondition(conditionsOf(changed), networkingv1beta1.ConditionApplied)
	} else if is.ObservedGeneration = obj.GetGeneration(); !apimeta.SetStatusCondition(conditionsOf(changed), *is) {
		return nil
	}
	patch := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, changed, patch); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	isFalse := func(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionFalse }
	if isFalse(was) && !isFalse(is) {
		r.events.Eventf(obj, nil, corev1.EventTypeNormal, reasonApplied, "Apply", "nothing of it is left out any more")
	}
	if is != nil && (was == nil || was.Reason != is.Reason || was.Message != is.Message) {
		r.events.Eventf(obj, nil, corev1.EventTypeWarning, is.Reason, "Apply", "%s", is.Message)
	}
	return nil
}

// problemCondition returns the condition of a rejected object, or nil.
func problemCondition(problems []plan.Problem) *metav1.Condition {
	if len(problems) == 0 {
		return nil
	}
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	return &metav1.Condition{
		Type: networkingv1beta1.ConditionApplied, Status: metav1.ConditionFalse,
		Reason: problems[0].Reason, Message: kube.Note(strings.Join(messages, "; ")),
	}
}

// routeCondition returns the condition of an IP whose host needs a route back: the cluster cannot see whether the host has one.
func routeCondition(ip *ipamv1alpha1.IP) *metav1.Condition {
	return &metav1.Condition{
		Type: networkingv1beta1.ConditionApplied, Status: metav1.ConditionTrue, Reason: plan.ReasonRouteNeeded,
		Message: fmt.Sprintf("%s sees the addresses of peers: give it a route back to status.remote.cidr of their Configurations by the nodes, or set spec.masquerade", ip.Spec.IP),
	}
}

// isMadeByLiqo reports whether Liqo and not a user created an IP: for an endpoint, an API server, or the source of a peer's other traffic. The
// address of such an IP is of this cluster or of a peer, also while the peer has no network.
func isMadeByLiqo(ip *ipamv1alpha1.IP) bool {
	return ip.Labels[names.IPType] != "" || metav1.GetControllerOf(ip) != nil
}

func conditionsOf(obj client.Object) *[]metav1.Condition {
	switch o := obj.(type) {
	case *networkingv1beta1.Configuration:
		return &o.Status.Conditions
	case *networkingv1beta1.GatewayServer:
		return &o.Status.Conditions
	case *networkingv1beta1.GatewayClient:
		return &o.Status.Conditions
	case *ipamv1alpha1.IP:
		return &o.Status.Conditions
	}
	return &[]metav1.Condition{}
}
