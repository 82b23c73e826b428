// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/test/clusters"
)

// Recorder watches the pods of a namespace, through restarts of the API server.
type Recorder struct {
	mu       sync.Mutex
	uids     map[string]map[types.UID]bool // that a name ever had
	phases   map[types.UID]corev1.PodPhase
	restarts map[types.UID]int32
	back     []string // what went backwards
}

// Record watches until the test ends.
func Record(t *testing.T, c *clusters.Cluster, namespace string) *Recorder {
	t.Helper()
	r := &Recorder{uids: map[string]map[types.UID]bool{}, phases: map[types.UID]corev1.PodPhase{}, restarts: map[types.UID]int32{}}
	pods := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Pods(namespace)
	go func() {
		for t.Context().Err() == nil {
			list, err := pods.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			for i := range list.Items {
				r.see(&list.Items[i])
			}
			r.follow(t.Context(), func(ctx context.Context) (<-chan *corev1.Pod, error) {
				w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
				if err != nil {
					return nil, err
				}
				out := make(chan *corev1.Pod)
				go func() {
					defer close(out)
					defer w.Stop()
					for e := range w.ResultChan() {
						if pod, ok := e.Object.(*corev1.Pod); ok {
							out <- pod
						}
					}
				}()
				return out, nil
			})
		}
	}()
	return r
}

func (r *Recorder) follow(ctx context.Context, watch func(context.Context) (<-chan *corev1.Pod, error)) {
	pods, err := watch(ctx)
	if err != nil {
		return
	}
	for pod := range pods {
		r.see(pod)
	}
}

var order = map[corev1.PodPhase]int{"": 0, corev1.PodPending: 0, corev1.PodRunning: 1, corev1.PodSucceeded: 2, corev1.PodFailed: 2}

func (r *Recorder) see(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uids[pod.Name] == nil {
		r.uids[pod.Name] = map[types.UID]bool{}
	}
	r.uids[pod.Name][pod.UID] = true
	was, is := r.phases[pod.UID], pod.Status.Phase
	if order[is] < order[was] || order[was] == 2 && is != was {
		r.back = append(r.back, fmt.Sprintf("pod %s went from %s to %s", pod.Name, was, is))
	}
	r.phases[pod.UID] = is
	var restarts int32
	for _, c := range pod.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	if restarts < r.restarts[pod.UID] {
		r.back = append(r.back, fmt.Sprintf("pod %s had %d restarts and now %d", pod.Name, r.restarts[pod.UID], restarts))
	}
	r.restarts[pod.UID] = restarts
}

// Unfinished returns the number of pods that did not end yet.
func (r *Recorder) Unfinished() (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, phase := range r.phases {
		if order[phase] < 2 {
			count++
		}
	}
	return count
}

// Check fails the test for another number of names than there were to be, for each that had more than one UID, and for all that went backwards.
func (r *Recorder) Check(t *testing.T, where string, want int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, uids := range r.uids {
		if len(uids) > 1 {
			t.Errorf("%s: pod %s existed %d times", where, name, len(uids))
		}
	}
	for _, what := range r.back {
		t.Errorf("%s: %s", where, what)
	}
	if len(r.uids) != want {
		t.Errorf("%s: %d pods were seen, want %d", where, len(r.uids), want)
	}
}
