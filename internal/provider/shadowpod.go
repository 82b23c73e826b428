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
)

const (
	// madeFrom is the value of the label ManagedBy on pods made from ShadowPods.
	madeFrom       = names.ManagedByShadowPod
	defaultWorkers = 10
	// successorDelay is the interval at which the removal of an earlier ShadowPod's pod is checked.
	successorDelay = 2 * time.Second
	namespaceDelay = time.Second
	accountDelay   = 500 * time.Millisecond
	watchDelay     = 50 * time.Millisecond
	unseenDelay    = 10 * time.Second
	// defaultYouth is a time after which bursts are over and many short-lived pods have ended.
	defaultYouth = 10 * time.Second
)

// reasonFailed is the reason of the event on a ShadowPod whose pod is not created, for the provider's administrator.
const reasonFailed = "FailedCreatePod"

// ShadowPodOptions are the options of the ShadowPod controller.
type ShadowPodOptions struct {
	// Enforce limits each user of a consumer to its Quota.
	Enforce bool
	// Workers is the number of ShadowPods reconciled concurrently; 0 is 10.
	Workers int
	// DroppedMetadata are the labels and annotations not copied from a ShadowPod to its pod, because consumers would
	// control other programs of the provider with them. A pattern may begin or end with *, a wildcard for any characters.
	DroppedMetadata []string
	// NodeFailure removes pods that cannot terminate because their node has failed.
	NodeFailure bool
	// Youth is the time after the creation of a ShadowPod in which its status does not report a running pod; 0 is 10 s. The
	// report costs as much as creating the ShadowPod, and only people read it: the consumer watches the pod.
	Youth time.Duration
	// Pods is the policy of the administrator for pods of consumers.
	Pods policy.RemotePods
	// DefaultRequests are the requests of containers without any.
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
	s.quotas, s.retries.wake = newQuotaCache(o.Enforce, s.queue.wakeUp), s.queue.wakeUp
	if err := mgr.Add(manager.RunnableFunc(s.releaseExpired)); err != nil {
		return fmt.Errorf("adding the sweep of the quota cache: %w", err)
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

// podCache returns a cache of the pods made from ShadowPods, with only the fields that the controller reads.
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
		taken := policy.PodUsage(pod)
		delete(taken, corev1.ResourcePods)
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Overhead: taken} // with the same sum of requests
		status := corev1.PodStatus{Phase: pod.Status.Phase}
		if !pod.DeletionTimestamp.IsZero() {
			status.ContainerStatuses = pod.Status.ContainerStatuses // for phaseToReport
		}
		pod.Status = status
	}
	return obj, nil
}

// shadowPods keeps one pod running for each ShadowPod, until the pod has ended once.
type shadowPods struct {
	client    client.Client
	live      client.Reader
	pods      client.Reader
	queue     requestQueue
	quotas    *quotaCache
	barrier   cacheBarrier
	retries   retryQueue
	templates templateCache
	youth     time.Duration
	allowed   policy.RemotePods
	// requests are the default requests of containers without any.
	requests corev1.ResourceList
	dropped  []string // see ShadowPodOptions.DroppedMetadata
	// ends are the final phases of pods by the UID of their ShadowPod, until its status has them.
	ends kube.Table[types.UID, corev1.PodPhase]
	// ran are the ShadowPods whose pods run or ran, until their status says so.
	ran kube.Table[types.UID, struct{}]
}

func (s *shadowPods) releaseExpired(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { s.quotas.ReleaseExpired() }, sweepTime)
	return nil
}

// Sync creates the pod of a ShadowPod if it is missing, and updates the pod and the status.
func (s *shadowPods) Sync(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	if sp.Status.Phase != "" {
		s.ran.Drop(sp.UID)
	}
	if hasEnded(sp.Status.Phase) {
		s.ends.Drop(sp.UID)
		s.quotas.Withdraw(sp)
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
		s.quotas.Withdraw(sp)
		return inTheWay(pod)
	}
	s.takePhase(sp, phaseToReport(pod))
	return s.followChanges(ctx, sp, pod)
}

// takePhase copies the phase of the pod to the status. For a new ShadowPod, Pending is not worth a write, nor is Running during
// the grace period.
func (s *shadowPods) takePhase(sp *offv1beta1.ShadowPod, phase corev1.PodPhase) {
	if phase == "" || sp.Status.Phase == "" && (phase == corev1.PodPending || !hasEnded(phase) && s.remainingGrace(sp) > 0) {
		return
	}
	sp.Status.Phase = phase
}

// remainingGrace returns the rest of the grace period of a new ShadowPod; 0 or less is the time since its end. A ShadowPod
// created in the future, by a fast clock, has none.
func (s *shadowPods) remainingGrace(sp *offv1beta1.ShadowPod) time.Duration {
	age := time.Since(sp.CreationTimestamp.Time)
	if age < 0 {
		return -s.youth
	}
	return s.youth - age
}

// Next returns a delay for a pod that was created and not seen: the watch may have been interrupted just then. A ShadowPod
// with a phase about to become reportable also gets a delay, and for some time after: the grace period may have ended since
// takePhase.
func (s *shadowPods) Next(sp *offv1beta1.ShadowPod) time.Duration {
	if s.quotas.IsReserved(client.ObjectKeyFromObject(sp)) {
		return unseenDelay
	}
	if remaining := s.remainingGrace(sp); sp.Status.Phase == "" && remaining > -s.youth {
		return max(remaining, s.youth/4)
	}
	return 0
}

// CopyForStatus copies a ShadowPod without its spec, the bulk of the object.
func (s *shadowPods) CopyForStatus(sp *offv1beta1.ShadowPod) *offv1beta1.ShadowPod {
	return &offv1beta1.ShadowPod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Status: *sp.Status.DeepCopy()}
}

func hasEnded(phase corev1.PodPhase) bool { return policy.Ended(phase) }

func (s *shadowPods) createPod(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	pod, err := s.preparePod(ctx, sp)
	if err != nil || pod == nil {
		s.quotas.Withdraw(sp)
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
	s.quotas.Made(pod, "")
	if s.quotas.enforce {
		s.templates.Learn(templateKeyOf(asked), &pod.Spec, time.Now())
	}
	s.takePhase(sp, pod.Status.Phase)
	return nil
}

// preparePod returns the pod to create, nil if none is to be created.
func (s *shadowPods) preparePod(ctx context.Context, sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	// The order matters: rememberPod stores the end of a pod before the quota cache stops showing it.
	if s.quotas.IsObserved(client.ObjectKeyFromObject(sp)) {
		return nil, kube.Wait(watchDelay, "the outcome of the earlier request is not known yet")
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

// notMade passes the error of a create request to the quota cache and returns the error for the queue.
func (s *shadowPods) notMade(ctx context.Context, sp *offv1beta1.ShadowPod, err error, pod *corev1.Pod) error {
	key := client.ObjectKeyFromObject(pod)
	switch _, certain := classifyAnswer(err); {
	case !certain:
		s.quotas.Lost(key, "")
	case s.quotas.IsUncertain(key): // this request was refused, but an earlier one may have created the pod
		if existing, err := s.readPod(ctx, sp); err == nil && metav1.IsControlledBy(existing, sp) {
			return nil
		}
	default:
		s.quotas.Release(key)
	}
	return whyNotMade(err, pod)
}

// whyNotMade converts the error of a create request to a refusal, a delay, or an error to retry.
func whyNotMade(err error, pod *corev1.Pod) error {
	refused, _ := classifyAnswer(err)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account "+pod.Namespace+"/default:") {
		return kube.Wait(accountDelay, "the namespace is new and has no default service account yet")
	}
	err = fmt.Errorf("creating the pod: %w", err)
	if refused {
		return &podRejection{reason: offv1beta1.ReasonRefused, why: err, next: err, room: true}
	}
	return err
}

// checkPod checks the provider's policy again: admission may have been off, and namespaces may have changed since.
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
		err = policy.CheckAmounts(&sp.Spec.Pod)
	}
	if err != nil {
		return &podRejection{reason: offv1beta1.ReasonRefused, why: err, next: kube.Invalid(offv1beta1.ReasonRefused, err)}
	}
	return nil
}

// checkExisting handles an existing pod missing in the cache: a new pod, or a pod not made from a ShadowPod.
func (s *shadowPods) checkExisting(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	pod, err := s.readPod(ctx, sp)
	switch {
	case err != nil:
		return fmt.Errorf("reading the conflicting pod: %w", err)
	case metav1.IsControlledBy(pod, sp):
		return nil
	default:
		return inTheWay(pod)
	}
}

// readPod reads the pod from the API server after a create request was refused, and passes the outcome to the quota cache.
func (s *shadowPods) readPod(ctx context.Context, sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	key, pod := client.ObjectKeyFromObject(sp), &corev1.Pod{}
	err := s.live.Get(ctx, key, pod)
	switch {
	case err == nil && metav1.IsControlledBy(pod, sp):
		s.quotas.Found(key, pod)
	case err == nil || apierrors.IsNotFound(err):
		s.quotas.Release(key)
	default:
		s.quotas.Found(key, nil)
	}
	return pod, err
}

func inTheWay(pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return kube.Wait(successorDelay, "an earlier pod of this name is being deleted")
	}
	err := fmt.Errorf("pod %q already exists and was not created from this ShadowPod", pod.Name)
	return &podRejection{reason: offv1beta1.ReasonRefused, why: err, next: err}
}

func (s *shadowPods) podOf(ctx context.Context, sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	spec, err := s.specToMake(ctx, sp)
	if err != nil {
		return nil, err
	}
	if err := s.translateHostAliases(ctx, sp, &spec); err != nil {
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
