// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"strings"
	"testing"
)

func TestVirtualKubeletInvalidFlags(t *testing.T) {
	usual := []string{
		"--foreign-cluster-id=milan", "--nodename=gold", "--node-ip=$(POD_IP)", "--tenant-namespace=tenant", "--liqo-namespace=liqo",
		"--home-cluster-id=rome", "--local-podcidr=10.1.0.0/16", "--pod-reflection-workers=10", "--service-reflection-workers=3",
		"--service-reflection-type=DenyList", "--metrics-enabled=false", "--create-node=true", "--node-check-network=true", "--v=4", "-v=2",
		"--labels-not-reflected=a,b", "--enable-apiserver-support=true",
	}
	for arg, want := range map[string]string{
		"--certificate-type=kubelet":                                          "",
		"--pod-reflection-workers=$(WORKERS)":                                 "",
		"--pod-reflection-workers $(WORKERS)":                                 "",
		"--nodename=$(NODE)":                                                  "",
		"$(MORE)":                                                             "",
		"--configmap-reflection-type=Denylist":                                `the reflection type "Denylist" of ConfigMaps does not exist`,
		"--ingress-reflection-type=UsedByPods":                                `the reflection type "UsedByPods" of Ingresses does not exist`,
		"--configmaps-reflection-workers=3":                                   "unknown flag: --configmaps-reflection-workers",
		"--node-ping-interval=often":                                          "--node-ping-interval",
		"--resource-reflection=widgets:3:Never":                               "widgets",
		"--certificate-type=selfsigned":                                       `the source of certificates "selfsigned" does not exist: it can be kubelet, aws or self-signed`,
		"--metrics-enabled=true --metrics-address=everywhere":                 `the address of metrics "everywhere" is not of the form host:port or :port`,
		"--metrics-enabled=true --metrics-address=:http":                      `the address of metrics ":http" is not of the form host:port or :port`,
		"--metrics-enabled=true --metrics-address=:5872":                      "",
		"--metrics-address=everywhere":                                        "",
		"--node-extra-labels=team=blue,zone=north":                            "",
		"--node-extra-labels=team=b/w":                                        `the labels of the node: Invalid value: "b/w": a valid label must be`,
		"--node-extra-annotations=a/b/c=1":                                    `the annotations of the node: Invalid value: "a/b/c": a valid label key must`,
		"--home-api-server-host=api.example.com --home-api-server-port=https": `invalid port "https"`,
		"--home-api-server-host=api.example.com --home-api-server-port=6443":  "",
		"--home-api-server-host=api.example.com":                              "",
		"--home-api-server-host=kubernetes.default --home-api-server-port=443 --enable-apiserver-support=false": "",
		"--home-api-server-host=kubernetes":                                                      "",
		"--home-api-server-host=kubernetes --home-api-server-port=443":                           `"kubernetes" is the name of the provider's API server in its pods`,
		"--home-api-server-host=kubernetes.default --home-api-server-port=443":                   `"kubernetes.default" is the name of the provider's API server in its pods`,
		"--home-api-server-host=kubernetes.default.svc --home-api-server-port=443":               `"kubernetes.default.svc" is the name of the provider's API server in its pods`,
		"--home-api-server-host=kubernetes.default.svc.cluster.local --home-api-server-port=443": `"kubernetes.default.svc.cluster.local" is the name of the provider's API server in its pods`,
		"--home-api-server-host=kubernetes.example.com --home-api-server-port=443":               "",
		"--home-api-server-host=kubernetes.default.example.com --home-api-server-port=443":       "",
		"--peer-cache-limit=1Gi":        "",
		"--peer-cache-limit=much":       "reading --peer-cache-limit",
		"--peer-cache-limit=0":          `invalid limit "0": must be greater than 0`,
		"--node-extra-annotations=note": `invalid argument "note" for "--node-extra-annotations" flag: note must be formatted as key=value`,
	} {
		err := Check(append(usual, strings.Fields(arg)...))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
	}
}
