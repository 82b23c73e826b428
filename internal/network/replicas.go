// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/election"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// maxReplicas is the most pods of a gateway: each listens to all others.
const maxReplicas = 8

// hasReplicas reports whether several pods of a gateway elect the active one.
func (w *wireguard) hasReplicas() bool {
	return w != nil && w.deployment != nil && w.deployment.Spec.Replicas != nil && *w.deployment.Spec.Replicas > 1
}

// checkReplicas returns why the replicas of a gateway are rejected: all replicas have the same key, and a replica that takes part in no election
// would take the session of the peer from the active replica.
func checkReplicas(w *wireguard) error {
	if !w.hasReplicas() {
		return nil
	}
	n := *w.deployment.Spec.Replicas
	switch {
	case n > maxReplicas:
		return kube.Invalid(reasonReplicas, fmt.Errorf("spec.deployment.spec.replicas is %d: a gateway of more than %d replicas is not supported", n, maxReplicas))
	case !slices.ContainsFunc(w.deployment.Spec.Template.Spec.Containers, isGateway):
		return kube.Invalid(reasonReplicas, fmt.Errorf(
			"spec.deployment.spec.replicas is %d: several replicas are not supported without a container whose args begin with %q, since they elect no active one; set it to 1", n, gatewayProgram))
	}
	return nil
}

// gatewayProgram is the first argument of the container of a gateway.
const gatewayProgram = "gateway"

func isGateway(c corev1.Container) bool { return len(c.Args) > 0 && c.Args[0] == gatewayProgram }

// takesPart is the argument of a gateway that takes part in an election.
const takesPart = "--leader-election=true"

// electingPods returns the pods that take part in an election. After a change of the number of replicas, a pod that takes no part may run beside
// them.
func electingPods(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return !slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return isGateway(c) && slices.Contains(c.Args, takesPart) })
	})
}

// addElection has the pods of a gateway elect the active one, on different nodes if possible.
func addElection(d *appsv1.DeploymentSpec) {
	pod := &d.Template
	delete(pod.Labels, names.GatewayActive)
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; isGateway(*c) {
			const flag = "--leader-election"
			c.Args = append(slices.DeleteFunc(c.Args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") }), takesPart)
		}
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	apart := pod.Spec.Affinity.PodAntiAffinity
	if apart == nil {
		term := corev1.PodAffinityTerm{LabelSelector: d.Selector.DeepCopy(), TopologyKey: corev1.LabelHostname}
		pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}},
		}
	} else if len(apart.RequiredDuringSchedulingIgnoredDuringExecution) > 0 && d.Strategy.RollingUpdate != nil {
		// The cluster may have no node for an additional replica; a standby ends first, or the active replica hands over to a standby.
		d.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1))}
	}
}

// electionObjects returns the objects of a gateway of several replicas: the Lease, held by the active replica; the permission to write only this
// Lease and the endpoints of this server; a disruption budget. Every gateway reads all Leases.
func (w *wireguard) electionObjects() []client.Object {
	name := names.GatewayLease(w.gateway)
	role := &rbacv1.Role{ObjectMeta: w.objectMeta(name), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{names.Gateway(w.gateway)},
		Verbs: []string{"update"},
	}}}
	if w.service != nil {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, ResourceNames: []string{names.Gateway(w.gateway)},
			Verbs: []string{"get", "list", "watch", "patch"},
		})
	}
	binding := w.newBinding(name, name)
	binding.RoleRef.Kind = "Role"
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: w.objectMeta(names.Gateway(w.gateway)), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: w.podLabels()},
	}}
	return []client.Object{&coordinationv1.Lease{ObjectMeta: w.objectMeta(names.Gateway(w.gateway))}, role, binding, budget}
}

// podLabels select the pods of a gateway.
func (w *wireguard) podLabels() map[string]string {
	return map[string]string{names.GatewayName: names.GatewayLabel(w.gateway), names.GatewayNamespace: w.GetNamespace()}
}

// ensureElection creates the objects of an election, or deletes them when no pod is left to take part.
func (s *wireguards[T]) ensureElection(ctx context.Context, w *wireguard) error {
	if w.hasReplicas() {
		errs := []error{s.keys.allowNamespace(ctx, w)}
		for _, obj := range w.electionObjects() {
			err := ensureObject(ctx, s.clientFor(obj), s.keys.live, w.Object, obj)
			if apierrors.IsForbidden(err) {
				err = delayedError(err)
			}
			errs = append(errs, err)
		}
		return errors.Join(append(errs, s.reserveLease(ctx, w))...)
	}
	lease := &coordinationv1.Lease{ObjectMeta: w.objectMeta(names.Gateway(w.gateway))}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	pods, err := s.runningPods(ctx, w)
	if err != nil || len(electingPods(pods)) > 0 {
		return err
	}
	for _, obj := range slices.Backward(w.electionObjects()) { // the Lease is last: an existing Lease shows possible orphans
		err := s.clientFor(obj).Get(ctx, client.ObjectKeyFromObject(obj), obj)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %T %s: %w", obj, obj.GetName(), err)
		}
		if err != nil || !metav1.IsControlledBy(obj, w.Object) {
			continue
		}
		if err := kube.DeleteObject(ctx, s.keys.live, obj, "deleting %T %s of a gateway without an election", obj, obj.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// reserveLease keeps replicas from the Lease while a pod that takes part in no election has the tunnel, however long the rollout takes.
func (s *wireguards[T]) reserveLease(ctx context.Context, w *wireguard) error {
	pods, err := s.runningPods(ctx, w)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: w.objectMeta(names.Gateway(w.gateway))}
	err = s.client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if apierrors.IsNotFound(err) { // it was just created
		err = s.keys.live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // the write of the Lease reports why
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Lease of the gateway: %w", err)
	}
	outside, before := len(electingPods(pods)) < len(pods), lease.DeepCopy()
	switch holder := lease.Spec.HolderIdentity; {
	case outside && (holder == nil || *holder == ""):
		lease.Spec.HolderIdentity = new(election.Outside)
	case !outside && holder != nil && *holder == election.Outside:
		lease.Spec.HolderIdentity = nil
	default:
		return nil
	}
	if err := s.keys.live.Patch(ctx, lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("reserving the Lease of the gateway: %w", err)
	}
	return nil
}

// clientFor returns the client for an object: there is no cache of Roles.
func (s *wireguards[T]) clientFor(obj client.Object) client.Client {
	if _, ok := obj.(*rbacv1.Role); ok {
		return s.keys.live
	}
	return s.client
}

// goneAfter is how long after the deletion timestamp a pod counts as gone. The node of a gone pod is dead, or cut off.
const goneAfter = time.Minute

// runningPods returns the pods of a gateway that run, sorted by name.
func (s *wireguards[T]) runningPods(ctx context.Context, w *wireguard) ([]corev1.Pod, error) {
	return listRunning(ctx, s.client, w)
}

func listRunning(ctx context.Context, c client.Reader, w *wireguard) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(w.GetNamespace()), client.MatchingLabels(w.podLabels())); err != nil {
		return nil, fmt.Errorf("listing the pods of the gateway: %w", err)
	}
	out := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		_, err := netip.ParseAddr(p.Status.PodIP)
		return err != nil || p.Status.Phase != corev1.PodRunning || !p.DeletionTimestamp.IsZero() && time.Since(p.DeletionTimestamp.Time) > goneAfter
	})
	slices.SortFunc(out, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// hasEnded reports whether the gateway of a pod does not run, according to the node: the gateway crashed, and the container waits for the next start.
// A container in a state unknown to the runtime does not run, either.
func hasEnded(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return isGateway(c) && slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.Name && s.State.Running == nil
		})
	})
}

// reportReplicas publishes the running replicas, and labels the holder of the Lease as active. No pod but the holder is labelled, except a pod that
// replaces all replicas. reportReplicas reports whether the Lease has a holder, or a standby as the next holder.
func (s *wireguards[T]) reportReplicas(ctx context.Context, w *wireguard, pods []corev1.Pod) (held bool, err error) {
	electing := electingPods(pods)
	if *w.replicas = nil; len(electing) == 0 {
		return false, nil
	}
	running := slices.DeleteFunc(slices.Clone(electing), hasEnded)
	for i := range running[:min(len(running), maxPublished)] {
		*w.replicas = append(*w.replicas, networkingv1beta1.GatewayReplica{
			Name: running[i].Name, IP: networkingv1beta1.IP(running[i].Status.PodIP), Node: running[i].Spec.NodeName,
		})
	}
	labelled := func(pods []corev1.Pod) []corev1.Pod { return pods }
	if !w.hasReplicas() {
		labelled = electingPods
	}
	var lease coordinationv1.Lease
	err = s.client.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}, &lease)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	isHeld := func() bool {
		holder := lease.Spec.HolderIdentity
		return holder != nil && *holder != "" && *holder != election.Outside || slices.ContainsFunc(running, func(p corev1.Pod) bool {
			return p.DeletionTimestamp.IsZero() && isStandby(&lease, p.Name)
		})
	}
	if held = isHeld(); !held && *w.inner != nil { // the cache may not have the next holder yet
		key := client.ObjectKeyFromObject(&lease)
		lease = coordinationv1.Lease{} // absent fields would keep their values
		if err := s.keys.live.Get(ctx, key, &lease); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		held = isHeld()
	}
	holder := lease.Spec.HolderIdentity
	if holder == nil || !metav1.IsControlledBy(&lease, w.Object) || !slices.ContainsFunc(electing, func(p corev1.Pod) bool { return p.Name == *holder }) {
		return held, nil // until the takeover by another replica, the present state is the best
	}
	isLabelled := func(p corev1.Pod) bool { return (p.Labels[names.GatewayActive] == "true") == (p.Name == *holder) }
	if !slices.ContainsFunc(labelled(pods), func(p corev1.Pod) bool { return !isLabelled(p) }) {
		return held, nil
	}
	var all corev1.PodList // ended pods, too; the cache may lag behind the last labels, and two pods are never labelled
	if err := s.keys.live.List(ctx, &all, client.InNamespace(w.GetNamespace()), client.MatchingLabels(w.podLabels())); err != nil {
		return held, fmt.Errorf("listing the pods of the gateway: %w", err)
	}
	now := labelled(all.Items)
	for _, active := range []bool{false, true} {
		for i := range now {
			if (now[i].Name == *holder) != active {
				continue
			}
			if err := s.labelPod(ctx, &now[i], active); err != nil {
				return held, err
			}
		}
	}
	for i := range pods {
		if j := slices.IndexFunc(now, func(p corev1.Pod) bool { return p.UID == pods[i].UID }); j >= 0 {
			pods[i] = now[j]
		}
	}
	return held, nil
}

// isStandby reports whether a replica may follow the holder of a Lease, as the last holder wrote.
func isStandby(lease *coordinationv1.Lease, replica string) bool {
	return slices.Contains(strings.Split(lease.Annotations[names.GatewayStandbys], ","), replica)
}

// byEndpointSlice is the value of GatewayActive in the selector of the Service of several replicas, which selects no pod.
const byEndpointSlice = "by-endpointslice"

// ensureEndpoints makes the Service of several replicas follow an EndpointSlice of all replicas. The active replica marks itself as ready in the
// slice, so a failover takes one write of one object, and needs neither the leader of this controller nor the leader of the endpoints controller. The
// policy liqo-gateways allows replicas no other change, and one ready endpoint at most.
func (s *wireguards[T]) ensureEndpoints(ctx context.Context, w *wireguard, service *corev1.Service) error {
	if !w.hasReplicas() {
		return nil
	}
	pods, err := s.runningPods(ctx, w)
	if err != nil {
		return err
	}
	current := &discoveryv1.EndpointSlice{}
	err = s.client.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}, current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the EndpointSlice of the gateway: %w", err)
	}
	if len(pods) == 0 && !metav1.IsControlledBy(current, w.Object) { // the family of the addresses is not known
		return nil
	}
	if !metav1.IsControlledBy(current, w.Object) && checkReplicas(w) != nil { // the running gateway is kept, with its endpoints
		return nil
	}
	if current.UID == "" { // the cache lacks a slice without the labels
		err = s.keys.live.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}, current)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading whether the name of the EndpointSlice is taken: %w", err)
		}
	}
	if err := checkOwner(ctx, s.keys.live, w.Object, current); err != nil {
		return err
	}
	if !current.DeletionTimestamp.IsZero() {
		return kube.Wait(handover, "the EndpointSlice of the gateway is being deleted")
	}
	want := endpointSliceOf(w, service, pods, current)
	if err = nil; current.UID == "" {
		err = s.client.Create(ctx, want)
	} else if !reflect.DeepEqual(current, want) {
		err = s.client.Patch(ctx, want, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("writing the EndpointSlice of the gateway: %w", err)
	}
	if service.Spec.Selector = maps.Clone(service.Spec.Selector); service.Spec.Selector == nil {
		service.Spec.Selector = map[string]string{}
	}
	service.Spec.Selector[names.GatewayActive] = byEndpointSlice
	return nil
}

// deleteEndpoints deletes the EndpointSlice of several replicas once the Service selects pods: kube-proxy would go on to follow both.
func (s *wireguards[T]) deleteEndpoints(ctx context.Context, w *wireguard) error {
	if w.hasReplicas() {
		return nil
	}
	slice := &discoveryv1.EndpointSlice{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: names.Gateway(w.gateway)}, slice)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the EndpointSlice of the gateway: %w", err)
	}
	if err != nil || !metav1.IsControlledBy(slice, w.Object) {
		return nil
	}
	return kube.DeleteObject(ctx, s.keys.live, slice, "deleting the EndpointSlice of a gateway without replicas")
}

// endpointSliceOf returns the endpoints of a Service. The ready endpoint is kept; in a new or adopted slice, and until a replica marks itself, the
// ready endpoint is the pod reached by nodes.
func endpointSliceOf(w *wireguard, service *corev1.Service, pods []corev1.Pod, current *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	want := current.DeepCopy()
	ready := map[types.UID]bool{}
	for _, e := range current.Endpoints {
		if e.TargetRef != nil && e.Conditions.Ready != nil {
			ready[e.TargetRef.UID] = *e.Conditions.Ready
		}
	}
	if !metav1.IsControlledBy(current, w.Object) { // it is new, or adopted
		if current.UID == "" {
			want.ObjectMeta, want.AddressType = w.objectMeta(names.Gateway(w.gateway)), addressType(pods[0].Status.PodIP)
		}
		want.Labels = mergeMaps(want.Labels, w.objectMeta(want.Name).Labels)
		want.OwnerReferences = append(want.OwnerReferences, *metav1.NewControllerRef(w.Object, kindOf(w.Object)))
		for i := range pods {
			ready[pods[i].UID] = isReached(pods[i:i+1], innerEndpoint(pods, *w.inner))
		}
	}
	electing := electingPods(pods)
	marked := slices.ContainsFunc(electing, func(p corev1.Pod) bool { return ready[p.UID] })
	reached := cmp.Or(innerEndpoint(pods, *w.inner), *w.inner)
	for i := range pods { // a pod that takes part in no election does not mark itself
		if !slices.ContainsFunc(electing, func(p corev1.Pod) bool { return p.UID == pods[i].UID }) {
			ready[pods[i].UID] = !marked && isReached(pods[i:i+1], reached)
		}
	}
	want.Labels = mergeMaps(want.Labels, map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: names.GatewayEndpointSliceManager})
	want.Endpoints, want.Ports = nil, nil
	for i := range pods {
		p := &pods[i]
		if addressType(p.Status.PodIP) != want.AddressType || len(want.Endpoints) == maxPublished {
			continue
		}
		want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: new(ready[p.UID]), Serving: new(ready[p.UID])},
			NodeName: new(p.Spec.NodeName), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		})
	}
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		if number, ok := targetPort(p, w.deployment.Spec.Template.Spec); ok {
			want.Ports = append(want.Ports, discoveryv1.EndpointPort{
				Name: new(p.Name), Protocol: new(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: new(number), AppProtocol: p.AppProtocol,
			})
		}
	}
	return want
}

func addressType(ip string) discoveryv1.AddressType {
	if strings.Contains(ip, ":") {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// targetPort returns the port of pods for a port of their Service, and whether the pods have it.
func targetPort(p *corev1.ServicePort, pod corev1.PodSpec) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		return cmp.Or(p.TargetPort.IntVal, p.Port), true
	}
	for _, c := range pod.Containers {
		for _, port := range c.Ports {
			if port.Name == p.TargetPort.StrVal {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

// maxPublished is the most replicas in a status: in a rolling upgrade there are more than are asked for.
const maxPublished = 16

// labelPod labels a pod as active, or not. Replicas may take turns: that is no contest between writers.
func (s *wireguards[T]) labelPod(ctx context.Context, pod *corev1.Pod, active bool) error {
	if (pod.Labels[names.GatewayActive] == "true") == active {
		return nil
	}
	before := pod.DeepCopy()
	if delete(pod.Labels, names.GatewayActive); active {
		pod.Labels[names.GatewayActive] = "true"
	}
	err := s.keys.live.Patch(kube.WithOwnRival(ctx), pod, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling pod %s: %w", pod.Name, err)
	}
	return nil
}
