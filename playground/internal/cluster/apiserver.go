// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "liqo.io/liqo/playground/internal/supervise"

// apiServer returns the unit of the API server, which listens on all addresses of the first node. It accepts only kubelets, also virtual
// ones, whose serving certificate was signed by the cluster's CA.
func apiServer(l layout) supervise.Unit {
	args := []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + l.ControlPlane().Addresses[0].String(),
		"--secure-port=6443",
		"--service-cluster-ip-range=" + joinStrings(l.ServiceCIDRs()),
		"--allow-privileged",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--event-ttl=1h",
		"--profiling=false",
		"--cert-dir=" + l.file("certs", "apiserver"),
		"--client-ca-file=" + l.pki.Cert("ca"),
		"--tls-cert-file=" + l.pki.Cert("apiserver"),
		"--tls-private-key-file=" + l.pki.Key("apiserver"),
		"--kubelet-certificate-authority=" + l.pki.Cert("ca"),
		"--kubelet-client-certificate=" + l.pki.Cert("apiserver-kubelet"),
		"--kubelet-client-key=" + l.pki.Key("apiserver-kubelet"),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + l.pki.Key("sa"),
		"--service-account-key-file=" + string(l.pki) + "/sa.pub",
		"--requestheader-client-ca-file=" + l.pki.Cert("front-proxy-ca"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + l.pki.Cert("front-proxy"),
		"--proxy-client-key-file=" + l.pki.Key("front-proxy"),
	}
	if l.Audit {
		args = append(args, auditFlags(l)...)
	}
	return l.unit("kube-apiserver", l.Env(), append(args, l.APIServerArgs...)...)
}

// auditPolicy records the metadata of requests, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
`

// auditFlags returns the flags of the audit log. Without a maximum wait the API server uses a whole core.
func auditFlags(l layout) []string {
	return []string{
		"--audit-policy-file=" + l.file("audit.yaml"),
		"--audit-log-path=" + l.file("log", "audit.log"),
		"--audit-log-maxsize=100000",
		"--audit-log-mode=batch",
		"--audit-log-batch-max-size=400",
		"--audit-log-batch-buffer-size=200000",
		"--audit-log-batch-throttle-enable=false",
		"--audit-log-batch-max-wait=500ms",
	}
}
