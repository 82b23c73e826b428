// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// wireguards creates the Deployment, the Service, the keys and the permissions of a rendered gateway.
type wireguards[T client.Object] struct {
	// client reads and writes the objects of gateways.
	client client.Client
	// all reads the objects of this kind, the gateways that own them, and nodes.
	all  client.Reader
	keys *gatewayKeys
}

func setupWireguards[T client.Object](mgr ctrl.Manager, name string, added cache.Cache, w *wireguards[T]) error {
	c := kube.NewController[T](mgr, kube.Options{Name: name}, w)
	of := handler.EnqueueRequestsFromMapFunc(w.requestsForChild)
	b := c.Builder()
	for _, obj := range madeKinds() {
		b.WatchesRawSource(source.Kind(added, obj, of, predicate.Funcs{UpdateFunc: isRelevant}))
	}
	if _, server := client.Object(newObject[T]()).(*networkingv1beta1.WgGatewayServer); server {
		b.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(w.onNodePorts), builder.WithPredicates(predicate.Funcs{UpdateFunc: reachedOtherwise}))
	}
	for _, owner := range gatewayKinds() {
		b.Watches(owner, handler.EnqueueRequestsFromMapFunc(w.ownedBy), builder.WithPredicates(kube.Deleted))
	}
	return c.Complete(b)
}

// gatewayKinds returns the owners of our kinds.
func gatewayKinds() []client.Object {
	return []client.Object{&networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{}}
}

// madeKinds returns the kinds that are created for gateways, and their pods.
func madeKinds() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.RoleBinding{}, &corev1.Pod{}, &coordinationv1.Lease{}, &policyv1.PodDisruptionBudget{},
		&discoveryv1.EndpointSlice{},
	}
}

// isRelevant drops changes of a Deployment's progress, used by other controllers, and renewals of a Lease.
func isRelevant(e event.UpdateEvent) bool {
	if old, ok := e.ObjectOld.(*coordinationv1.Lease); ok {
		return !reflect.DeepEqual(old.Spec.HolderIdentity, e.ObjectNew.(*coordinationv1.Lease).Spec.HolderIdentity)
	}
	if old, ok := e.ObjectOld.(*discoveryv1.EndpointSlice); ok { // the replicas decide about the ready endpoint
		return len(old.Endpoints) != len(e.ObjectNew.(*discoveryv1.EndpointSlice).Endpoints)
	}
	if _, ok := e.ObjectOld.(*appsv1.Deployment); !ok {
		return true
	}
	old, now := e.ObjectOld, e.ObjectNew
	return old.GetGeneration() != now.GetGeneration() || !maps.Equal(old.GetLabels(), now.GetLabels()) || !maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}

// reachedOtherwise reports whether a node's addresses changed, or whether it serves.
func reachedOtherwise(e event.UpdateEvent) bool {
	old, okOld := e.ObjectOld.(*corev1.Node)
	now, okNow := e.ObjectNew.(*corev1.Node)
	return !okOld || !okNow || isServing(old) != isServing(now) || outerAddress(old.Status.Addresses) != outerAddress(now.Status.Addresses)
}

// requestsForChild returns the request for the gateway of a child object.
func (s *wireguards[T]) requestsForChild(ctx context.Context, created client.Object) []reconcile.Request {
	return requestsOf[T](ctx, s.all, func(obj client.Object) bool {
		return names.GatewayLabel(wireguardOf(obj).gateway) == created.GetLabels()[names.GatewayName]
	}, client.InNamespace(created.GetNamespace()))
}

// ownedBy returns requests for the objects rendered for a gateway.
func (s *wireguards[T]) ownedBy(ctx context.Context, gateway client.Object) []reconcile.Request {
	return requestsOf[T](ctx, s.all, func(obj client.Object) bool { return metav1.IsControlledBy(obj, gateway) }, client.InNamespace(gateway.GetNamespace()))
}

// onNodePorts returns requests for the servers with a Service on node ports.
func (s *wireguards[T]) onNodePorts(ctx context.Context, _ client.Object) []reconcile.Request {
	return requestsOf[T](ctx, s.all, func(obj client.Object) bool {
		return wireguardOf(obj).service.Spec.Type == corev1.ServiceTypeNodePort
	})
}

// Sync creates the gateway, and publishes the endpoint of the gateway. Sync terminates the pods of an orphan.
func (s *wireguards[T]) Sync(ctx context.Context, obj T) error {
	w := wireguardOf(obj)
	if exists, err := s.isLeft(ctx, w); err != nil {
		return err
	} else if exists {
		return cmp.Or(errors.Join(s.endGateway(ctx, w), s.reportInternalEndpoint(ctx, w)), kube.Wait(0, "the gateway of this object was deleted"))
	}
	if err := checkPeer(w.peer); err != nil {
		return err
	}
	if err := checkReplicas(w); err != nil {
		return errors.Join(err, s.reportEndpoint(ctx, w), s.reportInternalEndpoint(ctx, w)) // the running gateway is kept
	}
	err := errors.Join(s.ensureRights(ctx, w), s.ensureElection(ctx, w), s.ensureWorkload(ctx, w), s.reportEndpoint(ctx, w), s.reportInternalEndpoint(ctx, w))
	if err == nil && *w.inner == nil {
		return kube.Wait(0, "no replica of the gateway is running")
	}
	return err
}

// isLeft reports whether the owning gateway is gone. The object is then garbage-collected, unless the gateway was deleted with the orphan
// policy.
func (s *wireguards[T]) isLeft(ctx context.Context, w *wireguard) (bool, error) {
	ref := goesWith(w.Object)
	if ref == nil {
		return false, nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if !slices.ContainsFunc(gatewayKinds(), func(obj client.Object) bool { return kindOf(obj) == kind }) {
		return false, nil
	}
	gone := func(by client.Reader) (bool, error) {
		owner := objectOf(kind)
		err := by.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: ref.Name}, owner)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading the owner, a %s: %w", ref.Kind, err)
		}
		return err != nil || owner.GetUID() != ref.UID, nil
	}
	if exists, err := gone(s.all); err != nil || !exists {
		return false, err
	}
	now := newObject[T]() // the cache may be late
	err := s.keys.live.Get(ctx, client.ObjectKeyFromObject(w.Object), now)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading whether this is to stay: %w", err)
	}
	if is := goesWith(now); is == nil || is.UID != ref.UID {
		return false, nil
	}
	return gone(s.keys.live)
}

// goesWith returns the owner of an object, or nil if further owners keep the object.
func goesWith(obj client.Object) *metav1.OwnerReference {
	if len(obj.GetOwnerReferences()) > 1 {
		return nil
	}
	return metav1.GetControllerOf(obj)
}

// endGateway terminates the pods of a deleted gateway at once. The garbage collector reaches pods last, one owner after another.
func (s *wireguards[T]) endGateway(ctx context.Context, w *wireguard) error {
	current := &appsv1.Deployment{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}, current)
	if err != nil || !metav1.IsControlledBy(current, w.Object) || current.Spec.Replicas != nil && *current.Spec.Replicas == 0 {
		return client.IgnoreNotFound(err)
	}
	before := current.DeepCopy()
	current.Spec.Replicas = new(int32)
	err = s.client.Patch(ctx, current, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ending the pods of Deployment %s: %w", current.Name, err)
	}
	return nil
}

// formerReplicaRole is a removed ClusterRole. An earlier version bound the role to each gateway.
const formerReplicaRole = "liqo-gateway-replica"

// ensureRights grants the gateway's pods their permissions in the namespace. An earlier version allowed pods to patch pods, to mark the active
// replica: this permission is too wide, and is revoked.
func (s *wireguards[T]) ensureRights(ctx context.Context, w *wireguard) error {
	err := errors.Join(ensureObject(ctx, s.client, s.keys.live, w.Object, w.newBinding(names.Gateway(w.gateway), names.RoleGateway)), s.ensureAccount(ctx, w))
	return errors.Join(err, s.withdrawBinding(ctx, w.newBinding(names.GatewayReplica(w.gateway), formerReplicaRole)))
}

func (w *wireguard) newBinding(name, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: w.objectMeta(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.GetNamespace(), Name: w.serviceAccountName()}},
	}
}

// withdrawBinding deletes a binding if it exists.
func (s *wireguards[T]) withdrawBinding(ctx context.Context, binding *rbacv1.RoleBinding) error {
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kube.DeleteObject(ctx, s.client, binding, "deleting RoleBinding %s", binding.Name)
}

// ensureAccount creates the ServiceAccount, unless the user or another gateway did: such an account must not be deleted with
// this gateway.
func (s *wireguards[T]) ensureAccount(ctx context.Context, w *wireguard) error {
	var account corev1.ServiceAccount
	key := client.ObjectKey{Namespace: w.GetNamespace(), Name: w.serviceAccountName()}
	err := s.client.Get(ctx, key, &account)
	if apierrors.IsNotFound(err) { // it may lack the label
		err = s.keys.live.Get(ctx, key, &account)
	}
	switch {
	case err == nil && account.Labels[names.GatewayName] != names.GatewayLabel(w.gateway):
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading ServiceAccount %s: %w", key.Name, err)
	}
	return ensureObject(ctx, s.client, s.keys.live, w.Object, &corev1.ServiceAccount{ObjectMeta: w.objectMeta(key.Name)})
}

// findChild reads the gateway's Deployment or Service, with an empty UID if missing, and reports whether the cache is behind: the update of the cache
// triggers the next run. If the child is missing and the gateway itself is gone but still cached, findChild returns Wait: the garbage collector
// deletes all children, and a recreated child would start a pod. A child existing at the time of the read is not created.
func (s *wireguards[T]) findChild(ctx context.Context, w *wireguard, current client.Object) (late bool, err error) {
	key := client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}
	for i, from := range []client.Reader{s.client, s.keys.live} {
		err := from.Get(ctx, key, current)
		if err == nil {
			return i > 0 && metav1.IsControlledBy(current, w.Object), nil
		} else if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("reading %T %s: %w", current, key.Name, err)
		}
	}
	now := newObject[T]()
	err = s.keys.live.Get(ctx, client.ObjectKeyFromObject(w.Object), now)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading whether this is to have a %T: %w", current, err)
	}
	if err != nil || now.GetUID() != w.GetUID() || now.GetDeletionTimestamp() != nil {
		return false, kube.Wait(0, "this is being deleted")
	}
	return false, nil
}

// ensureWorkload creates the Deployment, once its keys exist.
func (s *wireguards[T]) ensureWorkload(ctx context.Context, w *wireguard) error {
	seen := &appsv1.Deployment{}
	late, err := s.findChild(ctx, w, seen)
	if err != nil {
		return err
	}
	keys, public, err := s.keys.keysOf(ctx, w)
	if err != nil {
		return err
	}
	*w.public = public[:]
	*w.keys = &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: keys.Namespace, Name: keys.Name}
	if late {
		return nil
	}
	want := deploymentOf(w, keys.Name)
	err = ensureObject(ctx, s.client, s.keys.live, w.Object, want, kube.DecidedOf(seen.UID))
	if !apierrors.IsInvalid(err) {
		return err
	}
	var current appsv1.Deployment
	if got := s.client.Get(ctx, client.ObjectKeyFromObject(want), &current); got != nil {
		return errors.Join(err, client.IgnoreNotFound(got))
	}
	if reflect.DeepEqual(current.Spec.Selector, want.Spec.Selector) {
		return err
	}
	// The selector of a Deployment is immutable. The old pods end before the new pods start, because old and new pods have the same key.
	err = s.client.Delete(ctx, &current, client.Preconditions{UID: &current.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replacing Deployment %s: %w", current.Name, err)
	}
	return kube.BeingDeleted("Deployment", current.Name)
}

// handoverSeconds is how long the old pod stays beside the new pod: kube-proxy applies changes of a Service once per second, and must have applied
// the presence of the new pod before the end of the old pod.
const handoverSeconds = 2

// strategyOf starts the new pod of a gateway before the end of the old pod; the new pod waits until nodes reach it. Ports of the node are free
// only after the end of the old pod.
func strategyOf(pod corev1.PodSpec) appsv1.DeploymentStrategy {
	onNode := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
	}
	if pod.HostNetwork || slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), onNode) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))},
	}
}

// deploymentOf returns the Deployment of the template, with the mandatory settings of a gateway.
func deploymentOf(w *wireguard, keys string) *appsv1.Deployment {
	out := &appsv1.Deployment{ObjectMeta: w.objectMeta(names.Gateway(w.gateway)), Spec: *w.deployment.Spec.DeepCopy()}
	out.Labels, out.Annotations = mergeMaps(w.deployment.Metadata.Labels, out.Labels), w.deployment.Metadata.Annotations
	pod := &out.Spec.Template
	out.Spec.Strategy = strategyOf(pod.Spec)
	out.Spec.MinReadySeconds = max(out.Spec.MinReadySeconds, handoverSeconds)
	labels := w.gatewayLabels()
	delete(labels, names.AppManagedBy) // a selector may contain it
	pod.Labels = mergeMaps(pod.Labels, labels)
	pod.Spec.ServiceAccountName = w.serviceAccountName()
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == names.GatewayKeysVolume && v.Secret != nil {
			v.Secret.SecretName = keys
		}
	}
	if w.hasReplicas() {
		addElection(&out.Spec)
	}
	return out
}

// mergeMaps returns the entries of both; over takes precedence.
func mergeMaps(under, over map[string]string) map[string]string {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}

// reportEndpoint creates the Service of a server, and publishes its endpoint.
func (s *wireguards[T]) reportEndpoint(ctx context.Context, w *wireguard) error {
	if w.service == nil {
		return nil
	}
	want := &corev1.Service{ObjectMeta: w.objectMeta(names.Gateway(w.gateway)), Spec: *w.service.Spec.DeepCopy()}
	want.Labels, want.Annotations = mergeMaps(w.service.Metadata.Labels, want.Labels), w.service.Metadata.Annotations
	seen := &corev1.Service{}
	late, err := s.findChild(ctx, w, seen)
	if err == nil {
		err = s.ensureEndpoints(ctx, w, want)
	}
	if err != nil {
		return err
	}
	*w.endpoint = nil
	if !late {
		if late, err = ensureNow(ctx, s.client, s.keys.live, w.Object, want, kube.DecidedOf(seen.UID)); err != nil {
			return err
		}
		if err := s.deleteEndpoints(ctx, w); err != nil {
			return err
		}
	}
	var service client.Reader = s.client
	if late { // the cache may still have the old port, which peers would dial
		service = s.keys.live
	}
	var current corev1.Service
	if err := service.Get(ctx, client.ObjectKeyFromObject(want), &current); apierrors.IsNotFound(err) {
		return kube.Wait(0, "the Service of the gateway is being created")
	} else if err != nil {
		return fmt.Errorf("reading Service %s: %w", want.Name, err)
	}
	var nodes corev1.NodeList
	if current.Spec.Type == corev1.ServiceTypeNodePort {
		if err := s.all.List(ctx, &nodes); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
	}
	endpoint, err := endpointOf(&current, nodes.Items)
	*w.endpoint = endpoint
	return err
}

// reportInternalEndpoint publishes where nodes reach the active replica, and all replicas if there are several.
func (s *wireguards[T]) reportInternalEndpoint(ctx context.Context, w *wireguard) error {
	pods, err := s.runningPods(ctx, w)
	if err != nil {
		return err
	}
	held, err := s.reportReplicas(ctx, w, pods)
	if err != nil {
		return err
	}
	before := *w.inner
	if *w.inner = innerEndpoint(pods, before); *w.inner == nil && w.hasReplicas() && len(pods) > 0 && (held || isReached(pods, before)) {
		*w.inner = before // for a moment no replica may be active
	}
	if *w.inner != nil {
		return nil
	}
	return s.markDisconnected(ctx, w)
}

// markDisconnected sets the Connection of a stopped gateway to Connecting, because no process is left to write the Connection. A gateway that runs
// again writes its Connection itself.
func (s *wireguards[T]) markDisconnected(ctx context.Context, w *wireguard) error {
	conn := &networkingv1beta1.Connection{}
	err := s.keys.live.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}, conn)
	if err != nil || conn.Status.Value != networkingv1beta1.Connected && conn.Status.Reach == "" {
		return client.IgnoreNotFound(err)
	}
	before := conn.DeepCopy()
	conn.Status.Value, conn.Status.Lost, conn.Status.Reach, conn.Status.FailedNodes = networkingv1beta1.Connecting, "", "", nil
	if err := s.keys.live.Status().Patch(kube.WithOwnRival(ctx), conn, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("saying that Connection %s is down: %w", conn.Name, err)
	}
	return nil
}

// Next looks at the keys from time to time.
func (s *wireguards[T]) Next(T) time.Duration { return keysThere }

// Report sets the condition of the gateway and returns its event.
func (s *wireguards[T]) Report(obj T, err error) []kube.Event {
	return reportReady(wireguardOf(obj).conditions, obj.GetGeneration(), err)
}

// ReplayEvents replays the event of the condition.
func (s *wireguards[T]) ReplayEvents(obj T) []kube.Event {
	return replayReady(*wireguardOf(obj).conditions)
}
