// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestPodsOfFailedNodesAreLeftUnlessTheFlagSaysOtherwise(t *testing.T) {
	for want, args := range map[bool][]string{false: nil, true: {"--enable-node-failure-controller"}} {
		var o controllerManagerOptions
		fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
		o.flags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if o.nodeFailure != want {
			t.Errorf("%v: %t, want %t", args, o.nodeFailure, want)
		}
	}
}

func TestQuotasAreEnforcedUnlessTheFlagSaysNo(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want bool
	}{
		"by default": {want: true},
		"on":         {args: []string{"--enable-resource-enforcement=true"}, want: true},
		"off":        {args: []string{"--enable-resource-enforcement=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			var o controllerManagerOptions
			fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
			o.flags(fs)
			if err := fs.Parse(append([]string{"--cluster-id=milan"}, test.args...)); err != nil {
				t.Fatal(err)
			}
			s, err := o.settings()
			if err != nil {
				t.Fatal(err)
			}
			if s.webhooks.EnforceResources != test.want {
				t.Errorf("enforced: %t, want %t", s.webhooks.EnforceResources, test.want)
			}
		})
	}
}
