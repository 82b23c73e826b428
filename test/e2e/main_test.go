// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tells whole stories on real clusters, which it knows by their kubeconfigs only: two of them, the consumer
// first, in LIQO_E2E_KUBECONFIGS. `make test` makes them; any others will do, once they have the image.
package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

var (
	consumer, provider *cluster
	// admissions go on while all other stories are told.
	admissions *traffic
)

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(story.Run(m, consumer.Cluster, provider.Cluster))
}

func setUp() error {
	both, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	consumer, provider = &cluster{Cluster: both[0]}, &cluster{Cluster: both[1]}
	if err := clusters.InParallel([]*cluster{consumer, provider}, func(c *cluster) (err error) {
		if c.empty, err = c.Listing(context.Background()); err != nil {
			return err
		}
		return c.install()
	}); err != nil {
		return err
	}
	admissions, err = startAdmissions(consumer)
	return err
}
