// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"bytes"
	"context"
	"crypto"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/kube"

	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// identityFor returns the name of the existing or new Identity for a provider. It fails beside kubeconfig Secrets made by hand: with two credentials
// for one provider, neither would be used.
func identityFor(ctx context.Context, s *cluster.Cluster, provider string) (string, error) {
	if s.Missing {
		return names.ControlPlaneIdentity(provider), nil
	}
	kubeconfigs, err := controlPlaneSecrets(ctx, s, provider)
	if err != nil {
		return "", err
	}
	for i := range kubeconfigs {
		if secret := &kubeconfigs[i]; metav1.GetControllerOf(secret) == nil && secret.DeletionTimestamp == nil {
			return "", ui.Fail("the Secret %s has credentials for %s that were made by hand", client.ObjectKeyFromObject(secret), provider).
				Hint("They are of use as they are: to have others, delete it first")
		}
	}
	var all authv1beta1.IdentityList
	if err := s.Kube.List(ctx, &all, client.InNamespace(s.Namespace), client.MatchingLabels{names.RemoteClusterID: provider}); err != nil {
		return "", fmt.Errorf("looking for Identities: %w", err)
	}
	var found []string
	for i := range all.Items {
		if all.Items[i].Spec.Type == authv1beta1.ControlPlaneIdentityType && all.Items[i].DeletionTimestamp == nil {
			found = append(found, all.Items[i].Name)
		}
	}
	switch len(found) {
	case 0:
		return names.ControlPlaneIdentity(provider), nil
	case 1:
		return found[0], nil
	}
	return "", ui.Fail("several Identities for %s exist in namespace %s: %s", provider, s.Namespace, strings.Join(found, ", ")).Hint("Delete all but one of them")
}

// controlPlaneSecrets returns the Secrets with a kubeconfig of the control plane of a provider.
func controlPlaneSecrets(ctx context.Context, s *cluster.Cluster, provider string) ([]corev1.Secret, error) {
	var all corev1.SecretList
	if err := s.Kube.List(ctx, &all, client.InNamespace(s.Namespace),
		client.MatchingLabels{names.RemoteClusterID: provider, names.IdentityType: string(authv1beta1.ControlPlaneIdentityType)}); err != nil {
		return nil, fmt.Errorf("looking for credentials: %w", err)
	}
	return all.Items, nil
}

// newIdentity returns the Identity for a provider after the provider accepted the Tenant.
func newIdentity(at client.ObjectKey, provider string, tenant *authv1beta1.Tenant) *authv1beta1.Identity {
	identity := &authv1beta1.Identity{
		ObjectMeta: network.PeerMeta(at, provider),
		Spec: authv1beta1.IdentitySpec{
			ClusterID: liqov1beta1.ClusterID(provider), Type: authv1beta1.ControlPlaneIdentityType,
			AuthParams: *tenant.Status.AuthParams.DeepCopy(), Namespace: &tenant.Status.TenantNamespace,
		},
	}
	identity.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("Identity"))
	return identity
}

// checkIdentity fails if no kubeconfig can be made of an Identity and the key. The content is untrusted input from the provider.
func checkIdentity(identity *authv1beta1.Identity, key crypto.Signer) error {
	params := identity.Spec.AuthParams
	if params.APIServer == cluster.Assigned {
		return nil
	}
	if len(params.SignedCRT) == 0 {
		return ui.Fail("the provider issued unsupported credentials: no certificate")
	}
	if err := pki.CheckCertificate(params.SignedCRT, key.Public()); err != nil {
		return ui.Fail("the certificate that the provider gave is of no use: %w", err)
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	config := pki.Kubeconfig{
		Server: params.APIServer, CA: params.CA, Certificate: params.SignedCRT, Key: private,
		Cluster: string(identity.Spec.ClusterID), User: identity.Name, Namespace: *identity.Spec.Namespace,
	}
	if params.ProxyURL != nil {
		config.ProxyURL = *params.ProxyURL
	}
	encoded, err := config.Encode()
	if err == nil {
		_, err = pki.ParseKubeconfig(encoded)
	}
	if err != nil {
		return ui.Fail("using the parameters of the provider: %w", err)
	}
	return nil
}

// awaitKubeconfig waits until the kubeconfig of an Identity exists and is up to date.
func awaitKubeconfig(ctx context.Context, s *cluster.Cluster, identity client.ObjectKey) error {
	secrets := client.ObjectKey{Namespace: identity.Namespace, Name: names.KubeconfigSecret(identity.Name)}
	return kube.WaitUntil(ctx, s.Kube, func(ctx context.Context) error {
		now := &authv1beta1.Identity{}
		if err := s.Kube.Get(ctx, identity, now); apierrors.IsNotFound(err) {
			return fmt.Errorf("the Identity %s was deleted while waiting", identity)
		} else if err != nil {
			return err
		}
		missing := kube.Pending(fmt.Sprintf("the Identity %s does not have a kubeconfig secret reference: is liqo-controller-manager running?", identity))
		if now.Status.KubeconfigSecretRef == nil {
			return missing
		}
		secret := &corev1.Secret{}
		if err := s.Kube.Get(ctx, client.ObjectKey{Namespace: identity.Namespace, Name: now.Status.KubeconfigSecretRef.Name}, secret); apierrors.IsNotFound(err) {
			return missing
		} else if err != nil {
			return fmt.Errorf("reading the kubeconfig: %w", err)
		}
		if !upToDate(secret, now) {
			return kube.Pending(fmt.Sprintf("the kubeconfig of the Identity %s is an earlier one", identity))
		}
		return nil
	}, kube.WatchOne(&authv1beta1.IdentityList{}, identity), kube.WatchOne(&corev1.SecretList{}, secrets))
}

func upToDate(secret *corev1.Secret, of *authv1beta1.Identity) bool {
	config, err := pki.ParseKubeconfig(secret.Data[names.KubeconfigKey])
	if err != nil || secret.DeletionTimestamp != nil {
		return false
	}
	params, proxy := of.Spec.AuthParams, ""
	if params.ProxyURL != nil {
		proxy = *params.ProxyURL
	}
	if tunnel := of.Status.TunnelProxy; tunnel != nil && tunnel.ConfiguredURL == proxy {
		proxy = tunnel.URL
	}
	return bytes.Equal(config.Certificate, params.SignedCRT) && bytes.Equal(config.CA, params.CA) && config.Server == params.APIServer && config.ProxyURL == proxy
}
