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

// Scheme knows every type that our processes read or write. It is complete when the program starts and never changes.
var Scheme = newScheme()

// newScheme adds our groups to the scheme of client-go, which is in every program that has a client: a second one with all
// types of Kubernetes would take more memory than our groups.
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
