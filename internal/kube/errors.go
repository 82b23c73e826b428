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

// waitError reports that an expected change has not happened yet.
type waitError struct {
	after  time.Duration
	reason string
}

func (e *waitError) Error() string { return "waiting: " + e.reason }

// invalidError reports a problem that only the user can fix.
type invalidError struct {
	reason string
	err    error
}

func (e *invalidError) Error() string { return e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// Wait returns an error for an expected change that has not happened yet. The object is requeued after d, or, if d is
// zero, reconciled at the next watch event. A Wait is no failure, neither in logs nor in metrics.
func Wait(d time.Duration, reason string) error { return &waitError{after: d, reason: reason} }

// Invalid returns an error that only the user can fix. The error is shown and not retried; reason is the CamelCase
// reason of the condition and the event.
func Invalid(reason string, err error) error {
	if err == nil {
		err = errors.New("not acceptable")
	}
	return &invalidError{reason: reason, err: err}
}

// againError is an error to be retried after a delay, because no watch event follows the fix.
type againError struct {
	error
	after error
}

// Unwrap returns the error itself first: the first error is reported.
func (e *againError) Unwrap() []error { return []error{e.error, e.after} }

// Again returns err with a requeue after d, for a problem whose fix causes no watch event. The class of err stays the
// same: an Invalid error remains the user's to fix, and is recorded as an event.
func Again(d time.Duration, err error) error {
	return &againError{error: err, after: Wait(d, err.Error())}
}

// IsWait reports whether err, or an error that err wraps, was made by Wait.
func IsWait(err error) bool {
	_, ok := errors.AsType[*waitError](err)
	return ok
}

// WaitReason returns the reason and the requeue delay of an error made by Wait.
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

// Problem returns the part of err to report: of joined errors, waits are dropped if other errors remain, because waits
// come and go while the problem stays.
func Problem(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) == 0 || err.Error() != errors.Join(joined.Unwrap()...).Error() { // the message is not the plain join of its parts
		return err
	}
	var wrong []error
	for _, e := range joined.Unwrap() {
		if v := Classify(e); v.Failed() || v.Invalid() {
			wrong = append(wrong, Problem(e))
		}
	}
	if len(wrong) == 0 {
		return err
	}
	return errors.Join(wrong...)
}

// outcome is the class of an attempt's error, for the work queue.
type outcome int

const (
	// done: no requeue until the next watch event.
	done outcome = iota
	// later: requeue after a fixed delay, without an error.
	later
	// invalid: no requeue until the user changes an object.
	invalid
	// failed: an error, retried with backoff.
	failed
)

const (
	conflictDelay    = 200 * time.Millisecond
	terminatingDelay = 2 * time.Second
)

// Outcome is the classified error of one attempt: requeue after a delay without an error, give up until the user acts,
// or, if neither, retry a failure with backoff.
type Outcome struct {
	outcome outcome
	// After is the requeue delay of a quiet retry.
	After time.Duration
	// Reason is why nothing changed, for the log.
	Reason string
}

// Failed reports whether the attempt failed and must be retried with backoff.
func (v Outcome) Failed() bool { return v.outcome == failed }

// Invalid reports whether only the user can fix the error.
func (v Outcome) Invalid() bool { return v.outcome == invalid }

// Classify classifies the error of one attempt. Conflicts are quiet: another writer was faster, and the cache will show
// the new version. Of several joined errors the most severe one counts.
func Classify(err error) Outcome {
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
			return Classify(x.error).withDelay(Classify(x.after).After)
		case interface{ Unwrap() []error }:
			return worstOutcome(x.Unwrap())
		case interface{ Unwrap() error }:
			e = x.Unwrap()
		default:
			return classifyStatus(err)
		}
	}
	if err == nil {
		return Outcome{outcome: done}
	}
	return classifyStatus(err)
}

// Result converts the error of an attempt to a reconcile result: only a failure is returned as an error.
func Result(err error) (reconcile.Result, error) {
	result := Classify(err)
	if result.Failed() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: result.After}, nil
}

// worstOutcome returns the most severe outcome; of two quiet retries, the delay and reason of the earlier one.
func worstOutcome(errs []error) Outcome {
	var out Outcome
	for _, err := range errs {
		v := Classify(err)
		if v.outcome > out.outcome || v.outcome == later && out.outcome == later && v.After < out.After {
			v, out = out, v
		}
		out = out.withDelay(v.After)
	}
	return out
}

// withDelay limits the delay of the next quiet retry to d. Zero is no delay, and failures use backoff instead.
func (v Outcome) withDelay(d time.Duration) Outcome {
	if d > 0 && v.outcome != failed && (v.After == 0 || d < v.After) {
		v.After = d
	}
	return v
}

func classifyStatus(err error) Outcome {
	switch {
	case isRace(err):
		return Outcome{outcome: later, After: conflictDelay, Reason: err.Error()}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Outcome{outcome: later, After: terminatingDelay, Reason: err.Error()}
	default:
		return Outcome{outcome: failed}
	}
}

// isRace reports whether err only means that the object was changed, created or replaced since the read. A field
// conflict of server-side apply is no race: a retry fails again.
func isRace(err error) bool {
	if apierrors.IsConflict(err) {
		return !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
	}
	return apierrors.IsAlreadyExists(err)
}

// BeingDeleted returns the Wait for an object that is terminating.
func BeingDeleted(kind, name string) error {
	return Wait(terminatingDelay, fmt.Sprintf("%s %s is being deleted", kind, name))
}
