// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// podWatch is what a watch has seen of the pods of one namespace: which are there, and since when each is ready.
type podWatch struct {
	cancel context.CancelFunc

	mu    sync.Mutex
	there map[string]bool
	ready map[string]time.Time
	news  chan struct{} // closed and replaced at each change
	err   error
}

// watchPods watches the pods of a namespace until the returned podWatch is closed.
func watchPods(ctx context.Context, api kubernetes.Interface, namespace string) (*podWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &podWatch{cancel: cancel, there: map[string]bool{}, ready: map[string]time.Time{}, news: make(chan struct{})}
	w, err := s.list(ctx, api, namespace)
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		for err == nil {
			for event := range w.ResultChan() {
				if pod, ok := event.Object.(*corev1.Pod); ok {
					s.see(event.Type, pod)
				}
			}
			w, err = s.list(ctx, api, namespace) // API servers end the watch of a client that is slow
		}
		s.change(func() { s.err = err })
	}()
	return s, nil
}

// list notes what is there, and watches what comes.
func (s *podWatch) list(ctx context.Context, api kubernetes.Interface, namespace string) (watch.Interface, error) {
	list, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods in %s: %w", namespace, err)
	}
	now := time.Now()
	s.change(func() {
		clear(s.there)
		for i := range list.Items {
			s.note(&list.Items[i], now)
		}
	})
	w, err := api.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watching the pods in %s: %w", namespace, err)
	}
	return w, nil
}

func (s *podWatch) close() { s.cancel() }

func (s *podWatch) see(kind watch.EventType, pod *corev1.Pod) {
	now := time.Now()
	s.change(func() {
		if kind == watch.Deleted {
			delete(s.there, pod.Name)
			return
		}
		s.note(pod, now)
	})
}

func (s *podWatch) note(pod *corev1.Pod, now time.Time) {
	s.there[pod.Name] = true
	_, known := s.ready[pod.Name]
	switch ready := isReady(pod); {
	case ready && !known:
		s.ready[pod.Name] = now
	case !ready:
		delete(s.ready, pod.Name)
	}
}

func (s *podWatch) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.news)
	s.news = make(chan struct{})
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// limit of every wait; a slow machine is slow, not broken.
const limit = 10 * time.Minute

// until waits for a state of the pods.
func (s *podWatch) until(ctx context.Context, what string, done func(exists map[string]bool, ready map[string]time.Time) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s.mu.Lock()
		ok, err, news := done(s.there, s.ready), s.err, s.news
		there, ready := len(s.there), len(s.ready)
		s.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (%d pods, %d were ready): %w", what, there, ready, ctx.Err())
		}
	}
}

func (s *podWatch) allReady(ctx context.Context, n int) error {
	return s.until(ctx, fmt.Sprintf("%d pods to be ready", n), func(_ map[string]bool, ready map[string]time.Time) bool { return len(ready) >= n })
}

func (s *podWatch) allGone(ctx context.Context) error {
	return s.until(ctx, "all pods to be gone", func(exists map[string]bool, _ map[string]time.Time) bool { return len(exists) == 0 })
}

// lags are how much later than far each pod became ready here.
func (s *podWatch) lags(far *podWatch) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	far.mu.Lock()
	defer far.mu.Unlock()
	var out []time.Duration
	for name, at := range s.ready {
		if there, ok := far.ready[name]; ok {
			out = append(out, at.Sub(there))
		}
	}
	return out
}
