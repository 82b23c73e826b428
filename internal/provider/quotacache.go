// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/quota"
)

// quotaCache accounts for the usage of each account in this cluster and queues the pods that exceed a Quota. The accounting is
// exact, as in an assume cache, because the single leader reserves quota before it creates each pod: existing pods count until
// they have ended or are gone, and so do pods that are being created.
//
// No pending pod fits into the free capacity: freed capacity is offered to the pending queue in order of creation before any
// new request is admitted. A pod that requests too much is skipped, and stays pending.
type quotaCache struct {
	// enforce is false if Quotas are not enforced: all usage is counted, and no pod has to wait.
	enforce bool
	// wake enqueues a ShadowPod for reconciliation. It must not block.
	wake func(types.NamespacedName)
	now  func() time.Time

	mu      sync.Mutex
	entries map[types.NamespacedName]*reservation
	books   map[account]*usage
	turns   int
}

// holdLimit is the time for which quota stays reserved for a pod that the watch never shows. By then, each create or update
// request is over, also in the API server, whose --request-timeout is one minute by default.
const holdLimit = 2 * time.Minute

// sweepTime is the interval at which expired reservations and doubts are looked for.
const sweepTime = 10 * time.Second

func newLedger(enforce bool, wake func(types.NamespacedName)) *quotaCache {
	return &quotaCache{enforce: enforce, wake: wake, now: time.Now, entries: map[types.NamespacedName]*reservation{}, books: map[account]*usage{}}
}

// Reserve reserves quota for a ShadowPod, or adds the pod to the pending queue and returns the reason. q is the Quota of the
// account, nil if the account has none. An earlier reservation is renewed if the Quota still permits it.
func (l *quotaCache) Reserve(sp *offv1beta1.ShadowPod, q *offv1beta1.Quota, ran bool) error {
	w := &pendingPod{
		key: client.ObjectKeyFromObject(sp), created: sp.CreationTimestamp.Time,
		pod: &sp.Spec.Pod, need: quota.Need(&sp.Spec.Pod), ran: ran,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.usageOf(accountOf(sp))
	if e := l.entries[w.key]; e != nil && e.book != b {
		l.settleReservation(w.key, e) // a ShadowPod of another account had this name
	}
	if b.setQuota(q) {
		l.updateUsage(b)
	}
	if old := b.waiting.removePod(w.key); old != nil {
		w.turn, w.ran = old.turn, w.ran || old.ran
	}
	own := l.entries[w.key]
	if own != nil {
		w.ran = w.ran || own.ran
	}
	if own != nil && own.isDoubtful() { // the dry run was not repeated, so the additions of admission are known from the reservation only
		quota.AtLeast(w.need, own.need)
	}
	err := l.checkQuota(b, w, own)
	if err == nil {
		l.reserve(b, w).asked = true
		return nil
	}
	if w.turn == 0 {
		l.turns++
		w.turn = l.turns
	}
	b.waiting.addPod(w, b.rankOf(w, own))
	if own != nil && !own.isBusy() { // an earlier request may have created the pod: the reservation counts until the outcome is known
		l.giveBack(w.key)
	}
	return err
}

// Made records that the API server created or updated the pod. The pod counts with the requests that the API server returned.
func (l *quotaCache) Made(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if e := l.entries[key]; e != nil {
		e.asked = false
		l.podSeen(key, e, pod)
	}
}

// Found records that a create request was refused because the pod exists. If no event or answer reported that pod before, an
// earlier request created it.
func (l *quotaCache) Found(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		return
	}
	// If asked is false, the watch was faster than the answer.
	news := e.asked && !e.isOfPod(pod.UID)
	if e.asked = false; news {
		e.confirm()
	}
	l.podSeen(key, e, pod)
}

// podSeen counts a pod that the API server returned. Other requests may still create the next pod of this name.
func (l *quotaCache) podSeen(key types.NamespacedName, e *reservation, pod *corev1.Pod) {
	e.from = ""
	need := quota.Need(&pod.Spec)
	if e.seen == pod.UID { // a decrease counts once the watch shows it
		e.growTo(need)
	} else {
		if e.made = pod.UID; e.isDoubtful() {
			quota.AtLeast(need, e.need)
		}
		l.changeNeed(key, e, need)
	}
	if e.seen == pod.UID || e.gone == pod.UID {
		l.podReported(key, e, pod.UID, !e.isBusy())
	}
}

// Lost marks the request to create a pod, or to update the pod of version from, as unanswered: the request may have succeeded,
// or may still succeed. The reservation stays until the watch or a later answer shows the outcome, or until the request is
// certainly over.
func (l *quotaCache) Lost(key types.NamespacedName, from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	switch {
	case e == nil || !e.asked: // no request is under way, or the watch has shown its outcome
	case from == "":
		e.asked, e.lost = false, append(e.lost, l.now())
	case isNewer(e.version, from):
		l.giveBack(key)
	default:
		e.asked, e.from = false, from
	}
}

// Release releases the reservation of a refused request. The reservation stays while an earlier request is in doubt: although
// no pod exists now, the API server may still be processing that request.
func (l *quotaCache) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(key)
}

// Unknown records that a create request was refused and that reading the pod failed. If an earlier request may have created a
// pod, its doubt stays; else the pod counts as if this request had created it.
func (l *quotaCache) Unknown(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[key]; e != nil && (e.made != "" || e.isDoubtful()) {
		e.asked = false
	}
}

func (l *quotaCache) giveBack(key types.NamespacedName) {
	e := l.entries[key]
	if e == nil {
		return
	}
	if e.asked = false; e.made == "" && !e.isDoubtful() {
		l.settleReservation(key, e)
	}
}

// Withdraw removes a ShadowPod that needs no quota now from the pending queue, and offers its unused reservation to other pods.
// An existing pod of the ShadowPod counts while it exists, and so does a pod that is being created.
func (l *quotaCache) Withdraw(sp *offv1beta1.ShadowPod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(sp)
	if b := l.books[accountOf(sp)]; b != nil {
		b.waiting.removePod(key)
		l.dropUnused(b)
	}
	if e := l.entries[key]; e != nil && !e.held.IsZero() && !e.isBusy() {
		l.giveBack(key)
	}
}

// See records the pod as the watch shows it.
func (l *quotaCache) See(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		e = l.addReservation(l.usageOf(accountOf(pod)), key)
	}
	over := false
	if e.isBusy() && e.made == "" && !e.isOfPod(pod.UID) {
		e.confirm()
		over = !e.isBusy()
	}
	if e.from != "" && isNewer(pod.ResourceVersion, e.from) {
		e.from = ""
		over = !e.isBusy()
	}
	e.seen, e.shown, e.version = pod.UID, quota.Need(&pod.Spec), pod.ResourceVersion
	e.growTo(e.growing)
	l.podReported(key, e, pod.UID, over)
}

// Gone records that the watch showed the pod as deleted or ended.
func (l *quotaCache) Gone(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		return
	}
	e.gone = pod.UID
	over := false
	if e.seen == pod.UID {
		over = e.from != "" && len(e.lost) == 0 && !e.asked
		e.seen, e.from = "", ""
	}
	l.podReported(key, e, pod.UID, over)
}

// podReported settles the reservation after the watch showed the outcome for a pod; over reports whether it showed the outcome
// of every request, too. While a request for the next pod is under way or in doubt, its quota stays reserved.
func (l *quotaCache) podReported(key types.NamespacedName, e *reservation, pod types.UID, over bool) {
	if e.made != "" && e.made == pod {
		e.made = ""
		over = !e.isBusy()
	}
	if over || e.held.IsZero() || l.isLate(e.held) {
		l.settleReservation(key, e)
	}
}

// isLate reports whether every request that was sent before since is over.
func (l *quotaCache) isLate(since time.Time) bool { return l.now().Sub(since) > holdLimit }

// Seen reports whether the watch has shown a pod of this name that has not ended.
func (l *quotaCache) Seen(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.seen != ""
}

// Held reports whether quota is reserved for a pod or a change that the watch has not shown yet.
func (l *quotaCache) Held(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && !e.held.IsZero() && !l.isLate(e.held)
}

// Doubtful reports whether the outcome of an earlier create or update request is unknown.
func (l *quotaCache) Doubtful(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.isDoubtful()
}

// Budget updates the Quota of an account and wakes all its pending pods.
func (l *quotaCache) Budget(a account, q *offv1beta1.Quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[a]
	if b == nil || !b.setQuota(q) {
		return
	}
	l.updateUsage(b)
	for key := range b.waiting.of {
		l.wake(key)
	}
}

// updateUsage ranks the pending queue again after a change of the Quota: other pods may fit than before.
func (l *quotaCache) updateUsage(b *usage) {
	for key, w := range b.waiting.of {
		b.waiting.movePod(w, b.rankOf(w, l.entries[key]))
	}
	l.servePending(b)
}

// servePending offers the free capacity to the pending queue.
func (l *quotaCache) servePending(b *usage) {
	b.waiting.servePods(func(w *pendingPod) bool {
		if l.checkQuota(b, w, l.entries[w.key]) != nil {
			return false
		}
		b.waiting.removePod(w.key)
		l.reserve(b, w)
		l.wake(w.key)
		return true
	})
}

func (l *quotaCache) reserve(b *usage, w *pendingPod) *reservation {
	e := l.entries[w.key]
	if e == nil {
		e = l.addReservation(b, w.key)
	}
	e.held, e.ran, e.growing = l.now(), w.ran, nil
	b.held[w.key] = e
	need := w.need.DeepCopy()
	if e.seen != "" {
		quota.AtLeast(need, e.shown)
	}
	if e.isBusy() || e.made != "" { // the earlier pod may exist as it was requested
		quota.AtLeast(need, e.need)
	}
	l.setNeed(w.key, e, need)
	return e
}

// settleReservation ends a reservation: either the watch shows the pod, or no pod exists.
func (l *quotaCache) settleReservation(key types.NamespacedName, e *reservation) {
	e.held, e.made = time.Time{}, ""
	e.clearDoubt()
	delete(e.book.held, key)
	if e.seen != "" {
		l.changeNeed(key, e, e.currentNeed())
		return
	}
	delete(l.entries, key)
	e.book.entries--
	l.setNeed(key, e, nil)
	l.servePending(e.book)
	l.dropUnused(e.book)
}

// changeNeed sets the current need of a reservation, and offers freed capacity to the pending queue.
func (l *quotaCache) changeNeed(key types.NamespacedName, e *reservation, need corev1.ResourceList) {
	if equality.Semantic.DeepEqual(e.need, need) {
		return
	}
	l.setNeed(key, e, need)
	l.servePending(e.book)
}

// setNeed counts the need of a reservation. A pending increase of the same pod gets another rank, because the difference
// changes.
func (l *quotaCache) setNeed(key types.NamespacedName, e *reservation, need corev1.ResourceList) {
	quota.Sub(e.book.used, e.need)
	quota.Add(e.book.used, need)
	e.need = need
	if w := e.book.waiting.of[key]; w != nil {
		e.book.waiting.movePod(w, e.book.rankOf(w, e))
	}
}

// Sweep expires doubts about requests that are over, offers that no pod accepted, and reservations of pods that the watch never
// showed because it was interrupted while they were created and deleted.
func (l *quotaCache) Sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.books {
		for key, e := range b.held {
			switch {
			case l.isLate(e.held):
				l.settleReservation(key, e)
			case len(e.lost) > 0 && l.isLate(e.lost[0]):
				if e.lost = slices.DeleteFunc(e.lost, l.isLate); !e.asked {
					l.giveBack(key)
				}
			}
		}
	}
}

func (l *quotaCache) addReservation(b *usage, key types.NamespacedName) *reservation {
	e := &reservation{book: b}
	l.entries[key] = e
	b.entries++
	return e
}

func (l *quotaCache) usageOf(a account) *usage {
	b := l.books[a]
	if b == nil {
		b = newBook(a)
		l.books[a] = b
	}
	return b
}

func (l *quotaCache) dropUnused(b *usage) {
	if b.entries == 0 && len(b.waiting.of) == 0 {
		delete(l.books, b.account)
	}
}

// checkQuota returns why w gets no quota beyond its reservation own, nil if w fits.
func (l *quotaCache) checkQuota(b *usage, w *pendingPod, own *reservation) error {
	if !l.enforce {
		return nil
	}
	used := b.used
	if own != nil {
		used = used.DeepCopy()
		quota.Sub(used, own.need)
	}
	return b.checkRoom(w, used)
}
