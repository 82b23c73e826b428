// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package consumer implements offloading in the consumer: the selection of providers for namespaces, and the virtual nodes
// that represent the providers.
package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

const managedBy = names.ManagedByLiqo

// NamespaceOffloadingOptions configure the offloading of namespaces.
type NamespaceOffloadingOptions struct {
	// ClusterID of this cluster.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace is where the installation lives.
	LiqoNamespace string
	// RuntimeClass of pods that request a virtual node explicitly.
	RuntimeClass string
	// PolicyReflection selects the NetworkPolicies that virtual kubelets reflect.
	PolicyReflection translate.ReflectionType
	// Workers is the number of namespaces handled at once; 0 is 1.
	Workers int
}

// SetupNamespaceOffloadings registers the controller of NamespaceOffloadings.
func SetupNamespaceOffloadings(mgr ctrl.Manager, o NamespaceOffloadingOptions) error {
	steering, err := newSteering(mgr, o.RuntimeClass)
	if err != nil {
		return err
	}
	s := &namespaceOffloadings{client: mgr.GetClient(), direct: steering.direct, steering: steering, clusterID: string(o.ClusterID), liqoNamespace: o.LiqoNamespace, podLooks: &podLooks{looks: map[string]podLook{}}, policyReflection: o.PolicyReflection}
	c := kube.NewController(mgr, kube.Options{
		Name:           "namespaceoffloading",
		Finalizer:      names.NamespaceOffloadingFinalizer,
		NeedsFinalizer: func(obj client.Object) bool { return obj.GetName() == names.NamespaceOffloading },
		Workers:        o.Workers,
	}, s)
	return c.Complete(s.addWatches(c.Builder()))
}

type namespaceOffloadings struct {
	client        client.Client
	direct        client.Client
	steering      *podSteering
	clusterID     string
	liqoNamespace string
	podLooks      *podLooks
	// policyReflection selects the NetworkPolicies that virtual kubelets reflect.
	policyReflection translate.ReflectionType
}

// Sync maps the namespace in every selected provider, grants the virtual kubelets access to it and has the pods
// of the namespace steered.
func (s *namespaceOffloadings) Sync(ctx context.Context, nso *offv1beta1.NamespaceOffloading) error {
	if nso.Name != names.NamespaceOffloading {
		return kube.Invalid("Invalid", fmt.Errorf("the name of a NamespaceOffloading must be %s", names.NamespaceOffloading))
	}
	if err := s.checkNamespace(ctx, nso.Namespace); err != nil {
		return err
	}
	in, err := s.gatherView(ctx, nso)
	if err != nil {
		return err
	}
	selected, err := in.selectedClusters()
	if err != nil {
		return kube.Invalid("Invalid", err)
	}
	// A remote namespace goes with all data in it.
	held := in.keepData(selected)
	// Permissions come first: a virtual kubelet starts when its mapping is accepted.
	if err := s.grantKubelets(ctx, nso.Namespace, in.servedNodes(selected), in.leavingNodes(selected)); err != nil {
		return err
	}
	refused := held // a provider with a full map does not keep the namespace from other providers
	for i := range in.maps {
		remote := ""
		if selected[in.maps[i].Name] {
			remote = remoteName(nso, s.clusterID)
		}
		err := s.mapNamespace(ctx, &in.maps[i], nso.Namespace, remote)
		if _, invalid := kube.InvalidReason(err); invalid {
			refused = append(refused, fmt.Errorf("cluster %s: %w", in.maps[i].Name, err))
		} else if err != nil {
			return err
		}
	}
	open := nso.Spec.PodOffloadingStrategy != offv1beta1.LocalPodOffloadingStrategyType
	if err := s.labelNamespace(ctx, nso.Namespace, open); err != nil {
		return err
	}
	before := nso.Status.RemoteNamespacesConditions
	nso.Status = in.newStatus(selected, metav1.Now())
	if err := s.setProtection(ctx, in, selected, before, time.Now()); err != nil {
		return err
	}
	return errors.Join(append(refused, lookAgain(&nso.Status), s.steering.correctPods(ctx, nso, in.unreachedClusters(selected), time.Now()))...)
}

// Cleanup disables the namespace and waits until the last remote namespace of a live provider is gone. At the end it reads from the
// API server: an object written a moment ago is not in the cache, and would be orphaned.
func (s *namespaceOffloadings) Cleanup(ctx context.Context, nso *offv1beta1.NamespaceOffloading) error {
	if err := s.endOffloading(ctx, nso); err != nil {
		return err
	}
	uncached := *s
	uncached.client = s.direct
	return uncached.endOffloading(ctx, nso)
}

func (s *namespaceOffloadings) endOffloading(ctx context.Context, nso *offv1beta1.NamespaceOffloading) error {
	in, err := s.gatherView(ctx, nso)
	if err != nil {
		return err
	}
	if err := s.labelNamespace(ctx, nso.Namespace, false); err != nil {
		return err
	}
	selected := map[string]bool{}
	held := in.keepData(selected)
	for i := range in.maps {
		if selected[in.maps[i].Name] {
			continue
		}
		if err := s.mapNamespace(ctx, &in.maps[i], nso.Namespace, ""); err != nil {
			return err
		}
	}
	nso.Status = in.newStatus(selected, metav1.Now())
	if len(held) > 0 {
		return errors.Join(held...)
	}
	if err := s.steering.releaseWaiting(ctx, nso, time.Now()); err != nil {
		return err
	}
	if remaining := in.remainingClusters(); len(remaining) > 0 {
		return kube.Wait(0, fmt.Sprintf("%d remote namespaces are being removed", len(remaining)))
	}
	if err := s.steering.releasePods(ctx, nso.Namespace, slices.Sorted(maps.Keys(in.kubeNodes))); err != nil {
		return err
	}
	return s.grantKubelets(ctx, nso.Namespace, nil, nil)
}

// Report emits problems for the user: present and expected rejections by providers, with reasons; policies without effect on remote pods;
// an invalid, ignored annotation.
func (s *namespaceOffloadings) Report(nso *offv1beta1.NamespaceOffloading, err error) []kube.Event {
	out := slices.Concat(kube.Warnings(err), refusalEvents(&nso.Status), unprotectedEvents(&nso.Status))
	if value, ok := nso.Annotations[names.EvictMisplacedPods]; ok && value != "true" && value != "false" {
		out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: "InvalidAnnotation", Message: fmt.Sprintf(
			"No pod that runs is evicted, because the annotation %s is %q, neither true nor false", names.EvictMisplacedPods, value)})
	}
	return out
}

// checkNamespace refuses namespaces whose pods are never steered, because we or Kubernetes depend on them.
func (s *namespaceOffloadings) checkNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if _, tenant := peer.OfNamespace(namespace); tenant || name == s.liqoNamespace || name == metav1.NamespaceSystem {
		return kube.Invalid("Invalid", fmt.Errorf("the namespace %q cannot be offloaded: it belongs to Kubernetes or to Liqo", name))
	}
	return nil
}

func (s *namespaceOffloadings) gatherView(ctx context.Context, nso *offv1beta1.NamespaceOffloading) (*offloadingView, error) {
	in := &offloadingView{clusterID: s.clusterID, nso: nso, kubeNodes: map[string]*corev1.Node{}, dead: map[string]bool{}}
	all := &offv1beta1.NamespaceMapList{}
	if err := s.client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	for i := range all.Items {
		if nm := &all.Items[i]; !peer.IsReplica(nm) {
			in.maps = append(in.maps, *nm)
		}
	}
	nodes := &offv1beta1.VirtualNodeList{}
	if err := s.client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	in.nodes = nodes.Items
	volumes := &corev1.PersistentVolumeList{}
	if err := s.client.List(ctx, volumes, client.HasLabels{names.StorageProvisioner, names.RemoteClusterID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the volumes in providers: %w", err)
	}
	in.volumes = volumes.Items
	kubeNodes := &corev1.NodeList{}
	if err := s.client.List(ctx, kubeNodes, client.MatchingLabels{names.NodeType: names.NodeTypeVirtualNode}); err != nil {
		return nil, fmt.Errorf("listing virtual Nodes: %w", err)
	}
	for i := range kubeNodes.Items {
		in.kubeNodes[kubeNodes.Items[i].Name] = &kubeNodes.Items[i]
	}
	for i := range in.maps {
		id := providerOf(&in.maps[i])
		dead, known, err := givenUp(ctx, s.client, id)
		if err != nil {
			return nil, err
		}
		in.dead[id] = dead || !known && !in.hasVirtualNode(id)
	}
	return in, nil
}

// mapNamespace sets the entry of the namespace, or removes the entry if the remote name is empty. Other namespaces have other
// writers.
func (s *namespaceOffloadings) mapNamespace(ctx context.Context, nm *offv1beta1.NamespaceMap, namespace, remote string) error {
	current, mapped := nm.Spec.DesiredMapping[namespace]
	if current == remote && mapped == (remote != "") || !nm.DeletionTimestamp.IsZero() {
		return nil
	}
	var value any
	if remote != "" {
		value = remote
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"desiredMapping": map[string]any{namespace: value}}})
	if err != nil {
		return fmt.Errorf("encoding the mapping: %w", err)
	}
	err = s.client.Patch(ctx, nm, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsInvalid(err) { // too many namespaces, or too long a name
		return kube.Invalid("Invalid", fmt.Errorf("mapping the namespace in NamespaceMap %q: %w", nm.Name, err))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mapping the namespace in NamespaceMap %q: %w", nm.Name, err)
	}
	return nil
}

// labelNamespace enables or disables the steering of new pods of the namespace.
func (s *namespaceOffloadings) labelNamespace(ctx context.Context, name string, open bool) error {
	namespace := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("reading the namespace: %w", err))
	}
	value, labelled := namespace.Labels[names.SchedulingEnabled]
	if labelled == open && (!open || value == "true") {
		return nil
	}
	before := namespace.DeepCopy()
	if open {
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		namespace.Labels[names.SchedulingEnabled] = "true"
	} else {
		delete(namespace.Labels, names.SchedulingEnabled)
	}
	if err := s.client.Patch(ctx, namespace, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling the namespace: %w", err)
	}
	s.steering.recordSwitch(name, time.Now())
	return nil
}

// grantKubelets grants exactly the virtual kubelets of these nodes access to the namespace. Virtual kubelets of leaving nodes keep their
// permissions.
func (s *namespaceOffloadings) grantKubelets(ctx context.Context, namespace string, nodes, leaving []offv1beta1.VirtualNode) error {
	wanted := map[string]bool{}
	for i := range leaving {
		wanted[names.VirtualNodeBinding(leaving[i].Name)] = true
	}
	for i := range nodes {
		binding := roleBinding(&nodes[i], namespace, names.RoleVirtualKubeletNamespace)
		wanted[binding.Name] = true
		if _, err := kube.Ensure(ctx, s.client, binding); err != nil {
			return fmt.Errorf("letting the virtual kubelet of %q in: %w", nodes[i].Name, err)
		}
	}
	current := &rbacv1.RoleBindingList{}
	if err := s.client.List(ctx, current, client.InNamespace(namespace), client.HasLabels{names.VirtualNode}); err != nil {
		return fmt.Errorf("listing who may work in the namespace: %w", err)
	}
	for i := range current.Items {
		rb := &current.Items[i]
		if wanted[rb.Name] || rb.RoleRef.Name != names.RoleVirtualKubeletNamespace {
			continue
		}
		if err := kube.DeleteObject(ctx, s.client, rb, "withdrawing RoleBinding %q", rb.Name); err != nil {
			return err
		}
	}
	return nil
}

// givenUp reports whether the administrator declared the peer as permanently lost, and the peer has not
// answered since. A missing ForeignCluster is unknown: it is recreated while the peering has objects.
func givenUp(ctx context.Context, c client.Reader, id string) (dead, known bool, err error) {
	fc := &liqov1beta1.ForeignCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: id}, fc); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, false, nil
		}
		return false, false, fmt.Errorf("reading ForeignCluster %q: %w", id, err)
	}
	return isGivenUp(fc), true, nil
}

func isGivenUp(fc *liqov1beta1.ForeignCluster) bool {
	if fc.Annotations[names.PermanentlyUnreachable] != "true" {
		return false
	}
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatus && c.Status == liqov1beta1.ConditionEstablished {
			return false
		}
	}
	return true
}

// requeue bounds the wait for a step without a watch.
const requeue = 2 * time.Second
