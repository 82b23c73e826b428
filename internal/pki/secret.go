// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Gateway names a GatewayServer or GatewayClient, or a gateway without such an object, in the namespace of the gateway's
// keys.
type Gateway struct{ Kind, Name string }

// MadeFor returns the gateway that owns the Secret and for which the keys were generated; the zero value for keys of
// another origin.
func MadeFor(secret *corev1.Secret) Gateway {
	of := metav1.GetControllerOf(secret)
	if of == nil || schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).Group != networkingv1beta1.GroupName {
		return Gateway{}
	}
	return Gateway{of.Kind, of.Name}
}

// OnlyTunnelSecret returns the Secret for a gateway without a named one, of the Secrets labelled for its peer, or nil. Secrets being
// deleted are excluded. Secrets of other gateways are excluded, too, because they are deleted with these gateways. With several
// candidates the result is nil, because a guess could be wrong.
func OnlyTunnelSecret(peer string, by Gateway, labelled []corev1.Secret) (*corev1.Secret, error) {
	var found []string
	var only *corev1.Secret
	for i := range labelled {
		of := MadeFor(&labelled[i])
		if labelled[i].DeletionTimestamp.IsZero() && (of == by || of == Gateway{}) {
			only, found = &labelled[i], append(found, labelled[i].Name)
		}
	}
	if len(found) < 2 {
		return only, nil
	}
	slices.Sort(found)
	return nil, fmt.Errorf("several Secrets have keys for %s: %s; keep one, or name it in spec.secretRef", peer, strings.Join(found, ", "))
}

// CheckTunnelSecret returns the public key of a Secret usable by the gateway to a peer, or why the Secret is unusable. Nothing of
// the private key is revealed.
func CheckTunnelSecret(peer string, secret *corev1.Secret) ([tunnelKeySize]byte, error) {
	if of := secret.Labels[names.RemoteClusterID]; of != "" && of != peer {
		return [tunnelKeySize]byte{}, fmt.Errorf("the Secret %s has keys for %q, and this gateway is for %q", secret.Name, of, peer)
	}
	public, err := tunnelPair(secret.Data)
	if err != nil {
		return public, fmt.Errorf("the Secret %s: %w", secret.Name, err)
	}
	return public, nil
}

// tunnelPair returns the public key of a pair, whose public half may be missing.
func tunnelPair(data map[string][]byte) (public [tunnelKeySize]byte, err error) {
	half, ok := data[names.PrivateKeyKey]
	if !ok {
		return public, fmt.Errorf("it has no %s", names.PrivateKeyKey)
	}
	private, err := ParseTunnelKey(half)
	if err != nil {
		return public, fmt.Errorf("reading %s: %w", names.PrivateKeyKey, err)
	}
	if public, err = TunnelPublicKey(private); err != nil {
		return public, err
	}
	shown := data[names.PublicKeyKey]
	if len(shown) == 0 {
		return public, nil
	}
	published, err := ParseTunnelPublicKey(shown)
	if err != nil {
		return public, fmt.Errorf("reading %s: %w", names.PublicKeyKey, err)
	}
	if published != public {
		return public, errors.New(names.PublicKeyKey + " does not belong to " + names.PrivateKeyKey)
	}
	return public, nil
}
