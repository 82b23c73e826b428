// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/quota"
)

const (
	// madeFrom is the value of the label ManagedBy on pods made from ShadowPods.
	madeFrom       = "shadowpod"
	defaultWorkers = 10
	// successorDelay is how long to wait for a pod of an earlier ShadowPod to go.
	successorDelay = 2 * time.Second
	namespaceDelay = time.Second
	accountDelay   = 500 * time.Millisecond
	watchDelay     = 50 * time.Millisecond
	unseenDelay    = 10 * time.Second
	// defaultYouth is a time in which bursts are over, and many short pods with them.
	defaultYouth = 10 * time.Second
)

// reasonFailed is that of the event on a ShadowPod whose pod is not made, for the provider's administrator.
const reasonFailed = "FailedCreatePod"

// ShadowPodOptions say how ShadowPods are handled.
type ShadowPodOptions struct {
	// Enforce holds each user of a consumer to its Quota.
	Enforce bool
	// Workers is the number of ShadowPods handled at once; 0 is 10.
	Workers int
	// DroppedMetadata are labels and annotations that a pod does not get from its ShadowPod, by which consumers would command other
	// programs of the provider. A pattern may begin or end with *, which stands for any characters.
	DroppedMetadata []string
	// NodeFailure removes pods that cannot end because their node has failed.
	NodeFailure bool
	// Youth is the time after the creation of a ShadowPod in which its status does not report a running pod; 0 is 10 s. That
	// write costs as much as creating the ShadowPod, and only people read it: the consumer watches the pod.
	Youth time.Duration
	// Pods is what the administrator allows to pods of consumers.
	Pods policy.RemotePods
	// DefaultRequests are those of containers that name none.
	DefaultRequests corev1.ResourceList
}

// SetupShadowPods registers the controller that runs the pods of consumers.
func SetupShadowPods(mgr ctrl.Manager, o ShadowPodOptions) error {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.Youth == 0 {
		o.Youth = defaultYouth
	}
	for _, obj := range []client.Object{&corev1.Namespace{}, &networkingv1beta1.Configuration{}} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), obj); err != nil {
			return fmt.Errorf("caching namespaces and networks: %w", err)
		}
	}
	pods, err := podCache(mgr)
	if err != nil {
		return err
	}
	if err := indexQuotas(mgr); err != nil {
		return err
	}
	s := &shadowPods{client: mgr.GetClient(), live: mgr.GetAPIReader(), pods: pods, youth: o.Youth, allowed: o.Pods, requests: o.DefaultRequests, dropped: o.DroppedMetadata}
	s.ledger, s.refused.wake = newLedger(o.Enforce, s.queue.wakeUp), s.queue.wakeUp
	if err := mgr.Add(manager.RunnableFunc(s.sweepOrphans)); err != nil {
		return fmt.Errorf("adding what ends doubts: %w", err)
	}
	c := kube.NewController(mgr, kube.Options{Name: "shadowpod", Workers: o.Workers, Group: kube.PeerOf(mgr.GetClient())}, s)
	owner := handler.TypedEnqueueRequestForOwner[*corev1.Pod](mgr.GetScheme(), mgr.GetRESTMapper(), &offv1beta1.ShadowPod{}, handler.OnlyControllerOwner())
	b := c.Builder().
		Watches(&offv1beta1.ShadowPod{}, handler.Funcs{DeleteFunc: s.forgetShadowPod}).
		Watches(&offv1beta1.Quota{}, handler.EnqueueRequestsFromMapFunc(s.ofQuota)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(s.ofNamespace), builder.WithPredicates(namespaceChanged)).
		WatchesRawSource(&s.queue).
		WatchesRawSource(source.Kind(pods, &corev1.Pod{}, podEvents{owner, s}))
	if err := s.watchLimits(mgr, b); err != nil {
		return err
	}
	if o.NodeFailure {
		if err := setupNodeFailure(mgr, pods); err != nil {
			return err
		}
	}
	return c.Complete(b)
}

// podCache holds the pods made from ShadowPods and no others, and of them only what is read here.
func podCache(mgr ctrl.Manager) (cache.Cache, error) {
	pods, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&corev1.Pod{}: {
		Label:     labels.SelectorFromSet(labels.Set{names.ManagedBy: madeFrom}),
		Transform: trimPod,
	}})
	if err != nil {
		return nil, fmt.Errorf("reading the pods of consumers: %w", err)
	}
	return pods, nil
}

func trimPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		taken := quota.Taken(pod)
		delete(taken, corev1.ResourcePods)
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Overhead: taken} // which adds up to the same
		status := corev1.PodStatus{Phase: pod.Status.Phase}
		if !pod.DeletionTimestamp.IsZero() {
			status.ContainerStatuses = pod.Status.ContainerStatuses // for phaseToReport
		}
		pod.Status = status
	}
	return obj, nil
}

// shadowPods keeps one pod running for each ShadowPod, until that pod has ended once.
type shadowPods struct {
	client  client.Client
	live    client.Reader
	pods    client.Reader
	queue   requestQueue
	ledger  *quotaCache
	fence   cacheBarrier
	refused retryQueue
	shapes  templateCache
	youth   time.Duration
	allowed policy.RemotePods
	// requests are those of containers that name none.
	requests corev1.ResourceList
	dropped  []string // see ShadowPodOptions.DroppedMetadata
	// ends are the phases in which pods ended, by the UID of their ShadowPod, until they are written there.
	ends kube.Table[types.UID, corev1.PodPhase]
	// ran are the ShadowPods whose pods run, or ran, until that is written there.
	ran kube.Table[types.UID, struct{}]
}

func (s *shadowPods) sweepOrphans(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { s.ledger.Sweep() }, sweepTime)
	return nil
}

// Sync makes the pod where it is missing, and follows it.
func (s *shadowPods) Sync(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	if sp.Status.Phase != "" {
		s.ran.Drop(sp.UID)
	}
	if hasEnded(sp.Status.Phase) {
		s.ends.Drop(sp.UID)
		s.ledger.Withdraw(sp)
		return nil
	}
	pod := &corev1.Pod{}
	err := s.pods.Get(ctx, client.ObjectKeyFromObject(sp), pod)
	switch {
	case apierrors.IsNotFound(err):
		return s.createPod(ctx, sp)
	case err != nil:
		return fmt.Errorf("reading the pod: %w", err)
	case !metav1.IsControlledBy(pod, sp):
		s.ledger.Withdraw(sp)
		return inTheWay(pod)
	}
	s.takePhase(sp, phaseToReport(pod))
	return s.followChanges(ctx, sp, pod)
}

// takePhase follows the phase of the pod. That a new pod is Pending is not worth a write, and that it runs not yet.
func (s *shadowPods) takePhase(sp *offv1beta1.ShadowPod, phase corev1.PodPhase) {
	if phase == "" || sp.Status.Phase == "" && (phase == corev1.PodPending || !hasEnded(phase) && s.remainingGrace(sp) > 0) {
		return
	}
	sp.Status.Phase = phase
}

// remainingGrace returns how long a ShadowPod still is; what is not positive is since when it is not. What was made in the future, by a
// clock that is ahead, is not.
func (s *shadowPods) remainingGrace(sp *offv1beta1.ShadowPod) time.Duration {
	age := time.Since(sp.CreationTimestamp.Time)
	if age < 0 {
		return -s.youth
	}
	return s.youth - age
}

// Next looks again at a pod that was made and is not seen: the watch may have been interrupted just then. And it looks at
// one whose phase may be told by then, for a while: it may have ceased to be young since takePhase looked.
func (s *shadowPods) Next(sp *offv1beta1.ShadowPod) time.Duration {
	if s.ledger.Held(client.ObjectKeyFromObject(sp)) {
		return unseenDelay
	}
	if left := s.remainingGrace(sp); sp.Status.Phase == "" && left > -s.youth {
		return max(left, s.youth/4)
	}
	return 0
}

// Bear leaves the spec out, which is nearly all of a ShadowPod.
func (s *shadowPods) Bear(sp *offv1beta1.ShadowPod) *offv1beta1.ShadowPod {
	return &offv1beta1.ShadowPod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Status: *sp.Status.DeepCopy()}
}

func hasEnded(phase corev1.PodPhase) bool { return policy.Ended(phase) }

func (s *shadowPods) createPod(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	pod, err := s.preparePod(ctx, sp)
	if err != nil || pod == nil {
		s.ledger.Withdraw(sp)
		return err
	}
	if err := s.dryRunShared(ctx, sp, pod); err != nil {
		return err
	}
	asked := pod.DeepCopy()
	if err := s.client.Create(ctx, pod, client.FieldOwner(names.ShadowPodFieldManager)); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return s.checkExisting(ctx, sp)
		}
		return s.notMade(ctx, sp, err, asked)
	}
	s.ledger.Made(pod)
	if s.ledger.enforce {
		s.shapes.Learn(shapeOf(asked), &pod.Spec, time.Now())
	}
	s.takePhase(sp, pod.Status.Phase)
	return nil
}

// preparePod returns the pod to make, nil where there is to be none.
func (s *shadowPods) preparePod(ctx context.Context, sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	// In this order: what the ledger shows no more has been remembered.
	if s.ledger.Seen(client.ObjectKeyFromObject(sp)) {
		return nil, kube.Wait(watchDelay, "what became of the earlier pod is not known yet")
	}
	if phase, ok := s.ends.Get(sp.UID); ok {
		sp.Status.Phase = phase
		return nil, nil
	}
	if err := s.checkPod(ctx, sp); err != nil {
		return nil, err
	}
	if err := s.passBarrier(ctx); err != nil {
		return nil, err
	}
	return s.podOf(ctx, sp)
}

// notMade has the ledger know of an error of a request to make a pod, and says what follows.
func (s *shadowPods) notMade(ctx context.Context, sp *offv1beta1.ShadowPod, err error, pod *corev1.Pod) error {
	key := client.ObjectKeyFromObject(pod)
	switch _, certain := classifyAnswer(err); {
	case !certain:
		s.ledger.Lost(key, "")
	case s.ledger.Doubtful(key): // this one was refused, an earlier one may have made it
		if there, err := s.readPod(ctx, sp); err == nil && metav1.IsControlledBy(there, sp) {
			return nil
		}
	default:
		s.ledger.Release(key)
	}
	return whyNotMade(err, pod)
}

// whyNotMade says what follows from the error of a request to make a pod.
func whyNotMade(err error, pod *corev1.Pod) error {
	refused, _ := classifyAnswer(err)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account "+pod.Namespace+"/default:") {
		return kube.Wait(accountDelay, "the namespace is new and has no default service account yet")
	}
	err = fmt.Errorf("creating the pod: %w", err)
	if refused {
		return &refusal{reason: offv1beta1.ReasonRefused, why: err, next: err, room: true}
	}
	return err
}

// checkPod applies the provider's policy again: admission may have been off, and namespaces may have changed since.
func (s *shadowPods) checkPod(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	namespace := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: sp.Namespace}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return kube.Wait(namespaceDelay, "the namespace is not known yet")
		}
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return kube.Wait(0, "the namespace is being deleted")
	}
	err := policy.CheckShadowPod(sp, policy.Policy{
		Consumer:    namespace.Labels[names.RemoteClusterID],
		PodSecurity: namespace.Labels[policy.PodSecurityLabel],
		Pods:        s.allowed,
	})
	if err == nil {
		err = quota.CheckAmounts(&sp.Spec.Pod)
	}
	if err != nil {
		return &refusal{reason: offv1beta1.ReasonRefused, why: err, next: kube.Invalid(offv1beta1.ReasonRefused, err)}
	}
	return nil
}

// checkExisting handles a pod that the cache does not show: it is new, or it is not made from a ShadowPod.
func (s *shadowPods) checkExisting(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	pod, err := s.readPod(ctx, sp)
	switch {
	case err != nil:
		return fmt.Errorf("reading the pod in the way: %w", err)
	case metav1.IsControlledBy(pod, sp):
		return nil
	default:
		return inTheWay(pod)
	}
}

// readPod reads what the API server has by the name of a pod, after a request to make it was refused, and has the ledger know.
func (s *shadowPods) readPod(ctx context.Context, sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	key, pod := client.ObjectKeyFromObject(sp), &corev1.Pod{}
	err := s.live.Get(ctx, key, pod)
	switch {
	case err == nil && metav1.IsControlledBy(pod, sp):
		s.ledger.Found(pod)
	case err == nil || apierrors.IsNotFound(err):
		s.ledger.Release(key)
	default:
		s.ledger.Unknown(key)
	}
	return pod, err
}

func inTheWay(pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return kube.Wait(successorDelay, "an earlier pod of this name is being deleted")
	}
	err := fmt.Errorf("a pod %q exists already and was not made from this ShadowPod", pod.Name)
	return &refusal{reason: offv1beta1.ReasonRefused, why: err, next: err}
}

func (s *shadowPods) podOf(ctx context.Context, sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	spec, err := s.specToMake(ctx, sp)
	if err != nil {
		return nil, err
	}
	if err := s.leadHome(ctx, sp, &spec); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: sp.Name, Namespace: sp.Namespace,
			Labels:      podLabels(sp, s.dropped...),
			Annotations: podAnnotations(sp, s.dropped...),
		},
		Spec: spec,
	}
	if err := controllerutil.SetControllerReference(sp, pod, s.client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning the pod: %w", err)
	}
	return pod, nil
}
