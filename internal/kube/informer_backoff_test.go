// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestInformerForbiddenBackoff(t *testing.T) {
	forbidden := fmt.Errorf("failed to list: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil))
	ended, stop := context.WithCancel(t.Context())
	stop()
	for name, tc := range map[string]struct {
		optional bool
		err      error
		want     time.Duration
	}{
		"a missing right":                   {true, forbidden, watchForbiddenMax},
		"one that must come":                {false, forbidden, watchRetryMax},
		"another failure":                   {true, errors.New("connection refused"), watchRetryMax},
		"another failure of what must come": {false, errors.New("connection refused"), watchRetryMax},
	} {
		f := &Informer{options: InformerOptions{Optional: tc.optional}}
		wait := watchRetryMin
		for range 20 {
			wait = f.backOff(ended, wait, tc.err)
		}
		if wait != tc.want {
			t.Errorf("%s: waits %s at last, want %s", name, wait, tc.want)
		}
	}
}
