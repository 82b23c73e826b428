// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

// counter returns nonces that differ.
func counter() func() Nonce {
	var n uint64
	return func() (out Nonce) {
		n++
		binary.BigEndian.PutUint64(out[:], n)
		return out
	}
}

var zero = time.Unix(1_000_000, 0)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

// others returns the other one of a and b.
func others(name string) []string {
	return slices.DeleteFunc([]string{"a", "b"}, func(other string) bool { return other == name || name == "" })
}

// A story of one replica, called a, beside b. Each step comes at a time in seconds; at the end, what it may do is compared.
func TestWhoMayBeActive(t *testing.T) {
	type step func(*Replica, *Replica)
	one := func(seconds float64, version uint64, term int32, holder string, standbys ...string) step {
		return func(a, b *Replica) {
			for _, r := range []*Replica{a, b} {
				r.ObserveLease(Lease{"lease", version, term, holder, standbys, int64(version)}, at(seconds))
			}
		}
	}
	// lease is that of a pair, of which each may follow the other.
	lease := func(seconds float64, version uint64, term int32, holder string) step {
		return one(seconds, version, term, holder, others(holder)...)
	}
	wins := func(who int, began, ended float64, version uint64, term int32) step {
		return func(a, b *Replica) {
			r := []*Replica{a, b}[who]
			r.RecordAttempt(at(began))
			r.RecordWrite(Lease{"lease", version, term, r.self, others(r.self), int64(version)}, at(began), at(ended))
		}
	}
	// exchange has the holder ask, and the other answer, some times.
	exchange := func(holder, times int, seconds float64) step {
		return func(a, b *Replica) {
			h, o := []*Replica{a, b}[holder], []*Replica{b, a}[holder]
			for i := range times {
				now := at(seconds + 0.2*float64(i))
				requests, _ := h.Requests(now)
				for _, m := range requests {
					answer, _ := o.Receive(m, now)
					h.Receive(*answer, now)
				}
			}
		}
	}
	elsewhere := func(a, _ *Replica) { a.SetReplicas([]string{"a", "b"}, true, zero) }
	unlisted := func(a, _ *Replica) { a.SetReplicas([]string{"b"}, false, zero) }
	retire := func(a, _ *Replica) { a.Retire() }
	unable := func(a, _ *Replica) { a.SetUnable(true) }
	resign := func(a, _ *Replica) { a.Resign() }
	running := func(seconds float64, names ...string) step {
		return func(a, _ *Replica) { a.SetReplicas(names, true, at(seconds)) }
	}
	starts := func(a, _ *Replica) { // just now, unlike in the other stories
		a.SetReplicas([]string{"b"}, false, zero)
		a.SetReplicas([]string{"a", "b"}, false, zero)
	}
	alone := func(a, _ *Replica) {
		a.RecordAttempt(at(0))
		a.RecordWrite(Lease{"lease", 2, 1, "a", nil, 2}, at(0), at(0))
	}
	added := func(seconds float64) step { // a write of the holder b that is no renewal
		return func(a, _ *Replica) { a.ObserveLease(Lease{"lease", 3, 1, "b", []string{"a"}, 2}, at(seconds)) }
	}
	wrote := func(seconds float64) step { // a renewal of a, which has no standby
		return func(a, _ *Replica) {
			a.RecordWrite(Lease{"lease", 3, 1, "a", nil, 3}, at(seconds), at(seconds))
		}
	}
	attempt := func(seconds float64) step { return func(a, _ *Replica) { a.RecordAttempt(at(seconds)) } }
	unread := func(times int) step { // the last time at 0
		return func(a, _ *Replica) {
			a.RecordAttempt(at(0))
			for range times {
				a.RecordUnread()
			}
		}
	}
	renews := func(seconds float64) step { return func(a, _ *Replica) { a.BeginRenew(at(seconds)) } }
	for name, test := range map[string]struct {
		steps  []step
		now    float64
		active bool
		does   Write
	}{
		"no_lease":                  {nil, 100, false, None},
		"free":                      {[]step{lease(0, 1, 0, "")}, 0, false, Take},
		"free_but_nodes_reach_b":    {[]step{elsewhere, lease(0, 1, 0, "")}, 14, false, None},
		"free_for_long":             {[]step{elsewhere, lease(0, 1, 0, "")}, 15, false, Take},
		"free_and_unlisted":         {[]step{unlisted, lease(0, 1, 0, "")}, 100, false, None},
		"free_and_retired":          {[]step{retire, lease(0, 1, 0, "")}, 100, false, None},
		"won":                       {[]step{lease(0, 1, 0, ""), wins(0, 0, 0.3, 2, 1)}, 0.5, true, None},
		"won_and_b_is_silent":       {[]step{lease(0, 1, 0, ""), wins(0, 0, 0.3, 2, 1)}, 1, true, Renew},
		"deadline_from_the_begin":   {[]step{lease(0, 1, 0, ""), wins(0, 0, 2, 2, 1)}, 2.4, false, Renew},
		"won_and_heard":             {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0)}, 4.2, true, None},
		"without_a_standby":         {[]step{lease(0, 1, 0, ""), alone}, 1e6, true, None},
		"b_is_new":                  {[]step{lease(0, 1, 0, ""), alone, exchange(0, 20, 0)}, 4, true, Renew},
		"b_may_be_a_standby":        {[]step{lease(0, 1, 0, ""), alone, exchange(0, 20, 0), renews(3.9)}, 4.9, false, Renew},
		"b_is_no_standby_yet":       {[]step{lease(0, 1, 0, ""), alone, exchange(0, 20, 0)}, 4.9, true, None},
		"resigned":                  {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), resign}, 100, false, None},
		"resigned_and_released":     {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), unable, resign, lease(4, 3, 2, "")}, 6.9, false, None},
		"none_took_what_it_ended":   {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), unable, resign, lease(4, 3, 2, "")}, 7, false, Take},
		"first_answer_is_no_vow":    {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 1, 2)}, 2.5, false, Renew},
		"b_missed_an_answer":        {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0)}, 4.31, true, Renew},
		"alone":                     {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0)}, 4.9, false, Renew},
		"deposed":                   {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0), lease(4, 3, 2, "b")}, 4.1, false, None},
		"an_old_event":              {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), lease(0.1, 1, 0, "")}, 0.5, true, None},
		"ended":                     {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), retire}, 0.5, false, None},
		"an_earlier_process":        {[]step{lease(0, 2, 1, "a")}, 0, false, Take},
		"an_earlier_one_unlisted":   {[]step{unlisted, lease(0, 2, 1, "a")}, 0, false, Take},
		"b_holds":                   {[]step{lease(0, 2, 1, "b")}, 2.9, false, None},
		"b_holds_alone":             {[]step{one(0, 2, 1, "b")}, 1e6, false, None},
		"b_held_alone_and_is_gone":  {[]step{one(0, 2, 1, "b"), running(0, "a")}, 3, false, Take},
		"b_is_just_gone":            {[]step{one(0, 2, 1, "b"), running(100, "a")}, 102.9, false, None},
		"b_is_gone_for_long":        {[]step{one(0, 2, 1, "b"), running(100, "a"), running(102, "a")}, 103, false, Take},
		"b_is_back":                 {[]step{one(0, 2, 1, "b"), running(100, "a"), running(102, "a", "b")}, 1e6, false, None},
		"b_is_gone_again":           {[]step{one(0, 2, 1, "b"), running(100, "a"), running(101, "a", "b"), running(102, "a")}, 104.9, false, None},
		"b_is_gone_and_writes":      {[]step{one(0, 2, 1, "b"), running(100, "a"), one(102, 3, 1, "b")}, 104.9, false, None},
		"b_followed_one_long_gone":  {[]step{one(0, 2, 1, "c"), running(0, "a"), one(100, 3, 2, "b")}, 102.9, false, None},
		"b_is_gone_and_a_as_well":   {[]step{one(0, 2, 1, "b"), running(0, "c")}, 1e6, false, None},
		"it_was_not_listed_either":  {[]step{one(0, 2, 1, "b"), running(0, "c"), running(100, "a")}, 102.9, false, None},
		"starts_without_a_standby":  {[]step{starts, lease(0, 1, 0, ""), alone}, 2.3, true, Renew},
		"starts_and_cannot_write":   {[]step{starts, lease(0, 1, 0, ""), alone}, 2.4, false, Renew},
		"starts_and_is_heard":       {[]step{starts, lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0)}, 2.4, false, Renew},
		"writes_when_settled":       {[]step{starts, lease(0, 1, 0, ""), alone, wrote(15)}, 1e6, true, None},
		"writes_before":             {[]step{starts, lease(0, 1, 0, ""), alone, wrote(14.9)}, 17.3, false, Renew},
		"is_unlisted_and_runs":      {[]step{lease(0, 1, 0, ""), alone, running(100, "b")}, 102.3, true, Renew},
		"is_unlisted_and_cut_off":   {[]step{lease(0, 1, 0, ""), alone, running(100, "b")}, 102.4, false, Renew},
		"is_listed_again":           {[]step{lease(0, 1, 0, ""), alone, running(100, "b"), running(101, "a", "b"), wrote(116)}, 1e6, true, None},
		"starts_and_was_refused":    {[]step{starts, lease(0, 1, 0, ""), alone, attempt(0.9)}, 1.2, true, Renew},
		"was_not_read":              {[]step{lease(0, 1, 0, ""), unread(1)}, 0.4, false, None},
		"was_not_read_for_long":     {[]step{lease(0, 1, 0, ""), unread(9)}, 1.9, false, None},
		"is_read_again":             {[]step{lease(0, 1, 0, ""), unread(9)}, 2, false, Take},
		"is_unlisted_and_was_cut":   {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0), running(5.2, "b")}, 5.3, false, Renew},
		"is_unlisted_and_heard":     {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 20, 0), running(3.9, "b")}, 4.7, true, Renew},
		"a_pod_outside":             {[]step{one(0, 2, 0, Outside), running(0, "a")}, 1e6, false, None},
		"b_never_heard":             {[]step{lease(0, 2, 1, "b")}, 3, false, Take},
		"b_heard":                   {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0)}, 4.9, false, None},
		"b_heard_no_more":           {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0)}, 5.01, false, Take},
		"b_writes_but_is_not_heard": {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0), lease(4.5, 3, 1, "b")}, 7.4, false, None},
		"b_writes_no_more":          {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0), lease(4.5, 3, 1, "b")}, 7.5, false, Take},
		"b_added_it":                {[]step{one(0, 2, 1, "b"), exchange(1, 0, 0), added(4)}, 4.1, false, Take},
		"b_ended":                   {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0), elsewhere, lease(3.9, 3, 2, "")}, 3.9, false, Take},
		"b_was_cleared":             {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0), elsewhere, lease(3.9, 3, 1, "")}, 6.8, false, None},
		"b_was_cleared_and_silent":  {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0), elsewhere, lease(3.9, 3, 1, "")}, 6.91, false, Take},
		"written_by_others":         {[]step{lease(0, 1, 0, ""), lease(0.2, 3, 1, "a"), wins(0, 0, 0.3, 2, 1)}, 0.5, true, None},
		"b_asks_for_no_promise":     {[]step{lease(0, 1, 0, ""), wins(1, 0, 0, 2, 1), lease(0, 2, 1, "b"), exchange(1, 20, 0), exchange(1, 1, 5.5)}, 5.6, false, Take},
		"b_tells_of_a_later_term":   {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 2, 0), wins(1, 0.3, 0.3, 3, 2), exchange(1, 2, 0.4)}, 0.7, false, None},
	} {
		t.Run(name, func(t *testing.T) {
			random := counter()
			a, b := NewReplica("a", Default(), random), NewReplica("b", Default(), random)
			a.SetReplicas([]string{"a", "b"}, false, at(-1e6))
			b.SetReplicas([]string{"a", "b"}, false, at(-1e6))
			for _, s := range test.steps {
				s(a, b)
			}
			if got := a.ActiveUntil().After(at(test.now)); got != test.active {
				t.Errorf("active %v, want %v", got, test.active)
			}
			if got, _ := a.NextWrite(at(test.now)); got != test.does {
				t.Errorf("it would %q, want %q", got, test.does)
			}
		})
	}
}

// A captured request that comes once more neither prolongs a promise nor displaces what the next true one echoes.
func TestReplayedRequest(t *testing.T) {
	random := counter()
	a, b := NewReplica("a", Default(), random), NewReplica("b", Default(), random)
	for _, r := range []*Replica{a, b} {
		r.SetReplicas([]string{"a", "b"}, false, at(-1e6))
		r.ObserveLease(Lease{"lease", 1, 0, "", nil, 1}, zero)
	}
	a.RecordWrite(Lease{"lease", 2, 1, "a", []string{"b"}, 2}, zero, zero)
	b.ObserveLease(Lease{"lease", 2, 1, "a", []string{"b"}, 2}, zero)
	var captured Message
	for i := range 3 {
		requests, _ := a.Requests(at(0.2 * float64(i)))
		captured = requests[0]
		answer, fresh := b.Receive(captured, at(0.2*float64(i)))
		if fresh != (i > 0) {
			t.Errorf("request %d: new %v", i, fresh)
		}
		a.Receive(*answer, at(0.2*float64(i)))
	}
	answers := 0
	for i := range 1000 {
		if answer, _ := b.Receive(captured, at(0.41+0.0001*float64(i))); answer != nil {
			answers++
		}
	}
	if answers > 0 {
		t.Errorf("%d answers to a request that was answered", answers)
	}
	requests, _ := a.Requests(at(0.6))
	if _, fresh := b.Receive(requests[0], at(0.6)); !fresh {
		t.Error("a true request is no longer believed")
	}
	for i := range 1000 {
		answer, fresh := b.Receive(captured, at(2+0.001*float64(i)))
		if fresh {
			t.Fatal("an old request is believed")
		}
		if answer != nil {
			answers++
		}
	}
	if answers > 20 {
		t.Errorf("%d answers to an old request within a second", answers)
	}
	if n := len(b.challenges); n > 20 {
		t.Errorf("%d nonces are kept", n)
	}
}

// While a replica may take the Lease by a write whose outcome is not known, it promises nothing to the holder.
func TestNoPromiseWhileTaking(t *testing.T) {
	random := counter()
	a, b := NewReplica("a", Default(), random), NewReplica("b", Default(), random)
	for _, r := range []*Replica{a, b} {
		r.SetReplicas([]string{"a", "b"}, false, at(-1e6))
		r.ObserveLease(Lease{"lease", 1, 0, "", nil, 1}, zero)
	}
	a.RecordWrite(Lease{"lease", 2, 1, "a", []string{"b"}, 2}, zero, zero)
	b.ObserveLease(Lease{"lease", 2, 1, "a", []string{"b"}, 2}, zero)
	ask := func(seconds float64) bool {
		requests, _ := a.Requests(at(seconds))
		answer, _ := b.Receive(requests[0], at(seconds))
		a.Receive(*answer, at(seconds))
		return answer.Promise
	}
	ask(0)
	if !ask(0.2) {
		t.Fatal("no promise")
	}
	take := func(l Lease, seconds float64) bool {
		_, ok := b.BeginTake(l, []string{"a", "b"}, at(seconds))
		return ok
	}
	if take(b.lease, 1.3) {
		t.Error("the Lease is taken in spite of a promise")
	}
	b.RecordAttempt(at(3.1))
	ask(3.1)
	if !ask(3.3) {
		t.Error("no promise while the Lease could not be read")
	}
	if take(Lease{"lease", 3, 1, "a", []string{"b"}, 3}, 6) {
		t.Error("a Lease is taken that was renewed")
	}
	if !take(b.lease, 9) {
		t.Error("the Lease is not taken")
	}
	a.RecordWrite(Lease{"lease", 3, 1, "a", []string{"b"}, 3}, at(9), at(9))
	ask(9.1)
	if ask(9.3) {
		t.Error("a promise while the Lease is being taken")
	}
	b.RecordRefusal()
	if !ask(9.5) {
		t.Error("no promise after the write was refused")
	}
}

// Writes whose outcome stays unknown are no reason to remember a standby more than once.
func TestWritesWithoutOutcome(t *testing.T) {
	a := NewReplica("a", Default(), counter())
	a.SetReplicas([]string{"a", "b"}, false, at(-1e6))
	a.RecordWrite(Lease{"lease", 2, 1, "a", []string{"b"}, 2}, zero, zero)
	for range 100 {
		a.BeginRenew(at(1))
	}
	if len(a.adding) != 1 {
		t.Errorf("%d standbys are remembered", len(a.adding))
	}
}

// world is a cluster whose network, API server and processes fail at random.
type world struct {
	t        *rapid.T
	now      time.Time
	random   func() Nonce
	lease    Lease
	names    []string
	running  map[string]bool // container, by the API server
	reports  []report        // on their way to it, in order
	replicas map[string]*Replica
	down     map[string]bool      // process
	stopped  map[string]bool      // process that may go on
	open     map[string]time.Time // until when a tunnel passes packets, also of a dead process
	cut      map[string]bool      // link, or "name api"
	alone    string               // settled active replica without a standby, if there was one after the last step
	mail     []letter
	writing  map[string]*write
	phases   map[string]int       // of the watches, by "name lease" and "name list"
	deleted  map[string]time.Time // pod whose process runs on; since then it knows, the zero value: it does not
	idle     int                  // steps since the Lease or what matters for its standby changed, without an active replica
	before   Lease                // at the last step
	slow     int                  // each way to the API server takes that many steps at most
}

func newWorld(t *rapid.T) *world {
	return &world{
		t: t, now: zero, random: counter(), lease: Lease{UID: "lease", Version: 1}, running: map[string]bool{}, stopped: map[string]bool{}, open: map[string]time.Time{},
		replicas: map[string]*Replica{}, down: map[string]bool{}, cut: map[string]bool{}, writing: map[string]*write{},
		phases: map[string]int{}, deleted: map[string]time.Time{}, slow: 40,
	}
}

// report is what a node tells of its container.
type report struct {
	at      time.Time
	name    string
	running bool
}

type letter struct {
	at time.Time
	m  Message
}

type write struct {
	began, reaches, ends time.Time
	lease                Lease
	won                  bool
}

func link(a, b string) string { return min(a, b) + " " + max(a, b) }

// lateness is how late the reports of nodes are at most, and watches are up to watched later.
const (
	lateness = 3 * time.Second
	watched  = 300 * time.Millisecond
)

// worldTimes are the usual ones, but for one that would make the stories long.
func worldTimes() Times {
	out := Default()
	out.Settle = lateness + 400*time.Millisecond
	return out
}

func (w *world) send(m Message) {
	if !w.cut[link(m.From, m.To)] {
		w.mail = append(w.mail, letter{w.now.Add(time.Duration(rapid.IntRange(0, 150).Draw(w.t, "delay")) * time.Millisecond), m})
	}
}

// report has a node tell of its container, in a while.
func (w *world) report(name string, running bool) {
	at := w.now.Add(time.Duration(rapid.IntRange(0, int(lateness/time.Millisecond)).Draw(w.t, "report")) * time.Millisecond)
	for _, r := range w.reports {
		if r.name == name && r.at.After(at) {
			at = r.at
		}
	}
	w.reports = append(w.reports, report{at, name, running})
}

// deliverReports has the API server know what nodes told. What a node that is cut off has to tell waits.
func (w *world) deliverReports() {
	reports := w.reports
	w.reports = nil
	for _, r := range reports {
		if r.at.After(w.now) || w.cut[r.name+" api"] {
			w.reports = append(w.reports, r)
		} else {
			w.running[r.name] = r.running
		}
	}
}

// start begins a process: the first one of a pod, or the next one.
func (w *world) start(name string) {
	r := NewReplica(name, worldTimes(), w.random)
	if w.replicas[name] == nil { // a pod is listed when its first process runs
		w.running[name] = true
	} else {
		w.report(name, true)
	}
	w.replicas[name], w.down[name], w.stopped[name], w.writing[name] = r, false, false, nil
	delete(w.open, name)
	delete(w.deleted, name)
	w.drawPhases(name)
	if w.alone == name {
		w.alone = ""
	}
	if !w.cut[name+" api"] {
		r.SetReplicas(w.list(), false, w.now)
		r.ObserveLease(w.lease, w.now)
	}
}

// remove deletes a pod. The next one of its name is another one.
func (w *world) remove(name string) {
	w.down[name], w.running[name], w.stopped[name] = true, false, false
	w.replicas[name] = nil
	w.reports = slices.DeleteFunc(w.reports, func(r report) bool { return r.name == name })
}

// drawPhases has the watches of a replica tell of the Lease and of the list at times of their own.
func (w *world) drawPhases(name string) {
	for _, what := range []string{" lease", " list"} {
		w.phases[name+what] = rapid.IntRange(0, int(watched/(10*time.Millisecond))-1).Draw(w.t, "phase")
	}
}

// watch has the watches of a replica tell what is due.
func (w *world) watch(name string, r *Replica) {
	due := func(what string) bool {
		return !w.cut[name+" api"] && (w.now.Sub(zero)/(10*time.Millisecond)+time.Duration(w.phases[name+what]))%(watched/(10*time.Millisecond)) == 0
	}
	if due(" lease") {
		r.ObserveLease(w.lease, w.now)
	}
	if due(" list") {
		if since, is := w.deleted[name]; is && since.IsZero() {
			if w.deleted[name] = w.now; !w.isAlone(r) {
				delete(w.deleted, name)
			}
		}
		r.SetReplicas(w.list(), false, w.now)
	}
}

// isAlone reports whether a replica is active for any time, since it has no standby.
func (w *world) isAlone(r *Replica) bool { return r.IsHolder() && r.settled && !r.hasStandbys() }

// isExcused reports whether a replica may be active beside another one: its pod was deleted while it was cut off and had no standby. What such a
// process leaves in the kernel when it ends is excused as well.
func (w *world) isExcused(name string) bool {
	since, is := w.deleted[name]
	r := w.replicas[name]
	return is && (r == nil || w.isAlone(r) || !since.IsZero() && w.now.Sub(since) <= r.times.Deadline)
}

// checkStandby fails the test if none is active for long although one of them could take over.
func (w *world) checkStandby(active []string) {
	able := func(name string) bool {
		return slices.Contains(w.lease.Standbys, name) && w.goesOn(name) && w.running[name] && !w.cut[name+" api"]
	}
	if w.idle++; len(active) > 0 || w.lease.Version != w.before.Version || !slices.ContainsFunc(w.names, able) {
		w.idle = 0
	}
	if w.before = w.lease; w.idle > 1000 {
		w.t.Fatalf("no replica is active, nor takes over, after %s; the Lease is %+v", w.now.Sub(zero), w.lease)
	}
}

// list returns the running replicas.
func (w *world) list() []string {
	return slices.DeleteFunc(slices.Clone(w.names), func(name string) bool { return !w.running[name] })
}

// step lets 10 ms pass.
func (w *world) step() {
	w.now = w.now.Add(10 * time.Millisecond)
	w.deliverReports()
	mail := w.mail
	w.mail = nil
	for _, l := range mail {
		switch {
		case l.at.After(w.now):
			w.mail = append(w.mail, l)
		case !w.goesOn(l.m.To):
		default:
			if answer, _ := w.replicas[l.m.To].Receive(l.m, w.now); answer != nil {
				w.send(*answer)
			}
		}
	}
	var active, open []string
	for _, name := range w.names {
		w.reach(name)
		r := w.replicas[name]
		if w.goesOn(name) {
			requests, _ := r.Requests(w.now)
			for _, m := range requests {
				w.send(m)
			}
			w.write(name, r)
			w.watch(name, r)
			if w.open[name] = r.FenceUntil(w.now); r.ActiveUntil().After(w.now) {
				active = append(active, name)
			}
		}
		if w.open[name].After(w.now) && !w.isExcused(name) {
			open = append(open, name)
		}
	}
	if len(open) > 1 {
		w.t.Fatalf("the tunnels of %v are open after %s, %v are active; the Lease is %+v", open, w.now.Sub(zero), active, w.lease)
	}
	w.checkStandby(active)
	// Nothing but another holder ends the term of one without a standby.
	if w.alone != "" && w.lease.Holder == w.alone && w.goesOn(w.alone) && !slices.Contains(active, w.alone) {
		w.t.Fatalf("%s, without a standby, is not active after %s; the Lease is %+v", w.alone, w.now.Sub(zero), w.lease)
	}
	if w.alone = ""; len(active) == 1 && w.lease.Holder == active[0] {
		if r := w.replicas[active[0]]; r.settled && !r.hasStandbys() {
			w.alone = active[0]
		}
	}
}

// goesOn reports whether the process of a replica does something.
func (w *world) goesOn(name string) bool {
	return w.replicas[name] != nil && !w.down[name] && !w.stopped[name]
}

// reach has a write reach the API server, whatever its process does meanwhile.
func (w *world) reach(name string) {
	if p := w.writing[name]; p != nil && !w.now.Before(p.reaches) && !p.won && p.lease.Version == w.lease.Version+1 && !w.cut[name+" api"] {
		w.lease, p.won = p.lease, true
	}
}

// write has a replica write, which takes a moment on the way there and on the way back.
func (w *world) write(name string, r *Replica) {
	if p := w.writing[name]; p != nil {
		if !w.now.Before(p.ends) {
			w.writing[name] = nil
			switch {
			case w.cut[name+" api"]:
			case p.won:
				r.RecordWrite(p.lease, p.began, w.now)
			default:
				r.RecordRefusal()
			}
		}
		return
	}
	what, _ := r.NextWrite(w.now)
	if what == None {
		return
	}
	r.RecordAttempt(w.now)
	next, began := Lease{w.lease.UID, r.lease.Version + 1, r.lease.Term, name, nil, w.now.UnixMicro()}, w.now
	if what == Renew {
		var renews bool
		if next.Standbys, renews = r.BeginRenew(w.now); !renews {
			next.Renewed, began = r.lease.Renewed, time.Time{}
		}
	} else if w.cut[name+" api"] {
		r.RecordUnread()
		return
	} else {
		standbys, ok := r.BeginTake(w.lease, w.list(), w.now)
		if !ok {
			return
		}
		next.Version, next.Term, next.Standbys = r.lease.Version+1, r.lease.Term, standbys
	}
	if what == Take && r.lease.Holder != name {
		next.Term++
	}
	pause := func() time.Duration {
		return time.Duration(rapid.IntRange(0, w.slow).Draw(w.t, "pause")) * 10 * time.Millisecond
	}
	reaches := w.now.Add(pause())
	w.writing[name] = &write{began: began, reaches: reaches, ends: reaches.Add(pause()), lease: next}
}

// happen has something happen, which is an action and what it is about.
func (w *world) happen(event string) {
	action, about, _ := strings.Cut(event, ": ")
	switch action {
	case "cut":
		w.cut[about] = true
	case "heal":
		clear(w.cut)
		for _, name := range w.names {
			w.drawPhases(name)
		}
	case "no api":
		for _, name := range w.names {
			w.cut[name+" api"] = true
		}
	case "isolate":
		w.cut[about+" api"] = true
		for _, other := range w.names {
			w.cut[link(about, other)] = true
		}
	case "die": // another process follows in the same container
		w.down[about] = true
	case "crash":
		if w.replicas[about] != nil {
			w.down[about] = true
			w.report(about, false)
		}
	case "stop":
		w.stopped[about] = true
	case "go on":
		w.stopped[about] = false
	case "restart":
		w.start(about)
	case "remove":
		w.remove(about)
	case "delete": // its process runs on
		if w.replicas[about] != nil {
			w.running[about], w.deleted[about] = false, time.Time{}
			w.reports = slices.DeleteFunc(w.reports, func(r report) bool { return r.name == about })
		}
	}
}

func TestNeverTwoActive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.names = []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "replicas")]
		for _, name := range w.names[:rapid.IntRange(1, len(w.names)).Draw(t, "first")] { // others may start in a partition
			w.start(name)
		}
		events := []string{"nothing", "heal", "no api"}
		for i, name := range w.names {
			events = append(events, "cut: "+name+" api", "die: "+name, "crash: "+name, "stop: "+name, "go on: "+name, "restart: "+name, "remove: "+name, "delete: "+name, "isolate: "+name)
			for _, other := range w.names[i+1:] {
				events = append(events, "cut: "+link(name, other))
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			w.happen(rapid.SampledFrom(events).Draw(t, "event"))
			steps := rapid.IntRange(1, 500).Draw(t, "steps")
			if rapid.IntRange(0, 7).Draw(t, "pause") == 0 { // longer than any limit
				steps = 2000
			}
			for range steps {
				w.step()
			}
		}
		// In the end all is well again, and there is an active one.
		clear(w.cut)
		clear(w.stopped)
		for _, name := range w.names {
			if w.down[name] || w.replicas[name] == nil {
				w.start(name)
			}
			w.running[name] = true
		}
		for range 2500 {
			w.step()
		}
		if !slices.ContainsFunc(w.names, func(name string) bool { return w.replicas[name].ActiveUntil().After(w.now) }) {
			t.Fatalf("none is active; the Lease is %+v", w.lease)
		}
	})
}

// The holder of a pair is cut off, deleted and started anew in any order, and at any time: two are never active, nor none for long.
func TestFailuresOfHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.names = []string{"a", "b"}
		w.start("a")
		for range 600 {
			w.step()
		}
		w.start("b")
		for w.lease.Standbys == nil {
			w.step()
		}
		events := []string{"nothing", "heal", "no api", "cut: a api", "isolate: a", "delete: a", "restart: a"}
		for range rapid.IntRange(1, 6).Draw(t, "events") {
			w.happen(rapid.SampledFrom(events).Draw(t, "event"))
			for range rapid.SampledFrom([]int{1, 10, 50, 150, 300, 1500}).Draw(t, "steps") {
				w.step()
			}
		}
	})
}

// A holder that was just started reaches its standby, and not the API server: the standby takes over.
func TestStartedHolderWithoutAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.names = []string{"a", "b"}
		w.start("a")
		for range 200 {
			w.step()
		}
		w.start("b")
		for w.lease.Standbys == nil {
			w.step()
		}
		w.start("a") // its next process
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			w.step()
		}
		w.cut["a api"] = true
		for range 1200 {
			w.step()
		}
		if !w.replicas["b"].ActiveUntil().After(w.now) {
			t.Fatalf("b is not active; the Lease is %+v", w.lease)
		}
	})
}

// The story of three replicas of which c falls silent in some way, at any time. Alone, that ends nothing. If the active one loses the API server as
// well, the last one takes over, although it hears it.
func TestSilentStandby(t *testing.T) {
	for name, test := range map[string]struct {
		story  []string
		active string
	}{
		"it_stands_still":               {[]string{"stop: c"}, "a"},
		"it_is_isolated":                {[]string{"isolate: c"}, "a"},
		"it_reaches_only_the_other":     {[]string{"cut: a c"}, "a"},
		"the_holder_is_without_the_API": {[]string{"cut: a api", "isolate: c"}, "b"},
		"first_it_is_silent":            {[]string{"stop: c", "cut: a api"}, "b"},
		"it_lacks_the_API_too":          {[]string{"cut: a c", "cut: c api", "cut: a api"}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t)
				w.names, w.slow = []string{"a", "b", "c"}, 20 // a write that begins at Late ends before the promise of c does
				w.start("a")
				for range 600 {
					w.step()
				}
				w.start("b")
				w.start("c")
				for len(w.lease.Standbys) < 2 {
					w.step()
				}
				for range 600 {
					w.step()
				}
				for _, event := range test.story {
					w.happen(event)
					for range rapid.IntRange(1, 20).Draw(t, "steps") { // fewer than it takes to remove the silent one
						if w.step(); test.active == "a" && !w.replicas["a"].ActiveUntil().After(w.now) {
							t.Fatalf("a is not active after %s; the Lease is %+v", w.now.Sub(zero), w.lease)
						}
					}
				}
				for range 1500 {
					if w.step(); test.active == "a" && !w.replicas["a"].ActiveUntil().After(w.now) {
						t.Fatalf("a is not active after %s; the Lease is %+v", w.now.Sub(zero), w.lease)
					}
				}
				if !w.replicas[test.active].ActiveUntil().After(w.now) {
					t.Fatalf("%s is not active; the Lease is %+v", test.active, w.lease)
				}
			})
		})
	}
}

// A replica that cannot apply its state gives up the Lease to one that answers nothing, after a time that doubles, but not for ever.
func TestVainTerms(t *testing.T) {
	a := NewReplica("a", Default(), counter())
	a.SetReplicas([]string{"a", "b"}, false, at(-1e6))
	var waits []int
	hold := func(term int32) {
		a.RecordWrite(Lease{"lease", uint64(term), term, "a", nil, int64(term)}, zero, zero)
		seconds := 0
		for !a.HasSuccessor(at(float64(seconds))) {
			seconds++
		}
		waits = append(waits, seconds)
	}
	for term := range int32(7) {
		hold(2*term + 2)
		a.Resign()
	}
	hold(20)
	a.RecordActive()
	hold(22)
	if want := []int{3, 6, 12, 24, 48, 48, 48, 48, 3}; !slices.Equal(waits, want) {
		t.Errorf("it waits %v seconds, want %v", waits, want)
	}
}

// A holder without a standby crashes: nothing of it is left in the kernel when another replica takes over, also if it was stopped before, or cannot
// be reached when what is told of it is outdated.
func TestCrashOfHolderAlone(t *testing.T) {
	for name, story := range map[string][]string{
		"it_stays_away":                {"crash: a"},
		"it_crashes_again_and_again":   {"crash: a", "restart: a", "crash: a", "restart: a", "crash: a"},
		"it_was_stopped":               {"stop: a", "crash: a"},
		"its_end_is_told_when_it_runs": {"crash: a", "restart: a", "isolate: a"},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t)
				w.names = []string{"a", "b"}
				w.start("a")
				w.start("b")
				w.running["b"] = false
				for range 1000 {
					w.step()
				}
				if w.alone != "a" {
					t.Fatalf("%q holds alone", w.alone)
				}
				w.cut[link("a", "b")] = true // as a NetworkPolicy does
				w.running["b"] = true
				for _, event := range story {
					w.happen(event)
					for range rapid.IntRange(1, 400).Draw(t, "steps") {
						w.step()
					}
				}
				for range 1000 {
					w.step()
				}
				if name != "its_end_is_told_when_it_runs" && w.lease.Holder != "b" {
					t.Fatalf("%s keeps the Lease, of a container that does not run", w.lease.Holder)
				}
			})
		})
	}
}
