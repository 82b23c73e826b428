// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/rules"
)

const (
	// madeFrom is the value of the label ManagedBy on pods made from ShadowPods.
	madeFrom       = "shadowpod"
	defaultWorkers = 10
	// successorDelay is how long to wait for a pod of an earlier ShadowPod to go.
	successorDelay = 2 * time.Second
	namespaceDelay = time.Second
	accountDelay   = 500 * time.Millisecond
)

// Reasons of the events on ShadowPods, for the provider's administrator: consumers have no right to read events here.
const (
	reasonCreated = "CreatedPod"
	reasonFailed  = "FailedCreatePod"
)

// ShadowPodOptions say how ShadowPods are handled.
type ShadowPodOptions struct {
	// Workers is the number of ShadowPods handled at once; 0 is 10.
	Workers int
}

// SetupShadowPods registers the controller that runs the pods of consumers.
func SetupShadowPods(mgr ctrl.Manager, o ShadowPodOptions) error {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if _, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Namespace{}); err != nil {
		return fmt.Errorf("caching namespaces: %w", err)
	}
	pods, err := podCache(mgr)
	if err != nil {
		return err
	}
	s := &shadowPods{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), pods: pods,
		recorder: mgr.GetEventRecorder("liqo-shadowpod"),
	}
	c := kube.NewController(mgr, kube.Options{Name: "shadowpod", Workers: o.Workers}, s)
	owner := handler.TypedEnqueueRequestForOwner[*corev1.Pod](mgr.GetScheme(), mgr.GetRESTMapper(), &offv1beta1.ShadowPod{}, handler.OnlyControllerOwner())
	return c.Complete(c.Builder().WatchesRawSource(source.Kind(pods, &corev1.Pod{}, owner)))
}

// podCache holds the pods made from ShadowPods and no others, and of them only what is read here.
func podCache(mgr ctrl.Manager) (cache.Cache, error) {
	pods, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&corev1.Pod{}: {
		Label:     labels.SelectorFromSet(labels.Set{names.ManagedBy: madeFrom}),
		Transform: slim,
	}})
	if err != nil {
		return nil, fmt.Errorf("reading the pods of consumers: %w", err)
	}
	return pods, nil
}

func slim(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{}
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
	client   client.Client
	live     client.Reader
	pods     client.Reader
	recorder events.EventRecorder
}

// Sync makes the pod where it is missing, and follows it.
func (s *shadowPods) Sync(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	if ended(sp.Status.Phase) {
		return nil
	}
	pod := &corev1.Pod{}
	err := s.pods.Get(ctx, client.ObjectKeyFromObject(sp), pod)
	switch {
	case apierrors.IsNotFound(err):
		return s.create(ctx, sp)
	case err != nil:
		return fmt.Errorf("reading the pod: %w", err)
	case !metav1.IsControlledBy(pod, sp):
		return inTheWay(pod)
	}
	if phase := phaseToReport(pod); phase != "" {
		sp.Status.Phase = phase
	}
	return s.follow(ctx, sp, pod)
}

// Report tells of pods that could not be made. Waiting is told by nobody.
func (s *shadowPods) Report(_ *offv1beta1.ShadowPod, err error) []kube.Event {
	if err == nil {
		return nil
	}
	if verdict := kube.Judge(err); !verdict.Failed() && !verdict.Invalid() {
		return nil
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: failureReason(err), Message: err.Error()}}
}

func ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func (s *shadowPods) create(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	sp.Status.Phase = corev1.PodPending
	if err := s.check(ctx, sp); err != nil {
		return err
	}
	pod, err := s.podOf(sp)
	if err != nil {
		return err
	}
	err = s.client.Create(ctx, pod, client.FieldOwner(names.ShadowPodFieldManager))
	switch {
	case err == nil:
		s.recorder.Eventf(sp, pod, corev1.EventTypeNormal, reasonCreated, "Create", "Created pod %s", pod.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		return s.existing(ctx, sp)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account "+sp.Namespace+"/default:"):
		return kube.Wait(accountDelay, "the namespace is new and has no default service account yet")
	default:
		return fmt.Errorf("creating the pod: %w", err)
	}
}

// check applies the provider's policy again: admission may have been off, and namespaces may have changed since.
func (s *shadowPods) check(ctx context.Context, sp *offv1beta1.ShadowPod) error {
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
	err := rules.CheckShadowPod(sp, rules.Policy{
		Consumer:    namespace.Labels[names.RemoteClusterID],
		PodSecurity: namespace.Labels[rules.PodSecurityLabel],
	})
	if err != nil {
		return kube.Invalid(reasonFailed, err)
	}
	return nil
}

// existing handles a pod that the cache does not show: it is new, or it is not made from a ShadowPod.
func (s *shadowPods) existing(ctx context.Context, sp *offv1beta1.ShadowPod) error {
	pod := &corev1.Pod{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(sp), pod); err != nil {
		return fmt.Errorf("reading the pod in the way: %w", err)
	}
	if metav1.IsControlledBy(pod, sp) {
		return nil
	}
	return inTheWay(pod)
}

func inTheWay(pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return kube.Wait(successorDelay, "an earlier pod of this name is being deleted")
	}
	return fmt.Errorf("a pod %q exists already and was not made from this ShadowPod", pod.Name)
}

func (s *shadowPods) podOf(sp *offv1beta1.ShadowPod) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: sp.Name, Namespace: sp.Namespace,
			Labels:      podLabels(sp),
			Annotations: podAnnotations(sp),
		},
		Spec: specToMake(sp),
	}
	if err := controllerutil.SetControllerReference(sp, pod, s.client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning the pod: %w", err)
	}
	return pod, nil
}
