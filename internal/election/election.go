// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package election decides which replica of a gateway may be active: at most one at a time. The package has no clock, no network and no client.
//
// The Lease of the gateway names the holder and the standbys, and changes only by compare-and-swap. The holder is active while the holder renews the
// Lease, or while all standbys promise not to take the Lease: the holder asks the standbys over the network several times a second, and each answer
// is a promise for a limited time. Therefore an outage of the API server ends no tunnel, and no renewal is written while the standbys answer. A
// holder that reaches neither the API server nor all standbys ends by itself, before any standby may take the Lease. The ended holder asks for no
// promises until all standbys would promise again, because promises would only keep the answering standbys from the Lease.
//
// The holder adds an answering replica to the standbys, and removes a silent standby. Without a standby the holder stays active without limit: a
// replica outside the standbys takes over only after Kubernetes has reported for a while that the holder no longer runs. Therefore a replica started
// in a partition waits. The report of Kubernetes may be about an earlier process of the pod: a recently listed holder is active only while the holder
// renews the Lease. If the pod of an isolated node is deleted, by Kubernetes or by force, two replicas are active until the node is back.
//
// The tunnel of a dead process stays in the kernel, and passes packets until FenceUntil.
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
	// Promise is how long an answering replica does not take the Lease. The holder counts from the request, and Margin less.
	Promise, Margin time.Duration
	// Lease is how long a Lease must stay unchanged and not renewed before a replica takes the Lease. The holder counts only Deadline, from the begin
	// of the write.
	Lease, Deadline time.Duration
	// Renew is the interval of writes, and of attempts after failed ones, while an answer is older than Late.
	Renew, Late time.Duration
	// Silence is how long a silent replica stays a standby.
	Silence time.Duration
	// Fence is the maximum time for which a tunnel passes packets after its process died: less than Lease.
	Fence time.Duration
	// Settle is how long a replica must be listed before it may be active without renewing the Lease: longer than the list lags.
	Settle time.Duration
	// Stranger is how long a Lease without a holder must stay unchanged before a replica takes the Lease although nodes reach another replica.
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
	// Renewed differs after each renewal. A write that only adds standbys is no renewal.
	Renewed int64
}

// Outside is the holder of a Lease while a pod that takes part in no election has the tunnel.
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

// Nonce is a random number. A message that returns the receiver's nonce is new.
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
	// Probe marks a request for no promise. Promise in the answer means only: the sender would promise.
	Probe bool
	// Promise is set in an answer that promises not to take the Lease. Unable is set in an answer of a replica that cannot apply its state.
	Promise, Unable bool
}

// maxOthers bounds the replicas asked by a holder.
const maxOthers = 16

// Replica is the state of one replica of a gateway.
type Replica struct {
	self   string
	times  Times
	random func() Nonce

	lease    Lease
	observed time.Time // of the last change of the Lease
	won      bool      // this process wrote itself as the holder, and no different holder followed
	since    time.Time // begin of the term of this process
	renewed  time.Time // begin of the last write of the holder
	tried    time.Time // last write, successful or not
	unread   int       // consecutive failed reads of the Lease before a take
	taking   int       // writes of this replica that may still replace the Lease
	adding   []string  // standbys in writes that may still replace the Lease
	writes   int       // number of these writes
	asked    time.Time // last requests
	others   map[string]*other

	retired    bool      // this process ends, or has ended its term
	unable     bool      // this replica cannot apply its state
	resigned   int32     // last resigned term
	vain       int       // terms resigned since this replica was active
	running    []string  // all running replicas; a holder asks these
	listed     time.Time // since then, this replica is in running; zero value: not in running
	settled    bool      // this process was listed for Settle before a renewal, and has stayed listed
	unlisted   time.Time // since then, the holder is not in running; zero value: in running
	elsewhere  bool      // nodes reach another replica
	heard      time.Time // last request answered by a promise
	known      Lease     // Lease of the sender of that request
	challenges []issued  // nonces of recent answers
	requests   []issued  // nonces of recent new requests
	stale      time.Time // last answer to an old request
}

// other is the holder's view of another replica.
type other struct {
	promised time.Time // time of the last request answered by a promise
	willing  time.Time // time of the last request or probe whose answer had Promise set
	unable   bool      // from the last answer
	pending  []issued  // requests
	last     Nonce     // nonce of the last answer
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
	maps.DeleteFunc(r.others, func(name string, _ *other) bool { // the promise of a standby counts until the Lease no longer has the standby
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
	case !listed && r.settled: // another replica may take the Lease now, unless the Lease is renewed; an ended term stays ended
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

// ObserveLease records the Lease from a read. A version older than the known version is ignored.
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

// RecordWrite records a successful write. The write was a renewal if began, the begin of the write, is not zero.
func (r *Replica) RecordWrite(l Lease, began, now time.Time) {
	r.ObserveLease(l, now)
	current := r.lease // another process may have written the Lease since, but did not change the holder
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

// RecordUnread records a failed read of the Lease before a take.
func (r *Replica) RecordUnread() { r.unread++ }

// BeginTake reports whether this replica may still take the Lease, and with which standbys. The Lease and the names of running replicas were just
// read. Until the outcome of the write is known, this replica promises nothing. A replica that cannot read the Lease continues to promise: an outage
// of the API server may be longer than an outage of the network.
func (r *Replica) BeginTake(l Lease, running []string, now time.Time) (standbys []string, ok bool) {
	r.unread = 0
	r.ObserveLease(l, now)
	if r.setRunning(running, now); r.won || r.retired || !r.isCandidate() || now.Before(r.takeAt()) {
		return nil, false
	}
	r.taking++
	// The standbys of the last holder are as good as before. The last holder may be dead, and has to answer first, like a new replica.
	return slices.DeleteFunc(slices.Clone(r.lease.Standbys), func(name string) bool {
		return name == r.self || name == r.lease.Holder || !slices.Contains(running, name)
	}), true
}

// BeginRenew returns the standbys for the write of the Lease, and whether to renew the Lease. From now on each of the standbys may have the Lease.
// While all standbys promise, a renewal would only lengthen the wait of the standbys for the next failure of a settled holder.
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

// RecordRefusal records that the API server refused or never got the write. A write without an answer may still succeed.
func (r *Replica) RecordRefusal() {
	r.taking = max(0, r.taking-1)
	if r.writes = max(0, r.writes-1); r.writes == 0 {
		r.adding = nil
	}
}

// wantedStandbys returns the possible followers of this holder: answering replicas, and standbys silent only for a moment.
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

// hasNewStandby reports whether an answering replica is no standby yet.
func (r *Replica) hasNewStandby(now time.Time) bool {
	return slices.ContainsFunc(r.wantedStandbys(now), func(name string) bool { return !slices.Contains(r.lease.Standbys, name) })
}

func (r *Replica) isListed() bool { return slices.Contains(r.running, r.self) }

// isCandidate reports whether this replica may take the Lease at all. The Lease of an earlier process of this pod is kept also while the list is
// late.
func (r *Replica) isCandidate() bool { return r.isListed() || r.lease.Holder == r.self }

// SetUnable sets whether this replica cannot apply its state. Other replicas take the Lease first.
func (r *Replica) SetUnable(unable bool) { r.unable = unable }

// Resign ends the term of this process. A new term may begin after the release of the Lease.
func (r *Replica) Resign() {
	if r.won {
		r.won, r.resigned = false, r.lease.Term
		r.vain++
	}
}

// RecordActive records that this replica applied its state, and is active.
func (r *Replica) RecordActive() { r.vain = 0 }

// RecordUnreleased records that the Lease of a resigned term could not be released.
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

// oldestPromise returns the time of the oldest promise of a standby; the zero value if a promise is missing, or without any standby.
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

// maxVain bounds how often the holding time of an unusable Lease doubles.
const maxVain = 4

// HasSuccessor reports whether another running replica may be able to apply its state: the replica had the time to report the opposite, and did not.
// If no replica was active after the last terms of this replica either, this replica keeps the Lease for longer: a silent replica is not known to be
// better.
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
	if what == Take { // spare an API server after an outage
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
	case r.lease.Holder == r.self && r.lease.Term == r.resigned: // this replica is about to release the Lease
	case r.lease.Holder == r.self: // an earlier process of this pod
		at = time.Time{}
	case r.lease.Holder == "" && r.known.UID == r.lease.UID && r.known.Term+1 == r.lease.Term: // the holder ended its term
		return r.takeLate(time.Time{})
	case r.lease.Holder == "" && !known && !r.elsewhere:
		at = time.Time{}
	case r.lease.Holder == "" && !known:
		at = r.observed.Add(r.times.Stranger)
	case r.lease.Holder == "": // another process cleared the Lease, perhaps unknown to the holder yet
		at = r.observed.Add(r.times.Lease)
	case slices.Contains(r.lease.Standbys, r.self):
		at = r.observed.Add(r.times.Lease)
	case !r.unlisted.IsZero(): // the tunnel of the dead holder passes packets for a moment
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

// takeLate returns at, or a later time for a replica that cannot apply its state.
func (r *Replica) takeLate(at time.Time) time.Time {
	if late := r.observed.Add(r.times.Lease); r.unable && at.Before(late) {
		return late
	}
	return at
}

// Requests returns the due messages, and the time of the next messages; zero value: never. A holder that promises cannot make active sends no
// message, or asks for no promise: a promise would only keep the standbys from the Lease.
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

// Receive records an authentic message. Receive returns the answer to a request, and whether the request is a new request of the holder. A new
// request is answered once. An old request may be a replay: few old requests are answered.
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

// currentChallenge returns the nonce for answers. Replayed requests do not displace the nonce.
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
