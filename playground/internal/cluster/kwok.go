// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	_ "embed"
	"fmt"

	"liqo.io/liqo/playground/internal/supervise"
)

// kwokStages are the state changes of simulated nodes and their pods. With a configuration file kwok has no default stages.
//
//go:embed kwok-stages.yaml
var kwokStages string

// kwok returns the unit of kwok, which simulates kubelets. It uses the administrator's kubeconfig.
func kwok(l layout) supervise.Unit {
	u := l.unit("kwok", l.Env(), "--kubeconfig="+l.kubeconfig("admin"), "--config="+l.file("kwok.yaml"))
	u.Argv[0] = l.home.Program("kwok")
	return u
}

// kwokConfig returns the configuration of kwok, with a parallelism that does not limit benchmarks.
func kwokConfig(l layout) string {
	return fmt.Sprintf(`apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: false
  manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake
  nodeIP: %s
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 4
  nodePlayStageParallelism: 4
  podPlayStageParallelism: 64
  podsOnNodeSyncParallelism: 64
---
%s`, l.ControlPlane().Addresses[0], kwokStages)
}
