// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// Settings of the policies for remote pods.
const (
	AdmitDetected = "auto"
	AdmitAlways   = "true" // any other value: never
)

// endpointGroups are API groups of CNI plugins that know the labels only of pods on their own nodes.
var endpointGroups = []string{"cilium.io", "k8s.ovn.org", "kubeovn.io"}

const (
	// remotePodDebounce is the time from a change of remote pods to the change of the policies.
	remotePodDebounce = time.Second
	// reasonNotAdmitted is the reason of the event on a NetworkPolicy whose remote pods are still rejected by the CNI plugin.
	reasonNotAdmitted = "RemotePodsNotAdmitted"
)

// remotePodPolicies maintains a policy by address beside each NetworkPolicy that admits remote pods by labels.
type remotePodPolicies struct {
	client client.Client
	live   client.Reader
	// made reads the policies that this controller made.
	made client.Reader
	// pods are the pods of offloaded namespaces; nil if the CNI plugin needs no such policies, and existing ones are deleted.
	pods   client.Reader
	events *kube.EventRecorder

	mu sync.Mutex
	// grouped are the remote pods by namespace; nil after a change.
	grouped []translate.PolicyNamespace
}

// SetupRemotePodPolicies registers the controller of the NetworkPolicies for remote pods.
func SetupRemotePodPolicies(mgr ctrl.Manager, setting string) error {
	made, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&networkingv1.NetworkPolicy{}: {
		Label: labels.SelectorFromSet(labels.Set{names.AppManagedBy: names.ManagedByLiqo}),
	}})
	if err != nil {
		return fmt.Errorf("watching the NetworkPolicies for remote pods: %w", err)
	}
	needed, err := needsRemotePodPolicies(mgr, setting)
	if err != nil {
		return err
	}
	r := &remotePodPolicies{client: mgr.GetClient(), live: mgr.GetAPIReader(), made: made,
		events: kube.NewEventRecorder(kube.EmitBy(mgr.GetEventRecorder("liqo-remote-pod-policies"), "AdmitRemotePods"))}
	b := ctrl.NewControllerManagedBy(mgr).Named("remote-pod-policies").
		WithOptions(controller.Options{RateLimiter: kube.RateLimiter()}).
		WatchesRawSource(source.Kind(made, &networkingv1.NetworkPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(ofAdmitting)))
	if needed {
		if b, err = r.addWatches(mgr, b); err != nil {
			return err
		}
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("registering controller remote-pod-policies: %w", err)
	}
	return nil
}

func needsRemotePodPolicies(mgr ctrl.Manager, setting string) (bool, error) {
	if setting != AdmitDetected {
		return setting == AdmitAlways, nil
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return false, fmt.Errorf("preparing the discovery of the CNI plugin: %w", err)
	}
	groups, err := api.ServerGroups()
	if err != nil {
		return false, fmt.Errorf("discovering the CNI plugin: %w", err)
	}
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return slices.Contains(endpointGroups, g.Name) }), nil
}

// ofAdmitting returns a request for the user's policy of a generated policy.
func ofAdmitting(_ context.Context, np *networkingv1.NetworkPolicy) []reconcile.Request {
	owner := metav1.GetControllerOf(np)
	if owner == nil || owner.Kind != "NetworkPolicy" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: np.Namespace, Name: owner.Name}}}
}

func (r *remotePodPolicies) addWatches(mgr ctrl.Manager, b *builder.Builder) (*builder.Builder, error) {
	offloaded := labels.SelectorFromSet(labels.Set{names.SchedulingEnabled: "true"})
	pods := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Pod{}, offloaded, nil)
	pods.Transform = func(obj client.Object) { translate.TrimPolicyPod(obj.(*corev1.Pod)) }
	if err := mgr.Add(pods); err != nil {
		return nil, fmt.Errorf("watching the pods of offloaded namespaces: %w", err)
	}
	r.pods = pods
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		r.forgetPods()
		return kube.Requests(ctx, r.client, &networkingv1.NetworkPolicyList{}, kube.Every, client.UnsafeDisableDeepCopy)
	})
	return b.
		Watches(&networkingv1.NetworkPolicy{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&networkingv1beta1.Configuration{}, all, builder.WithPredicates(peer.NetworksPredicate)).
		Watches(&corev1.Namespace{}, all, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(pods.Source(r.podHandler())), nil
}

// podHandler enqueues, remotePodDebounce after a change of pods, the policies that select the changed pods.
func (r *remotePodPolicies) podHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(ctx context.Context, q queue, pods ...client.Object) {
		r.forgetPods()
		ns := &corev1.Namespace{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: pods[0].GetNamespace()}, ns); err != nil {
			return // a deleted namespace enqueues all
		}
		in := translate.PolicyNamespace{Name: ns.Name, Labels: ns.Labels}
		for _, pod := range pods {
			in.Pods = append(in.Pods, translate.PolicyPod{Labels: pod.GetLabels()})
		}
		for _, req := range kube.Requests(ctx, r.client, &networkingv1.NetworkPolicyList{}, func(np *networkingv1.NetworkPolicy) bool {
			return translate.SelectsByLabels(np, in)
		}, client.UnsafeDisableDeepCopy) {
			q.AddAfter(req, remotePodDebounce)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { changed(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { changed(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod); !translate.IsSamePolicyPod(before, after) {
				changed(ctx, q, before, after)
			}
		},
	}
}

func (r *remotePodPolicies) forgetPods() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grouped = nil
}

// Reconcile makes or deletes the policy for the remote pods of one policy.
func (r *remotePodPolicies) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return kube.Result(r.syncPolicy(ctx, req.NamespacedName))
}

func (r *remotePodPolicies) syncPolicy(ctx context.Context, key client.ObjectKey) error {
	current := &networkingv1.NetworkPolicy{}
	if err := client.IgnoreNotFound(r.made.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: names.RemotePodPolicy(key.Name)}, current)); err != nil {
		return fmt.Errorf("reading the NetworkPolicy for remote pods: %w", err)
	}
	np, want, problems, err := r.desiredPolicy(ctx, key)
	if err != nil {
		return err
	}
	if want == nil {
		if owner := metav1.GetControllerOf(current); owner != nil && owner.Kind == "NetworkPolicy" && owner.Name == key.Name {
			err = kube.DeleteObject(ctx, r.client, current, "deleting the NetworkPolicy for remote pods")
		}
	} else {
		err = kube.ApplyOwned(ctx, r.client, r.live, np, want, current)
	}
	if np != nil {
		now := kube.Warnings(err)
		if len(problems) > 0 {
			now = append(now, kube.Event{Type: corev1.EventTypeWarning, Reason: reasonNotAdmitted, Message: strings.Join(problems, "; ")})
		}
		r.events.Record(np, now...)
	}
	return err
}

// desiredPolicy returns a policy, or nil if it does not exist, and the policy for its remote pods, or nil if none is needed.
func (r *remotePodPolicies) desiredPolicy(ctx context.Context, key client.ObjectKey) (np, want *networkingv1.NetworkPolicy, problems []string, err error) {
	if r.pods == nil {
		return nil, nil, nil, nil
	}
	np = &networkingv1.NetworkPolicy{}
	if err := r.client.Get(ctx, key, np); err != nil {
		return nil, nil, nil, client.IgnoreNotFound(err)
	}
	if !np.DeletionTimestamp.IsZero() || np.Labels[names.OffloadingOrigin] != "" { // a consumer's policy must not isolate more than it does
		return nil, nil, nil, nil
	}
	remote, err := r.remotePods(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	spec, problems := translate.RemotePeers(np, remote)
	if spec == nil {
		return np, nil, problems, nil
	}
	return np, &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: np.Namespace, Name: names.RemotePodPolicy(np.Name),
			Labels:      map[string]string{names.AppManagedBy: names.ManagedByLiqo},
			Annotations: map[string]string{names.SkipReflection: "true"},
		},
		Spec: *spec,
	}, problems, nil
}

// remotePods returns the remote pods by namespace. An address counts only in the networks of peers' pods.
func (r *remotePodPolicies) remotePods(ctx context.Context) ([]translate.PolicyNamespace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grouped != nil {
		return r.grouped, nil
	}
	var configurations networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the network configurations: %w", err)
	}
	var networks []prefix.Pair
	for i := range configurations.Items {
		of, _, _ := prefix.Placed(&configurations.Items[i])
		networks = append(networks, of.Pods...)
	}
	isRemote := func(a netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n prefix.Pair) bool { return n.Local.Contains(a) })
	}
	var namespaces corev1.NamespaceList
	if err := r.client.List(ctx, &namespaces, client.MatchingLabels{names.SchedulingEnabled: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the offloaded namespaces: %w", err)
	}
	out := []translate.PolicyNamespace{}
	for i := range namespaces.Items {
		ns := translate.PolicyNamespace{Name: namespaces.Items[i].Name, Labels: namespaces.Items[i].Labels}
		var pods corev1.PodList
		if err := r.pods.List(ctx, &pods, client.InNamespace(ns.Name)); err != nil {
			return nil, fmt.Errorf("listing the pods of namespace %s: %w", ns.Name, err)
		}
		for j := range pods.Items {
			if pod, ok := translate.NewPolicyPod(&pods.Items[j], isRemote); ok {
				ns.Pods = append(ns.Pods, pod)
			}
		}
		if len(ns.Pods) > 0 {
			out = append(out, ns)
		}
	}
	r.grouped = out
	return out, nil
}
