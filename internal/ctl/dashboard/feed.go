// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/fleet"
)

// Documents are made once in a second at most, and at least once in renewal: certificates and Leases expire without any change.
const (
	coalescing = time.Second
	renewal    = 15 * time.Second
)

// feed has the newest snapshot, and makes the next snapshot after a change.
type feed struct {
	gather func(context.Context) (*fleet.Facts, error)
	// outage returns why the facts may be old, or nil.
	outage  func() error
	changes chan struct{}
	current atomic.Pointer[snapshot]
	// pages is the number of open pages.
	pages atomic.Int32
	// previous and timeline belong to the goroutine of runFeed.
	previous *fleet.Document
	timeline fleet.Timeline
}

// snapshot is a document, encoded in parts. It is never changed.
type snapshot struct {
	time time.Time
	// problem is why the document may be old.
	problem  string
	sections map[string]json.RawMessage
	pods     map[string]json.RawMessage
	// replaced is closed when there is a newer snapshot.
	replaced chan struct{}
}

func newFeed(gather func(context.Context) (*fleet.Facts, error), outage func() error) *feed {
	return &feed{gather: gather, outage: outage, changes: make(chan struct{}, 1)}
}

// isOpen reports whether a page is open.
func (f *feed) isOpen() bool { return f.pages.Load() > 0 }

// measureThroughput adds the measurements of a meter to the facts of each snapshot.
func (f *feed) measureThroughput(m *throughputMeter) {
	gather := f.gather
	f.gather = func(ctx context.Context) (*fleet.Facts, error) {
		facts, err := gather(ctx)
		if err == nil {
			m.addTo(facts)
		}
		return facts, err
	}
}

// noteChange asks for a new snapshot. It does not block.
func (f *feed) noteChange() {
	select {
	case f.changes <- struct{}{}:
	default: // a snapshot is already requested
	}
}

// runFeed makes snapshots until the end of ctx.
func (f *feed) runFeed(ctx context.Context) {
	for {
		select { // a change waits for the rest of the second
		case <-ctx.Done():
			return
		case <-time.After(coalescing):
		}
		select {
		case <-ctx.Done():
			return
		case <-f.changes:
		case <-time.After(renewal - coalescing):
		}
		if err := f.renewSnapshot(ctx); err != nil && ctx.Err() == nil {
			f.tellProblem(err)
		}
	}
}

// renewSnapshot makes a snapshot from the facts of now.
func (f *feed) renewSnapshot(ctx context.Context) error {
	facts, err := f.gather(ctx)
	if err != nil {
		return err
	}
	d := fleet.New(facts)
	if f.previous == nil {
		f.timeline.Seed(facts, d)
	}
	f.timeline.Add(f.previous, d)
	f.previous = d
	s, err := newSnapshot(d, &f.timeline)
	if err != nil {
		return err
	}
	if err := f.outage(); err != nil {
		s.problem = cluster.DescribeError(err)
	}
	f.publishSnapshot(s)
	return nil
}

// publishSnapshot publishes a snapshot.
func (f *feed) publishSnapshot(s *snapshot) {
	if old := f.current.Swap(s); old != nil {
		close(old.replaced)
	}
}

// tellProblem publishes the same document with why it is old.
func (f *feed) tellProblem(err error) {
	s := *f.current.Load()
	s.problem, s.replaced = cluster.DescribeError(err), make(chan struct{})
	f.publishSnapshot(&s)
}

func newSnapshot(d *fleet.Document, timeline *fleet.Timeline) (*snapshot, error) {
	s := &snapshot{time: d.Time, sections: map[string]json.RawMessage{}, pods: make(map[string]json.RawMessage, len(d.Pods)), replaced: make(chan struct{})}
	for i := range d.Pods {
		data, err := json.Marshal(&d.Pods[i])
		if err != nil {
			return nil, fmt.Errorf("encoding a pod: %w", err)
		}
		s.pods[d.Pods[i].Namespace+"/"+d.Pods[i].Name] = data
	}
	for name, part := range map[string]any{
		"cluster": d.Cluster, "peers": d.Peers, "tunnels": d.Tunnels, "slices": d.Slices, "virtualNodes": d.VirtualNodes, "namespaces": d.Namespaces,
		"certificates": d.Certificates, "events": d.Events, "check": d.Check, "unreadable": d.Unreadable, "timeline": timeline,
	} {
		data, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
		s.sections[name] = data
	}
	return s, nil
}

// message is the data of an event: everything at first, then the changes.
type message struct {
	Time     time.Time                  `json:"time"`
	Problem  string                     `json:"problem"`
	Full     bool                       `json:"full"`
	Sections map[string]json.RawMessage `json:"sections"`
	// Pods are new or changed, Gone are the names of deleted pods.
	Pods []json.RawMessage `json:"pods"`
	Gone []string          `json:"gone"`
}

// compareTo returns the differences from an older snapshot, everything if old is nil.
func (s *snapshot) compareTo(old *snapshot) message {
	m := message{Time: s.time, Problem: s.problem, Full: old == nil, Sections: map[string]json.RawMessage{}, Pods: []json.RawMessage{}, Gone: []string{}}
	if old == nil {
		old = &snapshot{}
	}
	for name, data := range s.sections {
		if !bytes.Equal(data, old.sections[name]) {
			m.Sections[name] = data
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.pods)) {
		if !bytes.Equal(s.pods[key], old.pods[key]) {
			m.Pods = append(m.Pods, s.pods[key])
		}
	}
	for key := range old.pods {
		if _, remains := s.pods[key]; !remains {
			m.Gone = append(m.Gone, key)
		}
	}
	slices.Sort(m.Gone)
	return m
}
