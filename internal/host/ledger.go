// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/quota"
)

// account is a user of a consumer: it has one Quota, or none.
type account struct{ consumer, user string }

func accountOf(obj client.Object) account {
	labels := obj.GetLabels()
	return account{consumer: labels[names.OffloadingOrigin], user: labels[names.CreatorUser]}
}

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

// entry is what one name takes. There is never more than one pod of a name, so it counts once.
type entry struct {
	book *book
	need corev1.ResourceList
	// seen is the pod that the watch shows, and gone the last one that it showed ending or going.
	seen, gone types.UID
	// held is when the share was given for a pod that the watch does not show yet; zero once it does.
	held time.Time
	// made is the UID of that pod, once the API server has told it.
	made types.UID
	// asked is set while a request to make or to change the pod may be under way. A share that is held without one is
	// offered: a waiter got it, and has not asked again yet.
	asked bool
	// ran is that of the waiter who got the share.
	ran bool
	// growing is what the pod was changed to take, until the watch shows that; shown is what it shows.
	growing, shown corev1.ResourceList
}

// book is one account.
type book struct {
	account account
	// budget is nil where nothing was granted; version is that of the Quota.
	budget  *offv1beta1.QuotaSpec
	version string
	used    corev1.ResourceList
	entries int
	// held are the names whose share is held.
	held map[types.NamespacedName]*entry
	// waiting is in order of creation.
	waiting []*waiter
}

// waiter is a ShadowPod that asks for a share.
type waiter struct {
	key     types.NamespacedName
	created time.Time
	pod     *corev1.PodSpec
	need    corev1.ResourceList
	// turn is when it first had to wait, among those created in the same second.
	turn int
	// ran tells that it had a running pod before, which a cordon does not end.
	ran bool
}

// holdLimit is how long a share is held for a pod that is never seen. Any request to make one is over by then.
const holdLimit = 2 * time.Minute

func newLedger(enforce bool, wake func(types.NamespacedName)) *ledger {
	return &ledger{enforce: enforce, wake: wake, now: time.Now, entries: map[types.NamespacedName]*entry{}, books: map[account]*book{}}
}

// Reserve gives a ShadowPod its share, or lets it wait and says why. q is the Quota of the account, nil if it has none.
// What was given before is given again, if it still may. again is when who waits asks again even if nobody wakes it: shares
// that nobody came for are taken back only then.
func (l *ledger) Reserve(sp *offv1beta1.ShadowPod, q *offv1beta1.Quota, ran bool) (again time.Duration, err error) {
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
		l.serve(b)
	}
	if old := b.unwait(w.key); old != nil {
		w.turn, w.ran = old.turn, w.ran || old.ran
	}
	own := l.entries[w.key]
	if own != nil {
		w.ran = w.ran || own.ran
	}
	err = l.check(b, w, own)
	if err != nil && l.expire(b) {
		err = l.check(b, w, own)
	}
	l.books[b.account] = b // it may have become empty on the way
	if err == nil {
		l.hold(b, w).asked = true
		return 0, nil
	}
	if w.turn == 0 {
		l.turns++
		w.turn = l.turns
	}
	b.wait(w)
	l.giveBack(w.key)
	return holdLimit, err
}

// Made tells that the API server made the pod, or changed it. It counts with what it has become there.
func (l *ledger) Made(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		return
	}
	e.asked = false
	need := quota.Need(&pod.Spec)
	if e.seen != pod.UID {
		l.change(e, need)
		if e.made = pod.UID; e.gone == pod.UID {
			l.settle(key, e)
		}
		return
	}
	// It is a change of a pod that is known, or the watch was faster. What it is less counts when the watch shows that.
	e.grow(need)
	l.settle(key, e)
}

// Release gives a share back for which no pod was made.
func (l *ledger) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(key)
}

func (l *ledger) giveBack(key types.NamespacedName) {
	e := l.entries[key]
	if e == nil {
		return
	}
	if e.asked = false; e.made == "" {
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
		b.unwait(key)
		l.tidy(b)
	}
	if e := l.entries[key]; e != nil && !e.held.IsZero() && !e.asked {
		l.giveBack(key)
	}
}

// See tells that the watch shows the pod, as it is now.
func (l *ledger) See(pod *corev1.Pod) {
	if ended(pod.Status.Phase) {
		l.Gone(pod)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := l.entries[key]
	if e == nil {
		e = l.enter(l.book(accountOf(pod)), key)
	}
	e.seen, e.shown = pod.UID, quota.Need(&pod.Spec)
	e.grow(e.growing)
	if e.over(pod.UID) {
		l.settle(key, e)
	}
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
	if e.seen == pod.UID {
		e.seen = ""
	}
	if e.over(pod.UID) {
		l.settle(key, e)
	}
}

// over tells whether nothing is held any more, now that the watch shows what became of a pod. While a request for the next
// one is under way, its share stays held.
func (e *entry) over(pod types.UID) bool {
	if e.made != "" && e.made == pod {
		e.made = ""
		return !e.asked
	}
	return e.held.IsZero()
}

// Seen tells whether the watch, as far as it was followed here, shows a pod of this name that has not ended.
func (l *ledger) Seen(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.seen != ""
}

// Held tells whether a share is held for a pod that the watch does not show yet.
func (l *ledger) Held(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && !e.held.IsZero()
}

// Budget takes what became of the Quota of an account. Everybody who waits for it is told.
func (l *ledger) Budget(a account, q *offv1beta1.Quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[a]
	if b == nil || !b.update(q) {
		return
	}
	l.serve(b)
	for _, w := range b.waiting {
		l.wake(w.key)
	}
}

// serve gives what is free to those who wait.
func (l *ledger) serve(b *book) {
	for _, w := range slices.Clone(b.waiting) {
		if l.check(b, w, l.entries[w.key]) == nil {
			b.unwait(w.key)
			l.hold(b, w)
			l.wake(w.key)
		}
	}
}

func (l *ledger) hold(b *book, w *waiter) *entry {
	e := l.entries[w.key]
	if e == nil {
		e = l.enter(b, w.key)
	}
	e.held, e.ran, e.growing = l.now(), w.ran, nil
	b.held[w.key] = e
	e.take(w.need)
	return e
}

// settle ends holding: either the watch shows what there is, or there is nothing.
func (l *ledger) settle(key types.NamespacedName, e *entry) {
	e.held, e.made, e.asked = time.Time{}, "", false
	delete(e.book.held, key)
	if e.seen != "" {
		l.change(e, e.now())
		return
	}
	delete(l.entries, key)
	e.book.entries--
	e.take(nil)
	l.serve(e.book)
	l.tidy(e.book)
}

// change takes what an entry needs now; what it needs no more is given to others.
func (l *ledger) change(e *entry, need corev1.ResourceList) {
	if equality.Semantic.DeepEqual(e.need, need) {
		return
	}
	e.take(need)
	l.serve(e.book)
}

func (e *entry) grow(to corev1.ResourceList) {
	if e.growing = to; quota.Fit(to, nil, e.shown) == nil {
		e.growing = nil
	}
}

// now is what a pod counts that the watch shows.
func (e *entry) now() corev1.ResourceList {
	out := e.shown.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	quota.AtLeast(out, e.growing)
	return out
}

func (e *entry) take(need corev1.ResourceList) {
	quota.Sub(e.book.used, e.need)
	quota.Add(e.book.used, need)
	e.need = need
}

// expire drops shares of pods that nobody has ever seen: the watch was interrupted while they were made and deleted.
func (l *ledger) expire(b *book) bool {
	expired := false
	for key, e := range b.held {
		if l.now().Sub(e.held) > holdLimit {
			l.settle(key, e)
			expired = true
		}
	}
	return expired
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
		b = &book{account: a, used: corev1.ResourceList{}, held: map[types.NamespacedName]*entry{}}
		l.books[a] = b
	}
	return b
}

func (l *ledger) tidy(b *book) {
	if b.entries == 0 && len(b.waiting) == 0 {
		delete(l.books, b.account)
	}
}

// update takes the Quota as it is now, and tells whether it is another one.
func (b *book) update(q *offv1beta1.Quota) bool {
	var budget *offv1beta1.QuotaSpec
	version := ""
	if q != nil {
		budget, version = &q.Spec, string(q.UID)+"/"+q.ResourceVersion
	}
	changed := version != b.version
	b.budget, b.version = budget, version
	return changed
}

// check tells why there is no share for w, besides the one in own.
func (l *ledger) check(b *book, w *waiter, own *entry) error {
	if !l.enforce {
		return nil
	}
	if b.budget == nil {
		return fmt.Errorf("failed getting quota: user %q has none for cluster %q", b.account.user, b.account.consumer)
	}
	used := b.used
	if own != nil {
		used = used.DeepCopy()
		quota.Sub(used, own.need)
	}
	if short := quota.Fit(w.need, used, b.budget.Resources); short != nil {
		return short
	}
	if w.ran {
		return nil
	}
	return quota.Check(b.budget, w.pod, used)
}

func (b *book) wait(w *waiter) {
	at, _ := slices.BinarySearchFunc(b.waiting, w, func(a, b *waiter) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.turn, b.turn))
	})
	b.waiting = slices.Insert(b.waiting, at, w)
}

// unwait takes a waiter off the list, nil if it is not there.
func (b *book) unwait(key types.NamespacedName) *waiter {
	at := slices.IndexFunc(b.waiting, func(w *waiter) bool { return w.key == key })
	if at < 0 {
		return nil
	}
	w := b.waiting[at]
	b.waiting = slices.Delete(b.waiting, at, at+1)
	return w
}
