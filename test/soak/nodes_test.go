// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// answering is a pod of a node that answers.
const answering = `
apiVersion: v1
kind: Pod
metadata: {name: on-%[1]s, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: %[1]s}
  tolerations: [{operator: Exists}]
  containers: [{name: web, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [httpd, -f, -p, "8080", -h, /etc]}]
`

// Nodes come and go, get other addresses, and have gateways for a while. Pods of all nodes reach those of all nodes of the peer, and between
// nodes that were there all the time questions are lost only while a gateway is on its way to another node, or its node boots; how long
// that takes is told, and netbench has the promises.
func TestTrafficNodeChanges(t *testing.T) {
	connected(t)
	tour := &tour{sides: []*clusters.Cluster{consumer, provider}}
	for i, n := range []string{"a1", "b1"} {
		applied(t, tour.sides[i], "default", fmt.Sprintf(answering, n))
	}
	for i, peer := range []string{"b1", "a1"} {
		applied(t, tour.sides[i], "default", fmt.Sprintf(asker, []string{"a1", "b1"}[i], tour.seen(t, i, peer), 8080))
	}
	tour.stop(t, "nothing", 2*time.Minute, func() {})

	t.Cleanup(func() { tour.remove(t) })
	tour.stop(t, "nodes are added", 3*time.Second, func() {
		mustPlayground(t, "up", "--clusters", "a,b", "--workers", "2")
		mustPlayground(t, "load", "../../dist/liqo.tar")
		for i, n := range []string{"a2", "b2"} {
			applied(t, tour.sides[i], "default", fmt.Sprintf(answering, n))
		}
		tour.reaches(t)
	})
	for i, names := range [][2]string{{"a1", "a2"}, {"b1", "b2"}} {
		tour.stop(t, "the gateway moves from "+names[0]+" to "+names[1], 5*time.Minute, func() {
			tour.moveGateway(t, i, names[0], names[1])
			tour.reaches(t)
		})
	}
	for i, n := range []string{"a2", "b2"} {
		tour.stop(t, n+", which has a gateway, gets another address", 5*time.Minute, func() {
			mustPlayground(t, "move", n)
			tour.reaches(t)
		})
		tour.stop(t, "the gateway moves back from "+n, 2*time.Minute, func() { tour.moveGateway(t, i, n, []string{"a1", "b1"}[i]) })
		tour.stop(t, n+", which has no gateway, gets its address back", 3*time.Second, func() {
			mustPlayground(t, "move", n)
			tour.reaches(t)
		})
	}
	tour.stop(t, "nodes are removed", 3*time.Second, func() { tour.remove(t) })
}

// A tour is what happens to both clusters, one after the other.
type tour struct{ sides []*clusters.Cluster }

// stop has something happen, and wants no more time than that to pass between two answers that a pod gets meanwhile.
func (s *tour) stop(t *testing.T, what string, limit time.Duration, happen func()) {
	t.Helper()
	start := time.Now().Truncate(time.Second)
	happen()
	ended := time.Now()
	for _, c := range s.sides {
		var longest time.Duration
		story.Eventually(t, "answers to the pod of "+c.ID, 2*time.Minute, func(context.Context) error {
			answered, _, err := readAnswers(c)
			if err != nil {
				return err
			}
			last := start
			longest = 0
			for _, at := range answered {
				if at.Before(start) {
					continue
				}
				longest = max(longest, at.Sub(last))
				last = at
			}
			if !last.After(ended) {
				return fmt.Errorf("there are %d, the last one at %s", len(answered), last.Format(time.TimeOnly))
			}
			return nil
		})
		t.Logf("%s, within %s: between two answers to the pod of %s were %s at most", what, ended.Sub(start).Round(time.Second), c.ID, longest)
		if longest > limit {
			t.Errorf("%s: there was no answer to the pod of %s for %s, allowed are %s", what, c.ID, longest, limit)
		}
	}
}

// moveGateway deletes the gateway of a side where its node takes no pods, and waits for another one.
func (s *tour) moveGateway(t *testing.T, i int, from, to string) {
	t.Helper()
	c := s.sides[i]
	must := func(args ...string) {
		t.Helper()
		if _, err := c.Kubectl("", args...); err != nil {
			t.Fatal(err)
		}
	}
	must("cordon", from)
	must("delete", "pod", "-n", "default", "-l", gateways, "--wait=false")
	story.Eventually(t, "a gateway on "+to, 2*time.Minute, func(context.Context) error {
		out, err := c.Kubectl("", "get", "pods", "-n", "default", "-l", gateways, "-o", "jsonpath={range .items[*]}{.spec.nodeName} {.status.containerStatuses[0].ready};{end}")
		if err == nil && out != to+" true;" {
			err = fmt.Errorf("there are %q", out)
		}
		return err
	})
	must("uncordon", from)
}

const gateways = "networking.liqo.io/component=gateway"

// reaches wants the pod of each node to be answered by those of all nodes of the peer.
func (s *tour) reaches(t *testing.T) {
	t.Helper()
	nodes := [][]string{{"a1", "a2"}, {"b1", "b2"}}
	for i, c := range s.sides {
		for _, from := range nodes[i] {
			for _, to := range nodes[1-i] {
				story.Eventually(t, "the pod on "+to+" to answer that on "+from, 2*time.Minute, func(context.Context) error {
					ask := fmt.Sprintf(`printf 'GET /passwd HTTP/1.0\r\n\r\n' | nc -w 2 %s 8080 | grep root`, s.seen(t, i, to))
					_, err := c.Kubectl("", "exec", "-n", "default", "on-"+from, "--", "sh", "-c", ask)
					return err
				})
			}
		}
	}
}

// seen is how a side sees the pod of a node of the other one, which may have got another address.
func (s *tour) seen(t *testing.T, i int, node string) netip.Addr {
	t.Helper()
	own := netip.MustParseAddr(addressOf(t, s.sides[1-i], "default", "on-"+node)).As4()
	peer := s.sides[1-i].ID
	var cfg networkingv1beta1.Configuration
	if err := s.sides[i].Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: peer}, &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Status.Remote == nil || len(cfg.Status.Remote.CIDR.Pod) != 1 {
		t.Fatalf("the pods of %s are seen under no one prefix: %+v", peer, cfg.Status)
	}
	to := netip.MustParsePrefix(string(cfg.Status.Remote.CIDR.Pod[0]))
	out := to.Masked().Addr().As4()
	for bit := to.Bits(); bit < 32; bit++ {
		out[bit/8] |= own[bit/8] & (0x80 >> (bit % 8))
	}
	return netip.AddrFrom4(out)
}

// remove takes the second nodes away, if they are there.
func (s *tour) remove(t *testing.T) {
	t.Helper()
	for i, n := range []string{"a2", "b2"} {
		c := s.sides[i]
		if _, err := c.Kubectl("", "uncordon", []string{"a1", "b1"}[i]); err != nil {
			t.Error(err)
		}
		node := &corev1.Node{}
		if err := c.Client.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: n}, node); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		} else if err != nil {
			continue
		}
		if err := story.Playground("fail", n, "--processes"); err != nil {
			t.Error(err)
		}
		if _, err := c.Kubectl("", "delete", "node", n); err != nil {
			t.Error(err)
		}
		if err := story.Retry(context.WithoutCancel(t.Context()), time.Minute, func(ctx context.Context) error {
			err := c.Client.Get(ctx, client.ObjectKey{Name: n}, &networkingv1beta1.InternalNode{})
			if err == nil {
				return fmt.Errorf("the InternalNode %s is there", n)
			}
			return client.IgnoreNotFound(err)
		}); err != nil {
			t.Error(err)
		}
	}
}
