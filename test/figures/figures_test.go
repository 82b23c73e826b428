// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	if got := SpreadOf([]time.Duration{time.Second, 3 * time.Second}); got != (Spread{1, 3, 3}) {
		t.Errorf("got %+v", got)
	}
}

func TestAPromiseIsKeptOnTheRightSideOfItsLimit(t *testing.T) {
	for p, want := range map[Promise]bool{
		{Value: 2, Limit: 3}: true, {Value: 3, Limit: 3}: true, {Value: 4, Limit: 3}: false,
		{Value: 2, Limit: 3, Least: true}: false, {Value: 3, Limit: 3, Least: true}: true,
		{Value: math.NaN(), Limit: 3}: false, {Value: math.NaN(), Limit: 3, Least: true}: false,
	} {
		if p.Kept() != want {
			t.Errorf("%+v is kept: %v", p, !want)
		}
	}
}
