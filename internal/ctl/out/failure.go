// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package out

import "fmt"

// A Failure is an error whose text is already a sentence for the user, and what to try next.
type Failure struct {
	Hints []string
	err   error
}

// Fail returns a Failure. The format may wrap an error, as that of fmt.Errorf.
func Fail(format string, args ...any) *Failure { return &Failure{err: fmt.Errorf(format, args...)} }

// Hint adds something to try.
func (f *Failure) Hint(format string, args ...any) *Failure {
	f.Hints = append(f.Hints, fmt.Sprintf(format, args...))
	return f
}

func (f *Failure) Error() string { return f.err.Error() }

func (f *Failure) Unwrap() error { return f.err }
