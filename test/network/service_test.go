// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

//go:embed testdata/service.yaml
var serviceYAML string

// A Service of an offloaded namespace has the same backends in both clusters, wherever they run; those behind a tunnel that is down are
// withdrawn, and come back. They are reached wherever the server of the tunnel moves.
func TestServiceBackends(t *testing.T) {
	p := peer(t, "service")
	tunnel := connectAs(t, p)
	kubectl(t, a, serviceYAML, "apply", "-n", p.Namespace, "-f", "-")

	all := []string{"away", "home"}
	wantAnswers(t, a, p.Namespace, "home", all)
	wantAnswers(t, b, p.Twin(), "away", all)

	// The pod in the provider answers under its own address at home, and its status says so.
	var away corev1.Pod
	if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: "away"}, &away); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(away.Status.PodIP, "10.71.") {
		t.Errorf("the pod in the provider has %s at home, which is not as this cluster sees the provider's pods", away.Status.PodIP)
	}

	t.Run("faults", func(t *testing.T) { namesFaults(t, p, tunnel) })

	// A key that is taken back ends the tunnel: nobody is sent to the other side any more.
	kubectl(t, b, "", "delete", "publickey", "-n", tunnel.ServerNamespace, a.ID)
	wantAnswers(t, b, p.Twin(), "away", []string{"away"})
	wantAnswers(t, a, p.Namespace, "home", []string{"home"})
	kubectl(t, b, strings.ReplaceAll(publicKey, "ID", a.ID)+tunnel.ClientKey, "apply", "-n", tunnel.ServerNamespace, "-f", "-")
	wantAnswers(t, b, p.Twin(), "away", all)
	wantAnswers(t, a, p.Namespace, "home", all)

	t.Logf("the MTU of the tunnel is %d for the client, %d for the server", theClient(t, tunnel).Status.MTU, theServer(t, tunnel).Status.MTU)
	follows(t, tunnel, func() {
		wantAnswers(t, a, p.Namespace, "home", all)
		wantAnswers(t, b, p.Twin(), "away", all)
	})
}

const publicKey = `apiVersion: networking.liqo.io/v1beta1
kind: PublicKey
metadata: {name: ID, labels: {liqo.io/remote-cluster-id: ID}}
spec:
  publicKey: `

// wantAnswers waits until exactly these pods answer behind both Services of a namespace, when a pod there asks them by name, and each question
// is answered: one that is not shows that a backend is there still which cannot be reached.
func wantAnswers(t *testing.T, c *clusters.Cluster, namespace, from string, want []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v to answer in %s", want, c.ID), func(ctx context.Context) error {
		for service, addresses := range map[string]string{
			// Twenty questions: that one of two backends never answers is one chance in half a million.
			"web": `for i in $(seq 20); do echo web; done`,
			// All that the name stands for: who asks would take the first one.
			"headless": fmt.Sprintf(`nslookup headless.%s.svc.cluster.local | awk '/^Name:/ {found = 1} found && /^Address/ {print $NF}'`, namespace),
		} {
			ask := fmt.Sprintf(`for to in $(%s); do printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 2 $to 8080 2>/dev/null | tail -n 1 | grep . || { echo nobody; break; }; done`, addresses)
			out, err := c.Kubectl("", "exec", "-n", namespace, from, "--", "sh", "-c", ask)
			if err != nil {
				return err
			}
			answered := map[string]bool{}
			for _, name := range strings.Fields(out) {
				answered[name] = true
			}
			if got := slices.Sorted(maps.Keys(answered)); !slices.Equal(got, want) {
				return fmt.Errorf("%v answered behind the Service %s", got, service)
			}
		}
		return nil
	})
}

// end takes the peering apart, and waits until nothing of it is left.
func end(t *testing.T, p *clusters.Peering) {
	t.Helper()
	kubectl(t, a, "", "delete", "namespace", "--wait=false", p.Namespace)
	eventually(t, "the offloaded namespace to go", func(ctx context.Context) error {
		out, err := a.Kubectl("", "get", "namespace", "--ignore-not-found", "-o", "name", p.Namespace)
		if err == nil && out != "" {
			err = fmt.Errorf("%s is there", out)
		}
		return err
	})
	kubectl(t, a, "", "delete", "namespace", p.ConsumerTenant)
	kubectl(t, b, "", "delete", "namespace", p.ProviderTenant)
}
