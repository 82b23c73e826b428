// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// slowClient holds a patch back until it may go on.
type slowClient struct {
	client.Client
	began, goOn chan struct{}
	ended       chan error
}

func (c slowClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	close(c.began)
	<-c.goOn
	err := c.Client.Patch(context.WithoutCancel(ctx), obj, patch, opts...)
	c.ended <- err
	return err
}

// readSignal tells of each read.
type readSignal struct {
	client.Client
	reads chan struct{}
}

func (r readSignal) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := r.Client.Get(ctx, key, obj, opts...)
	select {
	case r.reads <- struct{}{}:
	default:
	}
	return err
}

// One replica takes over and is deposed before its write arrives. The other one, active again, saw nothing to change until then.
func TestLateWriteOfDeposedReplica(t *testing.T) {
	c := testkit.Cluster(t)
	where := testkit.Namespace(t, c, "tenant", nil)
	endpoint := func(pod, ip string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(ready), Serving: new(ready)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod},
		}
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: names.Gateway("rome")}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{endpoint("gw-a", "10.0.0.7", false), endpoint("gw-b", "10.0.0.8", true)},
	}
	testkit.Create(t, c.Client, slice)
	watched, err := cache.New(c.Config, cache.Options{Scheme: c.Client.Scheme(), DefaultNamespaces: map[string]cache.Config{where: {}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = watched.Start(t.Context()) }()
	slow := slowClient{c.Client, make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	read := readSignal{c.Client, make(chan struct{}, 1)}
	replica := func(pod string, by client.Client) *elector {
		return &elector{options: Options{Server: true, Namespace: where, Name: "rome", Pod: pod}, client: by, cache: watched, log: logr.Discard(), endpointDue: agent.NewTrigger()}
	}
	a, b := replica("gw-a", slow), replica("gw-b", read)
	set := func(e *elector, active bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.active = active; active {
			e.endpointDue.Send()
		}
	}
	set(a, true)
	go a.keepEndpointReady(t.Context())
	go b.keepEndpointReady(t.Context())
	<-slow.began
	set(a, false)
	set(b, true)
	<-read.reads
	close(slow.goOn)
	if err := <-slow.ended; err != nil {
		t.Fatalf("the late write did not arrive, which is what this is about: %v", err)
	}
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(slice), slice); err != nil {
			return err
		}
		if *slice.Endpoints[0].Conditions.Ready || !*slice.Endpoints[1].Conditions.Ready {
			return errors.New("the Service stays on the deposed replica")
		}
		return nil
	})
}

// A replica that may not watch the endpoints says so, instead of waiting without end.
func TestEndpointsWithoutRights(t *testing.T) {
	c := testkit.Cluster(t)
	where := testkit.Namespace(t, c, "tenant", nil)
	config := rest.CopyConfig(c.Config)
	config.Impersonate.UserName = "without-rights"
	watched, err := cache.New(config, cache.Options{Scheme: c.Client.Scheme(), Mapper: c.Client.RESTMapper(), DefaultNamespaces: map[string]cache.Config{where: {}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = watched.Start(t.Context()) }()
	if !watched.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not start")
	}
	e := &elector{cache: watched, endpointDue: agent.NewTrigger()}
	ended := make(chan error, 1)
	go func() { ended <- e.watchEndpoints(t.Context()) }()
	testkit.Eventually(t, patience, func() error {
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("endpoints are watched without the right")
			}
			return nil
		default:
			return errors.New("it still waits")
		}
	})
}
