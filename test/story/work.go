// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

// Work is a Deployment of one pod in the namespace lent, which would rather run in the other cluster.
const Work = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: work, namespace: lent}
spec:
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work}}
    spec:
      terminationGracePeriodSeconds: 0
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {matchExpressions: [{key: liqo.io/type, operator: In, values: [virtual-node]}]}
      containers:
      - name: work
        image: docker.io/library/busybox:latest
        imagePullPolicy: IfNotPresent
        command: [sleep, "100000"]
        resources: {requests: {cpu: 5m, memory: 8Mi}}
`
