// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package election decides which replica of a gateway may be active: at most one at a time. It has no clock, no network and no client.
//
// The Lease of the gateway names its holder and the standbys that may follow it, and only a compare-and-swap changes that. A holder is active while
// it renews the Lease, or while every standby promises not to take it: the holder asks them over the network several times a second, and each answer
// is a promise for a limited time. So an outage of the API server ends no tunnel, and a Lease whose holder is heard is not written. A holder that
// reaches neither the API server nor all standbys ends by itself, before any of them may take the Lease. Then it asks for no promises, which would only
// keep those that answer from the Lease, until all standbys would promise again.
//
// The holder adds a replica that answers to the standbys, and removes one that is silent. Without a standby it stays active for any time: a replica
// that is not a standby takes over only when Kubernetes has said for a while that the holder runs no more. So one that starts in a partition waits.
// What Kubernetes says may be about an earlier process of the pod: a holder that has not been listed for long is active only while it renews the
// Lease. If the pod of a node that is only cut off is deleted, by Kubernetes or by force, both are active until the node is back.
//
// A process that dies leaves a tunnel in the kernel, which passes packets until FenceUntil.
package election

import (
	"maps"
	"slices"
	"time"
)

// Times are the limits of the protocol.
type Times struct {
	// Ask is the interval between two requests of the holder to each replica.
	Ask time.Duration
	// Promise is how long a replica that answers does not take the Lease. The holder counts it from the request, and Margin less.
	Promise, Margin time.Duration
	// Lease is how long a Lease must stay as it is, not renewed, before a replica takes it. The holder counts only Deadline, from the begin of the write.
	Lease, Deadline time.Duration
	// Renew is the interval of writes, and of attempts after failed ones, while an answer is older than Late.
	Renew, Late time.Duration
	// Silence is how long a replica that does not answer stays a standby.
	Silence time.Duration
	// Fence is how long a tunnel passes packets at most after its process died: less than Lease.
	Fence time.Duration
	// Settle is how long a replica must be listed before it may be active without renewing the Lease: longer than the list lags.
	Settle time.Duration
	// Stranger is how long a Lease without a holder must stay unchanged before a replica takes it although nodes reach another one.
	Stranger time.Duration
}

// Default lets a standby take over within about 1.2 s.
func Default() Times {
	return Times{
		Ask: 200 * time.Millisecond, Promise: 1200 * time.Millisecond, Margin: 100 * time.Millisecond,
		Lease: 3 * time.Second, Deadline: 2400 * time.Millisecond, Renew: time.Second, Late: 500 * time.Millisecond,
		Silence: 3 * time.Second, Fence: 2 * time.Second, Settle: 15 * time.Second, Stranger: 15 * time.Second,
	}
}

// Lease is the part of a Lease that the rule needs.
type Lease struct {
	UID     string
	Version uint64
	Term    int32
	Holder  string
	// Standbys may take the Lease while the holder runs.
	Standbys []string
	// Renewed differs after each renewal. A write that only adds standbys is none.
	Renewed int64
}

// Outside is the holder of a Lease while a pod has the tunnel that takes part in no election.
const Outside = "pod-without-election"

// never is longer than any gateway runs.
const never = 100 * 365 * 24 * time.Hour

// Write is what a replica should do with the Lease.
type Write string

const (
	None  Write = ""
	Take  Write = "take"
	Renew Write = "renew"
)

// Nonce is a random number that a message brings back, which shows that the message is new.
type Nonce [16]byte

// Message is a request of the holder, or an answer.
type Message struct {
	From, To string
	// Answer is false for the request of a holder.
	Answer bool
	// UID and Term are of the Lease as the sender knows it.
	UID  string
	Term int32
	// Nonce is new, Echo is the last Nonce of the receiver.
	Nonce, Echo Nonce
	// Probe is set in a request for no promise. Promise in its answer tells only that the sender would promise.
	Probe bool
	// Promise is set in an answer that promises not to take the Lease, Unable in one of a replica that cannot apply its state.
	Promise, Unable bool
}

// maxOthers bounds the replicas that a holder asks.
const maxOthers = 16

// Replica is the state of one replica of a gateway.
type Replica struct {
	self   string
	times  Times
	random func() Nonce

	lease    Lease
	observed time.Time // of the last change of the Lease
	won      bool      // this process wrote that it is the holder, and no other holder followed
	since    time.Time // begin of the term of this process
	renewed  time.Time // begin of the last write of the holder
	tried    time.Time // last write, successful or not
	unread   int       // attempts to take the Lease since it was last read for that
	taking   int       // writes of this replica that may still replace the Lease
	adding   []string  // standbys in writes that may still replace the Lease
	writes   int       // of these
	asked    time.Time // last requests
	others   map[string]*other

	retired    bool      // this process ends, or has ended its term
	unable     bool      // it cannot apply its state
	resigned   int32     // last term that it gave up
	vain       int       // terms that it gave up since it was active
	running    []string  // replicas; a holder asks those
	listed     time.Time // this replica is in running since then; the zero value: it is not
	settled    bool      // this process was listed for Settle before a renewal, and has stayed listed
	unlisted   time.Time // the holder is not in running since then; the zero value: it is
	elsewhere  bool      // nodes reach another replica
	heard      time.Time // last request that was answered by a promise
	known      Lease     // Lease whose holder sent it
	challenges []issued  // nonces of recent answers
	requests   []issued  // nonces of recent new requests
	stale      time.Time // last answer to a request that was not new
}

// other is another replica, as its holder sees it.
type other struct {
	promised time.Time // time of the last request answered by a promise
	willing  time.Time // of the last request, also for no promise, to which it promises, or would
	unable   bool      // by its last answer
	pending  []issued  // requests
	last     Nonce     // of its last answer
}

type issued struct {
	nonce Nonce
	at    time.Time
	probe bool
}

// NewReplica returns the replica of a name, unique among all replicas. random returns unpredictable nonces.
func NewReplica(self string, times Times, random func() Nonce) *Replica {
	return &Replica{self: self, times: times, random: random, others: map[string]*other{}, resigned: -1}
}

// SetReplicas sets the names of all running replicas, and whether nodes reach another replica than this one.
func (r *Replica) SetReplicas(names []string, elsewhere bool, now time.Time) {
	r.elsewhere = elsewhere
	r.setRunning(names, now)
	maps.DeleteFunc(r.others, func(name string, _ *other) bool { // the promise of a standby counts until the Lease has it no more
		return !slices.Contains(slices.Concat(names, r.lease.Standbys, r.adding), name)
	})
	for _, name := range names {
		if name != r.self && r.others[name] == nil && len(r.others) < maxOthers {
			r.others[name] = &other{}
		}
	}
}

func (r *Replica) setRunning(names []string, now time.Time) {
	r.running = slices.Clone(names)
	switch listed := r.isListed(); {
	case !listed && r.settled: // others may take the Lease now, unless it is renewed; what had ended stays so
		if limit := r.ActiveUntil().Add(-r.times.Deadline); r.won && limit.Before(now) {
			r.renewed = limit
		} else {
			r.renewed = now
		}
		r.listed, r.settled = time.Time{}, false
	case !listed:
		r.listed = time.Time{}
	case r.listed.IsZero():
		r.listed = now
	}
	r.observeHolder(now)
}

// observeHolder records since when the list has this replica and not the holder.
func (r *Replica) observeHolder(now time.Time) {
	if !r.isListed() || slices.Contains(r.running, r.lease.Holder) {
		r.unlisted = time.Time{}
	} else if r.unlisted.IsZero() {
		r.unlisted = now
	}
}

// ObserveLease records the Lease as it was read. An older version than the known one is ignored.
func (r *Replica) ObserveLease(l Lease, now time.Time) {
	if l.UID == r.lease.UID && l.Version <= r.lease.Version {
		return
	}
	if old := r.lease; l.UID != old.UID || l.Term != old.Term || l.Holder != old.Holder || l.Renewed != old.Renewed {
		r.observed = now
		if l.UID != old.UID || l.Term != old.Term || l.Holder != old.Holder {
			r.unlisted = time.Time{}
		}
	}
	r.lease, r.taking = l, 0
	r.observeHolder(now)
	r.adding, r.writes = nil, 0
	r.won = r.won && l.Holder == r.self
}

// RecordWrite records a successful write. It was a renewal if it began at began, which is not zero.
func (r *Replica) RecordWrite(l Lease, began, now time.Time) {
	r.ObserveLease(l, now)
	current := r.lease // others may have written it since, but not its holder
	before := r.won
	if r.won = current.UID == l.UID && current.Term == l.Term && current.Holder == l.Holder && l.Holder == r.self && l.Term != r.resigned && !r.retired; r.won {
		if !began.IsZero() {
			r.renewed = began
			r.settled = r.settled || !r.listed.IsZero() && began.Sub(r.listed) >= r.times.Settle
		}
		if !before {
			r.since = r.renewed
		}
	}
}

// RecordAttempt records that a write begins, before the Lease is read for it.
func (r *Replica) RecordAttempt(now time.Time) { r.tried = now }

// RecordUnread records that the Lease could not be read to be taken.
func (r *Replica) RecordUnread() { r.unread++ }

// BeginTake reports whether this replica may still take the Lease, and with which standbys. The Lease and the names of running replicas were just
// read. Until the outcome of the write is known, it promises nothing. A replica that cannot read the Lease goes on to promise: an outage of the API
// server may be longer than that of the network.
func (r *Replica) BeginTake(l Lease, running []string, now time.Time) (standbys []string, ok bool) {
	r.unread = 0
	r.ObserveLease(l, now)
	if r.setRunning(running, now); r.won || r.retired || !r.isCandidate() || now.Before(r.takeAt()) {
		return nil, false
	}
	r.taking++
	// The standbys of the last holder are as good as they were. It may be dead, but has to answer like a replica that starts.
	return slices.DeleteFunc(slices.Clone(r.lease.Standbys), func(name string) bool {
		return name == r.self || name == r.lease.Holder || !slices.Contains(running, name)
	}), true
}

// BeginRenew returns the standbys to write the Lease with, and whether to renew it. From now on each of them may have it. While all standbys
// promise, a renewal would only have them wait longer for the next failure of a settled holder.
func (r *Replica) BeginRenew(now time.Time) (standbys []string, renews bool) {
	standbys = r.wantedStandbys(now)
	renews = !r.settled || r.hasStandbys() && now.Sub(r.oldestPromise()) >= r.times.Late
	for _, name := range standbys {
		if !slices.Contains(r.adding, name) {
			r.adding = append(r.adding, name)
		}
	}
	r.writes++
	return standbys, renews
}

// hasStandbys reports whether a replica may follow this holder.
func (r *Replica) hasStandbys() bool { return len(r.lease.Standbys)+len(r.adding) > 0 }

// RecordRefusal records that the API server refused the write, or never got it. A write without an answer may still succeed.
func (r *Replica) RecordRefusal() {
	r.taking = max(0, r.taking-1)
	if r.writes = max(0, r.writes-1); r.writes == 0 {
		r.adding = nil
	}
}

// wantedStandbys returns the replicas that may follow this holder: those that answer, and those that have been silent for a moment only.
func (r *Replica) wantedStandbys(now time.Time) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		last := r.others[name].willing
		if !slices.Contains(r.running, name) {
			continue
		}
		if slices.Contains(r.lease.Standbys, name) {
			if last.Before(r.since) {
				last = r.since
			}
			if now.Sub(last) < r.times.Silence {
				out = append(out, name)
			}
		} else if !last.IsZero() && now.Sub(last) <= r.times.Late {
			out = append(out, name)
		}
	}
	return out
}

// hasNewStandby reports whether a replica answers that is no standby yet.
func (r *Replica) hasNewStandby(now time.Time) bool {
	return slices.ContainsFunc(r.wantedStandbys(now), func(name string) bool { return !slices.Contains(r.lease.Standbys, name) })
}

func (r *Replica) isListed() bool { return slices.Contains(r.running, r.self) }

// isCandidate reports whether this replica may take the Lease at all. What an earlier process of this pod held is kept also while the list is late.
func (r *Replica) isCandidate() bool { return r.isListed() || r.lease.Holder == r.self }

// SetUnable sets whether this replica cannot apply its state. Others take the Lease before it.
func (r *Replica) SetUnable(unable bool) { r.unable = unable }

// Resign ends the term of this process, which may begin another one once the Lease was released.
func (r *Replica) Resign() {
	if r.won {
		r.won, r.resigned = false, r.lease.Term
		r.vain++
	}
}

// RecordActive records that this replica applied its state, and is active.
func (r *Replica) RecordActive() { r.vain = 0 }

// RecordUnreleased records that the Lease of a term that was resigned could not be released.
func (r *Replica) RecordUnreleased() { r.resigned = -1 }

// Retire ends the term of this process, for ever.
func (r *Replica) Retire() { r.retired, r.won = true, false }

// IsHolder reports whether this process holds the Lease, active or not.
func (r *Replica) IsHolder() bool { return r.won }

// ActiveUntil returns until when this replica may be active; the zero value: it may not be.
func (r *Replica) ActiveUntil() time.Time {
	if !r.won {
		return time.Time{}
	}
	until := r.renewed.Add(r.times.Deadline)
	if !r.settled {
		return until
	}
	if !r.hasStandbys() {
		return r.renewed.Add(never)
	}
	if oldest := r.oldestPromise(); !oldest.IsZero() {
		if promised := oldest.Add(r.times.Promise - r.times.Margin); promised.After(until) {
			until = promised
		}
	}
	return until
}

// FenceUntil returns until when the tunnel may pass packets even if this process does nothing from now on.
func (r *Replica) FenceUntil(now time.Time) time.Time {
	if limit := now.Add(r.times.Fence); r.ActiveUntil().After(limit) {
		return limit
	}
	return r.ActiveUntil()
}

// oldestPromise returns the time of the oldest promise of a standby; the zero value if one is missing, or there is no standby.
func (r *Replica) oldestPromise() time.Time {
	var oldest time.Time
	for _, name := range slices.Concat(r.lease.Standbys, r.adding) {
		o := r.others[name]
		if o == nil || o.promised.IsZero() {
			return time.Time{}
		}
		if oldest.IsZero() || o.promised.Before(oldest) {
			oldest = o.promised
		}
	}
	return oldest
}

// HasStandby reports whether another replica that can apply its state answered a moment ago.
func (r *Replica) HasStandby(now time.Time) bool {
	for _, o := range r.others {
		if !o.willing.IsZero() && !o.unable && now.Sub(o.willing) <= r.times.Late {
			return true
		}
	}
	return false
}

// maxVain bounds how often the time doubles that a replica keeps a Lease that it cannot use.
const maxVain = 4

// HasSuccessor reports whether another replica runs that may be able to apply its state: it had the time to say otherwise, and did not. If none was
// active after the last terms of this replica either, it keeps the Lease for longer: none that answers nothing is known to be better.
func (r *Replica) HasSuccessor(now time.Time) bool {
	if !r.won || now.Sub(r.since) < r.times.Silence<<min(r.vain, maxVain) {
		return false
	}
	return slices.ContainsFunc(r.running, func(name string) bool {
		o := r.others[name]
		return o != nil && !(o.unable && now.Sub(o.willing) < r.times.Silence)
	})
}

// SilentReplicas returns the other running replicas, if none of them may follow this holder.
func (r *Replica) SilentReplicas() []string {
	if !r.won || len(r.lease.Standbys) > 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.others))
}

// NextWrite returns what to do with the Lease, and when to ask again at the latest.
func (r *Replica) NextWrite(now time.Time) (Write, time.Time) {
	what, due := None, time.Time{}
	switch {
	case r.lease.UID == "" || r.retired:
		return None, time.Time{}
	case r.won:
		what, due = Renew, r.renewed.Add(never)
		if !r.settled {
			due = r.renewed
		} else if r.hasNewStandby(now) {
			due = r.tried.Add(r.times.Renew)
		} else if r.hasStandbys() {
			due = r.oldestPromise().Add(r.times.Late)
		}
		if next := r.renewed.Add(r.times.Renew); due.Before(next) {
			due = next
		}
	case !r.isCandidate() || r.lease.Holder == Outside:
		return None, time.Time{}
	default:
		what, due = Take, r.takeAt()
	}
	pause := r.times.Renew / 4
	if what == Take { // an API server that was away is spared
		pause <<= min(r.unread, 3)
	}
	if retry := r.tried.Add(pause); due.Before(retry) {
		due = retry
	}
	if now.Before(due) {
		return None, due
	}
	return what, due
}

// takeAt returns when this replica may take the Lease, if nothing changes.
func (r *Replica) takeAt() time.Time {
	known := r.known.UID == r.lease.UID && r.known.Term == r.lease.Term
	at := r.observed.Add(never)
	switch {
	case r.lease.Holder == Outside:
	case r.lease.Holder == r.self && r.lease.Term == r.resigned: // it is about to release the Lease
	case r.lease.Holder == r.self: // an earlier process of this pod
		at = time.Time{}
	case r.lease.Holder == "" && r.known.UID == r.lease.UID && r.known.Term+1 == r.lease.Term: // the holder ended its term
		return r.takeLate(time.Time{})
	case r.lease.Holder == "" && !known && !r.elsewhere:
		at = time.Time{}
	case r.lease.Holder == "" && !known:
		at = r.observed.Add(r.times.Stranger)
	case r.lease.Holder == "": // others cleared it, which its holder may not know yet
		at = r.observed.Add(r.times.Lease)
	case slices.Contains(r.lease.Standbys, r.self):
		at = r.observed.Add(r.times.Lease)
	case !r.unlisted.IsZero(): // what its process left in the kernel passes packets for a moment
		if at = r.observed; r.unlisted.After(at) {
			at = r.unlisted
		}
		at = at.Add(r.times.Lease)
	}
	if at = r.takeLate(at); r.heard.IsZero() || at.After(r.heard.Add(r.times.Promise)) {
		return at
	}
	return r.heard.Add(r.times.Promise)
}

// takeLate returns at, or later for a replica that cannot apply its state.
func (r *Replica) takeLate(at time.Time) time.Time {
	if late := r.observed.Add(r.times.Lease); r.unable && at.Before(late) {
		return late
	}
	return at
}

// Requests returns the messages that are due, and when the next ones are; the zero value: never. A holder that promises cannot make active sends
// none, or asks for no promises: they would only keep others from the Lease.
func (r *Replica) Requests(now time.Time) ([]Message, time.Time) {
	if !r.won || !r.settled && !now.Before(r.ActiveUntil()) {
		return nil, time.Time{}
	}
	if due := r.asked.Add(r.times.Ask); now.Before(due) {
		return nil, due
	}
	r.asked = now
	probe := !now.Before(r.ActiveUntil()) && !r.areWilling(now)
	var out []Message
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		o, nonce := r.others[name], r.random()
		o.pending = append(r.recentNonces(o.pending, now), issued{nonce, now, probe})
		out = append(out, Message{From: r.self, To: name, UID: r.lease.UID, Term: r.lease.Term, Nonce: nonce, Echo: o.last, Probe: probe})
	}
	return out, now.Add(r.times.Ask)
}

// areWilling reports whether all standbys would promise.
func (r *Replica) areWilling(now time.Time) bool {
	return !slices.ContainsFunc(slices.Concat(r.lease.Standbys, r.adding), func(name string) bool {
		o := r.others[name]
		return o == nil || o.willing.IsZero() || now.Sub(o.willing) > r.times.Late
	})
}

// recentNonces returns the nonces that may still come back.
func (r *Replica) recentNonces(all []issued, now time.Time) []issued {
	return slices.DeleteFunc(all, func(i issued) bool { return now.Sub(i.at) >= r.times.Promise })
}

// Receive records an authentic message. It returns the answer to a request, and whether the request is a new one of the holder. A new request is
// answered once; of others, which may be recorded ones, few are answered.
func (r *Replica) Receive(m Message, now time.Time) (answer *Message, fresh bool) {
	if m.To != r.self || m.From == r.self {
		return nil, false
	}
	if m.Answer {
		r.receiveAnswer(m, now)
		return nil, false
	}
	r.challenges = r.recentNonces(r.challenges, now)
	fresh = slices.ContainsFunc(r.challenges, func(i issued) bool { return i.nonce == m.Echo })
	r.requests = r.recentNonces(r.requests, now)
	switch {
	case fresh && slices.ContainsFunc(r.requests, func(i issued) bool { return i.nonce == m.Nonce }):
		return nil, false
	case fresh:
		r.requests = append(r.requests, issued{nonce: m.Nonce, at: now})
	case now.Sub(r.stale) < r.times.Ask/4:
		return nil, false
	default:
		r.stale = now
	}
	if fresh && m.UID == r.lease.UID && m.Term > r.lease.Term { // the watch is late
		r.lease.Term, r.lease.Holder, r.observed, r.won = m.Term, m.From, now, false
		r.unlisted = time.Time{}
		r.observeHolder(now)
	}
	promise := fresh && !r.won && r.taking == 0 && m.UID == r.lease.UID && m.Term == r.lease.Term && m.From == r.lease.Holder
	if promise && !m.Probe {
		r.heard, r.known = now, r.lease
	}
	return &Message{From: r.self, To: m.From, Answer: true, UID: r.lease.UID, Term: r.lease.Term, Nonce: r.currentChallenge(now), Echo: m.Nonce, Promise: promise, Unable: r.unable}, promise
}

// currentChallenge returns the nonce for answers. Old requests that are sent again do not displace it.
func (r *Replica) currentChallenge(now time.Time) Nonce {
	if n := len(r.challenges); n > 0 && now.Sub(r.challenges[n-1].at) < r.times.Ask/2 {
		return r.challenges[n-1].nonce
	}
	r.challenges = append(r.challenges, issued{nonce: r.random(), at: now})
	return r.challenges[len(r.challenges)-1].nonce
}

func (r *Replica) receiveAnswer(m Message, now time.Time) {
	o := r.others[m.From]
	if o == nil {
		return
	}
	o.pending = r.recentNonces(o.pending, now)
	i := slices.IndexFunc(o.pending, func(p issued) bool { return p.nonce == m.Echo })
	if i < 0 {
		return
	}
	sent := o.pending[i]
	o.pending, o.last = slices.Delete(o.pending, 0, i+1), m.Nonce
	switch {
	case m.UID != r.lease.UID || m.Term < r.lease.Term:
	case m.Term > r.lease.Term: // another replica took the Lease
		r.won = false
	case m.Promise && r.won:
		if o.willing, o.unable = sent.at, m.Unable; !sent.probe {
			o.promised = sent.at
		}
	}
}
