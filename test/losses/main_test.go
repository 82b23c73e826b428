// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package losses peers two clusters of the playground, and ends that again, while API servers, the network and processes are lost in
// the middle. LIQO_E2E_KUBECONFIGS names the kubeconfigs of clusters a, the consumer, and b, the provider, which have not peered;
// LIQO_PLAYGROUND is the program that runs them, and LIQO_PLAYGROUND_HOME where it does.
package losses

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"liqo.io/liqo/test/clusters"
)

var consumer, provider *clusters.Cluster

func TestMain(m *testing.M) {
	if err := setUp(os.Getenv("LIQO_E2E_KUBECONFIGS")); err != nil {
		fmt.Fprintln(os.Stderr, "losses:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp installs with one replica of everything, so that whatever is killed is missed.
func setUp(kubeconfigs string) error {
	files := strings.Split(kubeconfigs, ",")
	if len(files) != 2 {
		return fmt.Errorf("LIQO_E2E_KUBECONFIGS must name two kubeconfigs, consumer,provider: it is %q", kubeconfigs)
	}
	var err error
	if consumer, err = clusters.New("cl-consumer", files[0]); err != nil {
		return err
	}
	if provider, err = clusters.New("cl-provider", files[1]); err != nil {
		return err
	}
	for _, c := range []*clusters.Cluster{consumer, provider} {
		if err := c.Install("--set", "controllerManager.replicas=1"); err != nil {
			return err
		}
	}
	return nil
}
