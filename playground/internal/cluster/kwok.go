// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	_ "embed"
	"fmt"

	"liqo.io/liqo/playground/internal/supervise"
)

// kwokStages say what simulated nodes and their pods go through. kwok brings none once it has a configuration file.
//
//go:embed kwok-stages.yaml
var kwokStages string

// kwok pretends to be the kubelets of nodes that nobody runs. It acts for the administrator.
func kwok(l layout) supervise.Unit {
	return l.unit("kwok", l.Env(), "--kubeconfig="+l.kubeconfig("admin"), "--config="+l.file("kwok.yaml"))
}

// kwokConfig lets kwok handle many pods at once, so that what is measured is not the simulation.
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
