// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package losses peers two clusters of the playground, and ends that again, while API servers, the network and processes are lost in
// the middle. LIQO_E2E_KUBECONFIGS names the kubeconfigs of clusters a, the consumer, and b, the provider, which have not peered;
// LIQO_PLAYGROUND is the program that runs them, and LIQO_PLAYGROUND_HOME where it does.
package losses

import (
	"fmt"
	"os"
	"testing"

	"liqo.io/liqo/test/clusters"
)

var consumer, provider *clusters.Cluster

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "losses:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp installs with one replica of everything, so that whatever is killed is missed.
func setUp() error {
	both, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	consumer, provider = both[0], both[1]
	for _, c := range both {
		if err := c.Install("--set", "controllerManager.replicas=1"); err != nil {
			return err
		}
	}
	return nil
}
