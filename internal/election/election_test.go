// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"encoding/binary"
	"fmt"
	"slices"
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
	elsewhere := func(a, _ *Replica) { a.SetReplicas([]string{"a", "b"}, true) }
	unlisted := func(a, _ *Replica) { a.SetReplicas([]string{"b"}, false) }
	retire := func(a, _ *Replica) { a.Retire() }
	unable := func(a, _ *Replica) { a.SetUnable(true) }
	resign := func(a, _ *Replica) { a.Resign() }
	running := func(names ...string) step { return func(a, _ *Replica) { a.SetReplicas(names, true) } }
	alone := func(a, _ *Replica) {
		a.RecordAttempt(at(0))
		a.RecordWrite(Lease{"lease", 2, 1, "a", nil, 2}, at(0), at(0))
	}
	added := func(seconds float64) step { // a write of the holder b that is no renewal
		return func(a, _ *Replica) { a.ObserveLease(Lease{"lease", 3, 1, "b", []string{"a"}, 2}, at(seconds)) }
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
		"b_holds":                   {[]step{lease(0, 2, 1, "b")}, 2.9, false, None},
		"b_holds_alone":             {[]step{one(0, 2, 1, "b")}, 1e6, false, None},
		"b_held_alone_and_is_gone":  {[]step{one(0, 2, 1, "b"), running("a")}, 3, false, Take},
		"b_is_just_gone":            {[]step{one(0, 2, 1, "b"), running("a")}, 2.9, false, None},
		"a_pod_outside":             {[]step{one(0, 2, 0, Outside), running("a")}, 1e6, false, None},
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
		"b_tells_of_a_later_term":   {[]step{lease(0, 1, 0, ""), wins(0, 0, 0, 2, 1), exchange(0, 2, 0), wins(1, 0.3, 0.3, 3, 2), exchange(1, 2, 0.4)}, 0.7, false, None},
	} {
		t.Run(name, func(t *testing.T) {
			random := counter()
			a, b := NewReplica("a", Default(), random), NewReplica("b", Default(), random)
			a.SetReplicas([]string{"a", "b"}, false)
			b.SetReplicas([]string{"a", "b"}, false)
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
		r.SetReplicas([]string{"a", "b"}, false)
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
		r.SetReplicas([]string{"a", "b"}, false)
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

// world is a cluster whose network, API server and processes fail at random.
type world struct {
	t        *rapid.T
	now      time.Time
	random   func() Nonce
	lease    Lease
	names    []string
	running  map[string]bool // pod, by the API server
	replicas map[string]*Replica
	down     map[string]bool // process
	cut      map[string]bool // link, or "name api"
	alone    string          // active replica without a standby, if there was one after the last step
	mail     []letter
	writing  map[string]*write
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

func (w *world) send(m Message) {
	if !w.cut[link(m.From, m.To)] {
		w.mail = append(w.mail, letter{w.now.Add(time.Duration(rapid.IntRange(0, 150).Draw(w.t, "delay")) * time.Millisecond), m})
	}
}

func (w *world) start(name string) {
	r := NewReplica(name, Default(), w.random)
	w.replicas[name], w.down[name], w.writing[name], w.running[name] = r, false, nil, true
	if w.alone == name {
		w.alone = ""
	}
	if !w.cut[name+" api"] {
		r.SetReplicas(w.list(), false)
		r.ObserveLease(w.lease, w.now)
	}
}

// list returns the running replicas.
func (w *world) list() []string {
	return slices.DeleteFunc(slices.Clone(w.names), func(name string) bool { return !w.running[name] })
}

// step lets 10 ms pass.
func (w *world) step() {
	w.now = w.now.Add(10 * time.Millisecond)
	mail := w.mail
	w.mail = nil
	for _, l := range mail {
		switch {
		case l.at.After(w.now):
			w.mail = append(w.mail, l)
		case w.down[l.m.To] || w.replicas[l.m.To] == nil:
		default:
			if answer, _ := w.replicas[l.m.To].Receive(l.m, w.now); answer != nil {
				w.send(*answer)
			}
		}
	}
	for _, name := range w.names {
		r := w.replicas[name]
		if r == nil || w.down[name] {
			continue
		}
		requests, _ := r.Requests(w.now)
		for _, m := range requests {
			w.send(m)
		}
		w.write(name, r)
		if !w.cut[name+" api"] && w.now.UnixMilli()%300 == 0 { // a watch that is late at times
			r.ObserveLease(w.lease, w.now)
			r.SetReplicas(w.list(), false)
		}
	}
	var active []string
	for _, name := range w.names {
		if !w.down[name] && w.replicas[name] != nil && w.replicas[name].ActiveUntil().After(w.now) {
			active = append(active, name)
		}
	}
	if len(active) > 1 {
		w.t.Fatalf("%v are active after %s; the Lease is %+v", active, w.now.Sub(zero), w.lease)
	}
	// Nothing but another holder ends the term of one without a standby.
	if w.alone != "" && w.lease.Holder == w.alone && !w.down[w.alone] && !slices.Contains(active, w.alone) {
		w.t.Fatalf("%s, without a standby, is not active after %s; the Lease is %+v", w.alone, w.now.Sub(zero), w.lease)
	}
	if w.alone = ""; len(active) == 1 && w.lease.Holder == active[0] {
		if r := w.replicas[active[0]]; len(r.lease.Standbys) == 0 && len(r.adding) == 0 {
			w.alone = active[0]
		}
	}
}

// write has a replica write, which takes a moment on the way there and on the way back.
func (w *world) write(name string, r *Replica) {
	if p := w.writing[name]; p != nil {
		if !w.now.Before(p.reaches) && !p.won && p.lease.Version == w.lease.Version+1 && !w.cut[name+" api"] {
			w.lease, p.won = p.lease, true
		}
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
		return time.Duration(rapid.IntRange(0, 40).Draw(w.t, "pause")) * 10 * time.Millisecond
	}
	reaches := w.now.Add(pause())
	w.writing[name] = &write{began: began, reaches: reaches, ends: reaches.Add(pause()), lease: next}
}

func TestNeverTwoActive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, now: zero, random: counter(), lease: Lease{UID: "lease", Version: 1}, running: map[string]bool{},
			replicas: map[string]*Replica{}, down: map[string]bool{}, cut: map[string]bool{}, writing: map[string]*write{},
		}
		w.names = []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "replicas")]
		for _, name := range w.names[:rapid.IntRange(1, len(w.names)).Draw(t, "first")] { // others may start in a partition
			w.start(name)
		}
		events := []string{"nothing", "heal", "no api"}
		for i, name := range w.names {
			events = append(events, "cut "+name+" api", "down "+name, "restart "+name, "gone "+name, "isolate "+name)
			for _, other := range w.names[i+1:] {
				events = append(events, "cut "+link(name, other))
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			event := rapid.SampledFrom(events).Draw(t, "event")
			var a, b string
			n, _ := fmt.Sscanf(event, "cut %s %s", &a, &b)
			switch {
			case n == 2:
				w.cut[a+" "+b] = true
			case event == "heal":
				clear(w.cut)
			case event == "no api":
				for _, name := range w.names {
					w.cut[name+" api"] = true
				}
			}
			if n, _ := fmt.Sscanf(event, "down %s", &a); n == 1 {
				w.down[a] = true
			}
			if n, _ := fmt.Sscanf(event, "restart %s", &a); n == 1 {
				w.start(a)
			}
			if n, _ := fmt.Sscanf(event, "isolate %s", &a); n == 1 {
				w.cut[a+" api"] = true
				for _, other := range w.names {
					w.cut[link(a, other)] = true
				}
			}
			if n, _ := fmt.Sscanf(event, "gone %s", &a); n == 1 {
				w.down[a], w.running[a] = true, false
			}
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
		for _, name := range w.names {
			if w.down[name] || w.replicas[name] == nil {
				w.start(name)
			}
		}
		for range 2000 {
			w.step()
		}
		if !slices.ContainsFunc(w.names, func(name string) bool { return w.replicas[name].ActiveUntil().After(w.now) }) {
			t.Fatalf("none is active; the Lease is %+v", w.lease)
		}
	})
}
