// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package certissuer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// Server is the API server as published to peers.
type Server struct {
	// Address is host:port or a URL; empty selects a control-plane node.
	Address string
	// CA of the server, PEM; nil for the CA of our own connection.
	CA []byte
	// TrustedCA is true if peers need no CA, because a public CA signed the server's certificate.
	TrustedCA bool
}

// Complete sets the defaults.
func (s *Server) Complete(mgr ctrl.Manager) error {
	switch {
	case s.TrustedCA:
		s.CA = nil
	case len(s.CA) == 0:
		cfg := rest.CopyConfig(mgr.GetConfig())
		if err := rest.LoadTLSFiles(cfg); err != nil {
			return fmt.Errorf("reading the certificate authority of the API server: %w", err)
		}
		s.CA = cfg.CAData
	}
	return nil
}

// Params returns the credentials of a peer without the certificate. proxy is nil or empty for none.
func (s *Server) Params(nodes []corev1.Node, proxy *string) (*authv1beta1.AuthParams, error) {
	url, err := policy.APIServerURL(s.Address, nodes)
	if err != nil {
		return nil, err
	}
	out := &authv1beta1.AuthParams{CA: s.CA, APIServer: url}
	if proxy != nil && *proxy != "" {
		out.ProxyURL = proxy
	}
	return out, nil
}

// Moved passes changes of the API server's address, and no heartbeats of nodes.
func (s *Server) Moved() predicate.Predicate {
	concerns := func(obj client.Object) bool {
		node, ok := obj.(*corev1.Node)
		return ok && s.Address == "" && policy.IsControlPlane(node)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return concerns(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return concerns(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return concerns(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, alsoOK := e.ObjectNew.(*corev1.Node)
			if !ok || !alsoOK || s.Address != "" {
				return false
			}
			return policy.IsControlPlane(before) != policy.IsControlPlane(after) ||
				policy.IsControlPlane(after) && !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
		},
	}
}
