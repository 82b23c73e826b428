// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// Reasons of the events of an Identity that cannot adopt the provider's offer.
const (
	reasonRenewTaken   = "RenewTaken"
	reasonRenewRefused = "RenewalUnusable"
)

// followInterval is the minimum time between two adopted offers: each changes the kubeconfig, and every client of the
// provider reconnects. The provider controls how often the offer changes. No signer renews faster.
const followInterval = 30 * time.Second

// followedIdentity is the last adopted offer, and the time of the last change; no time means long ago, or never.
type followedIdentity struct {
	hash string
	at   time.Time
}

func (f followedIdentity) String() string {
	if f.at.IsZero() {
		return f.hash
	}
	return f.hash + " " + f.at.UTC().Format(time.RFC3339)
}

func parseFollowed(annotation string) followedIdentity {
	hash, text, _ := strings.Cut(annotation, " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at = time.Time{}
	}
	return followedIdentity{hash, at}
}

// earlyBy returns how long the next offer has to wait. A time in the future means that the clock was set
// back.
func (f followedIdentity) earlyBy(now time.Time, interval time.Duration) time.Duration {
	if f.at.After(now) {
		return 0
	}
	return max(f.at.Add(interval).Sub(now), 0)
}

// followRenewal maintains the Renew of the control plane, and copies the provider's answer to the Identity. An unusable
// answer is ignored: the current credentials may still be valid. ResourceSlices need no Renew: their status carries the
// certificate.
func (i *identities) followRenewal(ctx context.Context, identity *authv1beta1.Identity) error {
	if identity.Spec.Type != authv1beta1.ControlPlaneIdentityType {
		return nil
	}
	renew, err := i.requestRenewal(ctx, identity)
	if err != nil {
		return err
	}
	offered := renew.Status.AuthParams
	if offered == nil {
		return nil
	}
	text, err := json.Marshal(offered)
	if err != nil {
		return fmt.Errorf("writing the offered credentials: %w", err)
	}
	last := parseFollowed(identity.Annotations[names.FollowedOffer])
	this := followedIdentity{fmt.Sprintf("%x", sha256.Sum256(text))[:16], last.at}
	again := last.hash == this.hash
	same := equality.Semantic.DeepEqual(*offered, identity.Spec.AuthParams)
	if again && same {
		return nil
	}
	if !same {
		this.at = time.Now()
		if wait := last.earlyBy(this.at, i.options.FollowInterval); !again && wait > 0 {
			return kube.Wait(wait, "another offer was taken over a moment ago")
		}
	}
	next := identity.DeepCopy()
	next.Spec.AuthParams = *offered.DeepCopy()
	if err := i.checkUsable(ctx, next); err != nil {
		return err
	}
	// A spec that differs from the adopted offer, or is newer, was edited by the administrator and takes precedence: after a move of
	// the provider no offer arrives. Only an unusable spec is replaced.
	if again || !same && !pki.Supersedes(offered.SignedCRT, identity.Spec.AuthParams.SignedCRT) {
		if _, err := i.readKey(ctx, identity); !errors.Is(err, errNoKey) {
			return err
		}
	}
	before := identity.DeepCopy()
	identity.Spec.AuthParams = next.Spec.AuthParams
	metav1.SetMetaDataAnnotation(&identity.ObjectMeta, names.FollowedOffer, this.String())
	if err := i.client.Patch(ctx, identity, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("renewing the Identity: %w", err)
	}
	return nil
}

// requestRenewal maintains the Renew for the provider, and returns the previous state.
func (i *identities) requestRenewal(ctx context.Context, identity *authv1beta1.Identity) (*authv1beta1.Renew, error) {
	current := &authv1beta1.Renew{}
	err := i.client.Get(ctx, client.ObjectKeyFromObject(identity), current)
	switch owner := metav1.GetControllerOf(current); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading the Renew: %w", err)
	case !current.DeletionTimestamp.IsZero():
		return nil, kube.BeingDeleted("Renew", current.Name)
	case owner != nil && owner.Kind == "Identity" && owner.Name == identity.Name && owner.UID != identity.UID:
		return nil, kube.Wait(2*time.Second, "the Renew of an earlier Identity of this name is being removed")
	case owner == nil || owner.UID != identity.UID || peer.IsReplica(current):
		return nil, kube.Invalid(reasonRenewTaken, fmt.Errorf("a Renew %q exists that does not belong to the Identity: its certificate is not renewed", current.Name))
	}
	provider := string(identity.Spec.ClusterID)
	want := &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: identity.Namespace,
			Name:      identity.Name,
			Labels:    map[string]string{names.Replication: "true", names.ReplicationDestination: provider, names.RemoteClusterID: provider},
		},
		Spec: authv1beta1.RenewSpec{ConsumerClusterID: i.options.ClusterID, IdentityType: identity.Spec.Type},
	}
	if _, err := kube.Ensure(ctx, i.client, want, kube.AsSeen(), kube.OwnedBy(identity, i.client.Scheme())); err != nil {
		return nil, fmt.Errorf("asking for renewals: %w", err)
	}
	return current, nil
}

// checkUsable returns why no kubeconfig can be made of the offer.
func (i *identities) checkUsable(ctx context.Context, next *authv1beta1.Identity) error {
	refuse := func(err error) error {
		return kube.Invalid(reasonRenewRefused, fmt.Errorf("the provider's credentials are not accepted: %w", err))
	}
	if len(next.Spec.AuthParams.SignedCRT) == 0 {
		return refuse(errors.New("it has no certificate"))
	}
	key, err := i.readKey(ctx, next)
	if errors.Is(err, errNoKey) {
		return refuse(err)
	}
	if err != nil {
		return err
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	if _, err := kubeconfigSecret(next, nil, private, i.options.AllowLoopbackPeers); err != nil {
		return refuse(err)
	}
	return nil
}
