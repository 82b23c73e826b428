// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/figures"
	"liqo.io/liqo/test/traffic"
)

// outages drops packets, ends one part after the other, and measures until pods of both sides hear each other: both ask, and the later one
// counts. The path is that between the nodes without gateways: all parts are on it.
func (w *benchEnv) outages(ctx context.Context) ([]figures.Promise, error) {
	var out []figures.Promise
	for _, story := range []struct {
		what, unit string
		limit      float64
		tell       func(context.Context, traffic.Watchers) (float64, error)
	}{
		{"packets of pods dropped on a node, by the fabric: the Connection is not Connected", "s", 5, w.downAfter(fabricLoss)},
		{"packets of pods of more than 1000 bytes dropped on a node: the Connection is not Connected", "s", 5, w.downAfter(largeFabricLoss)},
		{"packets of pods dropped in the tunnel: the Connection is not Connected", "s", 5, w.downAfter(podLoss)},
		{"packets of more than 1000 bytes dropped in the tunnel: the Connection is not Connected", "s", 5, w.downAfter(largeLoss)},
		{"all packets dropped in the tunnel: endpoints of the consumer withdrawn in the provider", "s", 5, w.withdrawn(1, false)},
		{"no packets dropped any more: endpoints of the consumer there again", "s", 5, w.withdrawn(1, true)},
		{"all packets dropped in the tunnel: endpoints of the provider withdrawn in the consumer", "s", 5, w.withdrawn(0, false)},
		{"no packets dropped any more: endpoints of the provider there again", "s", 5, w.withdrawn(0, true)},
		{"tables, rules, routes, addresses, neighbours and forwards of a node flushed: all there again", "s", 2, w.flushed((*benchEnv).otherNode, ofANode)},
		{"links of a node deleted: all there again", "s", 2, w.flushed((*benchEnv).otherNode, linksOfANode)},
		{"tables, rules, routes, addresses and link of a gateway flushed: all there again", "s", 2, w.flushed((*benchEnv).clientGateway, ofAGateway)},
		{"the process of the client's gateway killed: nobody answers", "s", 1, func(ctx context.Context, a traffic.Watchers) (float64, error) { return w.killed(ctx, a, 0) }},
		{"the process of the server's gateway killed: nobody answers", "s", 1, func(ctx context.Context, a traffic.Watchers) (float64, error) { return w.killed(ctx, a, 1) }},
		{"the fabric's pod of the client's other node replaced: questions without answer", "", 0, w.fabricReplaced(0, w.others[0])},
		{"the fabric's pod beside the client's gateway replaced: questions without answer", "", 0, w.fabricReplaced(0, w.gateways[0].Spec.NodeName)},
		{"the fabric's pod of the server's other node replaced: questions without answer", "", 0, w.fabricReplaced(1, w.others[1])},
		{"the fabric's pod beside the server's gateway replaced: questions without answer", "", 0, w.fabricReplaced(1, w.gateways[1].Spec.NodeName)},
		{"the pod of the client's gateway deleted: first answer after the new one runs", "s", 5, w.replaced([]int{0})},
		{"the pod of the server's gateway deleted: first answer after the new one runs", "s", 5, w.replaced([]int{1})},
		{"both gateways' pods deleted: first answer after the new ones run", "s", 5, w.replaced([]int{0, 1})},
		{"both gateways' pods killed without a last word: first answer after the new ones run", "s", 5, w.replaced([]int{0, 1}, client.GracePeriodSeconds(0))},
		{"the client's PublicKey applied last: first answer", "s", 5, func(ctx context.Context, a traffic.Watchers) (float64, error) {
			return w.last(ctx, a, 0, w.tunnel.Server, &networkingv1beta1.PublicKey{}, nil)
		}},
		{"the server's PublicKey applied last: first answer", "s", 5, func(ctx context.Context, a traffic.Watchers) (float64, error) {
			return w.last(ctx, a, 1, w.tunnel.Client, &networkingv1beta1.PublicKey{}, nil)
		}},
		{"the client's Configuration applied last: first answer", "s", 5, func(ctx context.Context, a traffic.Watchers) (float64, error) {
			return w.last(ctx, a, 0, w.tunnel.Server, &networkingv1beta1.Configuration{}, nil)
		}},
		{"the server's Configuration applied last: first answer", "s", 5, func(ctx context.Context, a traffic.Watchers) (float64, error) {
			return w.last(ctx, a, 1, w.tunnel.Client, &networkingv1beta1.Configuration{}, nil)
		}},
		{"the GatewayClient applied last: first answer", "s", 10, w.clientLast},
		{"the GatewayServer applied last: first answer", "s", 10, w.serverLast},
	} {
		value, err := w.watched(ctx, story.tell)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", story.what, err)
		}
		say("%s: %.3g %s", story.what, value, story.unit)
		out = append(out, figures.Promise{What: story.what, Value: value, Limit: story.limit, Unit: story.unit})
	}
	return out, nil
}

// watched tells a story while somebody asks all the time, from before, when all is well, until after, when it is again.
func (w *benchEnv) watched(ctx context.Context, tell func(context.Context, traffic.Watchers) (float64, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	asking, err := w.paths[1].Watch()
	if err != nil {
		return 0, err
	}
	defer asking.Close()
	if _, err := asking.Answered(ctx, time.Now()); err != nil {
		return 0, err
	}
	return tell(ctx, asking)
}

func (w *benchEnv) killed(ctx context.Context, asking traffic.Watchers, cluster int) (float64, error) {
	pid, err := program(w.gateways[cluster].UID)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	if err := until(ctx, "another process", func() error {
		now, err := program(w.gateways[cluster].UID)
		if err == nil && now == pid {
			err = fmt.Errorf("process %d still runs", pid)
		}
		return err
	}); err != nil {
		return 0, err
	}
	if _, err := asking.Answered(ctx, time.Now()); err != nil {
		return 0, err
	}
	longest, _ := asking.Gap(start)
	return longest.Seconds(), nil
}

// replaced deletes gateways' pods, and returns the time between the start of the last new process and the first answer after.
func (w *benchEnv) replaced(which []int, how ...client.DeleteOption) func(context.Context, traffic.Watchers) (float64, error) {
	return func(ctx context.Context, asking traffic.Watchers) (float64, error) {
		before := w.gateways
		for _, i := range which {
			if err := w.clusters[i].Client.Delete(ctx, &w.gateways[i], how...); err != nil {
				return 0, err
			}
		}
		if err := until(ctx, "new gateways", func() error {
			if err := w.findGateways(ctx); err != nil {
				return err
			}
			for _, i := range which {
				if w.gateways[i].UID == before[i].UID {
					return fmt.Errorf("the old gateway %s is there", before[i].Name)
				}
				if _, err := program(w.gateways[i].UID); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return 0, err
		}
		runs := time.Now()
		first, err := asking.Answered(ctx, runs)
		return first.Sub(runs).Seconds(), err
	}
}

// fabricReplaced deletes the fabric's pod of a node, and counts questions that are lost, also between the pods beside the gateways.
func (w *benchEnv) fabricReplaced(in int, node string) func(context.Context, traffic.Watchers) (float64, error) {
	return func(ctx context.Context, asking traffic.Watchers) (float64, error) {
		beside, err := w.paths[0].Watch()
		if err != nil {
			return 0, err
		}
		defer beside.Close()
		all := slices.Concat(asking, beside)
		if _, err := all.Answered(ctx, time.Now()); err != nil {
			return 0, err
		}
		start := time.Now()
		old, err := w.fabric(ctx, in, node)
		if err != nil {
			return 0, err
		}
		if err := w.clusters[in].Client.Delete(ctx, old.DeepCopy()); err != nil {
			return 0, err
		}
		if err := until(ctx, "a new fabric", func() error {
			now, err := w.fabric(ctx, in, node)
			if err == nil && now.UID == old.UID {
				err = fmt.Errorf("the old one is there")
			}
			return err
		}); err != nil {
			return 0, err
		}
		if _, err := all.Answered(ctx, time.Now()); err != nil {
			return 0, err
		}
		_, lost := all.Gap(start)
		return float64(lost), nil
	}
}

// fabric is the pod of a node that is ready and stays.
func (w *benchEnv) fabric(ctx context.Context, in int, node string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := w.clusters[in].Client.List(ctx, &pods, client.InNamespace("liqo"), client.MatchingLabels{"app.kubernetes.io/name": "fabric"}); err != nil {
		return nil, err
	}
	for i, p := range pods.Items {
		ready := len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil && ready {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no fabric is ready on %s", node)
}

// clientLast makes the client's gateway anew, with the key that the server knows.
func (w *benchEnv) clientLast(ctx context.Context, asking traffic.Watchers) (float64, error) {
	kept, err := w.keep(ctx, 0, "gw-client")
	if err != nil {
		return 0, err
	}
	return w.last(ctx, asking, 0, "client", &networkingv1beta1.GatewayClient{}, func(obj client.Object) {
		obj.(*networkingv1beta1.GatewayClient).Spec.SecretRef.Name = kept
	})
}

// serverLast makes the server's gateway anew, with the key and where the client knows it.
func (w *benchEnv) serverLast(ctx context.Context, asking traffic.Watchers) (float64, error) {
	kept, err := w.keep(ctx, 1, "gw-server")
	if err != nil {
		return 0, err
	}
	return w.last(ctx, asking, 1, "server", &networkingv1beta1.GatewayServer{}, func(obj client.Object) {
		s := obj.(*networkingv1beta1.GatewayServer)
		s.Spec.SecretRef.Name = kept
		if at := s.Status.Endpoint; s.Spec.Endpoint.ServiceType == corev1.ServiceTypeLoadBalancer {
			s.Spec.Endpoint.LoadBalancerIP = &at.Addresses[0]
		} else {
			s.Spec.Endpoint.NodePort = &at.Port
		}
	})
}

// keep copies the key of a gateway, which goes with it, and returns the name of the copy.
func (w *benchEnv) keep(ctx context.Context, in int, name string) (string, error) {
	var created corev1.Secret
	if err := w.clusters[in].Client.Get(ctx, client.ObjectKey{Namespace: where, Name: name}, &created); err != nil {
		return "", err
	}
	kept := corev1.Secret{Data: created.Data}
	kept.Namespace, kept.Name, kept.Labels = where, "kept", created.Labels
	return kept.Name, w.clusters[in].Client.Create(ctx, &kept)
}

// last deletes an object of a cluster, waits until nobody answers, and applies it again, with a change.
func (w *benchEnv) last(ctx context.Context, asking traffic.Watchers, in int, name string, obj client.Object, change func(client.Object)) (float64, error) {
	c := w.clusters[in].Client
	if err := c.Get(ctx, client.ObjectKey{Namespace: where, Name: name}, obj); err != nil {
		return 0, err
	}
	fresh := obj.DeepCopyObject().(client.Object)
	if err := c.Delete(ctx, obj); err != nil {
		return 0, err
	}
	if err := until(ctx, name+" to go", func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		if err == nil {
			return fmt.Errorf("%s is there", name)
		}
		return client.IgnoreNotFound(err)
	}); err != nil {
		return 0, err
	}
	if err := asking.Silent(ctx); err != nil {
		return 0, err
	}
	fresh.SetUID("")
	fresh.SetResourceVersion("")
	fresh.SetManagedFields(nil)
	fresh.SetFinalizers(nil)
	if change != nil {
		change(fresh)
	}
	applied := time.Now()
	if err := c.Create(ctx, fresh); err != nil {
		return 0, err
	}
	first, err := asking.Answered(ctx, applied)
	return first.Sub(applied).Seconds(), err
}
