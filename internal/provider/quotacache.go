// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// quotaCache accounts for the usage of each account in this cluster and queues the pods that exceed a Quota. As in an assume
// cache, the single leader reserves quota before the creation of each pod: the usage may be counted too high for some time, and
// never too low. Existing pods, and pods that may be created, count until they have ended or are gone.
//
// No pending pod fits into the free capacity: freed capacity is offered to the pending queue in order of creation before any
// new request is admitted. A pod that requests too much is skipped, and stays pending.
type quotaCache struct {
	// enforce is false if Quotas are not enforced: all usage is counted, and no pod has to wait.
	enforce bool
	// wake enqueues a ShadowPod for reconciliation. It must not block.
	wake func(types.NamespacedName)
	now  func() time.Time

	mu           sync.Mutex
	reservations map[types.NamespacedName]*reservation
	usages       map[account]*quotaUsage
	turns        int
}

// reservation is the quota counted for one name. At most one pod of a name exists at a time.
type reservation struct {
	usage *quotaUsage
	// need is the maximum of shown and reserved.
	need corev1.ResourceList
	// pod, version and shown are the UID, the resourceVersion and the requests of the pod that the watch shows.
	pod     types.UID
	version string
	shown   corev1.ResourceList
	// reserved are the requests of a pod, or of an update of the pod, that the watch does not show yet.
	reserved corev1.ResourceList
	claim    claim
	// unseen is the number of create requests that succeeded, or may still succeed, without an event of their pods.
	unseen int
	// from is the resourceVersion of the last update that succeeded or may still succeed: the API server applies the update to
	// this version or never. from is "" once the watch shows a newer version.
	from string
	// expires is the time at which offers expire and unseen requests are over: their pods, if any, are gone.
	expires time.Time
	// ran is copied from the pending pod that got the reservation.
	ran bool
}

// claim is the purpose of reserved quota, besides requests without an event.
type claim int

const (
	unclaimed claim = iota
	offered         // to a pending pod that has not repeated its request yet
	requested       // for a request that may be under way
)

// holdLimit is the time for which quota stays reserved for a pod missing in the watch. By then, each create or update
// request is over, also in the API server: its --request-timeout is one minute by default.
const holdLimit = 2 * time.Minute

// sweepTime is the interval at which expired reservations are released.
const sweepTime = 10 * time.Second

func newQuotaCache(enforce bool, wake func(types.NamespacedName)) *quotaCache {
	return &quotaCache{enforce: enforce, wake: wake, now: time.Now, reservations: map[types.NamespacedName]*reservation{}, usages: map[account]*quotaUsage{}}
}

// isUncertain reports whether the watch has not shown the outcome of a request yet, apart from a request under way.
func (e *reservation) isUncertain() bool { return e.unseen > 0 || e.from != "" }

// Reserve reserves quota for the next request of the caller, or adds the ShadowPod to the pending queue and returns the
// reason. q is the Quota of the account, nil if the account has none. ran is true for a pod that survives a cordon.
func (c *quotaCache) Reserve(sp *offv1beta1.ShadowPod, q *offv1beta1.Quota, ran bool) error {
	w := &pendingPod{
		key: client.ObjectKeyFromObject(sp), created: sp.CreationTimestamp.Time,
		pod: &sp.Spec.Pod, need: policy.PodRequests(&sp.Spec.Pod), ran: ran,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.usageOf(accountOf(sp))
	if e := c.reservations[w.key]; e != nil && e.usage != u { // a ShadowPod of another account had this name
		e.claim, e.unseen, e.from = unclaimed, 0, ""
		c.recount(w.key, e)
	}
	if u.setQuota(q) {
		c.rankPending(u)
	}
	if old := u.pending.removePod(w.key); old != nil {
		w.turn, w.ran = old.turn, w.ran || old.ran
	}
	own := c.reservations[w.key]
	if own != nil {
		w.ran = w.ran || own.ran
		if own.isUncertain() { // the dry run was not repeated, so the additions of admission are known from the reservation only
			policy.RaiseResources(w.need, own.need)
		}
	}
	err := c.checkQuota(u, w, own)
	if err == nil {
		c.reserve(u, w, requested)
		return nil
	}
	if w.turn == 0 {
		c.turns++
		w.turn = c.turns
	}
	u.pending.addPod(w, u.rankOf(w, own))
	if own != nil {
		own.claim = unclaimed
		c.recount(w.key, own)
	}
	return err
}

// Made records that the API server created the pod, or updated its version from. The pod counts with the requests in the API
// server's answer.
func (c *quotaCache) Made(pod *corev1.Pod, from string) {
	c.endRequest(client.ObjectKeyFromObject(pod), from, pod)
}

// Lost marks the request to create a pod, or to update the pod of version from, as unanswered: it may have succeeded, or may
// still succeed. The reservation stays until the watch shows the outcome, or until the request is certainly over.
func (c *quotaCache) Lost(key types.NamespacedName, from string) { c.endRequest(key, from, nil) }

func (c *quotaCache) endRequest(key types.NamespacedName, from string, pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.reservations[key]
	if e == nil || e.claim != requested { // the watch was faster than the answer
		return
	}
	if e.claim = unclaimed; pod != nil && !e.isUncertain() {
		e.reserved = nil
	}
	if pod != nil {
		e.reserveAtLeast(policy.PodRequests(&pod.Spec))
	}
	switch {
	case from == "":
		e.unseen++
	case !isNewer(e.version, from):
		e.from = from
	}
	e.expires = c.now().Add(holdLimit)
	c.recount(key, e)
}

// Found records that a create request was refused because the pod exists; pod is nil if unreadable.
func (c *quotaCache) Found(key types.NamespacedName, pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.reservations[key]
	if e == nil {
		return
	}
	e.claim = unclaimed
	if pod == nil || e.pod != pod.UID {
		e.unseen, e.expires = max(e.unseen, 1), c.now().Add(holdLimit)
	}
	if pod != nil {
		e.reserveAtLeast(policy.PodRequests(&pod.Spec))
	}
	c.recount(key, e)
}

// Release ends the request of the last Reserve without effect. The reservation stays while an earlier request is
// uncertain: although no pod exists now, the API server may still be processing the earlier request.
func (c *quotaCache) Release(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropClaim(key, requested)
}

// Withdraw removes a ShadowPod that needs no quota now from the pending queue, and offers its unused reservation to other pods.
// An existing pod of the ShadowPod, or a pod being created, still counts.
func (c *quotaCache) Withdraw(sp *offv1beta1.ShadowPod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(sp)
	if u := c.usages[accountOf(sp)]; u != nil {
		u.pending.removePod(key)
		c.dropUnused(u)
	}
	c.dropClaim(key, offered)
}

func (c *quotaCache) dropClaim(key types.NamespacedName, of claim) {
	if e := c.reservations[key]; e != nil && e.claim == of {
		e.claim = unclaimed
		c.recount(key, e)
	}
}

// ObservePod records the pod as the watch shows it. A new pod is the outcome of an unseen request, or else of the request under way:
// the order does not matter, because an answer turns the latter into the former.
func (c *quotaCache) ObservePod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	e := c.reservations[key]
	if e == nil {
		e = c.addReservation(c.usageOf(accountOf(pod)), key)
	}
	switch {
	case e.pod == pod.UID:
	case e.unseen > 0:
		e.unseen--
	case e.claim == requested:
		e.claim = unclaimed
	}
	if e.from != "" && isNewer(pod.ResourceVersion, e.from) {
		e.from = ""
	}
	e.pod, e.version, e.shown = pod.UID, pod.ResourceVersion, policy.PodRequests(&pod.Spec)
	c.recount(key, e)
}

// ObserveEnd records that the watch showed the pod as deleted or ended.
func (c *quotaCache) ObserveEnd(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if e := c.reservations[key]; e != nil && e.pod == pod.UID {
		e.pod, e.version, e.shown, e.from = "", "", nil, ""
		c.recount(key, e)
	}
}

// IsObserved reports whether the watch shows a pod of this name that has not ended.
func (c *quotaCache) IsObserved(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.reservations[key]
	return e != nil && e.pod != ""
}

// IsReserved reports whether quota is reserved for a pod or a change that the watch has not shown yet.
func (c *quotaCache) IsReserved(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.reservations[key]
	return e != nil && e.reserved != nil && (e.claim == requested || !c.now().After(e.expires))
}

// IsUncertain reports whether the watch has not shown the outcome of an earlier create or update request.
func (c *quotaCache) IsUncertain(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.reservations[key]
	return e != nil && e.isUncertain()
}

// SetQuota updates the Quota of an account and wakes all its pending pods.
func (c *quotaCache) SetQuota(a account, q *offv1beta1.Quota) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.usages[a]
	if u == nil || !u.setQuota(q) {
		return
	}
	c.rankPending(u)
	for key := range u.pending.of {
		c.wake(key)
	}
}

// ReleaseExpired releases expired reservations: offers not accepted, requests that are over, and pods missed by an interrupted
// watch, because they were created and deleted meanwhile.
func (c *quotaCache) ReleaseExpired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.reservations {
		if e.reserved == nil || !c.now().After(e.expires) {
			continue
		}
		if e.unseen, e.from = 0, ""; e.claim == offered {
			e.claim = unclaimed
		}
		c.recount(key, e)
	}
}

// rankPending ranks the pending queue again after a change of the Quota: other pods may fit than before.
func (c *quotaCache) rankPending(u *quotaUsage) {
	for key, w := range u.pending.of {
		u.pending.movePod(w, u.rankOf(w, c.reservations[key]))
	}
	c.servePending(u)
}

// servePending offers the free capacity to the pending queue.
func (c *quotaCache) servePending(u *quotaUsage) {
	u.pending.servePods(func(w *pendingPod) bool {
		if c.checkQuota(u, w, c.reservations[w.key]) != nil {
			return false
		}
		u.pending.removePod(w.key)
		c.reserve(u, w, offered)
		c.wake(w.key)
		return true
	})
}

func (c *quotaCache) reserve(u *quotaUsage, w *pendingPod, of claim) {
	e := c.reservations[w.key]
	if e == nil {
		e = c.addReservation(u, w.key)
	}
	if !e.isUncertain() {
		e.reserved = nil
	}
	if e.claim, e.ran = of, w.ran; of == offered {
		e.expires = c.now().Add(holdLimit)
	}
	e.reserveAtLeast(w.need)
	e.count(w.key)
}

func (e *reservation) reserveAtLeast(need corev1.ResourceList) {
	if e.reserved == nil {
		e.reserved = corev1.ResourceList{}
	}
	policy.RaiseResources(e.reserved, need)
}

// recount counts a reservation after a change, and offers freed capacity to the pending queue.
func (c *quotaCache) recount(key types.NamespacedName, e *reservation) {
	if e.claim == unclaimed && !e.isUncertain() {
		e.reserved = nil
	}
	if e.pod == "" && e.reserved == nil {
		delete(c.reservations, key)
		e.usage.reservations--
	}
	if e.count(key) {
		c.servePending(e.usage)
	}
	c.dropUnused(e.usage)
}

// count adds the need of the reservation to the usage, and reports whether it changed.
func (e *reservation) count(key types.NamespacedName) (changed bool) {
	need := corev1.ResourceList{}
	policy.RaiseResources(need, e.shown)
	policy.RaiseResources(need, e.reserved)
	if equality.Semantic.DeepEqual(e.need, need) {
		return false
	}
	policy.SubtractResources(e.usage.used, e.need)
	policy.AddResources(e.usage.used, need)
	e.need = need
	if w := e.usage.pending.of[key]; w != nil { // the difference of a pending increase changes
		e.usage.pending.movePod(w, e.usage.rankOf(w, e))
	}
	return true
}

func (c *quotaCache) addReservation(u *quotaUsage, key types.NamespacedName) *reservation {
	e := &reservation{usage: u}
	c.reservations[key] = e
	u.reservations++
	return e
}

func (c *quotaCache) usageOf(a account) *quotaUsage {
	u := c.usages[a]
	if u == nil {
		u = newUsage(a)
		c.usages[a] = u
	}
	return u
}

func (c *quotaCache) dropUnused(u *quotaUsage) {
	if u.reservations == 0 && len(u.pending.of) == 0 {
		delete(c.usages, u.account)
	}
}

// checkQuota returns why w gets no quota beyond its reservation own, nil if w fits.
func (c *quotaCache) checkQuota(u *quotaUsage, w *pendingPod, own *reservation) error {
	if !c.enforce {
		return nil
	}
	used := u.used
	if own != nil {
		used = used.DeepCopy()
		policy.SubtractResources(used, own.need)
	}
	return u.checkFit(w, used)
}

// isNewer reports whether a resourceVersion is newer than another.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
