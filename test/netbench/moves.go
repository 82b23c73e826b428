// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/test/figures"
)

// volumeYAML is a claim, and the pod that fills its volume with 1 GiB, on a node of this cluster.
const volumeYAML = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: moved}
spec: {storageClassName: liqo, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
  - name: writer
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "head -c 1073741824 /dev/urandom >/data/file && sync"]
    volumeMounts: [{name: volume, mountPath: /data}]
  volumes: [{name: volume, persistentVolumeClaim: {claimName: moved}}]
`

// measureMove compares the rate at which "liqoctl move volume" copies to the provider with one TCP stream between pods at that time.
func (w *benchEnv) measureMove(ctx context.Context) ([]figures.Promise, error) {
	consumer, namespace := w.clusters[0], w.services[0].Namespace
	manifest := fmt.Sprintf(volumeYAML, w.gateways[0].Spec.NodeName)
	for _, args := range [][]string{
		{"apply", "-n", namespace, "-f", "-"},
		{"wait", "-n", namespace, "pod/writer", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=5m"},
		{"delete", "-n", namespace, "pod", "writer"},
	} {
		if _, err := consumer.Kubectl(manifest, args...); err != nil {
			return nil, err
		}
	}
	before, err := w.paths[0].Streams(1)
	if err != nil {
		return nil, err
	}
	rate, err := w.moveRate(ctx, namespace)
	if err != nil {
		return nil, err
	}
	after, err := w.paths[0].Streams(1)
	if err != nil {
		return nil, err
	}
	say("move of a volume: %.2f Gbit/s; TCP between pods: %.2f Gbit/s before and %.2f after", rate, before, after)
	return []figures.Promise{{What: "move of a volume of 1 GiB", Value: rate * 2 / (before + after), Limit: 0.7, Least: true, Unit: "× TCP"}}, nil
}

// moveRate moves the volume, and returns the rate of the copying in Gbit/s, between its first and last line of progress.
func (w *benchEnv) moveRate(ctx context.Context, namespace string) (float64, error) {
	var first, last struct {
		at    time.Time
		bytes float64
	}
	var invalid error
	_, err := w.clusters[0].Follow(ctx, func(line string) {
		_, progress, found := strings.Cut(line, "copying "+namespace+"/moved: ")
		if !found {
			return
		}
		size, _, _ := strings.Cut(progress, " of ")
		done, err := resource.ParseQuantity(strings.TrimSuffix(strings.ReplaceAll(size, " ", ""), "B"))
		if err != nil {
			invalid = errors.Join(invalid, fmt.Errorf("reading progress %q: %w", line, err))
			return
		}
		last.at, last.bytes = time.Now(), done.AsApproximateFloat64()
		if first.at.IsZero() {
			first = last
		}
	}, "move", "volume", "moved", "-n", namespace, "--target-node", "bench")
	if err := errors.Join(err, invalid); err != nil {
		return 0, err
	}
	if last.bytes <= first.bytes {
		return 0, errors.New("the move had less than two lines of progress")
	}
	return (last.bytes - first.bytes) * 8 / last.at.Sub(first.at).Seconds() / 1e9, nil
}
