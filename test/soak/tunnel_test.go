// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// A pod in each cluster, and a Service of each: "away" of the one in the provider, "home" of the one in the consumer, which is in no
// offloaded namespace.
const parted = `
apiVersion: v1
kind: Service
metadata: {name: away}
spec: {selector: {app: away}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: away, labels: {app: away}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [httpd, -f, -p, "8080", -h, /etc]}]
---
apiVersion: v1
kind: Service
metadata: {name: home}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: home, labels: {kubernetes.io/service-name: home}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`

const homePod = `
apiVersion: v1
kind: Pod
metadata: {name: home, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [httpd, -f, -p, "8080", -h, /etc]}]
`

// asker asks an address from a node, once it answered for the first time, and writes when which question was answered.
const asker = `
apiVersion: v1
kind: Pod
metadata: {name: asker, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
  - name: asker
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command:
    - sh
    - -c
    - |
      ask() { printf 'GET /passwd HTTP/1.0\r\n\r\n' | nc -w 5 %s %d 2>/dev/null | grep -q root; }
      until ask; do sleep 1; done
      while true; do
        if ask; then echo "$(date +%%s) answered"; else echo "$(date +%%s) lost"; fi
        sleep 0.1
      done
`

// Who has a tunnel needs no API server to use it: with those of both sides away endpoints stay, and no question is lost.
func TestTrafficWithoutAPIServers(t *testing.T) {
	length := time.Duration(number(t, "LIQO_SOAK_SILENCE", 30)) * time.Second
	connected(t)
	// A pod that is made while the network is not known yet keeps the address that it has in the provider.
	for c, peer := range map[*clusters.Cluster]string{consumer: provider.ID, provider: consumer.ID} {
		story.Eventually(t, "the network of "+peer+" to be known", time.Minute, func(context.Context) error {
			out, err := c.Kubectl("", "get", "foreigncluster", peer, "-o", "jsonpath={.status.modules.networking.enabled}")
			if err == nil && out != "true" {
				err = fmt.Errorf("networking is enabled: %q", out)
			}
			return err
		})
	}
	applied(t, consumer, "default", homePod)
	applied(t, consumer, peering.Namespace, fmt.Sprintf(parted, addressOf(t, consumer, "default", "home")))
	addressOf(t, provider, peering.Twin(), "away")
	askingClusters := []*clusters.Cluster{consumer, provider}
	for i, service := range []string{clusterIP(t, consumer, peering.Namespace, "away"), clusterIP(t, provider, peering.Twin(), "home")} {
		applied(t, askingClusters[i], "default", fmt.Sprintf(asker, []string{"a1", "b1"}[i], service, 80))
	}
	begun := time.Now()
	for _, c := range askingClusters {
		story.Eventually(t, "answers to the pod of "+c.ID, 2*time.Minute, func(context.Context) error {
			answered, _, err := countAnswers(c, time.Time{}, time.Now())
			if err == nil && answered == 0 {
				err = errors.New("there are none")
			}
			return err
		})
	}

	cut := time.Now()
	heal := func() {
		for _, program := range []string{"a/apiserver", "b/apiserver"} { // what runs already is healed, too
			if err := story.Playground("heal", program); err != nil {
				t.Error(err)
			}
		}
	}
	defer heal()
	mustPlayground(t, "fail", "a/apiserver")
	mustPlayground(t, "fail", "b/apiserver")
	time.Sleep(time.Until(cut.Add(length))) // the length of the outage is the story
	back := time.Now()
	heal()
	story.Eventually(t, "the node to be Ready", 2*time.Minute, func(ctx context.Context) error { return nodeIs(ctx, corev1.ConditionTrue) })
	for _, c := range askingClusters {
		story.Eventually(t, "the log of the pod that asks in "+c.ID, 2*time.Minute, func(context.Context) error {
			during, _, err := countAnswers(c, cut, back)
			if err != nil {
				return err
			}
			all, lost, err := countAnswers(c, begun, time.Now())
			t.Logf("%s: %d answers without API servers for %s, %d in all, %d lost", c.ID, during, length, all, lost)
			// A busy machine needs a second for a question.
			if lost > 0 || during < int(length/time.Second)/2 {
				t.Errorf("%s: %d answers while there was no API server, %d questions were lost", c.ID, during, lost)
			}
			return err
		})
	}
}

// connected has a tunnel between both clusters for as long as the test runs.
func connected(t *testing.T) {
	t.Helper()
	tunnel := clusters.NewTunnel(provider, consumer, "default")
	t.Cleanup(func() {
		if err := tunnel.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := tunnel.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// countAnswers are how many questions of a time were answered, and how many were lost.
func countAnswers(c *clusters.Cluster, from, to time.Time) (answered, lost int, err error) {
	good, bad, err := readAnswers(c)
	within := func(all []time.Time) (n int) {
		for _, when := range all {
			if !when.Before(from.Truncate(time.Second)) && !when.After(to) {
				n++
			}
		}
		return n
	}
	return within(good), within(bad), err
}

// readAnswers is when questions were answered, and when not, to the second.
func readAnswers(c *clusters.Cluster) (answered, lost []time.Time, err error) {
	log, err := c.Kubectl("", "logs", "-n", "default", "asker", "--tail=-1")
	for line := range strings.Lines(log) {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseInt(at, 10, 64)
		switch {
		case err != nil: // the API server may add one of its own
		case what == "answered":
			answered = append(answered, time.Unix(seconds, 0))
		default:
			lost = append(lost, time.Unix(seconds, 0))
		}
	}
	return answered, lost, err
}

// applied applies a manifest for as long as the test runs.
func applied(t *testing.T, c *clusters.Cluster, namespace, manifest string) {
	t.Helper()
	if _, err := c.Kubectl(manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.Kubectl(manifest, "delete", "-n", namespace, "--timeout=3m", "--ignore-not-found", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
}

// addressOf waits until a pod runs.
func addressOf(t *testing.T, c *clusters.Cluster, namespace, name string) (address string) {
	t.Helper()
	story.Eventually(t, "the pod "+name, 2*time.Minute, func(ctx context.Context) error {
		var pod corev1.Pod
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
			return err
		}
		if address = pod.Status.PodIP; address == "" || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	return address
}

func clusterIP(t *testing.T, c *clusters.Cluster, namespace, name string) (address string) {
	t.Helper()
	story.Eventually(t, "the Service "+name, time.Minute, func(ctx context.Context) error {
		var service corev1.Service
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service)
		address = service.Spec.ClusterIP
		return err
	})
	return address
}
