// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package storage binds the claims of Liqo's storage classes to the node of their first pod: to a real claim of this cluster, or to a placeholder
// whose data is a claim in a provider, made by the virtual kubelet.
//
// Each volume of these classes is virtual. The volume identifies the data, not the claim: a claim bound to another virtual volume, for example by
// "liqoctl move volume", uses the data of the new volume.
package storage

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Options configure the controllers.
type Options struct {
	// Namespace of the real claims; empty is names.StorageNamespace.
	Namespace string
	// RealStorageClass is the class of the real claims; empty is the cluster's default.
	RealStorageClass string
	// Workers is the number of claims handled at once; 0 is 4.
	Workers int
}

const defaultWorkers = 4

// Setup registers the controllers of claims and of virtual volumes. The cache of the manager may be restricted to volumes with the label
// names.StorageProvisioner.
func Setup(mgr ctrl.Manager, o Options) error {
	o.Namespace, o.Workers = cmp.Or(o.Namespace, names.StorageNamespace), cmp.Or(o.Workers, defaultWorkers)
	c := &claims{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("liqo-storage"), options: o}
	controller := kube.NewController(mgr, kube.Options{Name: "virtual-claims", Workers: o.Workers}, c)
	waiting := handler.EnqueueRequestsFromMapFunc(c.waitingClaims)
	err := controller.Complete(controller.Builder().
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(c.findCounterpart)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(requestsOfVolume)).
		Watches(&corev1.Node{}, waiting, builder.WithPredicates(newObjects)).
		Watches(&offv1beta1.VirtualNode{}, waiting, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&offv1beta1.NamespaceMap{}, waiting, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&offv1beta1.NamespaceOffloading{}, waiting, builder.WithPredicates(newObjects)).
		Watches(&storagev1.StorageClass{}, waiting))
	if err != nil {
		return err
	}
	v := &volumes{client: mgr.GetClient(), options: o}
	volume := kube.NewController(mgr, kube.Options{
		Name: "virtual-volumes", Finalizer: names.VirtualVolumeFinalizer,
		NeedsFinalizer: func(obj client.Object) bool { return !isRemote(obj.(*corev1.PersistentVolume)) },
	}, v)
	return volume.Complete(volume.Builder(predicate.NewPredicateFuncs(isVirtual)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(v.requestsOfRealClaim)))
}

// newObjects passes new objects. Objects that exist at the start of the process are read with the first claims.
var newObjects = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func isVirtual(obj client.Object) bool {
	return obj.GetLabels()[names.StorageProvisioner] != "" && obj.GetAnnotations()[provisionedBy] == names.StorageProvider
}

func requestFor(namespace, name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}
