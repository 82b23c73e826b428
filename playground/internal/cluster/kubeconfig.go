// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
)

// WriteKubeconfig writes a self-contained kubeconfig for the user of a certificate.
func WriteKubeconfig(path string, c spec.Cluster, p PKI, user string) error {
	if fileExists(path) {
		return nil
	}
	var files [3][]byte
	for i, f := range []string{p.Cert("ca"), p.Cert(user), p.Key(user)} {
		data, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("reading the certificates for the kubeconfig of %s: %w", user, err)
		}
		files[i] = data
	}
	data, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{c.Name: {Server: c.Server(), CertificateAuthorityData: files[0]}},
		AuthInfos:      map[string]*api.AuthInfo{user: {ClientCertificateData: files[1], ClientKeyData: files[2]}},
		Contexts:       map[string]*api.Context{c.Name: {Cluster: c.Name, AuthInfo: user}},
		CurrentContext: c.Name,
	})
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return home.Write(path, data, 0o600)
}
