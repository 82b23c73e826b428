// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// IdentityOptions configure the conversion of Identities to kubeconfigs.
type IdentityOptions struct {
	// ClusterID of this cluster, the consumer.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace holds the key pairs.
	LiqoNamespace string
	// AllowLoopbackPeers accepts kubeconfigs with a loopback address.
	AllowLoopbackPeers bool
	// Networking enables that proxies in tunnels are followed when networks change.
	Networking bool
	// FollowInterval is the minimum time between two adopted offers of a provider; 0 is 30 s.
	FollowInterval time.Duration
}

// identities converts each Identity to a kubeconfig Secret, and renews the certificate of the control plane.
type identities struct {
	client  client.Client
	direct  client.Client
	options IdentityOptions
	moves   *proxyMoves
}

// SetupIdentity registers the controller of Identities.
func SetupIdentity(mgr ctrl.Manager, o IdentityOptions) error {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	o.FollowInterval = cmp.Or(o.FollowInterval, followInterval)
	moves := &proxyMoves{interval: o.FollowInterval, last: map[liqov1beta1.ClusterID]proxyMove{}}
	i := &identities{client: mgr.GetClient(), direct: direct, options: o, moves: moves}
	kubeconfigs := labels.NewSelector().Add(labelPresent(names.IdentityType))
	secrets := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, peer.Namespaces(), kubeconfigs)
	if err := mgr.Add(secrets); err != nil {
		return fmt.Errorf("adding the watch of kubeconfigs: %w", err)
	}
	if err := kube.ExportMetrics(mgr, newExpiry(mgr.GetClient())); err != nil {
		return err
	}
	c := kube.NewController[*authv1beta1.Identity](mgr, kube.Options{Name: "identity"}, i)
	toOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &authv1beta1.Identity{}, handler.OnlyControllerOwner())
	b := c.Builder().
		Owns(&authv1beta1.Renew{}).
		WatchesRawSource(secrets.Source(toOwner)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(i.inNamespace), builder.WithPredicates(kube.NamespaceChanged))
	if o.Networking {
		b.Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(i.requestsForProvider), proxyMoved)
	}
	return c.Complete(b)
}

// Retry interval for a missing key pair, and the time after which the absence is reported. A newer certificate arrives
// as a change of the Identity: only a manually restored key pair has to be polled for.
const (
	firstKeyDelay   = 10 * time.Second
	longestKeyDelay = 5 * time.Minute
	keyPatience     = 30 * time.Second
)

// reasonNoKey is the reason of the event for a certificate without a key pair.
const reasonNoKey = "NoKeyForCertificate"

// keyDelay doubles with each look.
func keyDelay(waited time.Duration) time.Duration {
	return min(max(firstKeyDelay, waited), longestKeyDelay)
}

func waitedSince(identity *authv1beta1.Identity) time.Duration {
	return time.Since(identity.CreationTimestamp.Time)
}

// Sync renews one Identity and writes the kubeconfig. The steps are independent: the renewal uses the kubeconfig, and a renewal
// may repair the kubeconfig.
func (i *identities) Sync(ctx context.Context, identity *authv1beta1.Identity) error {
	if err := i.checkIdentity(ctx, identity); err != nil {
		return err
	}
	followed := i.followRenewal(ctx, identity)
	return errors.Join(i.writeKubeconfig(ctx, identity), followed)
}

// readKey returns the key pair of the certificate, among those used with the provider.
func (i *identities) readKey(ctx context.Context, identity *authv1beta1.Identity) (crypto.Signer, error) {
	secrets := []string{names.PeerKeysSecret(string(identity.Spec.ClusterID))}
	if identity.Spec.Type == authv1beta1.ControlPlaneIdentityType {
		secrets = append(secrets, names.KeysSecret)
	}
	return fittingKey(ctx, i.direct, i.options.LiqoNamespace, identity.Spec.AuthParams.SignedCRT, secrets...)
}

// writeKubeconfig writes the kubeconfig.
func (i *identities) writeKubeconfig(ctx context.Context, identity *authv1beta1.Identity) error {
	key, err := i.readKey(ctx, identity)
	if errors.Is(err, errNoKey) {
		// The provider may be about to sign a newer request.
		return kube.Wait(keyDelay(waitedSince(identity)), err.Error())
	}
	if err != nil {
		return err
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	proxy, err := i.readTunnelProxy(ctx, identity)
	_, _, waits := kube.WaitReason(err)
	if err != nil && !waits {
		return err
	}
	early := err
	secret, err := kubeconfigSecret(identity, proxy, private, i.options.AllowLoopbackPeers)
	if err != nil {
		return kube.Invalid("InvalidAuthParams", err)
	}
	if _, err := kube.Ensure(ctx, i.direct, secret, kube.OwnedBy(identity, i.client.Scheme())); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	identity.Status.TunnelProxy = proxy
	identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret.Name}
	return early
}

// Report emits that the kubeconfig exists, or why not.
func (i *identities) Report(identity *authv1beta1.Identity, err error) []kube.Event {
	events := append(kube.Warnings(err), expiryEvents(identity, time.Now())...)
	if reason, _, ok := kube.WaitReason(err); ok && reason == errNoKey.Error() && waitedSince(identity) >= keyPatience {
		events = append(events, kube.Event{Type: corev1.EventTypeWarning, Reason: reasonNoKey, Message: reason})
	}
	if err != nil {
		return events
	}
	return append(events, i.ReplayEvents(identity)...)
}

// ReplayEvents emits that the kubeconfig exists.
func (i *identities) ReplayEvents(identity *authv1beta1.Identity) []kube.Event {
	if identity.Status.KubeconfigSecretRef == nil {
		return nil
	}
	return []kube.Event{{Type: corev1.EventTypeNormal, Reason: "KubeconfigEnsured",
		Message: fmt.Sprintf("Secret %s holds the kubeconfig", identity.Status.KubeconfigSecretRef.Name)}}
}

func (i *identities) checkIdentity(ctx context.Context, identity *authv1beta1.Identity) error {
	var ns corev1.Namespace
	if err := i.client.Get(ctx, types.NamespacedName{Name: identity.Namespace}, &ns); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	id, ok := peer.OfNamespace(&ns)
	if !ok {
		return kube.Invalid("WrongNamespace", fmt.Errorf("namespace %s is not a tenant namespace", ns.Name))
	}
	return checkIdentity(identity, id)
}

// checkIdentity tells why no kubeconfig can be made of the Identity in the tenant namespace of a peer.
func checkIdentity(identity *authv1beta1.Identity, id liqov1beta1.ClusterID) error {
	params := &identity.Spec.AuthParams
	switch {
	case identity.Spec.ClusterID != id:
		return kube.Invalid("WrongNamespace", fmt.Errorf("spec.clusterID is %q, but the namespace is for %q", identity.Spec.ClusterID, id))
	case identity.Spec.Type != authv1beta1.ControlPlaneIdentityType && identity.Spec.Type != authv1beta1.ResourceSliceIdentityType:
		return kube.Invalid("InvalidAuthParams", fmt.Errorf("unknown type of Identity %q", identity.Spec.Type))
	case params.AwsConfig != nil && len(params.SignedCRT) == 0:
		return kube.Invalid("InvalidAuthParams", errors.New("credentials of AWS are not supported"))
	case len(params.SignedCRT) == 0:
		return kube.Invalid("InvalidAuthParams", errors.New("spec.authParams.signedCRT is missing"))
	}
	return nil
}

// maxKubeconfig bounds the data that a provider reports about itself; chains of certificates are the longest
// part.
const maxKubeconfig = 128 << 10

// kubeconfigSecret renders the Secret, with the address of a proxy in the tunnel, unless that is nil. The provider's data is validated like any kubeconfig.
func kubeconfigSecret(identity *authv1beta1.Identity, proxy *authv1beta1.TunnelProxy, key []byte, allowLoopback bool) (*corev1.Secret, error) {
	params := &identity.Spec.AuthParams
	config := pki.Kubeconfig{
		Server:      params.APIServer,
		CA:          params.CA,
		Certificate: params.SignedCRT,
		Key:         key,
		Cluster:     string(identity.Spec.ClusterID),
		User:        identity.Name,
	}
	if params.ProxyURL != nil {
		config.ProxyURL = *params.ProxyURL
	}
	if proxy != nil {
		config.ProxyURL = proxy.URL
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: identity.Namespace,
			Name:      names.KubeconfigSecret(identity.Name),
			Labels: map[string]string{
				names.RemoteClusterID: string(identity.Spec.ClusterID),
				names.IdentityType:    string(identity.Spec.Type),
			},
		},
	}
	if identity.Spec.Type == authv1beta1.ControlPlaneIdentityType {
		if identity.Spec.Namespace == nil || *identity.Spec.Namespace == "" {
			return nil, errors.New("spec.namespace is missing: the tenant namespace in the provider")
		}
		config.Namespace = *identity.Spec.Namespace
		secret.Annotations = map[string]string{names.RemoteTenantNamespace: *identity.Spec.Namespace}
	}
	encoded, err := config.Encode()
	if err != nil {
		return nil, err
	}
	if len(encoded) > maxKubeconfig {
		return nil, fmt.Errorf("checking spec.authParams: the kubeconfig would have %d bytes, more than %d", len(encoded), maxKubeconfig)
	}
	if _, err := pki.ParseKubeconfig(encoded); err != nil {
		return nil, fmt.Errorf("checking spec.authParams: %w", err)
	}
	for _, to := range []string{config.Server, config.ProxyURL} {
		if err := policy.CheckPeerURL(to, allowLoopback); to != "" && err != nil {
			return nil, fmt.Errorf("checking spec.authParams: %w", err)
		}
	}
	secret.Data = map[string][]byte{names.KubeconfigKey: encoded}
	return secret, nil
}

func (i *identities) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return kube.Requests(ctx, i.client, &authv1beta1.IdentityList{}, kube.Every, client.InNamespace(obj.GetName()))
}
