// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func itemOf(key itemKey, after time.Duration) *Item {
	return &Item{Pair: key.pair, Name: key.name, after: after}
}

// What waits a moment, and what changed in the peer and failed, comes back before the new items that were queued meanwhile.
func TestRetryPriority(t *testing.T) {
	failure := errors.New("the object has been modified")
	for name, tc := range map[string]struct {
		urgent bool
		err    error
		after  time.Duration
		queued int
		first  string
	}{
		"waits a moment":               {false, kube.Wait(time.Millisecond, "the earlier object is going"), 0, 2, "back"},
		"is due in a moment":           {false, nil, time.Millisecond, 2, "back"},
		"waits long, is due before":    {false, kube.Wait(time.Hour, "the earlier object is going"), time.Millisecond, 2, "back"},
		"is done":                      {false, nil, 0, 1, "new"},
		"changed in the peer, failed":  {true, failure, 0, 2, "back"},
		"new here, failed":             {false, failure, time.Hour, 2, "new"},
		"changed in the peer, invalid": {true, kube.Invalid("NameTaken", failure), 0, 1, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKind(Kind{Name: name}, "peer")
			defer k.queue.ShutDown()
			back := itemKey{name: "back"}
			k.addItem(itemKey{name: "new"}, false)
			k.settleItem(logr.Discard(), &pairKind{ctx: t.Context()}, itemOf(back, tc.after), time.Now(), tc.urgent, tc.err)
			testkit.Eventually(t, 10*time.Second, func() error {
				if n := k.queue.Len(); n != tc.queued {
					return fmt.Errorf("%d items are queued, not %d", n, tc.queued)
				}
				return nil
			})
			if again := k.queue.NumRequeues(back) > 0; again != (tc.err == failure) {
				t.Errorf("tried again is %t", again)
			}
			if first, _ := k.queue.Get(); first.name != tc.first {
				t.Errorf("%s comes first", first.name)
			}
		})
	}
}

// The lag of a change ends when both sides are in step, not when it is known what it waits for.
func TestLagOfWaitingItems(t *testing.T) {
	ago := time.Now().Add(-time.Hour)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, tc := range map[string]struct {
		of    context.Context
		err   error
		after time.Duration
		kept  bool
	}{
		"is due later":               {t.Context(), nil, time.Hour, true},
		"waits a moment":             {t.Context(), kube.Wait(time.Hour, "the earlier object is going"), 0, true},
		"waits for an event":         {t.Context(), kube.Wait(0, "the earlier object is going"), 0, true},
		"failed":                     {t.Context(), errors.New("out of luck"), 0, true},
		"is in step":                 {t.Context(), nil, 0, false},
		"waits for its user":         {t.Context(), kube.Invalid("Odd", errors.New("only you can fix it")), 0, false},
		"its user tells nobody":      {t.Context(), kube.Again(time.Hour, kube.Invalid("Odd", errors.New("only you can fix it"))), 0, false},
		"waits in a pair that ended": {stopped, kube.Wait(0, "the earlier object is going"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			k, key := newKind(Kind{Name: name}, "peer"), itemKey{pair: Pair{Local: "l", Remote: "r"}, name: "x"}
			defer k.queue.ShutDown()
			defer k.metrics.closeMetrics()
			k.settleItem(logr.Discard(), &pairKind{ctx: tc.of}, itemOf(key, tc.after), ago, false, tc.err)
			k.addItem(key, false) // what it waited for changes
			if started, _ := k.startOf(key); started.Equal(ago) != tc.kept {
				t.Errorf("it began %v ago", time.Since(started).Round(time.Minute))
			}
		})
	}
}

func TestLagOfStoppedPair(t *testing.T) {
	k := newKind(Kind{Name: "left"}, "peer")
	defer k.queue.ShutDown()
	defer k.metrics.closeMetrics()
	gone, other := itemKey{pair: Pair{Local: "gone"}, name: "x"}, itemKey{pair: Pair{Local: "other"}, name: "x"}
	for _, key := range []itemKey{gone, other} {
		k.settleItem(logr.Discard(), &pairKind{ctx: t.Context()}, itemOf(key, 0), time.Now(), false, kube.Wait(0, "the earlier object is going"))
	}
	k.leavePair(gone.pair)
	if _, ok := k.since[other]; !ok || len(k.since) != 1 {
		t.Errorf("known are %v", k.since)
	}
}

// The first time is for whoever looks after the cluster, and so is another reason.
func TestInvalidLoggedOnce(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
	k, pk := newKind(Kind{Name: "told"}, "peer"), &pairKind{ctx: t.Context()}
	defer k.queue.ShutDown()
	defer k.metrics.closeMetrics()
	odd := func(text string) error { return kube.Again(time.Hour, kube.Invalid("Odd", errors.New(text))) }
	wait := kube.Wait(time.Hour, "the earlier object is going")
	key := itemKey{pair: Pair{Local: "l", Remote: "r"}, name: "x"}
	for i, step := range []struct {
		err  error
		want string // "" for nothing
	}{
		{odd("a"), `"level"=0 "msg"="not acceptable" "reason"="Odd" "detail"="a"`},
		{odd("a"), `"level"=1 "msg"="still not acceptable" "reason"="Odd" "detail"="a"`},
		{wait, `"level"=1 "msg"="nothing changed" "reason"="the earlier object is going"`},
		{errors.Join(wait, odd("a")), `"level"=1 "msg"="still not acceptable" "reason"="Odd" "detail"="a"`},
		{odd("b"), `"level"=0 "msg"="not acceptable" "reason"="Odd" "detail"="b"`},
		{nil, ""},
		{kube.Invalid("Odd", errors.New("b")), `"level"=0 "msg"="not acceptable" "reason"="Odd" "detail"="b"`},
		{kube.Invalid("Odd", errors.New("b")), `"level"=1 "msg"="still not acceptable" "reason"="Odd" "detail"="b"`},
	} {
		lines = nil
		k.settleItem(log, pk, itemOf(key, 0), time.Now(), false, step.err)
		if got := strings.Join(lines, "\n"); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
	}
	if k.leavePair(key.pair); len(k.refused) != 0 {
		t.Errorf("of a pair that was stopped is remembered %v", k.refused)
	}
}
