// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waitError says that something expected has not happened yet.
type waitError struct {
	after  time.Duration
	reason string
}

func (e *waitError) Error() string { return "waiting: " + e.reason }

// invalidError says that only the user can fix what is wrong.
type invalidError struct {
	reason string
	err    error
}

func (e *invalidError) Error() string { return e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// Wait reports that something expected has not happened yet. The object is looked at again after d, or, when d is zero,
// when a watch says so. It is no failure: neither logs nor metrics count it as one.
func Wait(d time.Duration, reason string) error { return &waitError{after: d, reason: reason} }

// Invalid reports what only the user can fix. It is shown and not retried; reason is the CamelCase reason of the
// condition and the event.
func Invalid(reason string, err error) error {
	if err == nil {
		err = errors.New("not acceptable")
	}
	return &invalidError{reason: reason, err: err}
}

// againError is the error of what no watch tells the end of.
type againError struct {
	error
	after error
}

// Unwrap has the error itself first, which is the one that is reported.
func (e *againError) Unwrap() []error { return []error{e.error, e.after} }

// Again is err, after which the object is looked at again after d: no watch tells when it is mended. It stays what err is: one
// that is Invalid is the user's to mend, and told.
func Again(d time.Duration, err error) error {
	return &againError{error: err, after: Wait(d, err.Error())}
}

// IsWait tells whether err, or an error it wraps, was made by Wait.
func IsWait(err error) bool {
	_, ok := errors.AsType[*waitError](err)
	return ok
}

// WaitReason returns what an error made by Wait waits for, and after which time to look again.
func WaitReason(err error) (reason string, after time.Duration, ok bool) {
	w, ok := errors.AsType[*waitError](err)
	if !ok {
		return "", 0, false
	}
	return w.reason, w.after, true
}

// InvalidReason returns the reason of an error made by Invalid.
func InvalidReason(err error) (string, bool) {
	invalid, ok := errors.AsType[*invalidError](err)
	if !ok {
		return "", false
	}
	return invalid.reason, true
}

// Trouble is what is to be told of err: of joined errors those that are waits are left out beside others, since they come and go
// while what is wrong stays.
func Trouble(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) == 0 || err.Error() != errors.Join(joined.Unwrap()...).Error() { // it says more than its parts, or less
		return err
	}
	var wrong []error
	for _, e := range joined.Unwrap() {
		if v := Judge(e); v.Failed() || v.Invalid() {
			wrong = append(wrong, Trouble(e))
		}
	}
	if len(wrong) == 0 {
		return err
	}
	return errors.Join(wrong...)
}

// outcome is what a queue should do with an object after an attempt.
type outcome int

const (
	// done: nothing to do until a watch wakes us.
	done outcome = iota
	// later: look again after a fixed time, quietly.
	later
	// invalid: nothing to do until the user changes something.
	invalid
	// failed: an error, retried with back-off.
	failed
)

const (
	conflictDelay    = 200 * time.Millisecond
	terminatingDelay = 2 * time.Second
)

// Outcome sorts the errors of one attempt for a queue: after how long to look again without any noise, whether to give
// up until the user acts, or, with neither, whether err is a failure to retry with back-off.
type Outcome struct {
	outcome outcome
	// After is the time to the next attempt of a quiet retry.
	After time.Duration
	// Reason says why nothing changed, for the log.
	Reason string
}

// Failed tells whether the attempt failed and must be retried with back-off.
func (v Outcome) Failed() bool { return v.outcome == failed }

// Invalid tells whether only the user can help.
func (v Outcome) Invalid() bool { return v.outcome == invalid }

// Judge sorts the error of one attempt. Conflicts are quiet: somebody was faster and the cache will tell us. Of several
// joined errors the one that needs most attention counts.
func Judge(err error) Outcome {
	for e := err; e != nil; {
		switch x := e.(type) {
		case *waitError:
			if x.after <= 0 {
				return Outcome{outcome: done, Reason: x.reason}
			}
			return Outcome{outcome: later, After: x.after, Reason: x.reason}
		case *invalidError:
			return Outcome{outcome: invalid, Reason: x.reason}
		case *againError:
			return Judge(x.error).withDelay(Judge(x.after).After)
		case interface{ Unwrap() []error }:
			return worstVerdict(x.Unwrap())
		case interface{ Unwrap() error }:
			e = x.Unwrap()
		default:
			return judgeStatus(err)
		}
	}
	if err == nil {
		return Outcome{outcome: done}
	}
	return judgeStatus(err)
}

// Result is what a queue is told after an attempt: only a failure is an error to it.
func Result(err error) (reconcile.Result, error) {
	verdict := Judge(err)
	if verdict.Failed() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: verdict.After}, nil
}

// worstVerdict returns the verdict that needs most attention; of two quiet retries, the time and reason of the earlier one.
func worstVerdict(errs []error) Outcome {
	var out Outcome
	for _, err := range errs {
		v := Judge(err)
		if v.outcome > out.outcome || v.outcome == later && out.outcome == later && v.After < out.After {
			v, out = out, v
		}
		out = out.withDelay(v.After)
	}
	return out
}

// withDelay has the next quiet attempt after d at the latest. Zero is no time, and a failure is not quiet.
func (v Outcome) withDelay(d time.Duration) Outcome {
	if d > 0 && v.outcome != failed && (v.After == 0 || d < v.After) {
		v.After = d
	}
	return v
}

func judgeStatus(err error) Outcome {
	switch {
	case isRace(err):
		return Outcome{outcome: later, After: conflictDelay, Reason: err.Error()}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Outcome{outcome: later, After: terminatingDelay, Reason: err.Error()}
	default:
		return Outcome{outcome: failed}
	}
}

// isRace tells whether err only says that the object changed, appeared or was replaced since we read it. A field
// conflict of server-side apply is something else: it does not go away.
func isRace(err error) bool {
	if apierrors.IsConflict(err) {
		return !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
	}
	return apierrors.IsAlreadyExists(err)
}

// BeingDeleted is the wait of those who need an object that is on its way out.
func BeingDeleted(kind, name string) error {
	return Wait(terminatingDelay, fmt.Sprintf("%s %s is being deleted", kind, name))
}
