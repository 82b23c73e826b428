// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// A pod in the provider shows this cluster's API server the tokens of its own account, which are bound to the local pod: they are
// worth nothing once it is gone. They are requested before the ShadowPod is made, so that one whose account gets none is not
// started, and sent when it is there, because the Secret goes with it.

const (
	// reasonNoToken is that of the condition of a pod whose account gets no token.
	reasonNoToken = "TokenRefused"
	// reasonNoPlace is that of the condition of a pod whose tokens have no place in the provider, and of the event about it.
	reasonNoPlace = "TokenSecretNameTaken"
	// reasonTokensFailed is that of the event on a pod that runs, whose tokens are not renewed, and reasonTokensSent that of the event
	// that they are, and on the first pod of an owner that it has any.
	reasonTokensFailed = "FailedSATokensReflection"
	reasonTokensSent   = "SuccessfulSATokensReflection"
	// reasonNoWay is that of the event on a pod that is made while it does not reach the API server.
	reasonNoWay = "APIServerUnreachable"

	// renewalInterval is how often to look for tokens that are to be replaced. There is a fifth of their lifetime left then.
	renewalInterval = 30 * time.Second
	// tokensDelay is how long after tokens were sent they are not sent again, whatever the cache or the provider says.
	tokensDelay = 5 * time.Second
	// failedTokensDelay is how soon to ask again for the tokens of a pod that runs, at the earliest, and failedTokensSpread how far apart
	// those ask for which nobody answered.
	failedTokensDelay  = time.Minute
	failedTokensSpread = 30 * time.Second
)

// tokenMemory is what this process knows of the tokens of a pod.
type tokenMemory struct {
	// issued are not in the provider yet; nil is none.
	issued *translate.Tokens
	// sent is when the last ones were.
	sent time.Time
	// renew is when those in the provider are to be replaced; zero is unknown.
	renew time.Time
	// retry is when to try again what failed.
	retry time.Time
}

// sentTokens watches the Secrets with tokens of the pods of this node.
func sentTokens(o Options) multicluster.Source {
	return multicluster.Source{
		Object:    &corev1.Secret{},
		Labels:    ownSelector(o) + "," + names.OffloadingNodeName + "=" + o.Node + "," + names.ServiceAccountName,
		Key:       func(obj client.Object) string { return obj.GetAnnotations()[names.TokenPodName] },
		Transform: slimTokens,
	}
}

// gatherTokens reads what the pod has of tokens in the provider.
func (k *podKind) gatherTokens(it *podItem) error {
	secret := &corev1.Secret{}
	found, err := it.Remote.Get(names.TokenSecret(it.Name), secret)
	if err != nil {
		return fmt.Errorf("reading the Secret with the tokens: %w", err)
	}
	if found {
		it.tokens = secret
	}
	return nil
}

// asksForTokens reports whether tokens are to be sent with the pod.
func (it *podItem) asksForTokens() bool { return len(it.target.TokensAsked(it.local)) > 0 }

// goHome decides how a pod that is to be made reaches the API server of this cluster, and has its tokens issued.
func (k *podKind) goHome(ctx context.Context, it *podItem) error {
	home, works, err := k.home(ctx)
	switch {
	case translate.AccessOf(it.local, &translate.Home{}) != translate.AccessHome:
		return nil // it does not want to
	case err != nil && !(kube.IsWait(err) && !it.asksForTokens()):
		return err
	case home == nil:
		return nil
	}
	it.home, it.noWay = home, !works
	if err := k.learnAudiences(ctx, it); err != nil {
		return err
	}
	return k.issueTokens(ctx, it)
}

// apiAudiences are the names of the API server of this cluster: its audiences by default. They are learned from a token that it issued.
type apiAudiences struct {
	mu    sync.Mutex
	names []string
}

func (a *apiAudiences) knownNames() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names
}

func (a *apiAudiences) setNames(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = names
}

// learnAudiences has a pod whose token would stay here, for it is for a named audience, be compared with the names of the API server.
func (k *podKind) learnAudiences(ctx context.Context, it *podItem) error {
	if len(it.target.AudiencesKept(it.local)) == 0 {
		return nil
	}
	if len(k.audiences.knownNames()) == 0 {
		request, err := k.requestToken(ctx, it, translate.TokenAsked{Lifetime: shortestLifetime})
		if err != nil {
			return err
		}
		k.audiences.setNames(request.Spec.Audiences)
	}
	it.target.Audiences = slices.Concat(it.target.Audiences, k.audiences.knownNames())
	return nil
}

// shortestLifetime is that of a token which is thrown away, in seconds: no API server issues a shorter one.
const shortestLifetime = 600

// requestToken has the API server issue a token of the account of a pod.
func (k *podKind) requestToken(ctx context.Context, it *podItem, asked translate.TokenAsked) (*authenticationv1.TokenRequest, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &asked.Lifetime,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: it.local.Name, UID: it.local.UID},
	}}
	if asked.Audience != "" {
		request.Spec.Audiences = []string{asked.Audience}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: it.local.Namespace, Name: translate.AccountOf(it.local)}}
	if err := it.Local.Client().SubResource("token").Create(ctx, account, request); err != nil {
		return nil, &tokenError{fmt.Errorf("requesting a token of the account %q: %w", account.Name, err)}
	}
	return request, nil
}

// renewLate looks after a pod that was made while nothing led to the API server of this cluster, when something does. One that the
// provider refuses is asked for anew, with its tokens; others keep what they were made with, and an event says so.
func (k *podKind) renewLate(ctx context.Context, it *podItem) error {
	if it.shadow == nil || translate.HomeOf(it.shadow) != nil || !it.asksForTokens() ||
		translate.AccessOf(it.local, &translate.Home{}) != translate.AccessHome {
		return nil
	}
	home, _, err := k.home(ctx)
	if home == nil || kube.IsWait(err) {
		return nil // a watch tells when there is one
	}
	if err != nil {
		return err
	}
	fresh := translate.NeverStarted(it.local) // the ShadowPod of another one says that it ran
	if fresh && it.remote == nil && refusalOf(it.shadow) != nil {
		err := it.Remote.Client().Get(ctx, client.ObjectKey{Namespace: it.Pair.Remote, Name: it.Name}, &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return errors.Join(k.removeShadow(ctx, it), kube.Wait(0, "the shadow pod is made anew, with its tokens"))
		}
		return client.IgnoreNotFound(err)
	}
	if it.remote != nil || !fresh {
		k.events.ofOwner(it.local, corev1.EventTypeWarning, reasonNoAPIServer, fmt.Sprintf("The pod was made in cluster %q before anything led to the "+
			"API server of this cluster, and goes on without its service account tokens: one that is made now has them", k.options.Provider))
	}
	return nil
}

// issueTokens has the API server issue the tokens of a pod, unless there are some that were not sent, or were only a moment ago.
func (k *podKind) issueTokens(ctx context.Context, it *podItem) error {
	now := k.memory.now()
	var have tokenMemory
	k.memory.withState(it.local, func(m *podState) { have = m.tokens })
	asked := it.target.TokensAsked(it.local)
	if it.projected != nil {
		asked = slices.DeleteFunc(asked, func(a translate.TokenAsked) bool { return !it.projected.Has(a.Key) })
	}
	if len(asked) == 0 || have.issued != nil && now.Before(have.issued.Renew) || now.Before(have.sent.Add(tokensDelay)) {
		return nil
	}
	if err := k.placeForTokens(ctx, it); err != nil {
		return err
	}
	tokens := &translate.Tokens{}
	for _, a := range asked {
		request, err := k.requestToken(ctx, it, a)
		if err != nil {
			return err
		}
		tokens.Add(it.local, a.Key, request.Status.Token, now, request.Status.ExpirationTimestamp.Time)
	}
	k.memory.withState(it.local, func(m *podState) { m.tokens.issued = tokens })
	return nil
}

// placeForTokens looks for the Secret of somebody else that has the name: a pod without its tokens would be made, and never start.
func (k *podKind) placeForTokens(ctx context.Context, it *podItem) error {
	if it.tokens != nil {
		return nil
	}
	live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	err := it.Remote.Client().Get(ctx, client.ObjectKey{Namespace: it.Pair.Remote, Name: names.TokenSecret(it.Name)}, live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the Secret with the tokens: %w", err)
	}
	return k.maySend(it, live)
}

// maySend makes sure that what has the name of the Secret is one of this node with tokens, and says what to do if it is not.
func (k *podKind) maySend(it *podItem, live metav1.Object) error {
	if it.target.OwnsPod(live) && translate.IsSentToken(live) {
		return nil
	}
	err := fmt.Errorf("remote object %s/%s already exists, and the tokens of the pod need a Secret of that name: "+
		"give the other Secret another name, or the pod, or annotate the pod with %s: %s",
		it.Pair.Remote, live.GetName(), names.APIServerSupport, names.APIServerSupportDisabled)
	return kube.Again(againDelay, kube.Invalid(reasonNoPlace, err)) // of which an event tells
}

// tokenError is that this cluster issued no token.
type tokenError struct{ error }

func (e *tokenError) Unwrap() error { return e.error }

// refuseToken shows on a pod that is not started that its account gets no token, or that there is no place for it, if that is why.
func (k *podKind) refuseToken(ctx context.Context, it *podItem, why error) error {
	reason := ""
	if taken, _ := kube.InvalidReason(why); taken == reasonNoPlace {
		reason = reasonNoPlace
	} else if _, ok := errors.AsType[*tokenError](why); ok && (isRefused(why) || apierrors.IsNotFound(why)) {
		reason = reasonNoToken
	}
	if reason == "" {
		return why
	}
	if err := k.markRefused(ctx, it, reason, "the pod is not started without its token: "+why.Error()); err != nil {
		return err
	}
	return why // of which an event tells
}

// sendTokens brings the tokens of a pod to the provider, and new ones in time. Where the way home is gone they are left to expire.
func (k *podKind) sendTokens(ctx context.Context, it *podItem) error {
	shadow := it.made
	if it.shadow != nil {
		shadow = it.shadow
	}
	if !k.options.APIServerSupport || shadow == nil || translate.AccessOf(it.local, translate.HomeOf(shadow)) != translate.AccessHome {
		return nil
	}
	if it.tokens != nil { // after a restart nothing is known of what was allowed when the pod was made
		if err := k.learnAudiences(ctx, it); err != nil {
			return err
		}
	}
	if !it.asksForTokens() {
		return nil
	}
	now := k.memory.now()
	at := it.target.RenewAt(it.tokens, it.local, shadow)
	runs := it.tokens != nil && it.tokens.Annotations[names.TokenPodUID] == string(it.local.UID)
	var known tokenMemory
	k.memory.withState(it.local, func(m *podState) {
		m.tokens.renew = at
		if runs && at.Before(m.tokens.retry) {
			m.tokens.renew = m.tokens.retry
		}
		known = m.tokens
	})
	switch wait := known.sent.Add(tokensDelay).Sub(now); {
	case now.Before(at):
		k.events.forgetFailure(it.local, reasonTokensFailed)
		return nil
	case wait > 0:
		return kube.Wait(wait, "tokens were sent a moment ago")
	case runs && now.Before(known.retry):
		return kube.Wait(known.retry.Sub(now), "the tokens of the pod could not be renewed a moment ago")
	}
	home, _, err := k.home(ctx)
	if err == nil && home == nil {
		return nil
	}
	if err == nil && it.made == nil {
		err = it.readProjected(ctx, shadow)
	}
	if err == nil {
		err = k.issueTokens(ctx, it)
	}
	if err == nil {
		err = k.writeTokens(ctx, it, shadow)
	}
	if err == nil || !runs {
		return err
	}
	again := failedTokensDelay + translate.Spread(it.local, failedTokensSpread)
	k.memory.withState(it.local, func(m *podState) { m.tokens.renew, m.tokens.retry = now.Add(again), now.Add(again) })
	// The pod runs, and what it has is good for some time.
	k.events.record(it.local, corev1.EventTypeWarning, reasonTokensFailed, fmt.Sprintf("Error reflecting service account tokens: %v", err))
	return kube.Wait(again, "the tokens of the pod could not be renewed")
}

// readProjected reads which tokens the pod was made with a place for. What its annotation or the values allow since has none.
func (it *podItem) readProjected(ctx context.Context, shadow metav1.Object) error {
	live := &offv1beta1.ShadowPod{}
	err := it.Remote.Client().Get(ctx, client.ObjectKey{Namespace: it.Pair.Remote, Name: it.Name}, live)
	if apierrors.IsNotFound(err) || err == nil && live.UID != shadow.GetUID() {
		return kube.Wait(unseenDelay, "the cache has a shadow pod that is gone")
	}
	if err != nil {
		return fmt.Errorf("reading the whole shadow pod: %w", err)
	}
	it.projected = translate.ProjectedTokens(&live.Spec.Pod, names.TokenSecret(it.Name))
	return nil
}

// writeTokens makes the Secret, or fills it anew.
func (k *podKind) writeTokens(ctx context.Context, it *podItem, shadow metav1.Object) error {
	var tokens *translate.Tokens
	k.memory.withState(it.local, func(m *podState) { tokens = m.tokens.issued })
	if tokens == nil {
		return nil
	}
	err := k.putTokens(ctx, it, it.keepFiles(it.target.TokenSecret(it.local, shadow, *tokens)))
	if apierrors.IsForbidden(err) { // an older provider lets nothing have an owner
		err = k.putTokens(ctx, it, it.keepFiles(it.target.TokenSecret(it.local, nil, *tokens)))
	}
	if err != nil {
		return fmt.Errorf("sending the tokens: %w", err)
	}
	k.memory.withState(it.local, func(m *podState) { m.tokens = tokenMemory{sent: k.memory.now(), renew: tokens.Renew} })
	k.tellSent(it)
	return nil
}

// keepFiles adds to the Secret of a running pod, empty, what is not sent any more, or has no place in the pod: a volume that lacks one file
// would not get the others anew.
func (it *podItem) keepFiles(secret *corev1.Secret) *corev1.Secret {
	if it.made != nil {
		return secret
	}
	var keys []string
	if it.tokens != nil && it.tokens.Annotations[names.TokenPodUID] == string(it.local.UID) {
		keys = slices.Collect(maps.Keys(it.tokens.Data))
	}
	for _, asked := range it.target.TokensAsked(it.local) {
		keys = append(keys, asked.Key)
	}
	for _, key := range keys {
		if _, ok := secret.Data[key]; !ok {
			secret.Data[key] = []byte{}
		}
	}
	return secret
}

// tellSent tells once for all pods of an owner, and each one that had none of its new tokens: others get new ones all the time.
func (k *podKind) tellSent(it *podItem) {
	text := fmt.Sprintf("Successfully reflected service account tokens to cluster %q", k.options.Provider)
	if !k.events.forgetFailure(it.local, reasonTokensFailed) {
		k.events.ofOwner(it.local, corev1.EventTypeNormal, reasonTokensSent, text)
		return
	}
	k.events.forgetFailure(it.local, reasonTokensSent)
	k.events.recordNormal(it.local, reasonTokensSent, text)
}

// putTokens takes over nothing but what has tokens.
func (k *podKind) putTokens(ctx context.Context, it *podItem, secret *corev1.Secret) error {
	if it.tokens == nil {
		made, err := it.Remote.Make(ctx, secret)
		if made || err != nil {
			return err
		}
		live := &corev1.Secret{}
		if err := it.Remote.Client().Get(ctx, client.ObjectKeyFromObject(secret), live); err != nil {
			return err
		}
		if err := k.maySend(it, live); err != nil {
			return err
		}
	}
	_, err := it.Remote.ApplyOver(ctx, secret, nil)
	return err
}

// dropTokens deletes the Secret of a pod that is gone, unless that goes with its ShadowPod.
func (k *podKind) dropTokens(ctx context.Context, it *podItem) error {
	if it.tokens == nil || len(it.tokens.OwnerReferences) > 0 || !it.tokens.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := it.Remote.Delete(ctx, it.tokens); err != nil {
		return fmt.Errorf("deleting the Secret with the tokens: %w", err)
	}
	return nil
}

// runRenewals has pods looked at whose tokens are to be replaced.
func (m *podStates) runRenewals(ctx context.Context, look func(client.ObjectKey)) error {
	ticker := time.NewTicker(renewalInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			for _, pod := range m.expiringTokens() {
				look(pod)
			}
		}
	}
}
