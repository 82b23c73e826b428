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

// ledger counts what each account has in this cluster, and lets those wait who would have too much. It is exact because
// the one leader asks it before each pod that is made: what counts are the pods that exist, until they ended or are gone,
// and those that are being made.
//
// No pod that waits would fit into what is free: whatever becomes free is given to those who wait, in the order in which
// they were created, before anybody else asks. Who asks for too much is passed over, and keeps waiting.
type ledger struct {
	// enforce is false where nobody is held to a Quota: everything is counted, and nobody waits.
	enforce bool
	// wake has a ShadowPod looked at again. It must not block.
	wake func(types.NamespacedName)
	now  func() time.Time

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	books   map[account]*book
	turns   int
}

// holdLimit is how long a share is held for a pod that is never seen. A request to make or to change one is over by then, also in the
// API server, which gives up after its --request-timeout: a minute, unless its administrator says otherwise.
const holdLimit = 2 * time.Minute

// sweepTime is how often somebody looks for what is to end by the clock.
const sweepTime = 10 * time.Second

func newLedger(enforce bool, wake func(types.NamespacedName)) *ledger {
	return &ledger{enforce: enforce, wake: wake, now: time.Now, entries: map[types.NamespacedName]*entry{}, books: map[account]*book{}}
}

// Reserve gives a ShadowPod its share, or lets it wait and says why. q is the Quota of the account, nil if it has none.
// What was given before is given again, if it still may.
func (l *ledger) Reserve(sp *offv1beta1.ShadowPod, q *offv1beta1.Quota, ran bool) error {
	w := &waiter{
		key: client.ObjectKeyFromObject(sp), created: sp.CreationTimestamp.Time,
		pod: &sp.Spec.Pod, need: quota.Need(&sp.Spec.Pod), ran: ran,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(accountOf(sp))
	if e := l.entries[w.key]; e != nil && e.book != b {
		l.settle(w.key, e) // somebody else's ShadowPod had this name
	}
	if b.update(q) {
		l.renew(b)
	}
	if old := b.waiting.remove(w.key); old != nil {
		w.turn, w.ran = old.turn, w.ran || old.ran
	}
	own := l.entries[w.key]
	if own != nil {
		w.ran = w.ran || own.ran
	}
	if own != nil && own.doubtful() { // nobody rehearsed again what admission adds
		quota.AtLeast(w.need, own.need)
	}
	err := l.check(b, w, own)
	if err == nil {
		l.hold(b, w).asked = true
		return nil
	}
	if w.turn == 0 {
		l.turns++
		w.turn = l.turns
	}
	b.waiting.add(w, b.rank(w, own))
	if own != nil && !own.busy() { // an earlier request may have made the pod: it counts until that is known, or out of question
		l.giveBack(w.key)
	}
	return err
}

// Made tells that the API server made the pod, or changed it. It counts with what it has become there.
func (l *ledger) Made(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if e := l.entries[key]; e != nil {
		e.asked = false
		l.there(key, e, pod)
	}
}

// Found tells that a request to make a pod was refused where there is one: if nothing told of that, an earlier request made it.
func (l *ledger) Found(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		return
	}
	// Where it is not asked any more, the watch was faster than the answer.
	news := e.asked && !e.knows(pod.UID)
	if e.asked = false; news {
		e.came()
	}
	l.there(key, e, pod)
}

// there counts a pod that the API server has. Other requests may still make the next one.
func (l *ledger) there(key types.NamespacedName, e *entry, pod *corev1.Pod) {
	e.from = ""
	need := quota.Need(&pod.Spec)
	if e.seen == pod.UID { // what it is less counts when the watch shows that
		e.grow(need)
	} else {
		if e.made = pod.UID; e.doubtful() {
			quota.AtLeast(need, e.need)
		}
		l.change(key, e, need)
	}
	if e.seen == pod.UID || e.gone == pod.UID {
		l.shown(key, e, pod.UID, !e.busy())
	}
}

// Lost tells that nobody answered the request to make a pod, or to change it from a version: what was asked for may be there, or
// come. Its share is kept until the watch or the answer to another request shows what became of it, or it is out of question.
func (l *ledger) Lost(key types.NamespacedName, from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	switch {
	case e == nil || !e.asked: // nothing was asked for, or it has been shown
	case from == "":
		e.asked, e.lost = false, append(e.lost, l.now())
	case newer(e.version, from):
		l.giveBack(key)
	default:
		e.asked, e.from = false, from
	}
}

// Release gives a share back for which a request was refused. It stays while an earlier request is in doubt: although there is no
// pod now, the API server may still be at it.
func (l *ledger) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(key)
}

// Unknown tells that a request to make a pod was refused and nobody could look whether there is one. An earlier request may have
// made it, which is in doubt anyway; without one, the pod counts as if this request had made it.
func (l *ledger) Unknown(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[key]; e != nil && (e.made != "" || e.doubtful()) {
		e.asked = false
	}
}

func (l *ledger) giveBack(key types.NamespacedName) {
	e := l.entries[key]
	if e == nil {
		return
	}
	if e.asked = false; e.made == "" && !e.doubtful() {
		l.settle(key, e)
	}
}

// Withdraw drops the wish of a ShadowPod that asks for nothing now, and gives to others what it was offered. Its pod counts
// as long as it is there, and so does one that is being made.
func (l *ledger) Withdraw(sp *offv1beta1.ShadowPod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(sp)
	if b := l.books[accountOf(sp)]; b != nil {
		b.waiting.remove(key)
		l.tidy(b)
	}
	if e := l.entries[key]; e != nil && !e.held.IsZero() && !e.busy() {
		l.giveBack(key)
	}
}

// See tells that the watch shows the pod, as it is now.
func (l *ledger) See(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		e = l.enter(l.book(accountOf(pod)), key)
	}
	over := false
	if e.busy() && e.made == "" && !e.knows(pod.UID) {
		e.came()
		over = !e.busy()
	}
	if e.from != "" && newer(pod.ResourceVersion, e.from) {
		e.from = ""
		over = !e.busy()
	}
	e.seen, e.shown, e.version = pod.UID, quota.Need(&pod.Spec), pod.ResourceVersion
	e.grow(e.growing)
	l.shown(key, e, pod.UID, over)
}

// Gone tells that the watch shows the pod no more, or that it ended.
func (l *ledger) Gone(pod *corev1.Pod) {
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
	l.shown(key, e, pod.UID, over)
}

// shown ends holding now that the watch shows what became of a pod; over tells that it also showed what became of each request.
// While one for the next pod is under way, or may be, its share stays held.
func (l *ledger) shown(key types.NamespacedName, e *entry, pod types.UID, over bool) {
	if e.made != "" && e.made == pod {
		e.made = ""
		over = !e.busy()
	}
	if over || e.held.IsZero() || l.late(e.held) {
		l.settle(key, e)
	}
}

// late tells whether every request from before a time is over.
func (l *ledger) late(since time.Time) bool { return l.now().Sub(since) > holdLimit }

// Seen tells whether the watch, as far as it was followed here, shows a pod of this name that has not ended.
func (l *ledger) Seen(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.seen != ""
}

// Held tells whether a share is held for what the watch does not show yet, and may.
func (l *ledger) Held(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && !e.held.IsZero() && !l.late(e.held)
}

// Doubtful tells whether nobody knows what became of an earlier request to make or to change a pod.
func (l *ledger) Doubtful(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.doubtful()
}

// Budget takes what became of the Quota of an account. Everybody who waits for it is told.
func (l *ledger) Budget(a account, q *offv1beta1.Quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[a]
	if b == nil || !b.update(q) {
		return
	}
	l.renew(b)
	for key := range b.waiting.of {
		l.wake(key)
	}
}

// renew begins anew with another Quota: it may let in others than the one before.
func (l *ledger) renew(b *book) {
	for key, w := range b.waiting.of {
		b.waiting.move(w, b.rank(w, l.entries[key]))
	}
	l.serve(b)
}

// serve gives what is free to those who wait.
func (l *ledger) serve(b *book) {
	b.waiting.serve(func(w *waiter) bool {
		if l.check(b, w, l.entries[w.key]) != nil {
			return false
		}
		b.waiting.remove(w.key)
		l.hold(b, w)
		l.wake(w.key)
		return true
	})
}

func (l *ledger) hold(b *book, w *waiter) *entry {
	e := l.entries[w.key]
	if e == nil {
		e = l.enter(b, w.key)
	}
	e.held, e.ran, e.growing = l.now(), w.ran, nil
	b.held[w.key] = e
	need := w.need.DeepCopy()
	if e.seen != "" {
		quota.AtLeast(need, e.shown)
	}
	if e.busy() || e.made != "" { // that pod may be there, as it was asked for
		quota.AtLeast(need, e.need)
	}
	l.take(w.key, e, need)
	return e
}

// settle ends holding: either the watch shows what there is, or there is nothing.
func (l *ledger) settle(key types.NamespacedName, e *entry) {
	e.held, e.made = time.Time{}, ""
	e.forget()
	delete(e.book.held, key)
	if e.seen != "" {
		l.change(key, e, e.now())
		return
	}
	delete(l.entries, key)
	e.book.entries--
	l.take(key, e, nil)
	l.serve(e.book)
	l.tidy(e.book)
}

// change takes what an entry needs now; what it needs no more is given to others.
func (l *ledger) change(key types.NamespacedName, e *entry, need corev1.ResourceList) {
	if equality.Semantic.DeepEqual(e.need, need) {
		return
	}
	l.take(key, e, need)
	l.serve(e.book)
}

// take counts what an entry needs. Who waits to have more than that lacks another amount then.
func (l *ledger) take(key types.NamespacedName, e *entry, need corev1.ResourceList) {
	quota.Sub(e.book.used, e.need)
	quota.Add(e.book.used, need)
	e.need = need
	if w := e.book.waiting.of[key]; w != nil {
		e.book.waiting.move(w, e.book.rank(w, e))
	}
}

// Sweep ends what ends by the clock: doubts about requests that are over, offers that nobody came for, and shares of pods that nobody
// has ever seen, since the watch was interrupted while they were made and deleted.
func (l *ledger) Sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.books {
		for key, e := range b.held {
			switch {
			case l.late(e.held):
				l.settle(key, e)
			case len(e.lost) > 0 && l.late(e.lost[0]):
				if e.lost = slices.DeleteFunc(e.lost, l.late); !e.asked {
					l.giveBack(key)
				}
			}
		}
	}
}

func (l *ledger) enter(b *book, key types.NamespacedName) *entry {
	e := &entry{book: b}
	l.entries[key] = e
	b.entries++
	return e
}

func (l *ledger) book(a account) *book {
	b := l.books[a]
	if b == nil {
		b = newBook(a)
		l.books[a] = b
	}
	return b
}

func (l *ledger) tidy(b *book) {
	if b.entries == 0 && len(b.waiting.of) == 0 {
		delete(l.books, b.account)
	}
}

// check tells why there is no share for w, besides the one in own.
func (l *ledger) check(b *book, w *waiter, own *entry) error {
	if !l.enforce {
		return nil
	}
	used := b.used
	if own != nil {
		used = used.DeepCopy()
		quota.Sub(used, own.need)
	}
	return b.check(w, used)
}
