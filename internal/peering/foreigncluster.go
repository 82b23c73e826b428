// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package peering summarises each peer in its ForeignCluster, and grants permissions to our processes in tenant
// namespaces.
//
// A ForeignCluster exists while the peering has any object, and contains only information derived from the other
// objects. status.conditions belong to the replicator, because it connects to the peer; the rest is written by this
// package.
package peering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// Options are the version and modules of this cluster.
type Options struct {
	// LiqoNamespace holds the ServiceAccounts of our processes; empty is liqo.
	LiqoNamespace string
	// Version of the local Liqo; empty is compatible with every version.
	Version string
	// Disabled modules are published as not enabled, even if their objects exist.
	Disabled Disabled
}

// Disabled are the modules that are switched off.
type Disabled struct{ Networking, Authentication, Offloading bool }

// Setup registers the controllers of tenant namespaces and of ForeignClusters. Both look at the Secrets with control-plane
// credentials in tenant namespaces.
func Setup(mgr ctrl.Manager, o Options) error {
	secrets, err := watchCredentials(mgr)
	if err != nil {
		return err
	}
	return errors.Join(setupTenantNamespaces(mgr, o, secrets), setupForeignClusters(mgr, o, secrets), kube.ExportMetrics(mgr, newConditionExporter(mgr.GetClient())))
}

func watchCredentials(mgr ctrl.Manager) (*kube.NamespacedWatch, error) {
	credentials := labels.SelectorFromSet(labels.Set{names.IdentityType: string(authv1beta1.ControlPlaneIdentityType)})
	watch := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, peer.Namespaces(), credentials)
	if err := mgr.Add(watch); err != nil {
		return nil, fmt.Errorf("adding the watch of Secrets: %w", err)
	}
	return watch, nil
}

// foreignClusters reconciles one ForeignCluster for each peer.
type foreignClusters struct {
	client   client.Client
	secrets  *kube.NamespacedWatch
	emit     func(client.Object, kube.Event)
	events   *kube.EventRecorder
	failures *failures
	ports    *nodePorts
	version  string
	disabled Disabled
}

func setupForeignClusters(mgr ctrl.Manager, o Options, secrets *kube.NamespacedWatch) error {
	emit := kube.EmitBy(mgr.GetEventRecorder("liqo-foreigncluster"), "Compare")
	f := &foreignClusters{
		client: mgr.GetClient(), secrets: secrets, version: o.Version, disabled: o.Disabled,
		emit: emit, events: kube.NewEventRecorder(emit), failures: newFailures(time.Now()), ports: &nodePorts{live: mgr.GetAPIReader()},
	}
	wake := handler.EnqueueRequestsFromMapFunc(f.peerOf)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("foreigncluster").
		For(&liqov1beta1.ForeignCluster{}).
		WatchesRawSource(f.secrets.Source(wake))
	for _, obj := range watchedKinds() {
		b.Watches(obj, wake)
	}
	if err := b.Complete(f); err != nil {
		return fmt.Errorf("registering controller foreigncluster: %w", err)
	}
	return nil
}

// peerOf returns the requests for the peers of an object.
func (f *foreignClusters) peerOf(ctx context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, id := range peersOf(obj, f.ofNamespace(ctx)) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: string(id)}})
	}
	return out
}

// ofNamespace looks up whose tenant namespace a namespace is, "" for the namespace of no peer.
func (f *foreignClusters) ofNamespace(ctx context.Context) func(string) liqov1beta1.ClusterID {
	return func(name string) liqov1beta1.ClusterID {
		var namespace corev1.Namespace
		if name == "" || f.client.Get(ctx, types.NamespacedName{Name: name}, &namespace) != nil {
			return ""
		}
		id, _ := peer.OfNamespace(&namespace)
		return id
	}
}

// Reconcile derives the ForeignCluster of one peer from the other objects.
func (f *foreignClusters) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return kube.Result(f.reconcilePeer(ctx, liqov1beta1.ClusterID(req.Name)))
}

func (f *foreignClusters) reconcilePeer(ctx context.Context, id liqov1beta1.ClusterID) error {
	view, err := f.gatherView(ctx, id)
	if err != nil {
		return err
	}
	fc, err := f.readForeignCluster(ctx, id)
	switch {
	case err != nil:
		return err
	case view.isEmpty() && fc == nil:
		return nil
	case view.isEmpty():
		return f.removeForeignCluster(ctx, fc)
	case fc == nil:
		return f.createForeignCluster(ctx, id)
	case !fc.DeletionTimestamp.IsZero():
		return nil
	}
	if err := f.writeStatus(ctx, fc, view); err != nil {
		return err
	}
	if remaining := view.nextCheck(); remaining > 0 {
		return kube.Wait(remaining, "the certificate of the Identity will end")
	}
	return nil
}

func (f *foreignClusters) readForeignCluster(ctx context.Context, id liqov1beta1.ClusterID) (*liqov1beta1.ForeignCluster, error) {
	var fc liqov1beta1.ForeignCluster
	if err := f.client.Get(ctx, types.NamespacedName{Name: string(id)}, &fc); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading ForeignCluster %s: %w", id, err)
	}
	return &fc, nil
}

// createForeignCluster creates the object; the watch event triggers the run that fills in the status.
func (f *foreignClusters) createForeignCluster(ctx context.Context, id liqov1beta1.ClusterID) error {
	if len(validation.IsDNS1123Label(string(id))) > 0 {
		log.FromContext(ctx).V(1).Info("no cluster ID", "value", id)
		return nil
	}
	fc := &liqov1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: string(id), Labels: map[string]string{names.RemoteClusterID: string(id)}},
		Spec:       liqov1beta1.ForeignClusterSpec{ClusterID: id},
	}
	if err := f.client.Create(ctx, fc); err != nil {
		return fmt.Errorf("creating ForeignCluster %s: %w", id, err)
	}
	log.FromContext(ctx).Info("new peer", "peer", id)
	return nil
}

func (f *foreignClusters) removeForeignCluster(ctx context.Context, fc *liqov1beta1.ForeignCluster) error {
	if !fc.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := kube.DeleteObject(ctx, f.client, fc, "deleting ForeignCluster %s", fc.Name); err != nil {
		return err
	}
	log.FromContext(ctx).Info("nothing is left of a peer", "peer", fc.Name)
	return nil
}

// writeStatus patches the difference. The conditions have another owner and never differ, so they are never part of the
// patch.
func (f *foreignClusters) writeStatus(ctx context.Context, fc *liqov1beta1.ForeignCluster, view *peerView) error {
	want := fc.DeepCopy()
	if i := slices.IndexFunc(fc.Status.Conditions, func(c liqov1beta1.Condition) bool { return c.Type == liqov1beta1.APIServerStatus }); i >= 0 {
		view.answer = &fc.Status.Conditions[i]
	}
	want.Status = view.newStatus(fc.Generation, f.disabled)
	want.Status.Conditions = fc.Status.Conditions
	keepTimes(&want.Status.Modules, fc.Status.Modules, metav1.Now())
	f.recordEvents(ctx, want)
	if !equality.Semantic.DeepEqual(want.Status, fc.Status) {
		if err := client.IgnoreNotFound(f.client.Status().Patch(ctx, want, client.MergeFrom(fc))); err != nil {
			return fmt.Errorf("writing the status of ForeignCluster %s: %w", fc.Name, err)
		}
	}
	for _, e := range f.failures.findEvents(want, fc.Status.Modules, want.Status.Modules, time.Now()) {
		f.emit(want, e)
	}
	return nil
}

// recordEvents emits why new objects are not offered to the peer, and that NodePorts do not reach the peer, unless already recorded.
func (f *foreignClusters) recordEvents(ctx context.Context, fc *liqov1beta1.ForeignCluster) {
	var now []kube.Event
	if c := peer.VersionRefused(fc); c != nil {
		now = append(now, kube.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: c.Message})
	}
	if fc.Status.Modules.Networking.Enabled && f.ports.areLost(ctx) {
		now = append(now, lostNodePorts)
	}
	f.events.Record(fc, now...)
}
