// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Results are what came of a list of targets, short enough for the termination message of a container, which whoever may
// read the Pod may read.
type Results struct {
	// Marks has one letter for each target: a dot for one that is reached, an x for one that is not, a dash for one that there was
	// no time for.
	Marks string `json:"marks"`
	// Why says why, for as many of them as there is room for, by their place in the list.
	Why map[int]string `json:"why,omitempty"`
}

const (
	reached, missed, untried = '.', 'x', '-'

	longestMessage = 4096 // what a kubelet keeps
	longestWhy     = 160
)

// MostTargets is how many a pod may be asked about: a message has marks for all of them, and an argument room for their addresses.
const MostTargets = 1000

// NewResults puts results together.
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

// Message is the termination message. Reasons that there is no room for are left out, those of the last targets first.
func (r Results) Message() ([]byte, error) {
	short := Results{Marks: r.Marks, Why: map[int]string{}}
	message, err := json.Marshal(short)
	for i := range r.Marks {
		why, failed := r.Why[i]
		if !failed {
			continue
		}
		short.Why[i] = why
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

// ParseResults reads the message of a container that was asked about so many targets.
func ParseResults(message string, targets int) (Results, error) {
	var r Results
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return Results{}, fmt.Errorf("%q is no list of results: %w", message[:min(len(message), longestWhy)], err)
	}
	if len(r.Marks) != targets {
		return Results{}, fmt.Errorf("there are %d results for %d targets", len(r.Marks), targets)
	}
	return r, nil
}

// Errors are why each target is not reached, nil where it is.
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
		if why, said := r.Why[i]; said {
			errs[i] = errors.New(why)
		}
	}
	return errs
}

var errUnsaid = errors.New("not reached")
