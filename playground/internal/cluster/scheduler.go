// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"liqo.io/liqo/playground/internal/supervise"
)

// scheduler returns the unit of the scheduler. The rate of its client can be set by a file only.
func scheduler(l layout) supervise.Unit {
	return l.unit("kube-scheduler", l.Env(),
		"--config="+l.file("scheduler.yaml"),
		"--authentication-kubeconfig="+l.kubeconfig("scheduler"),
		"--authorization-kubeconfig="+l.kubeconfig("scheduler"),
		"--client-ca-file="+l.pki.Cert("ca"),
		"--requestheader-client-ca-file="+l.pki.Cert("front-proxy-ca"),
		"--cert-dir="+l.file("certs", "scheduler"),
	)
}

func schedulerConfig(l layout) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s, qps: %d, burst: %d}
leaderElection: {leaderElect: false}
enableProfiling: false
`, l.kubeconfig("scheduler"), l.ClientQPS, 2*l.ClientQPS)
}
