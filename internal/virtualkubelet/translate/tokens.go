// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// defaultLifetime is the lifetime of a projected token without one, in seconds.
const defaultLifetime = 3600

// TokenRequest is a token that a pod expects in a file.
type TokenRequest struct {
	// Key is the key of the token in the Secret.
	Key string
	// Audience is empty for the API server.
	Audience string
	// Lifetime is in seconds.
	Lifetime int64
}

// mayLeave reports whether a token of an audience may be sent to the provider. A token for the API server may be sent; a token that
// identifies the pod to a third party only if the pod or the installation allows it: the provider could impersonate the pod to the audience.
func (t Target) mayLeave(pod *corev1.Pod, audience string) bool {
	allowed := slices.Concat(t.Audiences, splitList(pod.Annotations[names.TokenAudiences]))
	return audience == "" || slices.Contains(allowed, audience) || slices.Contains(allowed, anyAudience)
}

// anyAudience in a list of audiences stands for all.
const anyAudience = "*"

func splitList(list string) []string {
	var out []string
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// AudiencesKept returns the audiences of the pod's tokens that do not leave this cluster, sorted, without duplicates.
func (t Target) AudiencesKept(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if projection := source.ServiceAccountToken; projection != nil && !t.mayLeave(pod, projection.Audience) {
				out = append(out, projection.Audience)
			}
		}
	}
	return uniqueNames(out)
}

// TokenRequests returns the tokens that a pod expects in the provider.
func (t Target) TokenRequests(pod *corev1.Pod) []TokenRequest {
	var out []TokenRequest
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			file := source.ServiceAccountToken
			if file == nil || !t.mayLeave(pod, file.Audience) {
				continue
			}
			requested := TokenRequest{Key: tokenKey(v.Name, file.Path), Audience: file.Audience, Lifetime: defaultLifetime}
			if file.ExpirationSeconds != nil {
				requested.Lifetime = *file.ExpirationSeconds
			}
			out = append(out, requested)
		}
	}
	return out
}

// ProjectedTokens returns the keys of a token Secret that the volumes of a pod project.
func ProjectedTokens(spec *corev1.PodSpec, secret string) sets.Set[string] {
	out := sets.Set[string]{}
	for _, v := range spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret == nil || source.Secret.Name != secret {
				continue
			}
			for _, item := range source.Secret.Items {
				out.Insert(item.Key)
			}
		}
	}
	return out
}

// tokenKey returns a key derived from the identity of a file within the pod.
func tokenKey(volume, path string) string {
	sum := sha256.Sum256([]byte(path))
	return volume + "-" + hex.EncodeToString(sum[:3])
}

// sentProjection returns the projection of a token from the Secret.
func sentProjection(pod *corev1.Pod, volume string, t *corev1.ServiceAccountTokenProjection) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: names.TokenSecret(pod.Name)},
		Items:                []corev1.KeyToPath{{Key: tokenKey(volume, t.Path), Path: t.Path}},
	}}
}

// Tokens are the tokens issued for a pod. They are never printed.
type Tokens struct {
	// byKey is unexported to prevent encoding.
	byKey map[string]string
	// Expires is the earliest expiration.
	Expires time.Time
	// Renew is when new tokens are due.
	Renew time.Time
}

// maxSpread spreads the renewals of pods that started together.
const maxSpread = 30 * time.Second

// Add adds a token with the time it was issued at.
func (t *Tokens) Add(pod *corev1.Pod, key, token string, issued, expires time.Time) {
	if t.byKey == nil {
		t.byKey = map[string]string{}
	}
	t.byKey[key] = token
	lifetime := max(expires.Sub(issued), 0)
	renew := issued.Add(lifetime*4/5 - Spread(pod, min(maxSpread, lifetime/10)))
	if len(t.byKey) == 1 || expires.Before(t.Expires) {
		t.Expires = expires
	}
	if len(t.byKey) == 1 || renew.Before(t.Renew) {
		t.Renew = renew
	}
}

// Spread returns a duration below limit that differs between pods.
func Spread(pod *corev1.Pod, limit time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(pod.UID))
	return limit * time.Duration(binary.BigEndian.Uint16(sum[:])) / (1 << 16)
}

// String hides the tokens.
func (t Tokens) String() string { return fmt.Sprintf("%d tokens", len(t.byKey)) }

// GoString hides them from %#v.
func (t Tokens) GoString() string { return t.String() }

// AccountOf returns the ServiceAccount of a pod.
func AccountOf(pod *corev1.Pod) string { return cmp.Or(pod.Spec.ServiceAccountName, defaultAccount) }

// TokenSecret returns the Secret with the tokens of a pod for the provider. The ShadowPod owns the Secret; with a nil shadow, the caller
// has to delete the Secret.
func (t Target) TokenSecret(pod *corev1.Pod, shadow metav1.Object, tokens Tokens) *corev1.Secret {
	labels := t.Marks()
	labels[names.ServiceAccountName], labels[names.OffloadingNodeName] = names.Label(AccountOf(pod)), t.Node
	out := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: names.TokenSecret(pod.Name), Namespace: t.Namespace, Labels: labels,
			Annotations: map[string]string{
				names.TokenPodName: pod.Name, names.TokenPodUID: string(pod.UID),
				names.TokenExpiration: tokens.Expires.UTC().Format(time.RFC3339), names.TokenRenewal: tokens.Renew.UTC().Format(time.RFC3339),
			},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{},
	}
	if shadow != nil {
		out.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: offv1beta1.GroupVersion.String(), Kind: "ShadowPod", Name: shadow.GetName(), UID: shadow.GetUID(),
		}}
	}
	for key, token := range tokens.byKey {
		out.Data[key] = []byte(token)
	}
	return out
}

// IsSentToken reports whether a Secret in the provider holds tokens of pods. A token Secret is no copy of a local one.
func IsSentToken(s metav1.Object) bool {
	_, is := s.GetLabels()[names.ServiceAccountName]
	return is
}

// RenewAt returns when the tokens of a pod are to be replaced; the zero time means now, because current is nil, or does not match
// the pod. The values of current are not read.
func (t Target) RenewAt(current *corev1.Secret, pod *corev1.Pod, shadow metav1.Object) time.Time {
	if current == nil || current.Annotations[names.TokenPodUID] != string(pod.UID) {
		return time.Time{}
	}
	owners := current.OwnerReferences
	if len(owners) > 0 && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == shadow.GetUID() }) {
		return time.Time{}
	}
	for _, requested := range t.TokenRequests(pod) {
		if _, ok := current.Data[requested.Key]; !ok {
			return time.Time{}
		}
	}
	at, err := time.Parse(time.RFC3339, current.Annotations[names.TokenRenewal])
	if err != nil {
		return time.Time{}
	}
	return at
}
