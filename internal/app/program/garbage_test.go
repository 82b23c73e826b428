// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestGarbageLimit(t *testing.T) {
	before := debug.SetGCPercent(cachesPercent)
	defer debug.SetGCPercent(before)
	LeaveGarbage()
	for range 3 {
		debug.SetGCPercent(cachesPercent)
		for deadline := time.Now().Add(time.Minute); debug.SetGCPercent(cachesPercent) == cachesPercent; runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatal("nothing was decided after a collection")
			}
		}
	}
}

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 4 << 20: 400, 5 << 20: 320, 16 << 20: 100, 32 << 20: 50, 1 << 30: 50} {
		if got := percentOf(live); got != want {
			t.Errorf("of %d bytes alive: %d %%, want %d", live, got, want)
		}
	}
}

// BenchmarkGarbage decodes API responses beside a cache of some pods, with the GOGC of the environment, or with LeaveGarbage if there is none.
// gc-ns/op is the CPU of the collector for a response.
func BenchmarkGarbage(b *testing.B) {
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}}}
	response, err := json.Marshal(&pod)
	if err != nil {
		b.Fatal(err)
	}
	if os.Getenv("GOGC") == "" {
		LeaveGarbage()
	}
	for name, cached := range map[string]int{"small_cache": 300, "large_cache": 20_000} {
		b.Run(name, func(b *testing.B) {
			cache := make([]corev1.Pod, cached)
			for i := range cache {
				if err := json.Unmarshal(response, &cache[i]); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			collector := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
			metrics.Read(collector)
			before := collector[0].Value.Float64()
			for b.Loop() {
				if err := json.Unmarshal(response, new(corev1.Pod)); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			metrics.Read(collector)
			b.ReportMetric((collector[0].Value.Float64()-before)*1e9/float64(b.N), "gc-ns/op")
			runtime.KeepAlive(cache)
		})
	}
}
