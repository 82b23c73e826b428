// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/policy"
)

// evictionBackoff limits repeated deletions of pods that their owner recreates unchanged, because new pods are not steered or the
// owner sets a node name. The pods of an owner at the first check form a round; pods created later wait for the next round,
// with exponential backoff.
type evictionBackoff map[evictionCause]evictionRound

// evictionCause identifies a round: an owner, and the violated generation of the NamespaceOffloading.
type evictionCause struct {
	owner      types.UID
	generation int64
}

type evictionRound struct {
	number int
	// begun by the local clock; newest by the API server's clock.
	begun, newest time.Time
}

// The delay of the next round begins with the first of these and doubles up to the last; after forgotten the backoff is
// reset.
const (
	firstPause = 5 * time.Second
	lastPause  = 10 * time.Minute
	forgotten  = time.Hour
)

func (r evictionRound) nextTime() time.Time {
	pause := lastPause
	if shift := r.number - 1; shift < 7 {
		pause = min(firstPause<<shift, lastPause)
	}
	return r.begun.Add(pause)
}

// roundOf returns the round of an owner whose newest misplaced pod was created at that time.
func (r evictionBackoff) roundOf(c evictionCause, newest, now time.Time) evictionRound {
	current, known := r[c]
	switch {
	case !known:
		maps.DeleteFunc(r, func(_ evictionCause, old evictionRound) bool { return now.Sub(old.begun) > forgotten })
		current = evictionRound{number: 1, begun: now, newest: newest}
	case newest.After(current.newest) && !now.Before(current.nextTime()):
		current = evictionRound{number: current.number + 1, begun: now, newest: newest}
	}
	r[c] = current
	return current
}

// backoffState is the exponential backoff of a namespace in which every eviction was rejected.
type backoffState struct {
	length time.Duration
	until  time.Time
}

// Evictions are tried again after the first of these, then, while none succeeds, twice as long, up to the last.
const (
	firstHeld = 5 * time.Second
	lastHeld  = 5 * time.Minute
)

// afterRound returns the backoff after rejections at the time now. A run during the backoff does not extend the backoff.
func (p backoffState) afterRound(now time.Time) backoffState {
	if now.Before(p.until) {
		return p
	}
	length := min(max(2*p.length, firstHeld), lastHeld)
	return backoffState{length: length, until: now.Add(length)}
}

// evictionPlan is the set of remedies for the pods of a namespace.
type evictionPlan struct {
	tolerate []*corev1.Pod
	remove   []victim
	tell     []warning
	// again is when to look again; 0 is never.
	again time.Duration
	// last: the offloading is being deleted. A pod that cannot be evicted must not block the deletion.
	last bool
}

// warning is an event for the user about a pod.
type warning struct {
	pod  *corev1.Pod
	text string
}

func (r evictionBackoff) planEvictions(found []victim, generation int64, now time.Time) evictionPlan {
	newest := map[types.UID]time.Time{}
	for _, p := range found {
		if owner, createdAt := ownerOf(p.pod), p.pod.CreationTimestamp.Time; owner != "" && createdAt.After(newest[owner]) {
			newest[owner] = createdAt
		}
	}
	var out evictionPlan
	for _, p := range found {
		switch p.remedy {
		case policy.Tolerate:
			out.tolerate = append(out.tolerate, p.pod)
			continue
		case policy.Tell:
			out.tell = append(out.tell, warning{pod: p.pod, text: explainPending(p.pod)})
			continue
		}
		owner := ownerOf(p.pod)
		current := r.roundOf(evictionCause{owner: owner, generation: generation}, newest[owner], now)
		if p.pod.CreationTimestamp.After(current.newest) {
			out.tell = append(out.tell, warning{pod: p.pod, text: notSteered})
			out.again = earlierOf(out.again, max(current.nextTime().Sub(now), time.Second))
			continue
		}
		out.remove = append(out.remove, p)
	}
	return out
}

func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.UID
	}
	return ""
}

const notSteered = "The pod was recreated and still violates the strategy of its namespace: its owner sets a node name, or new pods are not steered"

func explainPending(pod *corev1.Pod) string {
	const why = "The pod was created before the offloading of its namespace began, changed or ended, and its node affinity is immutable: "
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return why + "it has no owner that would recreate it, so delete and create it again"
	case owner.Kind == "Job":
		return why + fmt.Sprintf("Job %q would count its deletion as a failure, so suspend and resume the Job", owner.Name)
	default:
		return why + fmt.Sprintf("%s %q may take its deletion for a failure, so make that one again", owner.Kind, owner.Name)
	}
}

// evictionsAtOnce bounds the concurrent requests for one node or namespace.
const evictionsAtOnce = 10

// evictor asks pods to go, as far as their disruption budgets allow.
type evictor struct{ pods rest.Interface }

func newEvictor(mgr ctrl.Manager) (evictor, error) {
	pods, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return evictor{}, fmt.Errorf("making a client for evictions: %w", err)
	}
	return evictor{pods: pods.RESTClient()}, nil
}

// evictPod sends one request. A default client would obey the answer "retry after ten seconds" of a disruption budget,
// which would block a worker.
func (e evictor) evictPod(ctx context.Context, namespace, name string, uid types.UID) error {
	return e.pods.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(uid)}},
		}).MaxRetries(0).Do(ctx).Error()
}
