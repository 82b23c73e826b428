// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/ctl/cluster"
)

// mostReads is how many requests an answer needs at most, of both clusters. So it takes a fraction of the promised 10 seconds, if an API server
// answers a request in 100 ms.
const mostReads = 60

// reads are the requests of a command, by cluster, kind and selection. The time that they take depends on the machine, their number does not.
type reads struct {
	mu    sync.Mutex
	count map[string]int
}

// countReads has clusters count what is read from them.
func countReads(clusters ...*cluster.Cluster) *reads {
	r := &reads{count: map[string]int{}}
	note := func(of *cluster.Cluster, what any, selection ...any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.count[fmt.Sprintf("%s %T %+v", of.ID, what, selection)]++
	}
	for _, of := range clusters {
		of.Kube = interceptor.NewClient(of.Kube, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				note(of, obj, key)
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				note(of, list, *(&client.ListOptions{}).ApplyOptions(opts))
				return c.List(ctx, list, opts...)
			},
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				note(of, list, "watch", *(&client.ListOptions{}).ApplyOptions(opts))
				return c.Watch(ctx, list, opts...)
			},
		})
	}
	return r
}

// expectOnePass fails if something was read again and again: an answer neither polls nor waits. The ends of a trace may be in one namespace, which
// is read for each.
func (r *reads) expectOnePass(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	total := 0
	for what, n := range r.count {
		if total += n; n > 2 {
			t.Errorf("read %d times: %s", n, what)
		}
	}
	if total == 0 || total > mostReads {
		t.Errorf("%d requests, want 1 to %d", total, mostReads)
	}
	t.Logf("%d requests", total)
}
