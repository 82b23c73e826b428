// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

func TestIngress(t *testing.T) {
	target := Target{Origin: "rome", Destination: "milan", Namespace: "web-rome", Patch: &offv1beta1.OffloadingPatch{AnnotationsNotReflected: []string{"example.com/lb"}}}
	local := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "web", Finalizers: []string{"x"}, Annotations: map[string]string{
			"kubernetes.io/ingress.class": "old", "example.com/lb": "1", "example.com/timeout": "5",
		}},
		Spec: networkingv1.IngressSpec{
			IngressClassName: new("ours"), TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.example"}, SecretName: "tls"}},
			Rules: []networkingv1.IngressRule{{Host: "a.example"}},
		},
		Status: networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}}},
	}
	for class, want := range map[string]*string{"": nil, "theirs": new("theirs")} {
		if diff := cmp.Diff(&networkingv1.Ingress{
			TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "shop", Namespace: "web-rome", Labels: target.Marks(), Annotations: map[string]string{"example.com/timeout": "5"},
			},
			Spec: networkingv1.IngressSpec{IngressClassName: want, TLS: local.Spec.TLS, Rules: local.Spec.Rules},
		}, target.Ingress(local, class)); diff != "" {
			t.Errorf("class %q (-want +got):\n%s", class, diff)
		}
	}
}

func TestObjectIsCopiedWithoutWhatBelongsToThisCluster(t *testing.T) {
	local := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": int64(3)}, "data": "x",
		"status": map[string]any{"ready": true},
		"metadata": map[string]any{
			"name": "w", "namespace": "web", "uid": "u", "resourceVersion": "7", "finalizers": []any{"f"},
			"ownerReferences": []any{map[string]any{"name": "o"}}, "labels": map[string]any{"app": "w"},
			"annotations": map[string]any{corev1.LastAppliedConfigAnnotation: "{}"},
		},
	}}
	want := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": int64(3)}, "data": "x",
		"metadata": map[string]any{"name": "w", "namespace": "web-rome", "labels": map[string]any{
			"app": "w", names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan",
		}},
	}
	got := Target{Origin: "rome", Destination: "milan", Namespace: "web-rome"}.Object(local)
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatGivesRightsOrRunsCodeIsNeverCopiedOnRequest(t *testing.T) {
	for resource, allowed := range map[string]bool{
		"widgets.v1.example.com": true, "certificates.v1.cert-manager.io": true, "x.v1.notliqo.io": true,
		"pods.v1.": false, "serviceaccounts.v1.": false, "deployments.v1.apps": false, "jobs.v1.batch": false,
		"roles.v1.rbac.authorization.k8s.io": false, "rolebindings.v1.rbac.authorization.k8s.io": false,
		"shadowpods.v1beta1.offloading.liqo.io": false, "x.v1.liqo.io": false, "ingresses.v1.networking.k8s.io": false,
		"*.v1.example.com": false, "widgets/status.v1.example.com": false, "leases.v1.coordination.k8s.io": false,
	} {
		gvr, _ := schema.ParseResourceArg(resource)
		if gvr == nil {
			t.Fatalf("%s cannot be read", resource)
		}
		if err := MayReflect(*gvr); (err == nil) != allowed {
			t.Errorf("%s: %v", resource, err)
		}
	}
	if MayReflect(schema.GroupVersionResource{Group: "example.com", Resource: "widgets"}) == nil {
		t.Error("a resource without version is accepted")
	}
}

func TestReferences(t *testing.T) {
	local := &corev1.LocalObjectReference{Name: "local"}
	key := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	spec := &corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{key("pull")},
		InitContainers:   []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: key("init")}}}}},
		Containers: []corev1.Container{{
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: key("from")}}},
			Env: []corev1.EnvVar{
				{Value: "plain"}, {ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: key("var")}}},
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: key("var")}}},
			},
		}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: key("debug")}}},
		}}},
	}
	for _, source := range []corev1.VolumeSource{
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: key("volume")}},
		{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: key("projected")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: key("projected")}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
		}}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}},
	} {
		spec.Volumes = append(spec.Volumes, corev1.Volume{VolumeSource: source})
	}
	configMaps, secrets := References(spec)
	if diff := cmp.Diff([]string{"debug", "init", "projected", "var", "volume"}, configMaps); diff != "" {
		t.Errorf("ConfigMaps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"azure", "from", "local", "projected", "pull", "var", "volume"}, secrets); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
}

// A later Kubernetes may name a Secret in one more kind of volume: then this says so.
func TestEveryVolumeThatNamesASecretIsKnown(t *testing.T) {
	volumes := reflect.TypeFor[corev1.VolumeSource]()
	for i := range volumes.NumField() {
		source := volumes.Field(i).Type.Elem()
		for j := range source.NumField() {
			field := source.Field(j)
			if !strings.Contains(field.Name, "Secret") || field.Name == "SecretFile" { // a path
				continue
			}
			v := corev1.VolumeSource{}
			holder := reflect.New(source)
			reflect.ValueOf(&v).Elem().Field(i).Set(holder)
			switch at := holder.Elem().Field(j); {
			case at.Kind() == reflect.String:
				at.SetString("found")
			case at.Type() == reflect.TypeFor[*corev1.LocalObjectReference]():
				at.Set(reflect.ValueOf(&corev1.LocalObjectReference{Name: "found"}))
			default:
				continue
			}
			if _, secrets := References(&corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: v}}}); !slices.Contains(secrets, "found") {
				t.Errorf("%s.%s is not looked at", source.Name(), field.Name)
			}
		}
	}
}
