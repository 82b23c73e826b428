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

// quotaCache counts what each account has in this cluster, and lets those wait who would have too much. It is exact because
// the one leader asks it before each pod that is made: what counts are the pods that exist, until they ended or are gone,
// and those that are being made.
//
// No pod that waits would fit into what is free: whatever becomes free is given to those who wait, in the order in which
// they were created, before anybody else asks. Who asks for too much is passed over, and keeps waiting.
type quotaCache struct {
	// enforce is false where nobody is held to a Quota: everything is counted, and nobody waits.
	enforce bool
	// wake has a ShadowPod looked at again. It must not block.
	wake func(types.NamespacedName)
	now  func() time.Time

	mu      sync.Mutex
	entries map[types.NamespacedName]*reservation
	books   map[account]*usage
	turns   int
}

// holdLimit is how long a share is held for a pod that is never seen. A request to make or to change one is over by then, also in the
// API server, which gives up after its --request-timeout: a minute, unless its administrator says otherwise.
const holdLimit = 2 * time.Minute

// sweepTime is how often somebody looks for what is to end by the clock.
const sweepTime = 10 * time.Second

func newLedger(enforce bool, wake func(types.NamespacedName)) *quotaCache {
	return &quotaCache{enforce: enforce, wake: wake, now: time.Now, entries: map[types.NamespacedName]*reservation{}, books: map[account]*usage{}}
}

// Reserve gives a ShadowPod its share, or lets it wait and says why. q is the Quota of the account, nil if it has none.
// What was given before is given again, if it still may.
func (l *quotaCache) Reserve(sp *offv1beta1.ShadowPod, q *offv1beta1.Quota, ran bool) error {
	w := &pendingPod{
		key: client.ObjectKeyFromObject(sp), created: sp.CreationTimestamp.Time,
		pod: &sp.Spec.Pod, need: quota.Need(&sp.Spec.Pod), ran: ran,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.usageOf(accountOf(sp))
	if e := l.entries[w.key]; e != nil && e.book != b {
		l.settleReservation(w.key, e) // somebody else's ShadowPod had this name
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
	if own != nil && own.isDoubtful() { // nobody rehearsed again what admission adds
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
	if own != nil && !own.isBusy() { // an earlier request may have made the pod: it counts until that is known, or out of question
		l.giveBack(w.key)
	}
	return err
}

// Made tells that the API server made the pod, or changed it. It counts with what it has become there.
func (l *quotaCache) Made(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if e := l.entries[key]; e != nil {
		e.asked = false
		l.podSeen(key, e, pod)
	}
}

// Found tells that a request to make a pod was refused where there is one: if nothing told of that, an earlier request made it.
func (l *quotaCache) Found(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		return
	}
	// Where it is not asked any more, the watch was faster than the answer.
	news := e.asked && !e.isOfPod(pod.UID)
	if e.asked = false; news {
		e.confirm()
	}
	l.podSeen(key, e, pod)
}

// podSeen counts a pod that the API server has. Other requests may still make the next one.
func (l *quotaCache) podSeen(key types.NamespacedName, e *reservation, pod *corev1.Pod) {
	e.from = ""
	need := quota.Need(&pod.Spec)
	if e.seen == pod.UID { // what it is less counts when the watch shows that
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

// Lost tells that nobody answered the request to make a pod, or to change it from a version: what was asked for may be there, or
// come. Its share is kept until the watch or the answer to another request shows what became of it, or it is out of question.
func (l *quotaCache) Lost(key types.NamespacedName, from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	switch {
	case e == nil || !e.asked: // nothing was asked for, or it has been shown
	case from == "":
		e.asked, e.lost = false, append(e.lost, l.now())
	case isNewer(e.version, from):
		l.giveBack(key)
	default:
		e.asked, e.from = false, from
	}
}

// Release gives a share back for which a request was refused. It stays while an earlier request is in doubt: although there is no
// pod now, the API server may still be at it.
func (l *quotaCache) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(key)
}

// Unknown tells that a request to make a pod was refused and nobody could look whether there is one. An earlier request may have
// made it, which is in doubt anyway; without one, the pod counts as if this request had made it.
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

// Withdraw drops the wish of a ShadowPod that asks for nothing now, and gives to others what it was offered. Its pod counts
// as long as it is there, and so does one that is being made.
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

// See tells that the watch shows the pod, as it is now.
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

// Gone tells that the watch shows the pod no more, or that it ended.
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

// podReported ends holding now that the watch shows what became of a pod; over tells that it also showed what became of each request.
// While one for the next pod is under way, or may be, its share stays held.
func (l *quotaCache) podReported(key types.NamespacedName, e *reservation, pod types.UID, over bool) {
	if e.made != "" && e.made == pod {
		e.made = ""
		over = !e.isBusy()
	}
	if over || e.held.IsZero() || l.isLate(e.held) {
		l.settleReservation(key, e)
	}
}

// isLate tells whether every request from before a time is over.
func (l *quotaCache) isLate(since time.Time) bool { return l.now().Sub(since) > holdLimit }

// Seen tells whether the watch, as far as it was followed here, shows a pod of this name that has not ended.
func (l *quotaCache) Seen(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.seen != ""
}

// Held tells whether a share is held for what the watch does not show yet, and may.
func (l *quotaCache) Held(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && !e.held.IsZero() && !l.isLate(e.held)
}

// Doubtful tells whether nobody knows what became of an earlier request to make or to change a pod.
func (l *quotaCache) Doubtful(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.isDoubtful()
}

// Budget takes what became of the Quota of an account. Everybody who waits for it is told.
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

// updateUsage begins anew with another Quota: it may let in others than the one before.
func (l *quotaCache) updateUsage(b *usage) {
	for key, w := range b.waiting.of {
		b.waiting.movePod(w, b.rankOf(w, l.entries[key]))
	}
	l.servePending(b)
}

// servePending gives what is free to those who wait.
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
	if e.isBusy() || e.made != "" { // that pod may be there, as it was asked for
		quota.AtLeast(need, e.need)
	}
	l.setNeed(w.key, e, need)
	return e
}

// settleReservation ends holding: either the watch shows what there is, or there is nothing.
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

// changeNeed takes what an entry needs now; what it needs no more is given to others.
func (l *quotaCache) changeNeed(key types.NamespacedName, e *reservation, need corev1.ResourceList) {
	if equality.Semantic.DeepEqual(e.need, need) {
		return
	}
	l.setNeed(key, e, need)
	l.servePending(e.book)
}

// setNeed counts what an entry needs. Who waits to have more than that lacks another amount then.
func (l *quotaCache) setNeed(key types.NamespacedName, e *reservation, need corev1.ResourceList) {
	quota.Sub(e.book.used, e.need)
	quota.Add(e.book.used, need)
	e.need = need
	if w := e.book.waiting.of[key]; w != nil {
		e.book.waiting.movePod(w, e.book.rankOf(w, e))
	}
}

// Sweep ends what ends by the clock: doubts about requests that are over, offers that nobody came for, and shares of pods that nobody
// has ever seen, since the watch was interrupted while they were made and deleted.
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

// checkQuota tells why there is no share for w, besides the one in own.
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
