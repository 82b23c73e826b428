// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

const (
	imagePatience   = time.Minute
	nodePatience    = 3 * time.Minute // an autoscaler may have to order a machine first
	pauseOfTheVigil = 2 * time.Second
)

// stuckPod is a pod that will not start without a change.
type stuckPod struct{ name, why string }

func (s *stuckPod) Error() string { return fmt.Sprintf("pod %s does not start: %s", s.name, s.why) }

// untilStuck runs do, and ends the wait of do early if a new pod of the release cannot start: Helm would wait until its timeout. Earlier pods are
// ignored, because the upgrade may repair them.
func untilStuck(ctx context.Context, c client.Reader, namespace string, do func(wait context.Context) error) error {
	v := &stallDetector{seen: map[types.UID]stall{}, old: map[types.UID]bool{}}
	for _, pod := range podsOfRelease(ctx, c, namespace) {
		v.old[pod.UID] = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		tick := time.NewTicker(pauseOfTheVigil)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if stuck := v.observePods(podsOfRelease(ctx, c, namespace), now); stuck != nil {
					cancel(stuck)
				}
			}
		}
	})
	err := do(ctx)
	cancel(nil)
	keeping.Wait()
	if stuck, ok := errors.AsType[*stuckPod](context.Cause(ctx)); ok && err != nil {
		return stuck
	}
	return err
}

// podsOfRelease returns the pods of the release. A failed list is ignored, because it is no reason to fail an installation.
func podsOfRelease(ctx context.Context, c client.Reader, namespace string) []corev1.Pod {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{names.AppInstance}); err != nil {
		return nil
	}
	var ours []corev1.Pod
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Labels[names.AppInstance], Release+"-") {
			ours = append(ours, pod)
		}
	}
	return ours
}

// stallDetector remembers since when pods have been stuck: the status of pods lacks this time.
type stallDetector struct {
	old  map[types.UID]bool
	seen map[types.UID]stall
}

type stall struct {
	patience time.Duration
	since    time.Time
}

// observePods returns a pod that has been stuck for too long.
func (v *stallDetector) observePods(pods []corev1.Pod, now time.Time) *stuckPod {
	seen := map[types.UID]stall{}
	for n := range pods {
		pod := &pods[n]
		timeout, ill := unsatisfiable(pod)
		if !ill || v.old[pod.UID] {
			continue
		}
		s, known := v.seen[pod.UID]
		if !known || s.patience != timeout {
			s = stall{timeout, now}
		}
		if now.Sub(s.since) >= timeout {
			return &stuckPod{pod.Name, kube.PodProblemOf(pod).String()}
		}
		seen[pod.UID] = s
	}
	v.seen = seen
	return nil
}

// unsatisfiable reports whether a pod will hardly start without a change, and how long this state must last.
func unsatisfiable(pod *corev1.Pod) (time.Duration, bool) {
	if !pod.DeletionTimestamp.IsZero() {
		return 0, false
	}
	switch problem := kube.PodProblemOf(pod); {
	case problem.IsCrashing():
		return 0, true
	case kube.LacksImage(problem.Reason), problem.Reason == "CreateContainerConfigError", problem.Reason == "CreateContainerError":
		return imagePatience, true
	case problem.Reason == corev1.PodReasonUnschedulable:
		return nodePatience, true
	}
	return 0, false
}
