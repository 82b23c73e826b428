// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/traffic"
)

// Packets are dropped as somebody else would, in a table of nftables beside ours, and the tunnel is as it was when that is gone.

// loss is an nftables expression that selects the dropped packets of an endpoint.
type loss struct {
	at          func(*benchEnv) (traffic.Endpoint, error)
	hook, which string
}

var (
	// Of a node what it forwards for its pods, and not what it sends itself.
	fabricLoss      = loss{(*benchEnv).otherNode, "forward", `oifname "liqo.fabric"`}
	largeFabricLoss = loss{(*benchEnv).otherNode, "forward", `oifname "liqo.fabric" meta length > 1000`}
	// What a gateway itself asks the other one is not forwarded.
	podLoss    = loss{(*benchEnv).clientGateway, "forward", `oifname "liqo-tunnel"`}
	largeLoss  = loss{(*benchEnv).clientGateway, "postrouting", `oifname "liqo-tunnel" meta length > 1000`}
	tunnelLoss = loss{(*benchEnv).clientGateway, "postrouting", `oifname "liqo-tunnel"`}
)

// downAfter is how long the Connection of the client stays Connected while packets are dropped.
func (w *benchEnv) downAfter(l loss) func(context.Context, traffic.Watchers) (float64, error) {
	return func(ctx context.Context, asking traffic.Watchers) (took float64, err error) {
		if err := w.connectionIs(ctx, true); err != nil {
			return 0, err
		}
		err = w.during(ctx, l, func() error {
			start := time.Now()
			err := w.connectionIs(ctx, false)
			took = time.Since(start).Seconds()
			return err
		})
		if err != nil {
			return 0, err
		}
		if _, err := asking.Answered(ctx, time.Now()); err != nil {
			return 0, err
		}
		return took, w.connectionIs(ctx, true)
	}
}

// withdrawn is how long endpoints of the peer stay in a cluster when nothing passes the tunnel, or until they are back when all does again.
func (w *benchEnv) withdrawn(in int, back bool) func(context.Context, traffic.Watchers) (float64, error) {
	return func(ctx context.Context, asking traffic.Watchers) (took float64, err error) {
		if err := w.shown(ctx, in, 1); err != nil {
			return 0, err
		}
		err = w.during(ctx, tunnelLoss, func() error {
			start := time.Now()
			err := w.shown(ctx, in, 0)
			took = time.Since(start).Seconds()
			return err
		})
		mended := time.Now()
		if err = errors.Join(err, w.shown(ctx, in, 1)); err != nil {
			return 0, err
		}
		if back {
			took = time.Since(mended).Seconds()
		}
		_, err = asking.Answered(ctx, time.Now())
		return took, err
	}
}

// during has packets be dropped while it tells a story.
func (w *benchEnv) during(ctx context.Context, l loss, tell func() error) error {
	at, err := l.at(w)
	if err != nil {
		return err
	}
	table := fmt.Sprintf("table ip loss { chain loss { type filter hook %s priority 300; %s counter drop; }; }", l.hook, l.which)
	if _, err := at.Run(ctx, "nft", table); err != nil {
		return err
	}
	err = tell()
	_, undone := at.Run(context.WithoutCancel(ctx), "nft", "delete", "table", "ip", "loss")
	return errors.Join(err, undone)
}

// connectionIs waits until the client's Connection is Connected, or is not.
func (w *benchEnv) connectionIs(ctx context.Context, up bool) error {
	return until(ctx, "what the Connection says", func() error {
		var conn networkingv1beta1.Connection
		err := w.clusters[0].Client.Get(ctx, client.ObjectKey{Namespace: where, Name: "gw-client"}, &conn)
		if err == nil && (conn.Status.Value == networkingv1beta1.Connected) != up {
			err = fmt.Errorf("it is %+v", conn.Status)
		}
		return err
	})
}

// ofANode and ofAGateway are what these have for peers but links, as commands that take all of it away, and as those that list it. All that
// is not in a table of its own is known by a label or a device.
var (
	ofANode = remains{
		flush: []string{
			"nft delete table ip liqo", "ip rule del table 6091", "ip rule del table 6092", "ip route flush table 6091", "ip route flush table 6092",
			"ip address flush dev lo label lo:liqo", "ip neighbour flush dev liqo.fabric nud permanent", "ip neighbour flush dev liqo.probe nud permanent",
			"bridge fdb show dev liqo.fabric | while read -r mac words; do bridge fdb del $mac dev liqo.fabric $words; done",
		},
		list: []string{
			"nft -s list table ip liqo", "ip rule", "ip route show table 6091", "ip route show table 6092",
			"ip -o -4 address show dev lo", "ip neighbour show nud permanent", "bridge fdb show dev liqo.fabric",
		},
	}
	// Links go with their neighbours and routes.
	linksOfANode = remains{flush: []string{"ip link del liqo.fabric", "ip link del liqo.probe"}, list: ofANode.list}
	ofAGateway   = remains{
		flush: []string{
			"nft delete table ip liqo", "ip rule flush", "ip rule add pref 32766 table main", "ip rule add pref 32767 table default",
			"ip route flush table 100", "ip route flush table 101", "ip address flush dev lo label lo:liqo", "ip link del liqo.fabric",
		},
		list: []string{
			"nft -s list table ip liqo", "ip rule", "ip route show table 100", "ip route show table 101",
			"ip -o -4 address show dev lo", "ip neighbour show nud permanent", "bridge fdb show dev liqo.fabric",
		},
	}
)

type remains struct{ flush, list []string }

// flushed takes all of that away at once, and measures until it is there again.
func (w *benchEnv) flushed(at func(*benchEnv) (traffic.Endpoint, error), what remains) func(context.Context, traffic.Watchers) (float64, error) {
	return func(ctx context.Context, asking traffic.Watchers) (float64, error) {
		there, err := at(w)
		if err != nil {
			return 0, err
		}
		before, err := kernelState(ctx, there, what.list)
		if err != nil {
			return 0, err
		}
		if _, err := there.Run(ctx, "sh", "-ec", strings.Join(what.flush, "; ")); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := until(ctx, "the state that was there", func() error {
			now, err := kernelState(ctx, there, what.list)
			if err == nil && !slices.Equal(now, before) {
				err = fmt.Errorf("it has %d lines, and had %d", len(now), len(before))
			}
			return err
		}); err != nil {
			return 0, err
		}
		took := time.Since(start).Seconds()
		_, err = asking.Answered(ctx, time.Now())
		return took, err
	}
}

// kernelState is the kernel state of an endpoint, a line per object.
func kernelState(ctx context.Context, p traffic.Endpoint, lists []string) ([]string, error) {
	var out []string
	for _, command := range lists {
		text, err := p.Run(ctx, strings.Fields(command)...)
		if err != nil {
			return nil, err
		}
		out = append(out, strings.Split(text, "\n")...)
	}
	slices.Sort(out)
	return out, nil
}

func (w *benchEnv) clientGateway() (traffic.Endpoint, error) {
	pid, err := program(w.gateways[0].UID)
	return traffic.Endpoint{File: fmt.Sprintf("/proc/%d/ns/net", pid)}, err
}

// otherNode is the client's that has no gateway.
func (w *benchEnv) otherNode() (traffic.Endpoint, error) {
	return traffic.Endpoint{File: nodeFile(w.others[0])}, nil
}

// nodeFile is the network namespace of a node.
func nodeFile(node string) string {
	return "/run/netns/" + cmp.Or(os.Getenv("LIQO_PLAYGROUND_NAME"), "liqo-pg") + "-" + node
}

// far is a Service of the client's cluster whose backend is a pod there, which the other cluster is shown; near is one whose backend runs in the
// other cluster.
const farAndNear = `apiVersion: v1
kind: Service
metadata: {name: far}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: far, labels: {kubernetes.io/service-name: far}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
---
apiVersion: v1
kind: Service
metadata: {name: near}
spec: {selector: {app: near}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: near, labels: {app: near}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {liqo.io/type: virtual-node}
  containers:
  - name: near
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    resources: {requests: {cpu: 5m, memory: 8Mi}}
`

// offload has the client's cluster borrow from the server's, and show it a Service.
func (w *benchEnv) offload(ctx context.Context) error {
	p, err := clusters.NewPeering(ctx, w.clusters[0], w.clusters[1], "bench")
	if err != nil {
		return err
	}
	documents, err := p.Documents()
	if err != nil {
		return err
	}
	for _, d := range documents {
		on := w.clusters[0]
		if d.Cluster == w.clusters[1].ID {
			on = w.clusters[1]
		}
		if _, err := on.Kubectl(d.Manifest, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	w.services = [2]client.ObjectKey{{Namespace: p.Namespace, Name: "near"}, {Namespace: p.Twin(), Name: "far"}}
	if _, err := w.clusters[0].Kubectl(fmt.Sprintf(farAndNear, w.paths[1].From.Own), "apply", "-n", p.Namespace, "-f", "-"); err != nil {
		return err
	}
	return errors.Join(w.shown(ctx, 0, 1), w.shown(ctx, 1, 1))
}

// shown waits until a cluster has so many endpoints in the other one that are ready.
func (w *benchEnv) shown(ctx context.Context, in, want int) error {
	return until(ctx, "endpoints of the peer", func() error {
		var list discoveryv1.EndpointSliceList
		of := w.services[in]
		if err := w.clusters[in].Client.List(ctx, &list, client.InNamespace(of.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: of.Name}); err != nil {
			return err
		}
		ready := 0
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready != want {
			return fmt.Errorf("%d are ready, want %d", ready, want)
		}
		return nil
	})
}

// isVirtual tells apart nodes that stand for a peer.
func isVirtual(n corev1.Node) bool { return n.Labels["liqo.io/type"] == "virtual-node" }
