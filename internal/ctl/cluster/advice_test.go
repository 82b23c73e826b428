// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net/url"
	"testing"
)

func TestAdvice(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		page string
	}{
		"unreachable": {&url.Error{Op: "Get", URL: "https://192.0.2.1:6443", Err: errors.New("connect: no route to host")}, "docs/troubleshooting.md#a-command-does-not-reach-a-cluster"},
		"interrupted": {&url.Error{Op: "Get", URL: "https://192.0.2.1:6443", Err: context.Canceled}, ""},
		"other":       {errors.New("refused"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if hint, page := adviceFor(tc.err); page != tc.page || (hint == "") != (page == "") {
				t.Errorf("%q, %q, want the page %q", hint, page, tc.page)
			}
		})
	}
}
