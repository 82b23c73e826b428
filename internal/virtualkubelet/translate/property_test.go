// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// words are the strings of random pods: those that mean something here, and others.
var words = rapid.SampledFrom([]string{
	"a", "b", "main", rootCAConfigMap, "metadata.namespace", "metadata.labels", "spec.nodeName", "KUBERNETES_SERVICE_HOST",
	"KUBERNETES_PORT", names.VirtualNodeTaint, names.RuntimeClass, "Always", "Never",
})

// random fills v. One field of a struct in three is set, so that all combinations of few occur.
func random(t *rapid.T, v reflect.Value, depth int) {
	some := func() bool { return depth > 0 && rapid.IntRange(0, 2).Draw(t, "some") == 0 }
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		random(t, v.Elem(), depth)
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			random(t, v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		random(t, key, depth-1)
		random(t, value, depth-1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
			*q = *resource.NewQuantity(rapid.Int64Range(0, 99).Draw(t, "quantity"), resource.DecimalSI)
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() && some() {
				random(t, v.Field(i), depth-1)
			}
		}
	case reflect.String:
		v.SetString(words.Draw(t, "word"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rapid.IntRange(0, 99).Draw(t, "number")))
	}
}

func randomPod(t *rapid.T) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "web", UID: "1234"}}
	random(t, reflect.ValueOf(&p.Spec).Elem(), 7)
	for i := range p.Spec.EphemeralContainers {
		p.Spec.EphemeralContainers[i].Name = fmt.Sprint("debug-", i)
	}
	for list, prefix := range map[*[]corev1.Container]string{&p.Spec.InitContainers: "init-", &p.Spec.Containers: "main-"} {
		for i := range *list {
			(*list)[i].Name = fmt.Sprint(prefix, i)
		}
	}
	if rapid.Bool().Draw(t, "remote") {
		p.Annotations = map[string]string{names.APIServerSupport: names.APIServerSupportRemote}
	}
	return p
}

// lostIn names the kept fields that are not the same any more.
func lostIn[T any](fields map[string]field, before, after T) []string {
	var out []string
	typ := reflect.TypeFor[T]()
	for i := range typ.NumField() {
		b, a := reflect.ValueOf(before).Field(i), reflect.ValueOf(after).Field(i)
		if fields[jsonName(typ.Field(i))].fate == kept && !reflect.DeepEqual(b.Interface(), a.Interface()) {
			out = append(out, typ.Field(i).Name)
		}
	}
	return out
}

func TestRandomPodsKeepWhatTheTableSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPod(t)
		before := p.DeepCopy()
		once := ShadowPod(Input{Target: target, Pod: p})
		if diff := cmp.Diff(before, p); diff != "" {
			t.Fatalf("the local pod was changed:\n%s", diff)
		}
		spec := once.Spec.Pod
		lost := lostIn(podFields, p.Spec, spec)
		if len(spec.Containers) != len(p.Spec.Containers) || len(spec.InitContainers) != len(p.Spec.InitContainers) || len(spec.Volumes) != len(p.Spec.Volumes) {
			t.Fatal("a container or a volume is lost")
		}
		for i := range spec.Containers {
			lost = append(lost, lostIn(containerFields, p.Spec.Containers[i], spec.Containers[i])...)
		}
		for i := range spec.InitContainers {
			lost = append(lost, lostIn(containerFields, p.Spec.InitContainers[i], spec.InitContainers[i])...)
		}
		for i := range spec.Volumes {
			lost = append(lost, lostIn(volumeFields, p.Spec.Volumes[i].VolumeSource, spec.Volumes[i].VolumeSource)...)
		}
		if len(lost) > 0 {
			t.Fatalf("lost: %v", lost)
		}
	})
}

// The caller does not compare a ShadowPod that is as it was made with what follows from the local pod.
func TestNothingFollowsIntoWhatWasJustMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPod(t)
		p.Spec.EphemeralContainers = nil
		created := ShadowPod(Input{Target: target, Pod: p})
		if diff := cmp.Diff(created, ShadowPod(Input{Target: target, Pod: p, Existing: created}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("what follows (-made +now):\n%s", diff)
		}
	})
}

func TestRandomPodsTakeNothingOutThatStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPod(t)
		spec := ShadowPod(Input{Target: target, Pod: p}).Spec.Pod
		if spec.HostNetwork || spec.HostPID || spec.HostIPC || spec.NodeName != "" || spec.Priority != nil || spec.PriorityClassName != "" || spec.NodeSelector != nil {
			t.Fatalf("the pod reaches for the host or for a node: %+v", spec)
		}
		if AccessOf(p, nil) == AccessRemote {
			return
		}
		if spec.ServiceAccountName != "" || *spec.AutomountServiceAccountToken {
			t.Fatal("the pod has an account of the provider")
		}
		for _, v := range spec.Volumes {
			if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, isCredential) {
				t.Fatalf("volume %s holds a credential", v.Name)
			}
		}
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			ownVars := (*APIServerRoute)(nil).envVars()
			if diff := cmp.Diff(ownVars, c.Env[:len(ownVars)]); diff != "" {
				t.Fatalf("%s is led to an API server (-want +got):\n%s", c.Name, diff)
			}
		}
	})
}

func TestTranslatingRandomPodsAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Target: target, Pod: randomPod(t)}
		first := ShadowPod(in)
		in.Existing = first
		second := ShadowPod(in)
		in.Existing = second
		if diff := cmp.Diff(second, ShadowPod(in)); diff != "" {
			t.Fatalf("the third time is not the second:\n%s", diff)
		}
		first.Spec.Pod.EphemeralContainers = second.Spec.Pod.EphemeralContainers // which come later
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("the second time is not the first:\n%s", diff)
		}
		// What comes back does not change what goes there.
		remote := &corev1.Pod{Spec: second.Spec.Pod}
		random(t, reflect.ValueOf(&remote.Status).Elem(), 4)
		remote.Status.EphemeralContainerStatuses = nil
		in.Pod.Status = PodStatus(StatusInput{Local: in.Pod, Remote: remote})
		if diff := cmp.Diff(second, ShadowPod(in)); diff != "" {
			t.Fatalf("the status changed what is asked for:\n%s", diff)
		}
	})
}

var phases = []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}

// A pod goes on, whatever happens to its remote pod and to us.
func TestAPodNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		local := pod("l", corev1.PodPending, 0, corev1.ContainerState{})
		local.Status.ContainerStatuses = nil
		local.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(t, "policy")
		remote, uid := pod("1", corev1.PodPending, 0, corev1.ContainerState{}), '1'
		var known Restarts
		write := func(s corev1.PodStatus) func(*rapid.T) {
			return func(t *rapid.T) {
				before, now := local.Status, s
				if slices.Index(phases, now.Phase) < slices.Index(phases, before.Phase) || policy.Ended(before.Phase) && now.Phase != before.Phase {
					t.Fatalf("phase went from %s to %s", before.Phase, now.Phase)
				}
				for i, old := range before.ContainerStatuses {
					switch is := now.ContainerStatuses[i]; {
					case is.RestartCount < old.RestartCount:
						t.Fatalf("restarts went from %d to %d", old.RestartCount, is.RestartCount)
					case endedForGood(old, local, local.Spec.Containers) && is.State.Terminated == nil:
						t.Fatal("the API server refuses that a container runs again")
					}
				}
				local.Status = now
			}
		}
		reflectRemote := func(t *rapid.T) {
			known = known.Count(local, remote)
			in := StatusInput{Local: local, Remote: remote, Restarts: known}
			write(PodStatus(in))(t)
			if diff := cmp.Diff(local.Status, PodStatus(in)); diff != "" {
				t.Fatalf("an unchanged pod has another status:\n%s", diff)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"the remote pod goes on": func(t *rapid.T) {
				remote.Status.Phase = rapid.SampledFrom(phases).Draw(t, "phase")
				s := &remote.Status.ContainerStatuses[0]
				s.RestartCount += rapid.Int32Range(0, 3).Draw(t, "restarts")
				s.State = rapid.SampledFrom([]corev1.ContainerState{{}, running, endedAt(-5), endedAt(5)}).Draw(t, "state")
				reflectRemote(t)
			},
			"somebody deletes it": func(t *rapid.T) { deleted(remote, 30); reflectRemote(t) },
			"it is gone":          func(t *rapid.T) { write(Missing(local))(t) },
			"it is made again": func(t *rapid.T) {
				uid++
				remote = pod(types.UID(uid), corev1.PodPending, 0, corev1.ContainerState{})
				reflectRemote(t)
			},
			"we restart":    func(t *rapid.T) { known = Restarts{}; reflectRemote(t) },
			"it is refused": func(t *rapid.T) { write(Refused(local, "no"))(t) },
			"its namespace is withdrawn": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					write(NotReflected(local))(t)
				}
			},
		})
	})
}
