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

// A pod in the provider authenticates to this cluster's API server with tokens of its own ServiceAccount, bound to the local pod: the
// tokens are invalid once the pod is deleted. Tokens are requested before the ShadowPod is created, because a pod without tokens for its
// account must not start. Tokens are sent when the ShadowPod exists: it owns their Secret.

const (
	// reasonNoToken is the condition reason of a pod whose account gets no token.
	reasonNoToken = "TokenRefused"
	// reasonNoPlace is the condition reason of a pod whose token Secret has a taken name in the provider, and the reason of the event about it.
	reasonNoPlace = "TokenSecretNameTaken"
	// reasonTokensFailed is the reason of the event on a running pod whose tokens are not renewed, and reasonTokensSent of the event
	// on their renewal, and on the first pod of an owner that has any.
	reasonTokensFailed = "FailedSATokensReflection"
	reasonTokensSent   = "SuccessfulSATokensReflection"
	// reasonNoWay is the reason of the event on a pod created without a route to the API server.
	reasonNoWay = "APIServerUnreachable"

	// renewalInterval is the interval of checks for tokens to renew. A fifth of their lifetime is left then.
	renewalInterval = 30 * time.Second
	// tokensDelay is how long sent tokens are not sent again, regardless of the state in the cache or the provider.
	tokensDelay = 5 * time.Second
	// failedTokensDelay is the minimum delay of retries for the tokens of a running pod, and failedTokensSpread spreads the retries of
	// requests that got no answer.
	failedTokensDelay  = time.Minute
	failedTokensSpread = 30 * time.Second
)

// tokenMemory is the state of the tokens of a pod in this process.
type tokenMemory struct {
	// issued are not in the provider yet; nil is none.
	issued *translate.Tokens
	// sent is when the last tokens were sent.
	sent time.Time
	// renew is when the tokens in the provider are to be replaced; zero is unknown.
	renew time.Time
	// retry is when to retry after a failure.
	retry time.Time
}

// sentTokens returns the source of the Secrets with tokens of the pods of this node.
func sentTokens(o Options) multicluster.Source {
	return multicluster.Source{
		Object:    &corev1.Secret{},
		Labels:    ownSelector(o) + "," + names.OffloadingNodeName + "=" + o.Node + "," + names.ServiceAccountName,
		Key:       func(obj client.Object) string { return obj.GetAnnotations()[names.TokenPodName] },
		Transform: slimTokens,
	}
}

// gatherTokens reads the pod's token Secret in the provider.
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
func (it *podItem) asksForTokens() bool { return len(it.target.TokenRequests(it.local)) > 0 }

// readRoute decides how a new pod reaches the API server of this cluster, and has the pod's tokens issued.
func (k *podKind) readRoute(ctx context.Context, it *podItem) error {
	route, works, err := k.route(ctx)
	switch {
	case translate.AccessOf(it.local, &translate.APIServerRoute{}) != translate.AccessConsumer:
		return nil // it opted out
	case err != nil && !(kube.IsWait(err) && !it.asksForTokens()):
		return err
	case route == nil:
		return nil
	}
	it.route, it.routeDown = route, !works
	if err := k.learnAudiences(ctx, it); err != nil {
		return err
	}
	return k.issueTokens(ctx, it)
}

// apiAudiences are the default audiences of this cluster's API server, learned from an issued token.
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

// learnAudiences adds the API server's own names to the allowed audiences if a token of the pod would otherwise stay local.
func (k *podKind) learnAudiences(ctx context.Context, it *podItem) error {
	if len(it.target.AudiencesKept(it.local)) == 0 {
		return nil
	}
	if len(k.audiences.knownNames()) == 0 {
		request, err := k.requestToken(ctx, it, translate.TokenRequest{Lifetime: shortestLifetime})
		if err != nil {
			return err
		}
		k.audiences.setNames(request.Spec.Audiences)
	}
	it.target.Audiences = slices.Concat(it.target.Audiences, k.audiences.knownNames())
	return nil
}

// shortestLifetime is the lifetime of a discarded token, in seconds: no API server issues a shorter one.
const shortestLifetime = 600

// requestToken requests a token of a pod's ServiceAccount from the API server.
func (k *podKind) requestToken(ctx context.Context, it *podItem, requested translate.TokenRequest) (*authenticationv1.TokenRequest, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &requested.Lifetime,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: it.local.Name, UID: it.local.UID},
	}}
	if requested.Audience != "" {
		request.Spec.Audiences = []string{requested.Audience}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: it.local.Namespace, Name: translate.AccountOf(it.local)}}
	if err := it.Local.Client().SubResource("token").Create(ctx, account, request); err != nil {
		return nil, &tokenError{fmt.Errorf("requesting a token of the account %q: %w", account.Name, err)}
	}
	return request, nil
}

// renewLate handles a pod created while no path led to the API server, once a path exists. A pod refused by the provider is
// requested again, with its tokens; others keep their projections, with an event.
func (k *podKind) renewLate(ctx context.Context, it *podItem) error {
	if it.shadow == nil || translate.RouteOf(it.shadow) != nil || !it.asksForTokens() ||
		translate.AccessOf(it.local, &translate.APIServerRoute{}) != translate.AccessConsumer {
		return nil
	}
	route, _, err := k.route(ctx)
	if route == nil || kube.IsWait(err) {
		return nil // a watch shows a new route
	}
	if err != nil {
		return err
	}
	fresh := translate.NeverStarted(it.local) // a ShadowPod with a status is of a pod that ran
	if fresh && it.remote == nil && refusalOf(it.shadow) != nil {
		err := it.Remote.Client().Get(ctx, client.ObjectKey{Namespace: it.Pair.Remote, Name: it.Name}, &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return errors.Join(k.removeShadow(ctx, it), kube.Wait(0, "the ShadowPod is being recreated with its tokens"))
		}
		return client.IgnoreNotFound(err)
	}
	if it.remote != nil || !fresh {
		k.events.ofOwner(it.local, corev1.EventTypeWarning, reasonNoAPIServer, fmt.Sprintf("The pod was made in cluster %q before anything led to the "+
			"API server of this cluster, and goes on without its service account tokens: one that is made now has them", k.options.Provider))
	}
	return nil
}

// issueTokens requests the tokens of a pod from the API server, unless unsent tokens exist, or tokens were sent a moment ago.
func (k *podKind) issueTokens(ctx context.Context, it *podItem) error {
	now := k.states.now()
	var current tokenMemory
	k.states.withState(it.local, func(m *podState) { current = m.tokens })
	requested := it.target.TokenRequests(it.local)
	if it.projected != nil {
		requested = slices.DeleteFunc(requested, func(a translate.TokenRequest) bool { return !it.projected.Has(a.Key) })
	}
	if len(requested) == 0 || current.issued != nil && now.Before(current.issued.Renew) || now.Before(current.sent.Add(tokensDelay)) {
		return nil
	}
	if err := k.placeForTokens(ctx, it); err != nil {
		return err
	}
	tokens := &translate.Tokens{}
	for _, a := range requested {
		request, err := k.requestToken(ctx, it, a)
		if err != nil {
			return err
		}
		tokens.Add(it.local, a.Key, request.Status.Token, now, request.Status.ExpirationTimestamp.Time)
	}
	k.states.withState(it.local, func(m *podState) { m.tokens.issued = tokens })
	return nil
}

// placeForTokens checks that no foreign Secret has the name: otherwise the pod would be created without tokens, and never start.
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

// maySend checks that the existing Secret of the same name is a token Secret of this node; the error says what to do if not.
func (k *podKind) maySend(it *podItem, live metav1.Object) error {
	if it.target.OwnsPod(live) && translate.IsSentToken(live) {
		return nil
	}
	err := fmt.Errorf("remote object %s/%s already exists, and the tokens of the pod need a Secret of that name: "+
		"rename the other Secret or the pod, or annotate the pod with %s: %s",
		it.Pair.Remote, live.GetName(), names.APIServerSupport, names.APIServerSupportDisabled)
	return kube.Again(againDelay, kube.Invalid(reasonNoPlace, err)) // which an event records
}

// tokenError is the error of a token that this cluster did not issue.
type tokenError struct{ error }

func (e *tokenError) Unwrap() error { return e.error }

// refuseToken writes the reason to the status of a pod that is not started: the account gets no token, or the name of the Secret is taken.
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
	return why // which an event records
}

// sendTokens sends the tokens of a pod to the provider, and new ones in time. Without a path to the API server they are left to expire.
func (k *podKind) sendTokens(ctx context.Context, it *podItem) error {
	shadow := it.made
	if it.shadow != nil {
		shadow = it.shadow
	}
	if !k.options.APIServerSupport || shadow == nil || translate.AccessOf(it.local, translate.RouteOf(shadow)) != translate.AccessConsumer {
		return nil
	}
	if it.tokens != nil { // after a restart the tokens allowed when the pod was created are unknown
		if err := k.learnAudiences(ctx, it); err != nil {
			return err
		}
	}
	if !it.asksForTokens() {
		return nil
	}
	now := k.states.now()
	at := it.target.RenewAt(it.tokens, it.local, shadow)
	runs := it.tokens != nil && it.tokens.Annotations[names.TokenPodUID] == string(it.local.UID)
	var known tokenMemory
	k.states.withState(it.local, func(m *podState) {
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
	route, _, err := k.route(ctx)
	if err == nil && route == nil {
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
	k.states.withState(it.local, func(m *podState) { m.tokens.renew, m.tokens.retry = now.Add(again), now.Add(again) })
	// The pod runs, and its present tokens are valid for some time.
	k.events.record(it.local, corev1.EventTypeWarning, reasonTokensFailed, fmt.Sprintf("Error reflecting service account tokens: %v", err))
	return kube.Wait(again, "the tokens of the pod could not be renewed")
}

// readProjected reads the tokens that the ShadowPod has projections for. Tokens allowed later by annotation or values have none.
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

// writeTokens creates the Secret, or updates it.
func (k *podKind) writeTokens(ctx context.Context, it *podItem, shadow metav1.Object) error {
	var tokens *translate.Tokens
	k.states.withState(it.local, func(m *podState) { tokens = m.tokens.issued })
	if tokens == nil {
		return nil
	}
	err := k.putTokens(ctx, it, it.keepFiles(it.target.TokenSecret(it.local, shadow, *tokens)))
	if apierrors.IsForbidden(err) { // older providers forbid owner references
		err = k.putTokens(ctx, it, it.keepFiles(it.target.TokenSecret(it.local, nil, *tokens)))
	}
	if err != nil {
		return fmt.Errorf("sending the tokens: %w", err)
	}
	k.states.withState(it.local, func(m *podState) { m.tokens = tokenMemory{sent: k.states.now(), renew: tokens.Renew} })
	k.tellSent(it)
	return nil
}

// keepFiles adds to the Secret of a running pod empty values of tokens that are no longer sent, or have no projection in the pod: the
// kubelet does not update a volume with a missing file.
func (it *podItem) keepFiles(secret *corev1.Secret) *corev1.Secret {
	if it.made != nil {
		return secret
	}
	var keys []string
	if it.tokens != nil && it.tokens.Annotations[names.TokenPodUID] == string(it.local.UID) {
		keys = slices.Collect(maps.Keys(it.tokens.Data))
	}
	for _, requested := range it.target.TokenRequests(it.local) {
		keys = append(keys, requested.Key)
	}
	for _, key := range keys {
		if _, ok := secret.Data[key]; !ok {
			secret.Data[key] = []byte{}
		}
	}
	return secret
}

// tellSent records once for all pods of an owner, and for each pod after a failure, that tokens were sent: renewals are routine.
func (k *podKind) tellSent(it *podItem) {
	text := fmt.Sprintf("Successfully reflected service account tokens to cluster %q", k.options.Provider)
	if !k.events.forgetFailure(it.local, reasonTokensFailed) {
		k.events.ofOwner(it.local, corev1.EventTypeNormal, reasonTokensSent, text)
		return
	}
	k.events.forgetFailure(it.local, reasonTokensSent)
	k.events.recordNormal(it.local, reasonTokensSent, text)
}

// putTokens creates or updates the Secret; an existing object is taken over only if it holds tokens.
func (k *podKind) putTokens(ctx context.Context, it *podItem, secret *corev1.Secret) error {
	if it.tokens == nil {
		created, err := it.Remote.Make(ctx, secret)
		if created || err != nil {
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

// dropTokens deletes the Secret of a deleted pod, unless the ShadowPod owns the Secret.
func (k *podKind) dropTokens(ctx context.Context, it *podItem) error {
	if it.tokens == nil || len(it.tokens.OwnerReferences) > 0 || !it.tokens.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := it.Remote.Delete(ctx, it.tokens); err != nil {
		return fmt.Errorf("deleting the Secret with the tokens: %w", err)
	}
	return nil
}

// runRenewals enqueues the pods whose tokens are to be replaced.
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
