// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"liqo.io/liqo/internal/kube"
)

func TestWriterHangingAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Writer
		tries := 0
		hang := func(ctx context.Context) error {
			tries++
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()
		if err := w.Write(t.Context(), hang); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != writeLimit {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		for time.Since(start) < writeLimit+writePause {
			before := time.Now()
			if err := w.Write(t.Context(), hang); kube.Classify(err).After <= 0 || time.Since(before) > 0 || tries != 1 {
				t.Fatalf("attempt %d after %s: %v, which took %s", tries, before.Sub(start), err, time.Since(before))
			}
			time.Sleep(time.Second)
		}
		refused := errors.New("refused")
		for range 2 { // an answer is no reason to wait
			if err := w.Write(t.Context(), func(context.Context) error { return refused }); err != refused {
				t.Error(err)
			}
		}
	})
}
