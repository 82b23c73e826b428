// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func plan() (*Plan, *bytes.Buffer) {
	var stderr bytes.Buffer
	return NewPlan(NewPrinter(strings.NewReader(""), &bytes.Buffer{}, &stderr)), &stderr
}

// takes is a step that takes as long, and ends so.
func takes(d time.Duration, name string, end error) StepFunc {
	return func(ctx context.Context, printer *Printer) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", name, ctx.Err())
		}
		if end == nil {
			printer.Success("%s", name)
		}
		return end
	}
}

func TestPlanConcurrentSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stderr := plan()
		slow := p.Add(takes(3*time.Second, "slow", nil))
		p.Add(takes(time.Second, "quick", nil))
		p.Add(takes(time.Second, "after slow", nil), slow)
		p.Add(takes(2*time.Second, "middle", nil))
		start := time.Now()
		if err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		if got, want := stderr.String(), " INFO  slow\n INFO  quick\n INFO  after slow\n INFO  middle\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPlanFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stderr := plan()
		cause := errors.New("no such thing")
		slow := p.Add(takes(time.Hour, "slow", nil))
		p.Add(takes(time.Second, "quick", nil))
		p.Add(takes(2*time.Second, "", cause))
		p.Add(takes(time.Second, "never", nil), slow)
		start := time.Now()
		if err := p.Run(t.Context()); err != cause || time.Since(start) != 2*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		if stderr.Len() > 0 {
			t.Errorf("it said %q", stderr)
		}
	})
}

func TestPlanTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := plan()
		p.Add(takes(time.Second, "done", nil))
		p.Add(takes(time.Hour, "one", nil))
		p.Add(takes(time.Hour, "two", nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Run(ctx); err == nil || err.Error() != "one: "+context.DeadlineExceeded.Error() {
			t.Errorf("got %v", err)
		}
	})
}

// TestPlanInterruptedRequest has the time end during a request of one step, while another says what it waits for.
func TestPlanInterruptedRequest(t *testing.T) {
	reads := func(ctx context.Context, _ *Printer) error {
		<-ctx.Done()
		return &url.Error{Op: "Get", URL: "https://rome", Err: ctx.Err()}
	}
	for _, waits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, _ := plan()
			p.Add(reads)
			want := "Get \"https://rome\": " + context.DeadlineExceeded.Error()
			if waits {
				p.Add(takes(time.Hour, "one", nil))
				want = "one: " + context.DeadlineExceeded.Error()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := p.Run(ctx); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestPlanEmpty(t *testing.T) {
	p, _ := plan()
	if err := p.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
