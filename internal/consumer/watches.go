// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// addWatches adds the watches of an offloaded namespace's dependencies. Nodes send heartbeats all the time: only their
// labels are relevant.
func (s *namespaceOffloadings) addWatches(b *builder.Builder) *builder.Builder {
	all := handler.EnqueueRequestsFromMapFunc(s.allRequests)
	here := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return offloadingOf(obj.GetNamespace())
	})
	itself := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return offloadingOf(obj.GetName())
	})
	return b.
		Watches(&offv1beta1.NamespaceMap{}, s.mapHandler(), builder.WithPredicates(own)).
		Watches(&offv1beta1.VirtualNode{}, all, builder.WithPredicates(nodeSpecChanged)).
		Watches(&corev1.Node{}, all, builder.WithPredicates(virtualNode, predicate.LabelChangedPredicate{})).
		Watches(&corev1.Namespace{}, itself, builder.WithPredicates(kube.NamespaceChanged)).
		Watches(&rbacv1.RoleBinding{}, here, builder.WithPredicates(ofVirtualKubelet, deletedOrChanged)).
		Watches(&liqov1beta1.ForeignCluster{}, all, builder.WithPredicates(givenUpChanged)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(ofVolume)).
		WatchesMetadata(&networkingv1.NetworkPolicy{}, here, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesRawSource(source.Kind(s.steering.waiting, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(s.ofWaiting)))
}

// ofWaiting returns a request for the namespace of an unscheduled pod if the pod needs a remedy.
func (s *namespaceOffloadings) ofWaiting(ctx context.Context, pod *corev1.Pod) []reconcile.Request {
	nso := &offv1beta1.NamespaceOffloading{}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: names.NamespaceOffloading}
	if err := s.client.Get(ctx, key, nso); err != nil || !nso.DeletionTimestamp.IsZero() || policy.RemedyForWaiting(pod, nso, s.steering.class) == policy.Leave {
		return nil // the creation or deletion of an offloading checks all pods
	}
	return offloadingOf(pod.Namespace)
}

// ofVolume returns the offloading of the namespace of a volume's claim.
func ofVolume(_ context.Context, obj client.Object) []reconcile.Request {
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && obj.GetLabels()[names.RemoteClusterID] != "" {
		return offloadingOf(ref.Namespace)
	}
	return nil
}

func offloadingOf(namespace string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: names.NamespaceOffloading}}}
}

func (s *namespaceOffloadings) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return kube.Requests(ctx, s.client, &offv1beta1.NamespaceOffloadingList{}, kube.Every)
}

// mapHandler enqueues only the namespaces whose entry changed; creation and deletion of a map enqueue all.
func (s *namespaceOffloadings) mapHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	every := func(ctx context.Context, q queue) {
		for _, r := range s.allRequests(ctx, nil) {
			q.Add(r)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { every(ctx, q) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) { every(ctx, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*offv1beta1.NamespaceMap), e.ObjectNew.(*offv1beta1.NamespaceMap)
			if !slices.Equal(before.Status.ProviderCapabilities, after.Status.ProviderCapabilities) {
				every(ctx, q)
				return
			}
			for _, namespace := range differingNamespaces(before, after) {
				for _, r := range offloadingOf(namespace) {
					q.Add(r)
				}
			}
		},
	}
}

// differingNamespaces lists the namespaces whose desired or current entry is not the same in both.
func differingNamespaces(before, after *offv1beta1.NamespaceMap) []string {
	found := map[string]bool{}
	compareMaps(before.Spec.DesiredMapping, after.Spec.DesiredMapping, found)
	compareMaps(before.Status.CurrentMapping, after.Status.CurrentMapping, found)
	var out []string
	for namespace := range found {
		out = append(out, namespace)
	}
	return out
}

func compareMaps[V comparable](before, after map[string]V, found map[string]bool) {
	for key, value := range before {
		if now, ok := after[key]; !ok || now != value {
			found[key] = true
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			found[key] = true
		}
	}
}

// own passes the objects created in this cluster.
var own = predicate.NewPredicateFuncs(func(obj client.Object) bool { return !peer.IsReplica(obj) })

var virtualNode = predicate.NewPredicateFuncs(func(obj client.Object) bool {
	return obj.GetLabels()[names.NodeType] == names.NodeTypeVirtualNode
})

var ofVirtualKubelet = predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetLabels()[names.VirtualNode] != "" })

// deletedOrChanged drops creations, which are our own.
var deletedOrChanged = predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}

var nodeSpecChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	return before.GetGeneration() != after.GetGeneration() || before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}}

var givenUpChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*liqov1beta1.ForeignCluster), e.ObjectNew.(*liqov1beta1.ForeignCluster)
	return isGivenUp(before) != isGivenUp(after)
}}

// deploymentChanged passes only changes that affect whether a virtual kubelet runs as desired.
var deploymentChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*appsv1.Deployment), e.ObjectNew.(*appsv1.Deployment)
	return before.Generation != after.Generation || before.Status.AvailableReplicas != after.Status.AvailableReplicas ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
}}

// addWatches adds the watches of a virtual node's inputs and outputs.
func (v *virtualNodes) addWatches(b *builder.Builder) *builder.Builder {
	labelled := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[names.VirtualNode]}}}
	})
	return b.
		Watches(&appsv1.Deployment{}, labelled, builder.WithPredicates(ofVirtualKubelet, deploymentChanged)).
		Watches(&rbacv1.RoleBinding{}, labelled, builder.WithPredicates(ofVirtualKubelet, deletedOrChanged)).
		Watches(&rbacv1.ClusterRoleBinding{}, v.enqueueForNode(isNodeName), builder.WithPredicates(ofVirtualKubelet, deletedOrChanged)).
		Watches(&corev1.Node{}, v.enqueueForNode(isNodeName), builder.WithPredicates(virtualNode, predicate.LabelChangedPredicate{})).
		Watches(&offv1beta1.NamespaceMap{}, v.enqueueForNode(ofProvider), builder.WithPredicates(own, predicate.LabelChangedPredicate{})).
		Watches(&liqov1beta1.ForeignCluster{}, v.enqueueForNode(ofForeignCluster), builder.WithPredicates(givenUpChanged)).
		Watches(&corev1.Namespace{}, v.enqueueForNode(isOfCluster), builder.WithPredicates(kube.NamespaceChanged)).
		Watches(&offv1beta1.VkOptionsTemplate{}, v.enqueueForNode(func(vn *offv1beta1.VirtualNode, obj client.Object) bool {
			return v.options.templateKey(vn) == client.ObjectKeyFromObject(obj)
		}))
}

// mayRun selects pods with possibly running processes: a kubelet reports Succeeded or Failed once all have ended, up to a
// second before the pod is deleted.
var mayRun = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// runningKubelets returns a cache of the names of virtual kubelets' pods that may run.
func runningKubelets(mgr ctrl.Manager) (cache.Cache, error) {
	kubelets, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&corev1.Pod{}: {
		Label: labels.SelectorFromSet(labels.Set{names.OffloadingComponent: names.ComponentVirtualKubelet}), Field: mayRun, Transform: nameOnly,
	}})
	if err != nil {
		return nil, fmt.Errorf("watching virtual kubelets: %w", err)
	}
	return kubelets, nil
}

func nameOnly(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
	}}, nil
}

// servedBy wakes the VirtualNode of a virtual kubelet's pod.
func servedBy(_ context.Context, pod *corev1.Pod) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[names.VirtualNode]}}}
}

// ended passes deletions from the cache.
var ended = predicate.TypedFuncs[*corev1.Pod]{
	CreateFunc: func(event.TypedCreateEvent[*corev1.Pod]) bool { return false },
	UpdateFunc: func(event.TypedUpdateEvent[*corev1.Pod]) bool { return false },
}

// enqueueForNode enqueues the VirtualNodes that an object concerns.
func (v *virtualNodes) enqueueForNode(concerned func(*offv1beta1.VirtualNode, client.Object) bool) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return kube.Requests(ctx, v.client, &offv1beta1.VirtualNodeList{}, func(vn *offv1beta1.VirtualNode) bool { return concerned(vn, obj) })
	})
}

func isNodeName(vn *offv1beta1.VirtualNode, obj client.Object) bool {
	return obj.GetName() == vn.Name || obj.GetLabels()[names.VirtualNode] == vn.Name
}

// isOfCluster reports whether a namespace is the namespace of a VirtualNode, or a tenant namespace of its provider: the NamespaceMap
// of a VirtualNode in another namespace is in the tenant namespace.
func isOfCluster(vn *offv1beta1.VirtualNode, obj client.Object) bool {
	id, tenant := peer.OfNamespace(obj.(*corev1.Namespace))
	return obj.GetName() == vn.Namespace || tenant && id == vn.Spec.ClusterID
}

func ofProvider(vn *offv1beta1.VirtualNode, obj client.Object) bool {
	return obj.GetLabels()[names.RemoteClusterID] == string(vn.Spec.ClusterID)
}

func ofForeignCluster(vn *offv1beta1.VirtualNode, obj client.Object) bool {
	return obj.GetName() == string(vn.Spec.ClusterID)
}
