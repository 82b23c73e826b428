// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"liqo.io/liqo/internal/names"
)

// set gives the field of a path a value, in structs that it makes on the way.
func set(t *testing.T, v reflect.Value, path []string) {
	t.Helper()
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if len(path) == 0 {
		switch v.Kind() {
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.String:
			v.SetString("x")
		}
		return
	}
	name, isList := strings.CutSuffix(path[0], "[*]")
	child := fieldOf(v, name)
	if !child.IsValid() {
		t.Fatalf("%s has no field %s", v.Type(), name)
	}
	if isList {
		child.Set(reflect.MakeSlice(child.Type(), 2, 2))
		child = child.Index(1)
	}
	set(t, child, path[1:])
}

func fieldOf(v reflect.Value, name string) reflect.Value {
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if tag == name {
			return v.Field(i)
		}
		if tag == "" && v.Type().Field(i).Anonymous {
			if found := fieldOf(v.Field(i), name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

func podWith(t *testing.T, path string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	set(t, reflect.ValueOf(pod), strings.Split(path, "."))
	return pod
}

func TestRequiredMinor(t *testing.T) {
	for _, f := range NewPodFields() {
		pod := podWith(t, f.Path)
		if f.credential {
			if minor, field := RequiredMinor(pod); minor != 0 {
				t.Errorf("%s needs 1.%d, though the pod loses %s", field, minor, f.Path)
			}
			pod.Annotations = map[string]string{names.APIServerSupport: names.APIServerSupportRemote}
		}
		if minor, field := RequiredMinor(pod); minor != f.Minor || field == "" || !strings.HasPrefix(f.Path, field) {
			t.Errorf("%s needs 1.%d because of %q, want 1.%d", f.Path, minor, field, f.Minor)
		}
	}
	for _, path := range []string{"spec.resources.claims[*].name", "spec.hostUsers", "spec.volumes[*].image.reference", "spec.containers[*].livenessProbe.grpc.port", "spec.schedulingGroup.podGroupName"} {
		if minor, field := RequiredMinor(podWith(t, path)); minor != 0 {
			t.Errorf("a pod with %s needs 1.%d because of %s", path, minor, field)
		}
	}
}

func TestMinorOf(t *testing.T) {
	for text, want := range map[string]int{"37": 37, "29": 30, "": 0, "x": 0, "-1": 0, "1000": 0, "37.2": 0} {
		if got := MinorOf(map[string]string{names.KubernetesMinor: text}); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestRequireMinor(t *testing.T) {
	const field = "spec.volumes[*].emptyDir.mode"
	node := func(minor string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": "ssd"}}}
		if minor != "" {
			n.Labels[names.KubernetesMinor] = minor
		}
		return n
	}
	runsOn := func(pod *corev1.Pod) (minors []string) {
		for _, minor := range []string{"", "30", "36", "37", "38"} {
			if ok, _ := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node(minor)); ok {
				minors = append(minors, minor)
			}
		}
		return minors
	}
	for rule, tc := range map[string]struct {
		edit func(*corev1.Pod)
		want string
	}{
		"no_affinity":  {func(*corev1.Pod) {}, "[ 37 38]"},
		"own_affinity": {func(p *corev1.Pod) { p.Spec.Affinity = podRequiring("disk=ssd|gpu=yes").Spec.Affinity }, "[ 37 38]"},
		"impossible":   {func(p *corev1.Pod) { p.Spec.Affinity = podRequiring("disk=hdd").Spec.Affinity }, "[]"},
		"bound":        {func(p *corev1.Pod) { p.Spec.NodeName = "x" }, "[ 30 36 37 38]"},
		"no_new_field": {func(p *corev1.Pod) { p.Spec.Volumes = nil }, "[ 30 36 37 38]"},
		"of_a_DaemonSet": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}, "[ 30 36 37 38]"},
		"of_runtime_class": {func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("liqo") }, "[ 37 38]"},
	} {
		t.Run(rule, func(t *testing.T) {
			pod := podWith(t, field)
			tc.edit(pod)
			before := pod.DeepCopy()
			warning := RequireMinor(pod, offloading(either, ""))
			if got := fmt.Sprint(runsOn(pod)); got != tc.want {
				t.Errorf("runs on %s, want %s", got, tc.want)
			}
			changed := !reflect.DeepEqual(before, pod)
			if want := field + " needs Kubernetes 1.37: "; changed != strings.HasPrefix(warning, want) {
				t.Errorf("changed is %t, warning is %q", changed, warning)
			}
			once := pod.DeepCopy()
			RequireMinor(pod, offloading(either, ""))
			SteerPod(pod, offloading(either, ""), "liqo")
			if diff := cmp.Diff(once.Spec.Affinity, pod.Spec.Affinity); diff != "" {
				t.Errorf("it is not idempotent: %s", diff)
			}
		})
	}
	t.Run("local", func(t *testing.T) {
		pod := podWith(t, field)
		if warning := RequireMinor(pod, offloading(local, "")); warning != "" || pod.Spec.Affinity != nil {
			t.Errorf("a pod that stays here is changed: %s", warning)
		}
	})
	t.Run("steered", func(t *testing.T) {
		nso := offloading(either, "disk=ssd")
		pod := podWith(t, field)
		SteerPod(pod, nso, "liqo")
		RequireMinor(pod, nso)
		if got := RemedyForWaiting(pod, nso, "liqo"); got != Leave {
			t.Errorf("the remedy of a pod that waits is %s", got)
		}
		if !slices.Equal(runsOn(pod), []string{"", "37", "38"}) {
			t.Errorf("runs on %v", runsOn(pod))
		}
	})
}

func TestCheckMinor(t *testing.T) {
	pod := podWith(t, "spec.volumes[*].projected.sources[*].clusterTrustBundle")
	for minor, want := range map[string]string{"": "", "38": "", "37": "", "36": "spec.volumes[*].projected.sources[*].clusterTrustBundle needs Kubernetes 1.37, and the provider has 1.36"} {
		if got := CheckMinor(pod, map[string]string{names.KubernetesMinor: minor}); got != want {
			t.Errorf("%q: got %q, want %q", minor, got, want)
		}
	}
}
