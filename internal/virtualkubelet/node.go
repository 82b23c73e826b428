// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
)

// nodeSync keeps the Node of a VirtualNode.
type nodeSync struct {
	client  client.Client
	options Options
	health  *providerHealth
	// misbehaviours holds which of our limits the provider exceeded; nil for none.
	misbehaviours *multicluster.Misbehaviours
	// metrics knows whether the provider has metrics; nil if nothing serves them.
	metrics           *podMetrics
	kubernetesVersion string
	now               func() time.Time
	// seen receives each state of the VirtualNode, and ready whether its pods can be reached, once decided.
	seen  func(*offv1beta1.VirtualNode)
	ready func(context.Context, bool)
	// registered is called when the Node was created.
	registered func()
	// applied is the last written status, without heartbeats. Used by one worker only.
	applied *corev1.NodeStatus
}

const (
	// registering marks a Node whose labels are not applied yet.
	registering = "liqo.io/registering"
	// heartbeatInterval is the interval of writes of an unchanged status; in between, the lease is the heartbeat.
	heartbeatInterval = 5 * time.Minute
)

// setupNode registers the controller of the Node. wake triggers a reconciliation.
func setupNode(mgr ctrl.Manager, s *nodeSync, wake <-chan event.GenericEvent) error {
	c := kube.NewController(mgr, kube.Options{Name: "virtual-node"}, kube.Syncer[*offv1beta1.VirtualNode](s))
	self := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: s.nodeKey()}}
	})
	return c.Complete(c.Builder().
		Watches(&corev1.Node{}, self).
		Watches(&liqov1beta1.ForeignCluster{}, self).
		WatchesRawSource(source.Channel(wake, self)))
}

func (s *nodeSync) nodeKey() types.NamespacedName {
	return types.NamespacedName{Namespace: s.options.TenantNamespace, Name: s.options.Node}
}

// Next returns the time until the next heartbeat.
func (s *nodeSync) Next(*offv1beta1.VirtualNode) time.Duration { return heartbeatInterval }

func (s *nodeSync) Sync(ctx context.Context, vn *offv1beta1.VirtualNode) error {
	s.seen(vn.DeepCopy())
	create := s.options.CreateNode
	if vn.Spec.CreateNode != nil {
		create = *vn.Spec.CreateNode
	}
	if vn.Name != s.options.Node {
		return nil
	}
	if !create { // there are no conditions of ours to use
		if judged := s.health.classify(); judged != undecided {
			s.ready(ctx, judged == answers)
		}
		return nil
	}
	facts, err := s.gatherFacts(ctx, vn)
	if err != nil {
		return err
	}
	if facts.current == nil {
		if facts.current, err = s.createNode(ctx, wantedNode(facts)); err != nil {
			return err
		}
	}
	if !facts.current.DeletionTimestamp.IsZero() {
		return kube.BeingDeleted("Node", vn.Name)
	}
	want := wantedNode(facts)
	if facts.provider != undecided {
		now, _ := conditionOf(want, corev1.NodeReady)
		defer s.ready(ctx, now.Status == corev1.ConditionTrue)
	}
	return s.applyNode(ctx, facts, want)
}

func (s *nodeSync) gatherFacts(ctx context.Context, vn *offv1beta1.VirtualNode) (nodeFacts, error) {
	facts := nodeFacts{
		virtualNode: vn, provider: s.health.classify(), checkNetwork: s.options.CheckNetwork,
		labels: s.options.NodeLabels, annotations: s.options.NodeAnnotations,
		ip: s.options.NodeIP, port: s.options.ListenPort, kubernetesVersion: s.kubernetesVersion, now: s.now(),
		misbehaves: s.misbehaviours.Now(),
	}
	if s.metrics != nil {
		facts.metricsMissing = s.metrics.missing.Load()
	}
	if vn.Spec.DisableNetworkCheck != nil {
		facts.checkNetwork = !*vn.Spec.DisableNetworkCheck
	}
	peer, current := &liqov1beta1.ForeignCluster{}, &corev1.Node{}
	switch err := s.client.Get(ctx, types.NamespacedName{Name: string(s.options.Provider)}, peer); {
	case err == nil:
		facts.peer = peer
	case !apierrors.IsNotFound(err):
		return facts, fmt.Errorf("reading the foreign cluster: %w", err)
	}
	switch err := s.client.Get(ctx, types.NamespacedName{Name: vn.Name}, current); {
	case err == nil:
		facts.current = current
	case !apierrors.IsNotFound(err):
		return facts, fmt.Errorf("reading the node: %w", err)
	}
	return facts, nil
}

// createNode creates the complete Node: cluster selectors and the scheduler read its labels and taints from the first moment
// on. Creating, unlike applying, never touches a foreign Node.
func (s *nodeSync) createNode(ctx context.Context, want *corev1.Node) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: *want.ObjectMeta.DeepCopy(), Spec: *want.Spec.DeepCopy()}
	remember, err := json.Marshal(want.Spec.Taints)
	if err != nil {
		return nil, err
	}
	node.Annotations[names.AppliedTaints] = string(remember)
	node.Annotations[registering] = "true"
	if err := s.client.Create(ctx, node, client.FieldOwner(names.ReflectionFieldManager)); err != nil {
		return nil, fmt.Errorf("creating the node: %w", err)
	}
	s.registered()
	s.applied = nil
	return node, nil
}

// removeOwner drops the field ownership that creating the Node gave us beside the applied fields: otherwise labels and annotations
// could never be removed again. Taints are not applied, and stay.
func (s *nodeSync) removeOwner(ctx context.Context, node *corev1.Node) error {
	if node.Annotations[registering] == "" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion,
		"annotations": map[string]any{registering: nil},
		"managedFields": []metav1.ManagedFieldsEntry{{
			Manager: names.ReflectionFieldManager, Operation: metav1.ManagedFieldsOperationUpdate,
			APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`),
		}},
	}})
	if err != nil {
		return err
	}
	return s.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(names.ReflectionFieldManager))
}

func (s *nodeSync) applyNode(ctx context.Context, facts nodeFacts, want *corev1.Node) error {
	if facts.current.Labels[names.NodeType] != names.NodeTypeVirtualNode {
		return kube.Invalid("NodeExists", fmt.Errorf("node %q already exists and is not a virtual node", want.Name))
	}
	current := facts.current.DeepCopy()
	if err := s.removeOwner(ctx, current); err != nil {
		return fmt.Errorf("finishing the registration of the node: %w", err)
	}
	current, err := s.applyTaints(ctx, current, want)
	if err != nil {
		return fmt.Errorf("setting the taints of the node: %w", err)
	}
	if err := s.updateLabels(ctx, current, want); err != nil {
		return fmt.Errorf("labelling the node: %w", err)
	}
	network := s.applyNetwork(ctx, facts, want)
	if network != nil {
		network = fmt.Errorf("writing the condition of the network of the node: %w", network)
	}
	status := s.applyStatus(ctx, facts, want)
	if status != nil {
		status = fmt.Errorf("writing the status of the node: %w", status)
	}
	return errors.Join(status, network)
}

// updateLabels applies labels and annotations, with the annotation of the taints, at exactly the version with the taints that
// were read: a late cache may lack taints added by us, and the annotation would lose them.
func (s *nodeSync) updateLabels(ctx context.Context, current, want *corev1.Node) error {
	meta := &metav1.PartialObjectMetadata{TypeMeta: want.TypeMeta, ObjectMeta: want.ObjectMeta}
	application, err := kube.NewApplication(meta, corev1.SchemeGroupVersion.WithKind("Node"), names.ReflectionFieldManager)
	if err != nil {
		return err
	}
	_, err = application.At(current.ResourceVersion).Apply(ctx, s.client, current)
	return err
}

// applyTaints writes the taints before the annotation that remembers them, lest a taint be forgotten. The result is the updated
// Node.
func (s *nodeSync) applyTaints(ctx context.Context, current, want *corev1.Node) (*corev1.Node, error) {
	var previous []corev1.Taint
	if remembered := current.Annotations[names.AppliedTaints]; remembered != "" {
		if err := json.Unmarshal([]byte(remembered), &previous); err != nil {
			previous = nil // the annotation was overwritten with an invalid value: no taint counts as ours, so none is removed
		}
	}
	taints := mergeTaints(current.Spec.Taints, previous, want.Spec.Taints)
	if !sameTaints(taints, current.Spec.Taints) {
		edited := current.DeepCopy()
		edited.Spec.Taints = taints
		if err := s.client.Patch(ctx, edited, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); err != nil {
			return nil, err
		}
		current = edited
	}
	remember, err := json.Marshal(want.Spec.Taints)
	if err != nil {
		return nil, err
	}
	want.Annotations[names.AppliedTaints] = string(remember)
	return current, nil
}

// sameTaints compares taints regardless of their order and of the time they were added.
func sameTaints(a, b []corev1.Taint) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(t corev1.Taint) bool {
		return !slices.ContainsFunc(b, func(o corev1.Taint) bool { return t.MatchTaint(&o) && t.Value == o.Value })
	})
}

const (
	// networkFieldManager owns the network condition. The condition is written apart: a cloud controller without routes to the
	// node overwrites it every few seconds, and the rest of the status must not wait.
	networkFieldManager = names.ReflectionFieldManager + "-network"
	// networkDelay is the delay between the last write and the next correction of the condition.
	networkDelay = 5 * time.Second
)

// applyNetwork writes the network condition if it differs, and removes ours if none is wanted.
func (s *nodeSync) applyNetwork(ctx context.Context, facts nodeFacts, want *corev1.Node) error {
	current, exists := conditionOf(facts.current, corev1.NodeNetworkUnavailable)
	condition, wanted := conditionOf(want, corev1.NodeNetworkUnavailable)
	status := corev1.NodeStatus{}
	switch {
	case wanted && exists && current.Status == condition.Status && current.Reason == condition.Reason:
		return nil
	case wanted:
		status.Conditions = []corev1.NodeCondition{condition}
	case !exists || current.Reason != reasonNetworkUp && current.Reason != reasonNetworkDown:
		return nil
	}
	return s.sendStatus(kube.WithSteadyPutBacks(ctx, networkDelay), want.Name, status, networkFieldManager)
}

func (s *nodeSync) applyStatus(ctx context.Context, facts nodeFacts, want *corev1.Node) error {
	status := withoutNetwork(want.Status)
	still := withoutHeartbeats(status)
	if s.applied == nil && includesStatus(facts.current.Status, still) {
		s.applied = &still // applied by the previous process
	}
	if s.applied != nil && apiequality.Semantic.DeepEqual(*s.applied, still) && !hasDrifted(facts.current.Status, still) && !isStale(facts) {
		return nil
	}
	if err := s.sendStatus(ctx, want.Name, status, names.ReflectionFieldManager); err != nil {
		return err
	}
	s.applied = &still
	return nil
}

// sendStatus applies all status fields that a field manager owns.
func (s *nodeSync) sendStatus(ctx context.Context, node string, status corev1.NodeStatus, manager string) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if manager == networkFieldManager {
		maps.DeleteFunc(fields, func(field string, _ any) bool { return field != "conditions" }) // fields that every marshalled status has
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node}, "status": fields,
	}}
	return s.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership)
}

func withoutNetwork(in corev1.NodeStatus) corev1.NodeStatus {
	out := *in.DeepCopy()
	out.Conditions = slices.DeleteFunc(out.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeNetworkUnavailable })
	return out
}

func withoutHeartbeats(in corev1.NodeStatus) corev1.NodeStatus {
	out := *in.DeepCopy()
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
		out.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return out
}

// includesStatus reports whether a status contains all of want, and no other value in the fields we write.
func includesStatus(current, want corev1.NodeStatus) bool {
	ours := withoutHeartbeats(current)
	ours.Conditions = slices.DeleteFunc(ours.Conditions, func(c corev1.NodeCondition) bool {
		return !slices.Contains([]corev1.NodeConditionType{
			corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, conditionWithdrawn, conditionMisbehaves, conditionMetrics,
		}, c.Type)
	})
	return apiequality.Semantic.DeepEqual(ours.Capacity, want.Capacity) && apiequality.Semantic.DeepEqual(ours.Allocatable, want.Allocatable) &&
		apiequality.Semantic.DeepEqual(ours.Conditions, want.Conditions) && ours.NodeInfo == want.NodeInfo && len(ours.Images) == len(want.Images) &&
		slices.Equal(ours.DeclaredFeatures, want.DeclaredFeatures)
}

// hasDrifted reports whether our status fields were changed: the control plane changes them when heartbeats are late.
func hasDrifted(current, want corev1.NodeStatus) bool {
	for _, c := range want.Conditions {
		if !slices.ContainsFunc(current.Conditions, func(o corev1.NodeCondition) bool {
			return o.Type == c.Type && o.Status == c.Status && o.Reason == c.Reason
		}) {
			return true
		}
	}
	for name, quantity := range want.Allocatable {
		if current := current.Allocatable[name]; current.Cmp(quantity) != 0 {
			return true
		}
	}
	return !apiequality.Semantic.DeepEqual(current.Addresses, want.Addresses) || current.DaemonEndpoints != want.DaemonEndpoints
}

// isStale reports whether the next heartbeat is due.
func isStale(facts nodeFacts) bool {
	for _, c := range facts.current.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return facts.now.Sub(c.LastHeartbeatTime.Time) >= heartbeatInterval
		}
	}
	return true
}
