// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestNodeFailureFlag(t *testing.T) {
	for want, args := range map[bool][]string{false: nil, true: {"--enable-node-failure-controller"}} {
		var o controllerManagerOptions
		fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
		o.addFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if o.nodeFailure != want {
			t.Errorf("%v: %t, want %t", args, o.nodeFailure, want)
		}
	}
}

func TestQuotaFlag(t *testing.T) {
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
			o.addFlags(fs)
			if err := fs.Parse(append([]string{"--cluster-id=milan"}, test.args...)); err != nil {
				t.Fatal(err)
			}
			s, err := o.parseSettings()
			if err != nil {
				t.Fatal(err)
			}
			if s.webhooks.EnforceResources != test.want {
				t.Errorf("enforced: %t, want %t", s.webhooks.EnforceResources, test.want)
			}
		})
	}
}

func TestHealthCheckFlags(t *testing.T) {
	var manager controllerManagerOptions
	var output bytes.Buffer
	fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	fs.SetOutput(&output)
	manager.addFlags(fs)
	if err := fs.Parse([]string{"--foreign-cluster-ping-interval=0", "--foreign-cluster-ping-timeout=1s"}); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"foreign-cluster-ping-interval", "foreign-cluster-ping-timeout"} {
		if !strings.Contains(output.String(), flag+" has been deprecated, no effect in this process: set it for the crd-replicator") {
			t.Errorf("nothing is told of %s: %q", flag, output.String())
		}
	}
	for text, want := range map[string]time.Duration{"": 15 * time.Second, "--foreign-cluster-ping-interval=1m": time.Minute, "--foreign-cluster-ping-interval=0": -1} {
		var o crdReplicatorOptions
		fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
		o.addFlags(fs)
		if err := fs.Parse(strings.Fields("--cluster-id=milan " + text)); err != nil {
			t.Fatal(err)
		}
		if got := o.replicatorOptions().HealthInterval; got != want {
			t.Errorf("%s: each %s, want %s", text, got, want)
		}
	}
}

func TestPrefixPoolFlags(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8,192.168.0.0/16": "",
		"":                          "",
		"10.0.0.0/8,10.1.0.0/16":    "reading --pools: 10.0.0.0/8 and 10.1.0.0/16 overlap",
		"10.0.0.1/8":                `reading --pools: "10.0.0.1/8": did you mean "10.0.0.0/8"?`,
		"ten":                       `reading --pools: "ten" is not an address range`,
	} {
		var o controllerManagerOptions
		fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
		o.addFlags(fs)
		if err := fs.Parse([]string{"--cluster-id=milan", "--pools=" + text}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := o.parseSettings(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
