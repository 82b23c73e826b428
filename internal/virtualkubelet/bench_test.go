// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"

	"liqo.io/liqo/internal/testkit"
)

// BenchmarkConfigMapReflection measures the time from asking the consumer's API server for a ConfigMap until a watch of
// the provider shows the copy, one after the other, on idle API servers.
func BenchmarkConfigMapReflection(b *testing.B) {
	consumer, provider := testkit.Cluster(b), testkit.SecondCluster(b)
	pair := multicluster.Pair{Local: testkit.Namespace(b, consumer, "bench", nil), Remote: testkit.Namespace(b, provider, "bench", nil)}
	conn, err := multicluster.NewConn(testkit.Kubeconfig(b, provider.Config), multicluster.AllowLoopback(true))
	if err != nil {
		b.Fatal(err)
	}
	p := &process{options: Options{ClusterID: "rome", Provider: "milan", Node: "milan"}.withDefaults()}
	if p.clients, err = kubernetes.NewForConfig(consumer.Config); err != nil {
		b.Fatal(err)
	}
	p.virtual.Store(&offv1beta1.VirtualNode{})
	ctx, stop := context.WithCancel(b.Context())
	p.broadcaster = p.newBroadcaster(ctx)
	engine, err := multicluster.New(multicluster.Options{
		Local: consumer.Config, Remote: conn, Kinds: []multicluster.Kind{newCopyKind(p, configMapKind(p.options))}, FieldManager: names.ReflectionFieldManager, Peer: "milan",
	})
	if err != nil {
		b.Fatal(err)
	}
	engine.Set([]multicluster.Pair{pair})
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		<-done
		conn.Close()
	})
	testkit.Eventually(b, limit, func() error {
		if !engine.Synced(pair) {
			return fmt.Errorf("not synced")
		}
		return nil
	})
	clients, err := kubernetes.NewForConfig(provider.Config)
	if err != nil {
		b.Fatal(err)
	}
	copies, err := clients.CoreV1().ConfigMaps(pair.Remote).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(copies.Stop)

	var times []time.Duration
	for b.Loop() {
		name := fmt.Sprintf("c%d", len(times))
		begin := time.Now()
		if err := consumer.Client.Create(ctx, configMap(pair.Local, name, map[string]string{"k": "v"})); err != nil {
			b.Fatal(err)
		}
		for event := range copies.ResultChan() {
			if cm, ok := event.Object.(*corev1.ConfigMap); ok && cm.Name == name && event.Type == watch.Added {
				break
			}
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	at := func(part float64) float64 {
		return float64(times[int(part*float64(len(times)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.95), "p95-ms")
}
