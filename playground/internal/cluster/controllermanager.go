// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"liqo.io/liqo/playground/internal/supervise"
)

// controllerManager returns the unit of the controller-manager. It ends if the bootstrap roles do not exist, so its gate opens after they
// were created.
func controllerManager(l layout) supervise.Unit {
	args := append(l.clientFlags("controller-manager"),
		fmt.Sprintf("--kube-api-qps=%d", l.ClientQPS),
		fmt.Sprintf("--kube-api-burst=%d", 2*l.ClientQPS),
		"--cluster-name="+l.Name,
		"--allocate-node-cidrs",
		"--cluster-cidr="+joinStrings(l.PodCIDRs()),
		"--service-cluster-ip-range="+joinStrings(l.ServiceCIDRs()),
		"--root-ca-file="+l.pki.Cert("ca"),
		"--service-account-private-key-file="+l.pki.Key("sa"),
		"--use-service-account-credentials",
		"--client-ca-file="+l.pki.Cert("ca"),
		"--requestheader-client-ca-file="+l.pki.Cert("front-proxy-ca"),
		"--cluster-signing-cert-file="+l.pki.Cert("ca"),
		"--cluster-signing-key-file="+l.pki.Key("ca"),
		"--cluster-signing-duration="+l.SigningDuration.String(),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
	)
	return l.unit("kube-controller-manager", l.Env(), args...)
}
