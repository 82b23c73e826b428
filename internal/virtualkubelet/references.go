// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// A pod is sent when its ConfigMaps and Secrets are in the provider, in their state at the creation of the pod or later. Objects
// deleted by then do not count. With a late optional object, or an old object, the pod would run with another configuration than a
// local pod, without any sign.

const (
	// reasonNotReflectedYet is the reason of the event on a pod sent before its references.
	reasonNotReflectedYet = "ReferencesNotReflected"
	// referenceDelay is the minimum interval of comparisons of an object, for all waiting pods together, and maxReferenceDelay the
	// maximum, for pods that have waited for long.
	referenceDelay    = 100 * time.Millisecond
	maxReferenceDelay = 2 * time.Second
	// referenceTimeout is how long a pod waits for all referenced objects.
	referenceTimeout = 30 * time.Second
	// maxRememberedReferences limits the state of objects that no pod waits for any more.
	maxRememberedReferences = 10000
)

// reference is an object that pods of a namespace refer to.
type reference struct {
	pair multicluster.Pair
	kind string // of the engine
	name string
}

func (r reference) String() string {
	kind := "ConfigMap"
	if r.kind == secretKindName {
		kind = "Secret"
	}
	return fmt.Sprintf("%s %q", kind, r.name)
}

// referenceWaits tracks when objects were last compared with their copies. The zero value is ready for use.
type referenceWaits struct {
	mu sync.Mutex
	of map[reference]*comparison
}

// comparison is the state of one object.
type comparison struct {
	// begun is the start of the last comparison, and equal the start of the last comparison with an equal copy.
	begun, equal time.Time
	// comparing: one pod compares for all. Other pods wait without a worker.
	comparing bool
}

// awaitReference returns the delay of the next attempt for a pod that waits since a time; 0 means that the copy was found equal since.
func (r *referenceWaits) awaitReference(of reference, since, now time.Time, isEqual func() (bool, error)) (time.Duration, error) {
	remaining, compare := r.nextAttempt(of, since, now)
	if !compare {
		return remaining, nil
	}
	equal, err := isEqual()
	remaining = delayAfter(now.Sub(since))
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.comparisonOf(of)
	known.comparing = false
	if equal {
		known.equal = now
		return 0, nil
	}
	return remaining, err
}

// delayAfter returns the delay of the next comparison for a pod that has waited for some time.
func delayAfter(waited time.Duration) time.Duration {
	return min(max(waited/4, referenceDelay), maxReferenceDelay)
}

// nextAttempt returns how long a pod waits, or that the pod compares.
func (r *referenceWaits) nextAttempt(of reference, since, now time.Time) (remaining time.Duration, compare bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.comparisonOf(of)
	remaining = delayAfter(now.Sub(since)) - now.Sub(known.begun)
	switch {
	case !known.equal.IsZero() && !known.equal.Before(since):
		return 0, false
	case known.comparing:
		return referenceDelay, false
	case remaining > 0:
		return remaining, false
	}
	known.begun, known.comparing = now, true
	return 0, true
}

func (r *referenceWaits) comparisonOf(of reference) *comparison {
	if r.of == nil || len(r.of) >= maxRememberedReferences && r.of[of] == nil {
		r.of = map[reference]*comparison{} // an extra comparison is better than unbounded memory
	}
	if r.of[of] == nil {
		r.of[of] = &comparison{}
	}
	return r.of[of]
}

// Set deletes the state of namespaces without a remote namespace.
func (r *referenceWaits) Set(pairs []multicluster.Pair) {
	current := sets.New(pairs...)
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(of reference, _ *comparison) bool { return !current.Has(of.pair) })
}

// awaitReferences makes a new pod wait for its references, for a limited time.
func (k *podKind) awaitReferences(ctx context.Context, it *podItem) error {
	return k.awaitCopies(it.local, k.referencesOf(it), func(ref reference) (bool, error) { return k.isCopied(ctx, it, ref) })
}

// awaitCopies is awaitReferences with the comparison as a parameter. The time counts from the first attempt to send the pod at which
// both clusters answer. The time restarts if a cluster does not answer, or if there was a ShadowPod meanwhile.
func (k *podKind) awaitCopies(local *corev1.Pod, refs []reference, isCopied func(reference) (bool, error)) error {
	now, since, first, again := k.states.now(), time.Time{}, false, false
	k.states.withState(local, func(m *podState) {
		if first = m.since.IsZero(); first {
			m.since, m.prioritized = now, now
		}
		since = m.since
		if again = !first && now.Sub(since) >= max(referenceDelay, 2*m.prioritized.Sub(since)); again {
			m.prioritized = now
		}
	})
	late := now.Sub(since) >= referenceTimeout
	var missing []string
	wait := time.Duration(0)
	for _, ref := range refs {
		var remaining time.Duration
		equal, compared, err := false, false, error(nil)
		if late { // for the last time, regardless of earlier comparisons
			equal, err = isCopied(ref)
		} else {
			remaining, err = k.references.awaitReference(ref, since, now, func() (bool, error) {
				compared = true
				return isCopied(ref)
			})
			equal = remaining == 0
		}
		if err != nil {
			k.states.restartWait(local)
			return err
		}
		if !equal {
			missing, wait = append(missing, ref.String()), max(wait, remaining)
		}
		// Each pod prioritizes an object once, and the comparing pod again as its wait doubles: an object refused by the provider is not
		// tried more often.
		if remaining > 0 && (first || again && compared) {
			k.prioritize(ref.kind, ref.pair, ref.name)
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case !late:
		return kube.Wait(min(wait, since.Add(referenceTimeout).Sub(now)), "objects that the pod refers to are not in the provider yet")
	}
	k.events.record(local, corev1.EventTypeWarning, reasonNotReflectedYet, fmt.Sprintf("The pod starts in cluster %q although these are not there, "+
		"or are older than here, %s after it was seen: %s", k.options.Provider, referenceTimeout, strings.Join(missing, ", ")))
	return nil
}

// referencesOf returns the references of a pod to copied kinds. The root CA is awaited separately.
func (k *podKind) referencesOf(it *podItem) []reference {
	configMaps, secrets := translate.References(&it.local.Spec)
	var out []reference
	if k.options.ConfigMaps.Workers > 0 {
		for _, name := range slices.DeleteFunc(configMaps, translate.IsRootCAName) {
			out = append(out, reference{it.Pair, configMapKindName, name})
		}
	}
	if k.options.Secrets.Workers > 0 {
		for _, name := range secrets {
			out = append(out, reference{it.Pair, secretKindName, name})
		}
	}
	return out
}

// isCopied reports whether no wait is needed: the copy has all of the object and no more of ours, or an object missing
// locally or not copied has no copy. A foreign object of the same name in the provider is left alone.
func (k *podKind) isCopied(ctx context.Context, it *podItem, ref reference) (bool, error) {
	remoteKey := client.ObjectKey{Namespace: ref.pair.Remote, Name: ref.name}
	localKey := client.ObjectKey{Namespace: ref.pair.Local, Name: ref.name}
	var equal bool
	var err error
	if ref.kind == configMapKindName {
		equal, err = compareCopy(ctx, it, localKey, remoteKey, &corev1.ConfigMap{}, &corev1.ConfigMap{}, k.options.ConfigMaps.Type, translate.IsCopyOfConfigMap)
	} else {
		equal, err = compareCopy(ctx, it, localKey, remoteKey, &corev1.Secret{}, &corev1.Secret{}, k.options.Secrets.Type, translate.IsCopyOfSecret)
	}
	if err != nil {
		return false, fmt.Errorf("comparing the %s: %w", ref, err)
	}
	return equal, nil
}

func compareCopy[T client.Object](ctx context.Context, it *podItem, localKey, remoteKey client.ObjectKey, local, remote T, policy translate.ReflectionType,
	isCopyOf func(copied, original T, manager string) bool) (bool, error) {
	copied := true
	switch err := it.Local.Client().Get(ctx, localKey, local); {
	case apierrors.IsNotFound(err):
		copied = false // an existing copy is about to be deleted
	case err != nil:
		return false, err
	default:
		secret, ok := any(local).(*corev1.Secret)
		copied = !(ok && translate.IsToken(secret)) && policy.Allows(local, true)
	}
	switch err := it.Remote.Client().Get(ctx, remoteKey, remote); {
	case apierrors.IsForbidden(err):
		return true, nil // an older provider, or a provider that accepts copies but denies reading them
	case apierrors.IsNotFound(err):
		return !copied, nil
	case err != nil:
		return false, err
	}
	if !it.target.Owns(remote) || translate.IsSentToken(remote) {
		return true, nil
	}
	return copied && isCopyOf(remote, local, names.ReflectionFieldManager), nil
}
