// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/figures"
	"liqo.io/liqo/test/traffic"
)

// peer has the clusters peer and part so many times with a network, and as often without: each time as if for the first time, and again right
// after that.
func (w *benchEnv) peer(ctx context.Context, times int) ([]figures.Promise, error) {
	if times < 1 {
		return nil, nil
	}
	for _, c := range w.clusters { // what an earlier run left would go when they part
		out, err := c.Kubectl("", "get", "configurations,tenants,virtualnodes", "-A", "-o", "name")
		if err != nil {
			return nil, err
		}
		if out != "" {
			say("how they peer is only measured where they never did: %s has %s", c.ID, strings.Fields(out)[0])
			return nil, nil
		}
	}
	ends, err := w.ends(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ends[1])
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	port := uint16(listener.Addr().(*net.TCPAddr).Port)

	for i, c := range w.clusters {
		if w.apart[i], err = c.Listing(ctx); err != nil {
			return nil, err
		}
	}
	var out []figures.Promise
	for _, kind := range []struct {
		name, until string
		works       func(context.Context) error
		flags       []string
		limit       float64
		pods        [2]int // by cluster
	}{
		{"", "until a pod is answered and the node is Ready", func(ctx context.Context) error { return w.answers(ctx, ends, port) }, nil, 8, [2]int{2, 1}},
		{" without a network", "until the node is Ready", nil, []string{"--networking-disabled"}, 4, [2]int{1, 0}},
	} {
		var first, again, parted, began, ended []float64
		for range times {
			for _, all := range []*[]float64{&first, &again} {
				took, undone, err := w.peerOnce(ctx, kind.works, kind.flags...)
				if err != nil {
					return nil, err
				}
				say("peered%s after %.2f s, parted after %.2f s", kind.name, took, undone)
				*all, parted = append(*all, took), append(parted, undone)
			}
			if err := w.forget(ctx); err != nil {
				return nil, err
			}
			up, down, err := w.alone(ctx, kind.pods)
			if err != nil {
				return nil, err
			}
			say("Kubernetes alone: as many pods ready after %.2f s, gone after %.2f s", up, down)
			began, ended = append(began, up), append(ended, down)
		}
		out = append(out,
			figures.Promise{What: "peer" + kind.name + " for the first time, " + kind.until, Value: figures.Median(first), Limit: kind.limit, Unit: "s"},
			figures.Promise{What: "peer" + kind.name + " again, right after an unpeer", Value: figures.Median(again), Limit: kind.limit, Unit: "s"},
			figures.Promise{What: "unpeer" + kind.name + ", until nothing is left", Value: figures.Median(parted), Limit: 2.5, Unit: "s"},
			figures.Promise{What: "peer" + kind.name + ", of what Kubernetes takes to begin as many pods", Value: figures.Median(slices.Concat(first, again)) / figures.Median(began), Limit: 5, Unit: "x"},
			figures.Promise{What: "unpeer" + kind.name + ", of what Kubernetes takes to end as many pods", Value: figures.Median(parted) / figures.Median(ended), Limit: 2, Unit: "x"})
	}
	var refused []float64
	for range times {
		took, err := w.refused(ctx)
		if err != nil {
			return nil, err
		}
		say("refused %.2f s after the Tenant was deleted", took)
		refused = append(refused, took)
	}
	return append(out, figures.Promise{What: "calls of a consumer whose Tenant was deleted, until all are refused: the longest", Value: slices.Max(refused), Limit: 5, Unit: "s"}), nil
}

// refused peers, offloads a namespace and deletes the Tenant of the consumer, and returns after how many seconds the credentials of the consumer are of no use
// in the tenant namespace, nor those of its slice in the twin namespace. Then it parts: nothing is left.
func (w *benchEnv) refused(ctx context.Context) (took float64, err error) {
	consumer, provider := w.clusters[0], w.clusters[1]
	tenant := "liqo-tenant-" + consumer.ID
	if _, err := consumer.Liqoctl("peer", "--remote-kubeconfig", provider.Kubeconfig, "--networking-disabled"); err != nil {
		return 0, err
	}
	const lent = "lent"
	if _, err := consumer.Kubectl("", "create", "namespace", lent); err != nil {
		return 0, err
	}
	if _, err := consumer.Liqoctl("offload", "namespace", lent); err != nil {
		return 0, err
	}
	var calls []func() error
	for identity, call := range map[string]struct {
		in  string
		all client.ObjectList
	}{
		"controlplane-" + provider.ID:  {tenant, &authv1beta1.ResourceSliceList{}},
		"resourceslice-" + provider.ID: {lent + "-" + consumer.ID, &offv1beta1.ShadowPodList{}},
	} {
		as, err := w.holderOf(identity)
		if err != nil {
			return 0, err
		}
		calls = append(calls, func() error { return as.List(ctx, call.all, client.InNamespace(call.in)) })
	}
	if err := until(ctx, "what the consumer may do", func() error { return errors.Join(calls[0](), calls[1]()) }); err != nil {
		return 0, err
	}
	if _, err := provider.Kubectl("", "delete", "tenant", "-n", tenant, consumer.ID, "--wait=false"); err != nil {
		return 0, err
	}
	start := time.Now()
	err = until(ctx, "refusals", func() error {
		for _, call := range calls {
			if err := call(); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a call is not refused: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	took = time.Since(start).Seconds()
	if _, err := consumer.Liqoctl("unpeer", "--remote-kubeconfig", provider.Kubeconfig, "--delete-namespaces"); err != nil {
		return 0, err
	}
	if _, err := consumer.Kubectl("", "delete", "namespace", lent); err != nil {
		return 0, err
	}
	return took, w.checkNothingRemains(ctx, nil)
}

// holderOf is a client of the provider with the credentials of an Identity of the consumer.
func (w *benchEnv) holderOf(identity string) (client.Client, error) {
	consumer, provider := w.clusters[0], w.clusters[1]
	kubeconfig, err := consumer.Liqoctl("get", "kubeconfig", identity, "--remote-cluster-id", provider.ID)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("the credentials of Identity %s: %w", identity, err)
	}
	return client.New(cfg, client.Options{Scheme: provider.Client.Scheme()})
}

// ends are a pod in each cluster.
func (w *benchEnv) ends(ctx context.Context) (ends [2]traffic.Endpoint, err error) {
	for i, c := range w.clusters {
		var nodes corev1.NodeList
		if err := c.Client.List(ctx, &nodes); err != nil {
			return ends, err
		}
		if ends[i], err = traffic.StartPod(ctx, c, nodes.Items[0].Name); err != nil {
			return ends, err
		}
	}
	return ends, nil
}

// listen accepts connections in the network namespace of the endpoint until it is closed.
func listen(p traffic.Endpoint) (listener net.Listener, err error) {
	err = p.Do(func() error {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(p.Own, 0).String())
		return err
	})
	return listener, err
}

// answers connects to the pod of the provider from that of the consumer, by the address that the consumer knows by now.
func (w *benchEnv) answers(ctx context.Context, ends [2]traffic.Endpoint, port uint16) error {
	provider := w.clusters[1].ID
	to, err := traffic.TranslateAddress(ctx, w.clusters[0], "liqo-tenant-"+provider, provider, ends[1].Own)
	if err != nil {
		return err
	}
	return ends[0].Do(func() error {
		conn, err := net.DialTimeout("tcp4", netip.AddrPortFrom(to, port).String(), 100*time.Millisecond)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// peerOnce peers, waits until the virtual node is Ready and until works, which may be nil, has no error, and, once that is at
// rest, parts. It returns how many seconds both commands took. When the latter returns nothing is left but what stays.
func (w *benchEnv) peerOnce(ctx context.Context, works func(context.Context) error, flags ...string) (took, parted float64, err error) {
	consumer, provider := w.clusters[0], w.clusters[1]
	start := time.Now()
	returned := make(chan error, 1)
	go func() {
		_, err := consumer.Liqoctl(append([]string{"peer", "--remote-kubeconfig", provider.Kubeconfig}, flags...)...)
		returned <- err
	}()
	if works != nil {
		if err := until(ctx, "an answer", func() error { return works(ctx) }); err != nil {
			return 0, 0, errors.Join(err, <-returned)
		}
	}
	if err := until(ctx, "the virtual node", func() error { return nodeReady(ctx, consumer) }); err != nil {
		return 0, 0, errors.Join(err, <-returned)
	}
	if err := <-returned; err != nil {
		return 0, 0, err
	}
	took = time.Since(start).Seconds()
	if err := until(ctx, "a peering at rest", func() error { return w.atRest(ctx) }); err != nil {
		return 0, 0, err
	}

	start = time.Now()
	if _, err := consumer.Liqoctl("unpeer", "--remote-kubeconfig", provider.Kubeconfig); err != nil {
		return 0, 0, err
	}
	parted = time.Since(start).Seconds()
	return took, parted, w.checkNothingRemains(ctx, clusters.Staying(consumer.ID, provider.ID))
}

// forget removes what stays, too.
func (w *benchEnv) forget(ctx context.Context) error {
	if _, err := w.clusters[0].Liqoctl("unpeer", "--remote-kubeconfig", w.clusters[1].Kubeconfig, "--delete-namespaces"); err != nil {
		return err
	}
	return w.checkNothingRemains(ctx, nil)
}

// rest is how long pods have been ready, by whole seconds, that their nodes are not busy with any more: a kubelet looks each second at what
// runs, and has to look twice to end what it has only just begun.
const rest = 4 * time.Second

// atRest fails while a pod in a tenant namespace is not ready, or became so only now.
func (w *benchEnv) atRest(ctx context.Context) error {
	for _, c := range w.clusters {
		var pods corev1.PodList
		if err := c.Client.List(ctx, &pods); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if strings.HasPrefix(pod.Namespace, "liqo-tenant-") && readyFor(pod) <= rest {
				return fmt.Errorf("pod %s in %s is not ready, or is so only now", pod.Name, c.ID)
			}
		}
	}
	return nil
}

// checkNothingRemains fails where there is anything that was not there before they ever peered, and does not stay, or other than it was.
func (w *benchEnv) checkNothingRemains(ctx context.Context, stays map[string][]string) error {
	for i, c := range w.clusters {
		after, err := c.Listing(ctx)
		if err == nil {
			err = after.Settled()
		}
		if err != nil {
			return err
		}
		remaining, err := after.Without(stays[c.ID]...)
		if err != nil {
			return fmt.Errorf("in %s: %w", c.ID, err)
		}
		if diff := clusters.Changes(w.apart[i], remaining); diff != "" {
			return fmt.Errorf("left in %s, or gone from it (-before +after):\n%s", c.ID, diff)
		}
	}
	return nil
}

// nodeReady wants one virtual node, which is.
func nodeReady(ctx context.Context, c *clusters.Cluster) error {
	var list corev1.NodeList
	if err := c.Client.List(ctx, &list, client.MatchingLabels{"liqo.io/type": "virtual-node"}); err != nil {
		return err
	}
	for _, n := range list.Items {
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady && cond.Status == corev1.ConditionTrue {
				return nil
			}
		}
	}
	return fmt.Errorf("of %d virtual nodes none is Ready", len(list.Items))
}
