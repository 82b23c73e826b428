// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/names"
)

var began = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTokensAsked(t *testing.T) {
	pod := ordinary()
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "empty"}, corev1.Volume{Name: "vault", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "a/token", Audience: "vault"}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "b/token", ExpirationSeconds: new(int64(600))}},
		},
	}}})
	allowing := target
	allowing.Audiences = []string{"vault"}
	got := allowing.TokenRequests(pod)
	want := []TokenRequest{
		{Key: "kube-api-access-x-3c469e", Lifetime: 3607}, {Key: "vault-6a2418", Audience: "vault", Lifetime: 3600}, {Key: "vault-204100", Lifetime: 600},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func shadowOf(uid types.UID) metav1.Object { return &metav1.ObjectMeta{Name: "web", UID: uid} }

func TestTokenSecret(t *testing.T) {
	pod := ordinary()
	tokens := Tokens{}
	tokens.Add(pod, "kube-api-access-x-3c469e", "s3cret", began, began.Add(time.Hour))
	tokens.Add(pod, "other", "s3cret-2", began, began.Add(10*time.Minute))
	got := target.TokenSecret(pod, shadowOf("5678"), tokens)
	want := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-token", Namespace: "web-rome",
			Labels: map[string]string{
				names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan", names.OffloadingNodeName: "milan",
				"offloading.liqo.io/service-account-name": "builder",
			},
			Annotations: map[string]string{
				"offloading.liqo.io/service-account-for-pod-name": "web", "offloading.liqo.io/service-account-for-pod-uid": "1234",
				"offloading.liqo.io/service-account-expiration": "2026-01-02T12:10:00Z",
				"offloading.liqo.io/service-account-renewal":    tokens.Renew.Format(time.RFC3339),
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "web", UID: "5678"}},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"kube-api-access-x-3c469e": []byte("s3cret"), "other": []byte("s3cret-2")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !IsSentToken(got) || IsSentToken(&corev1.Secret{}) {
		t.Error("Secrets with tokens are not told from others")
	}
	encoded, _ := json.Marshal(tokens)
	if text := fmt.Sprintf("%v %+v %#v %s", tokens, &tokens, tokens, encoded); strings.Contains(text, "s3cret") {
		t.Errorf("tokens are printed: %s", text)
	}
}

func TestRenewAt(t *testing.T) {
	pod := ordinary()
	tokens := Tokens{}
	tokens.Add(pod, "kube-api-access-x-3c469e", "s3cret", began, began.Add(time.Hour))
	for name, test := range map[string]struct {
		edit  func(s *corev1.Secret)
		right bool
	}{
		"as it was sent":           {func(*corev1.Secret) {}, true},
		"its values are not known": {func(s *corev1.Secret) { s.Data["kube-api-access-x-3c469e"] = nil }, true},
		"nothing owns it":          {func(s *corev1.Secret) { s.OwnerReferences = nil }, true},
		"an earlier ShadowPod owns it": {func(s *corev1.Secret) {
			s.OwnerReferences[0].UID = "1111"
		}, false},
		"of an earlier pod":         {func(s *corev1.Secret) { s.Annotations[names.TokenPodUID] = "1111" }, false},
		"a token is missing":        {func(s *corev1.Secret) { s.Data = nil }, false},
		"no time is said":           {func(s *corev1.Secret) { delete(s.Annotations, names.TokenRenewal) }, false},
		"a time that is none":       {func(s *corev1.Secret) { s.Annotations[names.TokenRenewal] = "soon" }, false},
		"that it expires is no sin": {func(s *corev1.Secret) { delete(s.Annotations, names.TokenExpiration) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			have := target.TokenSecret(pod, shadowOf("5678"), tokens)
			test.edit(have)
			want := time.Time{}
			if test.right {
				want = tokens.Renew.Truncate(time.Second)
			}
			if got := target.RenewAt(have, pod, shadowOf("5678")); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	if !target.RenewAt(nil, pod, shadowOf("5678")).IsZero() {
		t.Error("what is not there is right")
	}
}

// Tokens are replaced when less than a third and more than a sixth of their life is left, whatever the API server grants.
func TestTokensAreReplacedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := ordinary()
		pod.UID = types.UID(rapid.String().Draw(t, "uid"))
		lifetime := time.Duration(rapid.IntRange(60, 1<<25).Draw(t, "lifetime")) * time.Second
		tokens := Tokens{}
		tokens.Add(pod, "one", "x", began, began.Add(lifetime))
		tokens.Add(pod, "two", "x", began, began.Add(lifetime*2))
		remaining := began.Add(lifetime).Sub(tokens.Renew)
		if remaining < lifetime/6 || remaining > lifetime/3 || !tokens.Expires.Equal(began.Add(lifetime)) {
			t.Fatalf("of %s %s are left", lifetime, remaining)
		}
	})
}

// A Secret here that looks like one with tokens has a copy that does not: the reflection of Secrets would leave it alone.
func TestNoCopyIsTakenForTokens(t *testing.T) {
	local := target.TokenSecret(ordinary(), nil, Tokens{})
	got := target.Secret(local)
	if diff := cmp.Diff(target.Marks(), withoutKeys(got.Labels, []string{names.OffloadingNodeName})); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(got.Annotations) > 0 || IsSentToken(got) {
		t.Errorf("got %v", got.ObjectMeta)
	}
}

// Tokens of other audiences leave only where the pod or the installation says so.
func TestAudiencesOfTokensThatLeave(t *testing.T) {
	const cloud, vault = "sts.amazonaws.com", "vault"
	for name, test := range map[string]struct {
		audiences  []string
		annotation string
		sent, kept []string
	}{
		"by_default":       {nil, "", []string{""}, []string{cloud, vault}},
		"of_the_pod":       {nil, " vault, other", []string{"", vault}, []string{cloud}},
		"of_the_value":     {[]string{cloud}, "", []string{cloud, ""}, []string{vault}},
		"of_both":          {[]string{cloud}, "vault", []string{cloud, "", vault}, nil},
		"all_of_the_pod":   {nil, "*", []string{cloud, "", vault}, nil},
		"all_of_the_value": {[]string{"*"}, "", []string{cloud, "", vault}, nil},
		"a_part_of_one":    {[]string{"sts"}, "vaul,", []string{""}, []string{cloud, vault}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Target: target, Pod: ordinary(), Route: byTunnel}
			in.Audiences = test.audiences
			in.Pod.Annotations = map[string]string{names.TokenAudiences: test.annotation}
			in.Pod.Spec.Volumes = nil
			for _, audience := range []string{cloud, "", vault} {
				in.Pod.Spec.Volumes = append(in.Pod.Spec.Volumes, corev1.Volume{Name: "v" + audience, VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: audience}},
					}},
				}})
			}
			var sent, shown []string
			for _, requested := range in.TokenRequests(in.Pod) {
				sent = append(sent, requested.Audience)
			}
			for i, v := range ShadowPod(in).Spec.Pod.Volumes {
				if sources := v.Projected.Sources; len(sources) == 1 && sources[0].Secret != nil {
					shown = append(shown, []string{cloud, "", vault}[i])
				} else if len(sources) > 0 {
					t.Errorf("the volume has %+v", sources)
				}
			}
			if diff := cmp.Diff(test.sent, sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.sent, shown); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.kept, in.AudiencesKept(in.Pod)); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}
