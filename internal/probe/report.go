// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Results are the results of a list of targets, short enough for the termination message of a container. The message is readable by every reader of
// the Pod.
type Results struct {
	// Marks has one character per target: a dot if reached, an x if not, a dash if not tried for lack of time.
	Marks string `json:"marks"`
	// Why maps the index of a target to its error, for as many as fit.
	Why map[int]string `json:"why,omitempty"`
}

const (
	reached, missed, untried = '.', 'x', '-'

	longestMessage = 4096 // limit of a kubelet
	longestWhy     = 160
)

// MostTargets is the limit of targets per pod: the message must hold a mark for each, and the arguments their addresses.
const MostTargets = 1000

// NewResults returns the results for the errors of Ask.
func NewResults(errs []error) Results {
	var marks strings.Builder
	r := Results{Why: map[int]string{}}
	for i, err := range errs {
		if err == nil {
			marks.WriteByte(reached)
			continue
		}
		if errors.Is(err, ErrUntried) {
			marks.WriteByte(untried)
			continue
		}
		marks.WriteByte(missed)
		r.Why[i] = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), longestWhy)], "")
	}
	r.Marks = marks.String()
	return r
}

// Message returns the termination message. Errors beyond the limit are left out, first the errors of the last targets.
func (r Results) Message() ([]byte, error) {
	short := Results{Marks: r.Marks, Why: map[int]string{}}
	message, err := json.Marshal(short)
	for i := range r.Marks {
		reason, failed := r.Why[i]
		if !failed {
			continue
		}
		short.Why[i] = reason
		longer, err := json.Marshal(short)
		if err != nil {
			return nil, err
		}
		if len(longer) > longestMessage {
			break
		}
		message = longer
	}
	return message, err
}

// ParseResults parses the termination message of a container for a known number of targets.
func ParseResults(message string, targets int) (Results, error) {
	var r Results
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return Results{}, fmt.Errorf("%q is not a list of results: %w", message[:min(len(message), longestWhy)], err)
	}
	if len(r.Marks) != targets {
		return Results{}, fmt.Errorf("there are %d results for %d targets", len(r.Marks), targets)
	}
	return r, nil
}

// Errors returns an error per target, nil if reached.
func (r Results) Errors() []error {
	errs := make([]error, len(r.Marks))
	for i, mark := range r.Marks {
		switch mark {
		case reached:
			continue
		case untried:
			errs[i] = ErrUntried
			continue
		}
		errs[i] = errUnsaid
		if reason, known := r.Why[i]; known {
			errs[i] = errors.New(reason)
		}
	}
	return errs
}

var errUnsaid = errors.New("not reached")
