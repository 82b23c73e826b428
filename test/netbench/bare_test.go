// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"strings"
	"testing"
)

func TestUAPIEnd(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("a=1\nb=2\n\nlater"))
	got, err := paragraph(r)
	if rest, _ := r.ReadString(0); err != nil || got != "a=1\nb=2\n" || rest != "later" {
		t.Errorf("got %q, %v, and left %q", got, err, rest)
	}
	if got, err := paragraph(bufio.NewReader(strings.NewReader("a=1\n"))); err == nil {
		t.Errorf("one that was cut is %q", got)
	}
}
