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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/figures"
)

// peer has the clusters peer and part once and so many times again with a network, and as often without: each time right after the one before.
func (w *world) peer(ctx context.Context, times int) ([]figures.Promise, error) {
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
	listener, err := ends[1].listen()
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	port := uint16(listener.Addr().(*net.TCPAddr).Port)

	var all, alone, parted, partedAlone []float64
	for range times + 1 { // the first time is another
		took, undone, err := w.peerOnce(ctx, func(ctx context.Context) error { return w.answers(ctx, ends, port) })
		if err != nil {
			return nil, err
		}
		say("peered after %.2f s, parted after %.2f s", took, undone)
		all, parted = append(all, took), append(parted, undone)
	}
	for range times {
		took, undone, err := w.peerOnce(ctx, nil, "--networking-disabled")
		if err != nil {
			return nil, err
		}
		say("without a network: peered after %.2f s, parted after %.2f s", took, undone)
		alone, partedAlone = append(alone, took), append(partedAlone, undone)
	}
	return []figures.Promise{
		{What: "peer for the first time, until a pod is answered and the node is Ready", Value: all[0], Limit: 8, Unit: "s"},
		{What: "peer again, right after an unpeer", Value: figures.Median(all[1:]), Limit: 8, Unit: "s"},
		{What: "peer without a network, until the node is Ready", Value: figures.Median(alone), Limit: 4, Unit: "s"},
		{What: "unpeer, until nothing is left", Value: figures.Median(parted), Limit: 2.5, Unit: "s"},
		{What: "unpeer without a network, until nothing is left", Value: figures.Median(partedAlone), Limit: 2.5, Unit: "s"},
	}, nil
}

// ends are a pod in each cluster.
func (w *world) ends(ctx context.Context) (ends [2]place, err error) {
	for i, c := range w.clusters {
		var nodes corev1.NodeList
		if err := c.Client.List(ctx, &nodes); err != nil {
			return ends, err
		}
		if ends[i], err = idle(ctx, c, nodes.Items[0].Name); err != nil {
			return ends, err
		}
	}
	return ends, nil
}

// listen accepts connections where the place is, as long as it is not closed.
func (p place) listen() (listener net.Listener, err error) {
	err = p.do(func() error {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(p.own, 0).String())
		return err
	})
	return listener, err
}

// answers connects to the pod of the provider from that of the consumer, by the address that the consumer knows by now.
func (w *world) answers(ctx context.Context, ends [2]place, port uint16) error {
	provider := w.clusters[1].ID
	to, err := seen(ctx, w.clusters[0], "liqo-tenant-"+provider, provider, ends[1].own)
	if err != nil {
		return err
	}
	return ends[0].do(func() error {
		conn, err := net.DialTimeout("tcp4", netip.AddrPortFrom(to, port).String(), 100*time.Millisecond)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// peerOnce peers, waits until the virtual node is Ready and until works, which may be nil, has no error, and, once that is at
// rest, parts. It returns how many seconds both commands took. When the latter returns nothing is left but what the first time left:
// tenant namespaces, and what every namespace has.
func (w *world) peerOnce(ctx context.Context, works func(context.Context) error, flags ...string) (took, parted float64, err error) {
	consumer, provider := w.clusters[0], w.clusters[1]
	began := time.Now()
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
	took = time.Since(began).Seconds()
	if err := until(ctx, "a peering at rest", func() error { return w.atRest(ctx) }); err != nil {
		return 0, 0, err
	}

	began = time.Now()
	if _, err := consumer.Liqoctl("unpeer", "--remote-kubeconfig", provider.Kubeconfig); err != nil {
		return 0, 0, err
	}
	parted = time.Since(began).Seconds()
	return took, parted, w.parts(ctx)
}

// rest is how long pods have been ready, by whole seconds, that their nodes are not busy with any more: a kubelet looks each second at what
// runs, and has to look twice to end what it has only just begun.
const rest = 4 * time.Second

// atRest fails while a pod in a tenant namespace is not ready, or became so only now.
func (w *world) atRest(ctx context.Context) error {
	for _, c := range w.clusters {
		var pods corev1.PodList
		if err := c.Client.List(ctx, &pods); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if strings.HasPrefix(pod.Namespace, "liqo-tenant-") && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && time.Since(c.LastTransitionTime.Time) > rest
			}) {
				return fmt.Errorf("pod %s in %s is not ready, or is so only now", pod.Name, c.ID)
			}
		}
	}
	return nil
}

// parts fails while anything is left of a peering that was not left when the first one ended.
func (w *world) parts(ctx context.Context) error {
	after, err := listings(ctx, w.clusters[:])
	if err != nil {
		return err
	}
	for i, c := range w.clusters {
		if err := after[i].Settled(); err != nil {
			return err
		}
		if w.parted == nil {
			continue // tenant namespaces stay from the first time on
		}
		if diff := clusters.Changes(w.parted[i], after[i]); diff != "" {
			return fmt.Errorf("left in %s, or gone from it (-before +after):\n%s", c.ID, diff)
		}
	}
	if w.parted == nil {
		w.parted = after
	}
	return nil
}

func listings(ctx context.Context, of []*clusters.Cluster) (out []clusters.Listing, err error) {
	for _, c := range of {
		one, err := c.Listing(ctx)
		if err != nil {
			return nil, err
		}
		for name := range one {
			// Kubernetes clears requests away, an hour later; which nonces served is remembered as long as there is a tenant namespace.
			if strings.HasPrefix(name, "certificatesigningrequests ") || strings.Contains(name, " authentication-nonces-") {
				delete(one, name)
			}
		}
		out = append(out, one)
	}
	return out, nil
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
