// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
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

// after makes a ConfigMap that is copied and waits for the copy: what was to be copied before it is there, too.
func (s *testEnv) after(name string) {
	s.t.Helper()
	marker := configMap(s.local, name, nil)
	marker.Annotations = map[string]string{names.AllowReflection: "true"}
	s.create(s.consumer, marker)
	eventually(s, s.provider, configMap(s.remoteNamespace, name, nil), exists)
}

func (s *testEnv) absent(c *testkit.ControlPlane, obj client.Object) {
	s.t.Helper()
	err := c.Client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj)
	if !apierrors.IsNotFound(err) {
		s.t.Errorf("%T %s is there: %v", obj, obj.GetName(), err)
	}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"k": []byte("v")}}
}

// refuseConfigMaps has the provider answer 422 to ConfigMaps of the twin that are not as rule says.
func (s *testEnv) refuseConfigMaps(rule string) {
	s.t.Helper()
	s.addPolicy("configmaps", admissionv1.Validation{Expression: rule})
	testkit.Eventually(s.t, limit, func() error {
		err := s.provider.Client.Create(s.t.Context(), configMap(s.remoteNamespace, "probe", map[string]string{"v": "2"}), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
}

// addPolicy has a policy look at what is made and changed in the twin.
func (s *testEnv) addPolicy(resource string, v admissionv1.Validation) {
	s.t.Helper()
	s.refuseOf(corev1.SchemeGroupVersion.WithResource(resource), v)
}

func (s *testEnv) refuseOf(resource schema.GroupVersionResource, v admissionv1.Validation) {
	s.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.remoteNamespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.remoteNamespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{resource.Group}, APIVersions: []string{resource.Version}, Resources: []string{resource.Resource}},
				}}},
			},
			Validations: []admissionv1.Validation{v},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.remoteNamespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.remoteNamespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	s.create(s.provider, policy)
	s.create(s.provider, binding)
	s.t.Cleanup(func() {
		for _, obj := range []client.Object{binding, policy} {
			if err := s.provider.Client.Delete(context.Background(), obj); err != nil {
				s.t.Error(err)
			}
		}
	})
}

func TestConfigReflection(t *testing.T) {
	s := newTestEnv(t, nil)
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
		s.waitUntilDeleted(s.provider, configMap(s.remoteNamespace, "settings", nil))
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

func TestCopiesCorrected(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	s.create(s.consumer, configMap(s.local, "settings", map[string]string{"a": "1", "b": "2"}))
	remote := eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), exists)

	s.step("what somebody changes there is put back, and what they add stays", func() {
		s.patch(s.provider, remote, `{"data":{"a":"hacked","b":null,"c":"3"}}`)
		eventually(s, s.provider, remote, dataIs(map[string]string{"a": "1", "b": "2", "c": "3"}))
	})
	s.step("what somebody deletes there is made again", func() {
		uid := remote.UID
		s.deleteNow(s.provider, remote)
		eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), func(cm *corev1.ConfigMap) error {
			if cm.UID == uid {
				return fmt.Errorf("it is the old one")
			}
			return dataIs(map[string]string{"a": "1", "b": "2"})(cm)
		})
	})
	s.step("a Secret of another type is another Secret", func() {
		s.create(s.consumer, secret(s.local, "typed"))
		eventually(s, s.provider, secret(s.remoteNamespace, "typed"), exists)
		s.deleteNow(s.consumer, secret(s.local, "typed"))
		other := secret(s.local, "typed")
		other.Type = "example.com/other"
		s.create(s.consumer, other)
		eventually(s, s.provider, secret(s.remoteNamespace, "typed"), func(copied *corev1.Secret) error {
			if copied.Type != other.Type {
				return fmt.Errorf("type %s", copied.Type)
			}
			return nil
		})
	})
	s.step("a copy that the provider does not let us change stays as it was", func() {
		s.create(s.consumer, configMap(s.local, "kept", map[string]string{"v": "1"}))
		uid := eventually(s, s.provider, configMap(s.remoteNamespace, "kept", nil), exists).UID
		s.refuseConfigMaps("!has(object.data) || !('v' in object.data) || object.data.v != '2'")
		s.patch(s.consumer, configMap(s.local, "kept", nil), `{"data":{"v":"2"}}`)
		s.event(configMap(s.local, "kept", nil), "FailedReflection", "stays as it was")
		kept := eventually(s, s.provider, configMap(s.remoteNamespace, "kept", nil), dataIs(map[string]string{"v": "1"}))
		if kept.UID != uid {
			s.t.Error("the copy was made anew")
		}
		s.patch(s.consumer, configMap(s.local, "kept", nil), `{"data":{"v":"3"}}`)
		eventually(s, s.provider, configMap(s.remoteNamespace, "kept", nil), dataIs(map[string]string{"v": "3"}))
	})
	s.step("large and binary data arrive as they are", func() {
		large := configMap(s.local, "large", map[string]string{"text": strings.Repeat("x", 500<<10)})
		large.BinaryData = map[string][]byte{"blob": bytes.Repeat([]byte{0, 255, 128}, 170<<10)}
		s.create(s.consumer, large)
		copied := eventually(s, s.provider, configMap(s.remoteNamespace, "large", nil), exists)
		if !maps.Equal(copied.Data, large.Data) || !bytes.Equal(copied.BinaryData["blob"], large.BinaryData["blob"]) {
			s.t.Error("the copy differs")
		}
	})
	s.step("a name that was taken is used once it is free", func() {
		s.create(s.provider, secret(s.remoteNamespace, "taken"))
		s.create(s.consumer, secret(s.local, "taken"))
		s.event(secret(s.local, "taken"), "FailedReflection", "already exists")
		var events corev1.EventList
		if err := s.consumer.Client.List(s.t.Context(), &events, client.InNamespace(s.local)); err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "taken" && e.Count > 1 {
				s.t.Errorf("told %d times", e.Count)
			}
		}
		s.deleteNow(s.provider, secret(s.remoteNamespace, "taken"))
		s.patch(s.consumer, secret(s.local, "taken"), `{"metadata":{"labels":{"again":"now"}}}`) // else in half a minute
		eventually(s, s.provider, secret(s.remoteNamespace, "taken"), func(copied *corev1.Secret) error {
			if copied.Labels[names.OffloadingOrigin] == "" {
				return fmt.Errorf("it is not ours")
			}
			return nil
		})
	})
	s.create(s.consumer, configMap(s.local, "doomed", nil))
	eventually(s, s.provider, configMap(s.remoteNamespace, "doomed", nil), exists)
	stop()
	before := eventually(s, s.provider, configMap(s.remoteNamespace, "large", nil), exists).ResourceVersion
	s.deleteNow(s.consumer, configMap(s.local, "doomed", nil))
	s.patch(s.consumer, configMap(s.local, "settings", nil), `{"data":{"a":"4"}}`)
	s.run()
	s.step("what changed and went while nobody looked is caught up, and nothing else is written", func() {
		s.waitUntilDeleted(s.provider, configMap(s.remoteNamespace, "doomed", nil))
		eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), dataIs(map[string]string{"a": "4", "b": "2"}))
		if now := eventually(s, s.provider, configMap(s.remoteNamespace, "large", nil), exists).ResourceVersion; now != before {
			s.t.Error("a copy that was right was written again")
		}
	})
	s.step("a namespace that is offloaded again goes on", func() {
		s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{})
		s.pod(s.local, "waits")
		eventually(s, s.consumer, s.localPod("waits"), reasonIs("OffloadingBackOff"))
		s.patch(s.consumer, configMap(s.local, "settings", nil), `{"data":{"a":"5"}}`)
		s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingAccepted}})
		eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), dataIs(map[string]string{"a": "5", "b": "2"}))
	})
	s.step("an outage of the provider is caught up", func() {
		s.provider.StopAPIServer(s.t)
		s.patch(s.consumer, configMap(s.local, "settings", nil), `{"data":{"a":"6"}}`)
		s.deleteNow(s.consumer, configMap(s.local, "large", nil))
		s.provider.StartAPIServer(s.t)
		eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), dataIs(map[string]string{"a": "6", "b": "2"}))
		s.waitUntilDeleted(s.provider, configMap(s.remoteNamespace, "large", nil))
	})
}

func TestCopiesUsedByPods(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.ConfigMaps.Type, o.Secrets.Type = translate.UsedByPods, translate.UsedByPods })
	s.run()
	for _, name := range []string{"used", "unused"} {
		s.create(s.consumer, configMap(s.local, name, nil))
		s.create(s.consumer, secret(s.local, name))
	}
	s.after("first")
	s.absent(s.provider, configMap(s.remoteNamespace, "used", nil))

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.local},
		Spec: corev1.PodSpec{
			NodeName: s.node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: "web:1", EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "used"}}},
			}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "used"},
			}}}},
		},
	}
	s.create(s.consumer, pod)
	eventually(s, s.provider, configMap(s.remoteNamespace, "used", nil), exists)
	eventually(s, s.provider, secret(s.remoteNamespace, "used"), exists)
	s.after("second")
	s.absent(s.provider, configMap(s.remoteNamespace, "unused", nil))
	s.absent(s.provider, secret(s.remoteNamespace, "unused"))

	s.step("the provider does not choose what it gets", func() {
		forged := eventually(s, s.provider, s.shadow("web"), exists).DeepCopy()
		forged.ObjectMeta = metav1.ObjectMeta{Name: "forged", Namespace: s.remoteNamespace, Labels: forged.Labels, Annotations: forged.Annotations}
		forged.Spec.Pod.Containers[0].EnvFrom[0].SecretRef.Name = "unused"
		forged.Spec.Pod.Volumes[0].ConfigMap.Name = "unused"
		s.create(s.provider, forged)
		otherPod := pod.DeepCopy()
		otherPod.ObjectMeta = metav1.ObjectMeta{Name: "elsewhere", Namespace: s.local}
		otherPod.Spec.NodeName = "an-ordinary-node"
		otherPod.Spec.Containers[0].EnvFrom[0].SecretRef.Name = "unused"
		s.create(s.consumer, otherPod)
		s.patch(s.consumer, secret(s.local, "unused"), `{"metadata":{"labels":{"look":"again"}}}`)
		s.patch(s.consumer, configMap(s.local, "unused", nil), `{"metadata":{"labels":{"look":"again"}}}`)
		s.patch(s.consumer, secret(s.local, "used"), `{"metadata":{"labels":{"look":"again"}}}`)
		eventually(s, s.provider, secret(s.remoteNamespace, "used"), func(copied *corev1.Secret) error {
			if copied.Labels["look"] == "" {
				return fmt.Errorf("labels are %v", copied.Labels)
			}
			return nil
		})
		s.after("third")
		s.absent(s.provider, configMap(s.remoteNamespace, "unused", nil))
		s.absent(s.provider, secret(s.remoteNamespace, "unused"))
		s.deleteNow(s.provider, forged)
	})
	s.step("another virtual node of the provider counts", func() {
		vn := &offv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Name: s.node + "-b", Namespace: s.tenant}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: s.providerID},
		}
		s.create(s.consumer, vn)
		other := pod.DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Name: "other", Namespace: s.local}
		other.Spec.NodeName = vn.Name
		other.Spec.Containers[0].EnvFrom[0].SecretRef.Name = "unused"
		s.create(s.consumer, other)
		eventually(s, s.provider, secret(s.remoteNamespace, "unused"), exists)
		s.deleteNow(s.consumer, other)
		s.waitUntilDeleted(s.provider, secret(s.remoteNamespace, "unused"))
	})

	if err := s.consumer.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(s.provider, configMap(s.remoteNamespace, "used", nil))
	s.waitUntilDeleted(s.provider, secret(s.remoteNamespace, "used"))
}

func TestReflectionPolicies(t *testing.T) {
	s := newTestEnv(t, func(o *Options) {
		o.ConfigMaps.Type, o.Secrets.Workers, o.Ingresses.Type, o.IngressClass = translate.AllowList, -1, translate.DenyList, "theirs"
	})
	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}
	s.patch(s.consumer, vn, `{"spec":{"offloadingPatch":{"labelsNotReflected":["private"],"annotationsNotReflected":["example.com/lb"]}}}`)
	s.run()
	s.create(s.consumer, configMap(s.local, "plain", nil))
	s.create(s.consumer, secret(s.local, "plain"))
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop", Namespace: s.local, Labels: map[string]string{"private": "1", "app": "shop"},
			Annotations: map[string]string{"example.com/lb": "1", "kubernetes.io/ingress.class": "ours"},
		},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "shop", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}},
	}
	s.create(s.consumer, ingress.DeepCopy())
	copied := eventually(s, s.provider, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: s.remoteNamespace}}, exists)
	want := map[string]string{"app": "shop", names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan"}
	if diff := cmp.Diff(want, copied.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if c := copied.Spec.IngressClassName; c == nil || *c != "theirs" || copied.Annotations["example.com/lb"] != "" {
		t.Errorf("class %v, annotations %v", c, copied.Annotations)
	}
	s.after("marker")
	s.absent(s.provider, configMap(s.remoteNamespace, "plain", nil))
	s.absent(s.provider, secret(s.remoteNamespace, "plain"))

	s.step("a copy goes when it may not be there any more", func() {
		s.patch(s.consumer, ingress, `{"metadata":{"annotations":{"liqo.io/skip-reflection":"true"}}}`)
		s.waitUntilDeleted(s.provider, copied)
		s.event(ingress, "ReflectionDisabled", "policy")
		s.patch(s.consumer, ingress, `{"metadata":{"annotations":{"liqo.io/skip-reflection":"false"}}}`)
		eventually(s, s.provider, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: s.remoteNamespace}}, exists)
	})
}

func TestReflectionFilterOptions(t *testing.T) {
	s := newTestEnv(t, nil)
	cm := configMap(s.local, "settings", nil)
	cm.Labels, cm.Annotations = map[string]string{"private": "1", "app": "shop"}, map[string]string{"example.com/owner": "me"}
	s.create(s.consumer, cm)
	sent := func(labels, annotations string) {
		s.t.Helper()
		eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), func(cm *corev1.ConfigMap) error {
			if cm.Labels["private"] != labels || cm.Annotations["example.com/owner"] != annotations || cm.Labels["app"] != "shop" {
				return fmt.Errorf("labels %v, annotations %v", cm.Labels, cm.Annotations)
			}
			return nil
		})
	}
	stop := s.run()
	sent("1", "me")
	stop()
	s.step("a key that is to stay here is not sent any more", func() {
		s.options.LabelsNotReflected, s.options.AnnotationsNotReflected = []string{"private"}, []string{"example.com/owner"}
		stop = s.run()
		sent("", "")
		stop()
	})
	s.step("and is sent again when it need not", func() {
		s.options.LabelsNotReflected, s.options.AnnotationsNotReflected = nil, nil
		s.run()
		sent("1", "me")
	})
}

func TestResourceReflection(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "widgets"}
	s := newTestEnv(t, func(o *Options) {
		o.Resources = []ResourceReflection{
			{Resource: widgets, Reflection: Reflection{Workers: 1}},
			{Resource: schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "missing"}, Reflection: Reflection{Workers: 1}},
		}
	})
	for _, c := range []*testkit.ControlPlane{s.consumer, s.provider} {
		definition := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "widgets." + widgets.Group},
			"spec": map[string]any{
				"group": widgets.Group, "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true, "schema": map[string]any{
						"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					},
				}},
			},
		}}
		if err := c.Client.Create(t.Context(), definition); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	widget := func(namespace string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}, "status": map[string]any{"ready": true}}}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: widgets.Group, Version: "v1", Kind: "Widget"})
		u.SetNamespace(namespace)
		u.SetName("w")
		return u
	}
	testkit.Eventually(t, limit, func() error { return s.consumer.Client.Create(t.Context(), widget(s.local)) })
	s.run()
	size := func(want int64) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedInt64(u.Object, "spec", "size"); got != want || u.Object["status"] != nil {
				return fmt.Errorf("size %d, status %v", got, u.Object["status"])
			}
			return nil
		}
	}
	eventually(s, s.provider, widget(s.remoteNamespace), size(3))
	s.patch(s.consumer, widget(s.local), `{"spec":{"size":4}}`)
	eventually(s, s.provider, widget(s.remoteNamespace), size(4))
	s.deleteNow(s.consumer, widget(s.local))
	s.waitUntilDeleted(s.provider, widget(s.remoteNamespace))
}

func TestReflectionOptionsRefused(t *testing.T) {
	resource := func(text string) ResourceReflection {
		r, err := ParseResourceReflection(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"all is well": {Options{
			ConfigMaps: Reflection{Type: translate.UsedByPods}, Events: Reflection{Type: translate.CustomLiqo},
			Resources: []ResourceReflection{resource("widgets.v1.example.com:2:AllowList")},
		}, ""},
		"a misspelled policy":      {Options{ConfigMaps: Reflection{Type: "Allowlist"}}, `the reflection type "Allowlist" of ConfigMaps does not exist`},
		"a policy of others":       {Options{Ingresses: Reflection{Type: translate.UsedByPods}}, `the reflection type "UsedByPods" of Ingresses does not exist`},
		"a dangerous resource":     {Options{Resources: []ResourceReflection{resource("roles.v1.rbac.authorization.k8s.io")}}, "never copied on request"},
		"a resource twice":         {Options{Resources: []ResourceReflection{resource("a.v1.b.c"), resource("a.v2.b.c")}}, "named twice"},
		"a policy for no resource": {Options{Resources: []ResourceReflection{resource("a.v1.b.c:1:All")}}, `"All" of a.b.c does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.options.validateReflection()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	for _, text := range []string{"", "widgets", "widgets.v1.example.com:many", "a.v1.b.c:1:AllowList:more"} {
		if _, err := ParseResourceReflection(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
