// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/testkit"
)

// All objects of a peering and of an application in it are applied in a random order, and between them the processes of
// both clusters start, in a random order too. What comes of it is always the same.
func TestManifestOrder(t *testing.T) {
	var first sync.Once
	var want map[string]string
	inWorlds(t, testkit.Seeds(t, 8), func(t *testing.T, w *topology, seed uint64) {
		first.Do(func() { want = w.inOrder(t) })
		if want == nil {
			t.Fatal("the story that all others are compared with failed")
		}
		start := time.Now()
		w.named(t, int(seed)+2)
		var messages []string
		for _, s := range w.shuffled(t, rand.New(rand.NewPCG(seed, 0))) {
			messages = append(messages, s.name)
			s.do(t)
		}
		applied := time.Now()
		w.eventually(t, fmt.Sprintf("seed %d to end as the others: %s", seed, strings.Join(messages, ", ")), func(ctx context.Context) error {
			if err := w.works(ctx); err != nil {
				return err
			}
			got, err := w.dump(ctx)
			if err != nil {
				return err
			}
			if diff := difference(want, got, func(a, b string) string { return cmp.Diff(a, b) }); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		t.Logf("seed %d: %d steps in %s, %d objects in %s", seed, len(messages), passed(start, applied), len(want), passed(applied, time.Now()))
		w.deleteAll(t)
	})
}

func passed(from, to time.Time) time.Duration { return to.Sub(from).Round(100 * time.Millisecond) }

// inOrder tells the story as the guide does.
func (w *topology) inOrder(t *testing.T) map[string]string {
	t.Helper()
	w.named(t, 1)
	w.startAll(t)
	for _, d := range w.documents(t) {
		w.apply(t, d)
	}
	defer w.deleteAll(t)
	return w.settled(t)
}

// settled waits until the story works and nothing changes any more.
func (w *topology) settled(t *testing.T) map[string]string {
	t.Helper()
	var last map[string]string
	var since time.Time
	const still = 3 * time.Second
	w.eventually(t, "the clusters to be at rest", func(ctx context.Context) error {
		if err := w.works(ctx); err != nil {
			return err
		}
		now, err := w.dump(ctx)
		if err != nil {
			return err
		}
		if diff := difference(last, now, func(a, b string) string { return cmp.Diff(a, b) }); diff != "" {
			last, since = now, time.Now()
			return errors.New(diff)
		}
		if time.Since(since) < still {
			return errors.New("at rest for a moment only")
		}
		return nil
	})
	return last
}

// step is one thing that a story does.
type step struct {
	name string
	do   func(t *testing.T)
}

// shuffled are the starts of all processes and all documents, in random order; a namespace comes before what is in it.
func (w *topology) shuffled(t *testing.T, random *rand.Rand) []step {
	t.Helper()
	docs := w.documents(t)
	namespaces := map[string]document{}
	for _, d := range docs {
		if d.GetKind() == "Namespace" {
			namespaces[d.GetName()] = d
		}
	}
	var steps []step
	done := map[string]bool{}
	for _, s := range w.sides() {
		for _, role := range roles {
			steps = append(steps, step{"start " + role + " of " + s.id, func(t *testing.T) { s.start(t, role) }})
		}
	}
	for _, d := range docs {
		steps = append(steps, step{d.String(), func(t *testing.T) {
			if ns, ok := namespaces[d.GetNamespace()]; ok && !done[ns.String()] {
				done[ns.String()] = true
				w.apply(t, ns)
			}
			if !done[d.String()] {
				done[d.String()] = true
				w.apply(t, d)
			}
		}})
	}
	random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	return steps
}
