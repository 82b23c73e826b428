// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

const (
	// spreadTimeout bounds the propagation of endpoints to all clusters. The checks report missing endpoints afterwards.
	spreadTimeout = 30 * time.Second
	// balancerTimeout is how long a load balancer may take to get an address.
	balancerTimeout = 3 * time.Minute
)

// finishTest deletes the fixtures, unless the user wants to keep them.
func (t *networkTest) finishTest(ctx context.Context) error {
	if !t.remove {
		t.Info("The namespace %s and those like it in the other clusters are left: the next run removes them", TestNamespace)
		return nil
	}
	return t.removeAtEnd(ctx)
}

// deployFixtures creates the namespaces, the Services and the server pods.
func (t *networkTest) deployFixtures(ctx context.Context) error {
	if err := t.createNamespaces(ctx); err != nil {
		return err
	}
	if err := t.offloadNamespace(ctx); err != nil {
		return err
	}
	if t.ip {
		if err := t.showAll(ctx); err != nil {
			return err
		}
	}
	for _, service := range t.newServices() {
		t.SetCommonMetadata(service)
		if err := t.ensureMade(ctx, t.consumer, service); err != nil {
			return t.consumer.WrapWithCluster(err)
		}
	}
	servers := t.allServers()
	done := fmt.Sprintf("%d pods to ask are ready", len(servers))
	return t.consumer.RunStep("Waiting for the pods to ask", done, func() error {
		if err := t.awaitAccount(ctx, t.consumer); err != nil {
			return err
		}
		for _, pod := range servers {
			t.SetCommonMetadata(pod)
			if err := t.ensureMade(ctx, t.consumer, pod); err != nil {
				return err
			}
		}
		return t.awaitServers(ctx, len(servers))
	})
}

// awaitServers waits until all server pods are ready and have addresses.
func (t *networkTest) awaitServers(ctx context.Context, n int) error {
	its := []client.ListOption{client.InNamespace(t.consumer.servers), client.HasLabels{ServerLabel}}
	return awaitReady(ctx, t.consumer, its, func(pods []corev1.Pod) error {
		if len(pods) != n {
			return ui.Fail("%d server pods exist instead of %d: another client created or deleted some", len(pods), n)
		}
		return nil
	})
}

// awaitEndpoints waits until a cluster knows all backends of a Service, and returns the Service. Missing backends cause a warning: the checks find
// them, too.
func (t *networkTest) awaitEndpoints(ctx context.Context, p *testCluster, name string, n int) (*corev1.Service, error) {
	within, cancel := context.WithTimeout(ctx, spreadTimeout)
	defer cancel()
	service, key := &corev1.Service{}, client.ObjectKey{Namespace: p.servers, Name: name}
	its := []client.ListOption{client.InNamespace(p.servers), client.MatchingLabels{discoveryv1.LabelServiceName: name}}
	err := kube.WaitUntil(within, p.Kube, func(ctx context.Context) error {
		err := p.Kube.Get(ctx, key, service)
		if apierrors.IsNotFound(err) {
			return kube.Pending("there is no Service " + key.String())
		} else if err != nil {
			return err
		}
		var list discoveryv1.EndpointSliceList
		if err := p.Kube.List(ctx, &list, its...); err != nil {
			return err
		}
		if known := readyEndpoints(list.Items); known < n {
			return kube.Pending(fmt.Sprintf("the Service %s has %d of %d endpoints", key, known, n))
		}
		return nil
	}, kube.WatchOne(&corev1.ServiceList{}, key), kube.Watched{List: &discoveryv1.EndpointSliceList{}, Opts: its})
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		p.Warn("%s", cluster.DescribeError(err))
		return service, nil
	}
	return service, p.WrapWithCluster(err)
}

func readyEndpoints(slices []discoveryv1.EndpointSlice) int {
	ready := map[string]bool{}
	for i := range slices {
		for _, e := range slices[i].Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				ready[e.Addresses[0]] = true
			}
		}
	}
	return len(ready)
}

// awaitLoadBalancer waits for the external address of a Service.
func (p *testCluster) awaitLoadBalancer(ctx context.Context, key client.ObjectKey) (string, error) {
	at := ""
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := kube.WaitForReady(ctx, p.Kube, service, func(_ context.Context, service *corev1.Service) error {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if at = cmp.Or(ingress.IP, ingress.Hostname); at != "" {
				return nil
			}
		}
		return kube.Pending("the Service " + key.String() + " has no address of a load balancer")
	})
	return at, err
}
