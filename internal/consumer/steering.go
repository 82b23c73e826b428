// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

const (
	// admissionDelay is after how long every API server has new pods of a labelled namespace steered.
	admissionDelay = time.Second
	// Limits of deletions in all namespaces together: each deletion causes work for the pod's owner.
	deletionsPerSecond, deletionsAtOnce = 20, 20
	// limitDelay is after how long the limit lets more through.
	limitDelay = time.Second
	// pageSize is the number of pods per list request.
	pageSize = 500
)

// podSteering moves pods older than the offloading of their namespace, or than the current strategy, to the nodes required by the
// strategy.
type podSteering struct {
	// waiting caches the pods without a node, trimmed to the fields in use.
	waiting  cache.Cache
	nodes    client.Reader
	direct   client.Client
	evictor  evictor
	recorder events.EventRecorder
	limit    flowcontrol.PassiveRateLimiter
	class    string

	mu     sync.Mutex
	rounds evictionBackoff
	// since is the time of a recent switch of the steering of a namespace.
	since map[string]time.Time
	// recorded are the pods of each namespace with a recorded event.
	recorded map[string]map[types.UID]string
	// held are the namespaces in which the last evictions were rejected.
	held map[string]backoffState
}

func newSteering(mgr ctrl.Manager, runtimeClass string) (*podSteering, error) {
	waiting, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&corev1.Pod{}: {
		Field: fields.AndSelectors(
			fields.OneTermEqualSelector("spec.nodeName", ""),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		),
		Transform: trimPod,
	}})
	if err != nil {
		return nil, fmt.Errorf("reading the pods that wait for a node: %w", err)
	}
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return nil, err
	}
	evictor, err := newEvictor(mgr)
	if err != nil {
		return nil, err
	}
	return &podSteering{
		waiting: waiting, nodes: mgr.GetClient(), direct: direct, evictor: evictor, class: runtimeClass,
		recorder: mgr.GetEventRecorder("liqo-steering"),
		limit:    flowcontrol.NewTokenBucketPassiveRateLimiter(deletionsPerSecond, deletionsAtOnce),
		rounds:   evictionBackoff{}, since: map[string]time.Time{}, recorded: map[string]map[types.UID]string{}, held: map[string]backoffState{},
	}, nil
}

// trimPod trims a pod to the fields in use.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	imposed, steered := pod.Annotations[names.ImposedAffinity]
	pod.ManagedFields, pod.Annotations, pod.Labels = nil, nil, nil
	if steered {
		pod.Annotations = map[string]string{names.ImposedAffinity: imposed}
	}
	pod.Spec = corev1.PodSpec{
		Tolerations: pod.Spec.Tolerations, Affinity: pod.Spec.Affinity, RuntimeClassName: pod.Spec.RuntimeClassName,
		RestartPolicy: pod.Spec.RestartPolicy,
	}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	return pod, nil
}

// recordSwitch records that the steering of new pods was enabled or disabled for the namespace.
func (s *podSteering) recordSwitch(namespace string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since[namespace] = now
}

// settleDelay returns the wait until that switch is certain to apply to new pods of the namespace.
func (s *podSteering) settleDelay(namespace string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, recent := s.since[namespace]
	if remaining := admissionDelay - now.Sub(since); recent && remaining > 0 {
		return remaining
	}
	delete(s.since, namespace)
	return 0
}

// correctPods applies the remedies to the pods of the namespace, and counts the affected pods in the status. unreached
// are the virtual nodes on which pods of the namespace cannot run.
func (s *podSteering) correctPods(ctx context.Context, nso *offv1beta1.NamespaceOffloading, unreached []string, now time.Time) error {
	if d := s.settleDelay(nso.Namespace, now); d > 0 {
		return kube.Wait(d, "the API servers see the label of the namespace")
	}
	found, err := s.gatherVictims(ctx, nso, unreached)
	if err != nil {
		return err
	}
	s.mu.Lock()
	plan := s.rounds.planEvictions(found, nso.Generation, now)
	s.mu.Unlock()
	return s.carryOut(ctx, nso, plan, now)
}

func (s *podSteering) carryOut(ctx context.Context, nso *offv1beta1.NamespaceOffloading, plan evictionPlan, now time.Time) error {
	done, err := s.applyPlan(ctx, plan)
	tell := slices.Concat(plan.tell, done.refused)
	nso.Status.MisplacedPods = int32(min(len(tell), 1<<30))
	s.recordWarnings(nso.Namespace, tell)
	if err != nil {
		return err
	}
	if again := earlierOf(s.nextDelay(nso.Namespace, done, now), plan.again); again > 0 {
		return kube.Wait(again, "pods are being moved")
	}
	return nil
}

// earlierOf returns the shorter of two delays, where 0 means no delay is set.
func earlierOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// victim is a pod that needs a remedy.
type victim struct {
	pod    *corev1.Pod
	remedy policy.Remedy
}

func (s *podSteering) gatherVictims(ctx context.Context, nso *offv1beta1.NamespaceOffloading, unreached []string) ([]victim, error) {
	out, err := s.strandedPods(ctx, nso.Namespace, unreached)
	if err != nil {
		return nil, err
	}
	found := map[types.UID]bool{}
	for _, p := range out {
		found[p.pod.UID] = true
	}
	waiting, err := s.unscheduledPods(ctx, nso.Namespace, func(pod *corev1.Pod) policy.Remedy { return policy.RemedyForWaiting(pod, nso, s.class) })
	if err != nil {
		return nil, err
	}
	out = append(out, waiting...)
	if nso.Annotations[names.EvictMisplacedPods] != "true" {
		return out, nil
	}
	err = s.eachRunning(ctx, nso.Namespace, func(pod *corev1.Pod, node *corev1.Node) {
		if remedy := policy.RemedyForRunning(pod, node, nso, s.class); remedy != policy.Leave && !found[pod.UID] {
			out = append(out, victim{pod: pod.DeepCopy(), remedy: remedy})
		}
	})
	return out, err
}

// unscheduledPods returns the pods of the namespace without a node that need a remedy.
func (s *podSteering) unscheduledPods(ctx context.Context, namespace string, remedyFor func(*corev1.Pod) policy.Remedy) ([]victim, error) {
	waiting := &corev1.PodList{}
	if err := s.waiting.List(ctx, waiting, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods that wait for a node: %w", err)
	}
	var out []victim
	for i := range waiting.Items {
		pod := &waiting.Items[i]
		if remedy := remedyFor(pod); remedy != policy.Leave {
			out = append(out, victim{pod: pod, remedy: remedy})
		}
	}
	return out, nil
}

// eachRunning passes each scheduled pod of the namespace to look, with its node, page by page; these pods are not watched.
// To retain a pod, copy it: otherwise the whole page stays in memory.
func (s *podSteering) eachRunning(ctx context.Context, namespace string, look func(*corev1.Pod, *corev1.Node)) error {
	list := &corev1.NodeList{}
	if err := s.nodes.List(ctx, list); err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return s.eachPage(ctx, namespace, fields.OneTermNotEqualSelector("spec.nodeName", ""), func(pod *corev1.Pod) {
		look(pod, nodes[pod.Spec.NodeName])
	})
}

func (s *podSteering) eachPage(ctx context.Context, namespace string, which fields.Selector, look func(*corev1.Pod)) error {
	for next := ""; ; {
		pods := &corev1.PodList{}
		err := s.direct.List(ctx, pods, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: which}, client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return fmt.Errorf("listing the pods that have a node: %w", err)
		}
		for i := range pods.Items {
			look(&pods.Items[i])
		}
		if next = pods.Continue; next == "" {
			return nil
		}
	}
}

// recordWarnings emits one event for each problem. Pods without a problem are forgotten.
func (s *podSteering) recordWarnings(namespace string, complaints []warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := s.recorded[namespace], map[types.UID]string{}
	for _, c := range complaints {
		after[c.pod.UID] = c.text
		if before[c.pod.UID] != c.text {
			s.recorder.Eventf(c.pod, nil, corev1.EventTypeWarning, "Misplaced", "Steer", "%s", c.text)
		}
	}
	s.recorded[namespace] = after
	if len(after) == 0 {
		delete(s.recorded, namespace)
	}
}

// planResult is the result of the removals.
type planResult struct {
	// moved were removed; held were not, because of a disruption budget.
	moved, held int
	// evicted tells whether an eviction was asked for, limited whether our own limit left some for later, and changed whether
	// some were not as the cache had them.
	evicted, limited, changed bool
	// refused are the warnings about pods that a disruption budget or another policy protects.
	refused []warning
}

// nextDelay returns the delay until the next check of pods to remove; 0 for none.
func (s *podSteering) nextDelay(namespace string, done planResult, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done.held > 0 && done.moved == 0 {
		s.held[namespace] = s.held[namespace].afterRound(now)
		return s.held[namespace].until.Sub(now)
	}
	delete(s.held, namespace)
	switch {
	case done.limited, done.changed:
		return limitDelay
	case done.evicted:
		return firstHeld
	default:
		return 0
	}
}

// applyPlan applies the permitted part of the plan.
func (s *podSteering) applyPlan(ctx context.Context, p evictionPlan) (planResult, error) {
	var g errgroup.Group
	g.SetLimit(evictionsAtOnce)
	var out planResult
	var errs []error
	var mu sync.Mutex
	do := func(pod *corev1.Pod, what func(context.Context, *corev1.Pod) error, count *int) {
		g.Go(func() error {
			err := what(ctx, pod)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				*count++
			case apierrors.IsTooManyRequests(err):
				out.held++
			case apierrors.IsConflict(err):
				out.changed = true
			case apierrors.IsNotFound(err):
			case p.last && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)):
				out.refused = append(out.refused, warning{pod: pod, text: kube.Note("The pod waits for a node of an offloading that is over, and its deletion is refused: " + err.Error())})
			default:
				errs = append(errs, fmt.Errorf("steering pod %s/%s: %w", pod.Namespace, pod.Name, err))
			}
			return nil
		})
	}
	for _, pod := range p.tolerate {
		do(pod, s.addToleration, new(int))
	}
	// Blocked pods must not use up the limit before others in each run.
	rand.Shuffle(len(p.remove), func(i, j int) { p.remove[i], p.remove[j] = p.remove[j], p.remove[i] })
	for _, one := range p.remove {
		if out.limited = !s.limit.TryAccept(); out.limited {
			break
		}
		remove := s.recreatePod
		if one.remedy == policy.Evict {
			remove, out.evicted = s.evictPod, true
		}
		do(one.pod, remove, &out.moved)
	}
	_ = g.Wait() // errors are collected
	return out, errors.Join(errs...)
}

func (s *podSteering) addToleration(ctx context.Context, pod *corev1.Pod) error {
	tolerant := pod.DeepCopy()
	tolerant.Spec.Tolerations = append(tolerant.Spec.Tolerations, policy.VirtualNodeToleration())
	return s.direct.Patch(ctx, tolerant, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
}

func (s *podSteering) recreatePod(ctx context.Context, pod *corev1.Pod) error {
	err := s.direct.Delete(ctx, pod, client.Preconditions{UID: new(pod.UID), ResourceVersion: new(pod.ResourceVersion)})
	if err == nil {
		owner := metav1.GetControllerOf(pod)
		s.recorder.Eventf(pod, nil, corev1.EventTypeNormal, "MadeAnew", "Steer",
			"Deleted because the strategy of its namespace changed: %s %q creates another pod", owner.Kind, owner.Name)
	}
	return err
}

func (s *podSteering) evictPod(ctx context.Context, pod *corev1.Pod) error {
	return s.evictor.evictPod(ctx, pod.Namespace, pod.Name, pod.UID)
}

// strandedPods returns the pods of the namespace that wait on nodes outside the offloading.
func (s *podSteering) strandedPods(ctx context.Context, namespace string, nodes []string) ([]victim, error) {
	var out []victim
	for _, node := range nodes {
		err := s.eachPage(ctx, namespace, fields.OneTermEqualSelector("spec.nodeName", node), func(pod *corev1.Pod) {
			if remedy := policy.RemedyForStranded(pod); remedy != policy.Leave {
				out = append(out, victim{pod: pod.DeepCopy(), remedy: remedy})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// releaseWaiting deletes unscheduled pods once the namespace is disabled: their owners recreate the pods unsteered. Pods
// recreated unchanged are intended.
func (s *podSteering) releaseWaiting(ctx context.Context, nso *offv1beta1.NamespaceOffloading, now time.Time) error {
	if d := s.settleDelay(nso.Namespace, now); d > 0 {
		return kube.Wait(d, "the API servers see that the namespace has lost its label")
	}
	found, err := s.unscheduledPods(ctx, nso.Namespace, func(pod *corev1.Pod) policy.Remedy { return policy.RemedyForReleased(pod, s.class) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	plan := s.rounds.planEvictions(found, nso.Generation, now)
	s.mu.Unlock()
	plan.again, plan.last = 0, true
	plan.tell = slices.DeleteFunc(plan.tell, func(c warning) bool { return c.text == notSteered })
	return s.carryOut(ctx, nso, plan, now)
}

// releasePods deletes pods that wait on these virtual nodes, once the namespace is no longer offloaded: their owners recreate
// the pods.
func (s *podSteering) releasePods(ctx context.Context, namespace string, nodes []string) error {
	stranded, err := s.strandedPods(ctx, namespace, nodes)
	if err != nil {
		return err
	}
	done, err := s.applyPlan(ctx, evictionPlan{remove: stranded, last: true})
	if err != nil {
		return err
	}
	if again := s.nextDelay(namespace, done, time.Now()); again > 0 {
		return kube.Wait(again, "pods that never started are being recreated")
	}
	s.recordWarnings(namespace, done.refused)
	s.recordWarnings(namespace, nil)
	return nil
}
