// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

// eachAmount calls do with the path of each amount that a type has, and with a value of the type in which that one is negative.
func eachAmount(path string, of reflect.Type, do func(path string, value reflect.Value)) {
	switch {
	case of == reflect.TypeFor[resource.Quantity]():
		do(path, reflect.ValueOf(resource.MustParse("-1")))
		return
	case strings.Count(path, ".") > 12:
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		eachAmount(path, of.Elem(), func(path string, value reflect.Value) {
			out := reflect.New(of.Elem())
			out.Elem().Set(value)
			do(path, out)
		})
	case reflect.Slice:
		eachAmount(path+"[]", of.Elem(), func(path string, value reflect.Value) {
			do(path, reflect.Append(reflect.MakeSlice(of, 0, 1), value))
		})
	case reflect.Map:
		if of.Key().Kind() != reflect.String {
			return
		}
		eachAmount(path+"[]", of.Elem(), func(path string, value reflect.Value) {
			out := reflect.MakeMap(of)
			out.SetMapIndex(reflect.ValueOf("cpu").Convert(of.Key()), value)
			do(path, out)
		})
	case reflect.Struct:
		for i := range of.NumField() {
			if !of.Field(i).IsExported() {
				continue
			}
			eachAmount(path+"."+of.Field(i).Name, of.Field(i).Type, func(path string, value reflect.Value) {
				out := reflect.New(of).Elem()
				out.Field(i).Set(value)
				do(path, out)
			})
		}
	}
}

// A field that a later version of Kubernetes adds is met here.
func TestCheckAmounts(t *testing.T) {
	found := 0
	eachAmount("", reflect.TypeFor[corev1.PodSpec](), func(path string, value reflect.Value) {
		if strings.HasSuffix(path, ".ResourceFieldRef.Divisor") {
			return // a unit that an amount is told in, which nothing counts
		}
		found++
		pod := value.Interface().(corev1.PodSpec)
		if err := CheckAmounts(&pod); err == nil || !strings.Contains(err.Error(), "-1: an amount cannot be negative") {
			t.Errorf("%s: %v", path, err)
		}
	})
	if found < 10 {
		t.Errorf("only %d amounts were found", found)
	}
}

// Whatever a pod says, it needs no less than nothing.
func TestPodRequestsNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := hostilePod(t)
		for name, q := range PodRequests(pod) {
			if q.Sign() < 0 {
				t.Fatalf("it needs %s of %s", q.String(), name)
			}
		}
		used := hostileList(t, "used")
		SubtractResources(used, PodRequests(pod))
		for name, q := range used {
			if _, less := PodRequests(pod)[name]; less && q.Sign() < 0 {
				t.Fatalf("%s of %s are left", q.String(), name)
			}
		}
	})
}

func hostileList(t *rapid.T, label string) corev1.ResourceList {
	return rapid.MapOfN(rapid.SampledFrom(someResources), rapid.Custom(func(t *rapid.T) resource.Quantity {
		return resource.MustParse(rapid.StringMatching(`-?[0-9]{1,6}(\.[0-9])?(m|Ti|e9|n|)`).Draw(t, "amount"))
	}), 0, 3).Draw(t, label)
}

func hostilePod(t *rapid.T) *corev1.PodSpec {
	requirements := func() corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: hostileList(t, "requests"), Limits: hostileList(t, "limits")}
	}
	pod := &corev1.PodSpec{Overhead: hostileList(t, "overhead")}
	for range rapid.IntRange(0, 3).Draw(t, "containers") {
		pod.Containers = append(pod.Containers, corev1.Container{Resources: requirements()})
	}
	for range rapid.IntRange(0, 3).Draw(t, "init containers") {
		c := corev1.Container{Resources: requirements()}
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.InitContainers = append(pod.InitContainers, c)
	}
	if rapid.Bool().Draw(t, "pod level") {
		pod.Resources = new(requirements())
	}
	return pod
}
