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

func TestConfigurationIsReflected(t *testing.T) {
	s := newStage(t, nil)
	s.create(s.there, configMap(s.twin, "taken", map[string]string{"whose": "the provider's"}))
	s.run()

	s.create(s.here, configMap(s.local, "settings", map[string]string{"a": "1", "b": "2"}))
	remote := eventually(s, s.there, configMap(s.twin, "settings", nil), dataIs(map[string]string{"a": "1", "b": "2"}))
	if remote.Labels[names.OffloadingOrigin] != "rome" || remote.Labels[names.OffloadingDestination] != "milan" {
		t.Errorf("labels are %v", remote.Labels)
	}
	s.patch(s.here, configMap(s.local, "settings", nil), `{"data":{"a":null,"b":"3"}}`)
	eventually(s, s.there, configMap(s.twin, "settings", nil), dataIs(map[string]string{"b": "3"}))

	root := eventually(s, s.here, configMap(s.local, "kube-root-ca.crt", nil), exists)
	eventually(s, s.there, configMap(s.twin, names.RootCA("rome"), nil), dataIs(root.Data))
	own := eventually(s, s.there, configMap(s.twin, "kube-root-ca.crt", nil), exists)
	if own.Labels[names.OffloadingOrigin] != "" {
		t.Error("the provider's own root CA was touched")
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: s.local},
		Type:       corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")},
	}
	s.create(s.here, secret.DeepCopy())
	copied := eventually(s, s.there, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: s.twin}}, exists)
	if diff := cmp.Diff(secret.Data, copied.Data); diff != "" || copied.Type != secret.Type {
		t.Errorf("secret of type %s (-want +got):\n%s", copied.Type, diff)
	}

	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: s.local, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	s.create(s.here, token) // that it did not leave is looked at last

	skipped := configMap(s.local, "skipped", nil)
	skipped.Annotations = map[string]string{names.SkipReflection: "true"}
	s.create(s.here, skipped)
	s.event(skipped, "ReflectionDisabled", "annotations")

	s.create(s.here, configMap(s.local, "taken", map[string]string{"whose": "mine"}))
	s.event(configMap(s.local, "taken", nil), "FailedReflection", "already exists")
	eventually(s, s.there, configMap(s.twin, "taken", nil), dataIs(map[string]string{"whose": "the provider's"}))

	s.step("a replaced immutable object is replaced there", func() {
		fixed := configMap(s.local, "fixed", map[string]string{"v": "1"})
		fixed.Immutable = new(true)
		s.create(s.here, fixed.DeepCopy())
		eventually(s, s.there, configMap(s.twin, "fixed", nil), dataIs(fixed.Data))
		s.deleteNow(s.here, fixed)
		fixed.Data["v"] = "2"
		s.create(s.here, fixed.DeepCopy())
		eventually(s, s.there, configMap(s.twin, "fixed", nil), dataIs(fixed.Data))
	})
	s.step("what is deleted here goes there, and nothing else", func() {
		s.deleteNow(s.here, configMap(s.local, "settings", nil))
		s.gone(s.there, configMap(s.twin, "settings", nil))
		s.deleteNow(s.here, configMap(s.local, "taken", nil))
		s.create(s.here, configMap(s.local, "marker", nil))
		eventually(s, s.there, configMap(s.twin, "marker", nil), exists)
		eventually(s, s.there, configMap(s.twin, "taken", nil), exists)
	})
	s.step("the end of reflection deletes nothing", func() {
		s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{})
		s.pod(s.local, "marker")
		eventually(s, s.here, s.localPod("marker"), reasonIs("OffloadingBackOff"))
		eventually(s, s.there, configMap(s.twin, "marker", nil), exists)
	})
	tokens := &corev1.SecretList{}
	if err := s.there.Client.List(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	for _, secret := range tokens.Items {
		if secret.Name == "token" || secret.Type == corev1.SecretTypeServiceAccountToken {
			t.Errorf("a token left the cluster in Secret %s/%s", secret.Namespace, secret.Name)
		}
	}
}
