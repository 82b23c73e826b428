// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// What waits a moment, and what changed in the peer and failed, comes back before the new items that were queued meanwhile.
func TestItemsThatComeBackDoNotQueueBehindNewOnes(t *testing.T) {
	failure := errors.New("the object has been modified")
	for name, tc := range map[string]struct {
		urgent bool
		err    error
		queued int
		first  string
	}{
		"waits a moment":               {false, kube.Wait(time.Millisecond, "the earlier object is going"), 2, "back"},
		"changed in the peer, failed":  {true, failure, 2, "back"},
		"new here, failed":             {false, failure, 2, "new"},
		"changed in the peer, invalid": {true, kube.Invalid("NameTaken", failure), 1, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKind(Kind{Name: name}, "peer")
			defer k.queue.ShutDown()
			back := itemKey{name: "back"}
			k.settle(logr.Discard(), &pairKind{}, back, time.Now(), tc.urgent, tc.err)
			k.add(itemKey{name: "new"}, false)
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
