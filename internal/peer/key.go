// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// Key returns the private key that this cluster uses with one provider, for all its certificates and proofs. Key
// returns a Wait while there is none.
func Key(ctx context.Context, c client.Reader, liqoNamespace string, provider liqov1beta1.ClusterID) (crypto.Signer, error) {
	name := types.NamespacedName{Namespace: liqoNamespace, Name: names.PeerKeysSecret(string(provider))}
	var secret corev1.Secret
	if err := c.Get(ctx, name, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, kube.Wait(time.Second, "the key pair for this provider is being created")
		}
		return nil, fmt.Errorf("reading the key pair: %w", err)
	}
	key, err := pki.ParseKey(secret.Data[names.PrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the key pair in Secret %s: %w", name, err)
	}
	return key, nil
}
