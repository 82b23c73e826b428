// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	"liqo.io/liqo/playground/internal/supervise"
)

// kubelet returns the unit of the kubelet. Its serving certificate is signed by the cluster's CA, so that the API server can verify it. The
// gate opens when the API server runs, because the kubelet backs off after each failed request.
func kubelet(l layout) supervise.Unit {
	return supervise.Unit{
		Name: "kubelet",
		Argv: []string{
			l.home.KubernetesProgram(l.cluster.Release(), "kubelet"),
			"--kubeconfig=" + l.file("kubelet.kubeconfig"),
			"--config=" + l.file("kubelet.yaml"),
			"--hostname-override=" + l.Name,
			"--node-ip=" + l.addresses(),
			"--cert-dir=" + l.file("kubelet-certs"),
		},
		Env:  l.cluster.Env(),
		Gate: l.gate(),
	}
}

// kubeletConfig returns the configuration of the kubelet. Evictions are disabled, because nodes share the disk and the memory of the machine.
// 250 pods fit a /24.
func kubeletConfig(l layout) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[1]s}}
authorization: {mode: Webhook}
tlsCertFile: %[2]s
tlsPrivateKeyFile: %[3]s
clusterDNS: [%[4]q]
clusterDomain: cluster.local
resolvConf: ""
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: %[5]s
cgroupsPerQOS: true
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
protectKernelDefaults: false
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", memory.available: "50Mi"}
maxPods: 250
serializeImagePulls: false
kubeAPIQPS: 200
kubeAPIBurst: 400
enableProfilingHandler: false
`, l.pki.Cert("ca"), l.pki.Cert(l.Name), l.pki.Key(l.Name), l.cluster.DNS().String(), l.cluster.World.Cgroup(l.Name))
}
