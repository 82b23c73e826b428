// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Scheme contains every API type that Liqo reads or writes. Scheme is complete when the program starts and never
// changes.
var Scheme = newScheme()

// newScheme adds the API groups of Liqo to the scheme of client-go, which every program with a client links anyway: a
// second scheme with all Kubernetes types would take more memory than the groups of Liqo.
func newScheme() *runtime.Scheme {
	scheme := clientgoscheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		authv1beta1.AddToScheme,
		ipamv1alpha1.AddToScheme,
		liqov1beta1.AddToScheme,
		networkingv1beta1.AddToScheme,
		offv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Errorf("registering API types: %w", err))
		}
	}
	return scheme
}
