// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: data}
}

func dataIs(want map[string]string) func(*corev1.ConfigMap) error {
	return func(cm *corev1.ConfigMap) error {
		if diff := cmp.Diff(want, cm.Data); diff != "" {
			return fmt.Errorf("data (-want +got):\n%s", diff)
		}
		return nil
	}
}

func TestConfigReflection(t *testing.T) {
	s := newStage(t, nil)
	s.create(s.provider, configMap(s.remoteNamespace, "taken", map[string]string{"whose": "the provider's"}))
	s.run()

	s.create(s.consumer, configMap(s.local, "settings", map[string]string{"a": "1", "b": "2"}))
	remote := eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), dataIs(map[string]string{"a": "1", "b": "2"}))
	if remote.Labels[names.OffloadingOrigin] != "rome" || remote.Labels[names.OffloadingDestination] != "milan" {
		t.Errorf("labels are %v", remote.Labels)
	}
	s.patch(s.consumer, configMap(s.local, "settings", nil), `{"data":{"a":null,"b":"3"}}`)
	eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), dataIs(map[string]string{"b": "3"}))

	root := eventually(s, s.consumer, configMap(s.local, "kube-root-ca.crt", nil), exists)
	eventually(s, s.provider, configMap(s.remoteNamespace, names.RootCA("rome"), nil), dataIs(root.Data))
	own := eventually(s, s.provider, configMap(s.remoteNamespace, "kube-root-ca.crt", nil), exists)
	if own.Labels[names.OffloadingOrigin] != "" {
		t.Error("the provider's own root CA was touched")
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: s.local},
		Type:       corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")},
	}
	s.create(s.consumer, secret.DeepCopy())
	copied := eventually(s, s.provider, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: s.remoteNamespace}}, exists)
	if diff := cmp.Diff(secret.Data, copied.Data); diff != "" || copied.Type != secret.Type {
		t.Errorf("secret of type %s (-want +got):\n%s", copied.Type, diff)
	}

	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: s.local, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	s.create(s.consumer, token) // that it did not leave is looked at last

	skipped := configMap(s.local, "skipped", nil)
	skipped.Annotations = map[string]string{names.SkipReflection: "true"}
	s.create(s.consumer, skipped)
	s.event(skipped, "ReflectionDisabled", "annotations")

	s.create(s.consumer, configMap(s.local, "taken", map[string]string{"whose": "mine"}))
	s.event(configMap(s.local, "taken", nil), "FailedReflection", "already exists")
	eventually(s, s.provider, configMap(s.remoteNamespace, "taken", nil), dataIs(map[string]string{"whose": "the provider's"}))

	s.step("a replaced immutable object is replaced there", func() {
		fixed := configMap(s.local, "fixed", map[string]string{"v": "1"})
		fixed.Immutable = new(true)
		s.create(s.consumer, fixed.DeepCopy())
		eventually(s, s.provider, configMap(s.remoteNamespace, "fixed", nil), dataIs(fixed.Data))
		s.deleteNow(s.consumer, fixed)
		fixed.Data["v"] = "2"
		s.create(s.consumer, fixed.DeepCopy())
		eventually(s, s.provider, configMap(s.remoteNamespace, "fixed", nil), dataIs(fixed.Data))
	})
	s.step("what is deleted here goes there, and nothing else", func() {
		s.deleteNow(s.consumer, configMap(s.local, "settings", nil))
		s.gone(s.provider, configMap(s.remoteNamespace, "settings", nil))
		s.deleteNow(s.consumer, configMap(s.local, "taken", nil))
		s.create(s.consumer, configMap(s.local, "marker", nil))
		eventually(s, s.provider, configMap(s.remoteNamespace, "marker", nil), exists)
		eventually(s, s.provider, configMap(s.remoteNamespace, "taken", nil), exists)
	})
	s.step("the end of reflection deletes nothing", func() {
		s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{})
		s.pod(s.local, "marker")
		eventually(s, s.consumer, s.localPod("marker"), reasonIs("OffloadingBackOff"))
		eventually(s, s.provider, configMap(s.remoteNamespace, "marker", nil), exists)
	})
	tokens := &corev1.SecretList{}
	if err := s.provider.Client.List(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	for _, secret := range tokens.Items {
		if secret.Name == "token" || secret.Type == corev1.SecretTypeServiceAccountToken {
			t.Errorf("a token left the cluster in Secret %s/%s", secret.Namespace, secret.Name)
		}
	}
}
