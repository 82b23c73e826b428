// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/policy"
)

// evictionBackoff keep us from deleting for ever what its owner makes again just as it was, because the webhook is not asked or
// the owner names a node. The pods that an owner has when they are first looked at make a round; those that it makes later
// wait for the next one, which comes after an ever longer time.
type evictionBackoff map[evictionCause]evictionRound

// evictionCause of a round: an owner, and the generation of the NamespaceOffloading that its pods do not fit.
type evictionCause struct {
	owner      types.UID
	generation int64
}

type evictionRound struct {
	number int
	// begun by our clock; newest by that of the API server.
	begun, newest time.Time
}

// The next round comes after the first of these, then twice as long, up to the last; after forgotten nothing is known of it.
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

// roundOf returns the round of an owner whose newest misplaced pod was made at that time.
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

// backoffState is how long a namespace is left alone in which every eviction was refused, ever longer.
type backoffState struct {
	length time.Duration
	until  time.Time
}

// Evictions are tried again after the first of these, then, while none succeeds, twice as long, up to the last.
const (
	firstHeld = 5 * time.Second
	lastHeld  = 5 * time.Minute
)

// afterRound is the pause that follows refusals at that time. Whoever wakes us during a pause makes it no longer.
func (p backoffState) afterRound(now time.Time) backoffState {
	if now.Before(p.until) {
		return p
	}
	length := min(max(2*p.length, firstHeld), lastHeld)
	return backoffState{length: length, until: now.Add(length)}
}

// evictionPlan is what is done about the pods of a namespace.
type evictionPlan struct {
	tolerate []*corev1.Pod
	remove   []victim
	tell     []warning
	// again is when to look again; 0 is never.
	again time.Duration
	// last: the offloading ends, which a pod that somebody's policy keeps does not hold up.
	last bool
}

// warning is what the user is told about a pod.
type warning struct {
	pod  *corev1.Pod
	text string
}

func (r evictionBackoff) planEvictions(found []victim, generation int64, now time.Time) evictionPlan {
	newest := map[types.UID]time.Time{}
	for _, p := range found {
		if owner, made := ownerOf(p.pod), p.pod.CreationTimestamp.Time; owner != "" && made.After(newest[owner]) {
			newest[owner] = made
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

const notSteered = "The pod was made anew and still does not fit the strategy of its namespace: either its owner names a node, or new pods do not pass through the webhook of Liqo"

func explainPending(pod *corev1.Pod) string {
	const why = "The pod was made before the offloading of its namespace began, changed or ended, and what it requires of its node cannot be changed: "
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return why + "nobody makes it anew, so delete it and make it again"
	case owner.Kind == "Job":
		return why + fmt.Sprintf("Job %q would count its deletion as a failure, so suspend and resume the Job", owner.Name)
	default:
		return why + fmt.Sprintf("%s %q may take its deletion for a failure, so make that one again", owner.Kind, owner.Name)
	}
}
