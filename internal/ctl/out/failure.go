// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import (
	"errors"
	"fmt"
	"slices"
)

// A Failure is an error whose text is already a sentence for the user, and what to try next.
type Failure struct {
	Hints []string
	// Scope is the scope of the line, "" for none.
	Scope string
	page  string
	err   error
}

// Fail returns a Failure. The format may wrap an error, as that of fmt.Errorf.
func Fail(format string, args ...any) *Failure { return &Failure{err: fmt.Errorf(format, args...)} }

// Hint adds something to try.
func (f *Failure) Hint(format string, args ...any) *Failure {
	f.Hints = append(f.Hints, fmt.Sprintf(format, args...))
	return f
}

// See names the part of the documentation that says more.
func (f *Failure) See(page string) *Failure {
	f.page = page
	return f
}

// Page returns the part of the documentation that says more, "" for none. That of an inner failure is about less, so it comes first.
func (f *Failure) Page() string {
	if inner, ok := errors.AsType[*Failure](f.err); ok && inner.Page() != "" {
		return inner.Page()
	}
	return f.page
}

// In says in which scope the line is printed.
func (f *Failure) In(scope string) *Failure {
	f.Scope = scope
	return f
}

// All are the hints of the failure, and of those that it wraps.
func (f *Failure) All() []string {
	all := slices.Clone(f.Hints)
	if inner, ok := errors.AsType[*Failure](f.err); ok {
		all = append(all, inner.All()...)
	}
	return all
}

func (f *Failure) Error() string { return f.err.Error() }

func (f *Failure) Unwrap() error { return f.err }
