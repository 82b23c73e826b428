// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"errors"
	"fmt"
	"slices"
)

// Failure is an error whose text is a sentence for the user, with hints.
type Failure struct {
	Hints []string
	// Scope is the scope of the line, "" for none.
	Scope string
	page  string
	err   error
}

// Fail returns a Failure. As in fmt.Errorf, the format may wrap an error.
func Fail(format string, args ...any) *Failure { return &Failure{err: fmt.Errorf(format, args...)} }

// Hint adds a hint.
func (f *Failure) Hint(format string, args ...any) *Failure {
	f.Hints = append(f.Hints, fmt.Sprintf(format, args...))
	return f
}

// See adds a reference to the documentation.
func (f *Failure) See(page string) *Failure {
	f.page = page
	return f
}

// Page returns the part of the documentation about the failure, "" for none. A wrapped failure, which is closer to the cause, takes precedence.
func (f *Failure) Page() string {
	if inner, ok := errors.AsType[*Failure](f.err); ok && inner.Page() != "" {
		return inner.Page()
	}
	return f.page
}

// In sets the scope of the printed line.
func (f *Failure) In(scope string) *Failure {
	f.Scope = scope
	return f
}

// All returns the hints of the failure, and of all wrapped failures.
func (f *Failure) All() []string { return AllHints(f) }

// AllHints returns the hints of all failures in an error, also in an error of errors.Join, each hint once.
func AllHints(err error) (all []string) {
	add := func(hints []string) {
		for _, hint := range hints {
			if !slices.Contains(all, hint) {
				all = append(all, hint)
			}
		}
	}
	if f, ok := err.(*Failure); ok {
		add(f.Hints)
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		add(AllHints(err.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			add(AllHints(one))
		}
	}
	return all
}

func (f *Failure) Error() string { return f.err.Error() }

func (f *Failure) Unwrap() error { return f.err }
