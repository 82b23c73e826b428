// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
)

// namespaced makes the Liqo namespace the default namespace for Helm.
type namespaced struct {
	genericclioptions.RESTClientGetter
	namespace string
}

func (n namespaced) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return namespacedConfig{n.RESTClientGetter.ToRawKubeConfigLoader(), n.namespace}
}

type kubeconfig = clientcmd.ClientConfig // embedded by this name, because it has a method ClientConfig

type namespacedConfig struct {
	kubeconfig
	namespace string
}

func (c namespacedConfig) Namespace() (string, bool, error) { return c.namespace, false, nil }
