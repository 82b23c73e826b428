// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const admissionNamespace = "admissions"

// traffic is a stream of admissions by the pod webhook, and what became of it.
type traffic struct {
	mu           sync.Mutex
	count        int
	failures     []error
	certificates [][]byte // each one that was served with, the first one first
	excused      bool     // while a story kills who answers
}

// startAdmissions offloads a namespace and has pods admitted there, without making them, for as long as the process lives.
func startAdmissions(c *cluster) (*traffic, error) {
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: %[1]s}
spec: {podOffloadingStrategy: LocalAndRemote, clusterSelector: {nodeSelectorTerms: [{matchExpressions: [{key: no-node-has-this, operator: Exists}]}]}}
`, admissionNamespace)
	if _, err := c.Kubectl(manifest, "apply", "-f", "-"); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl("", "wait", "namespace/"+admissionNamespace, "--for=jsonpath={.metadata.labels.liqo\\.io/scheduling-enabled}=true", "--timeout=60s"); err != nil {
		return nil, err
	}
	tr := &traffic{}
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			excused := tr.isExcused() // also what fails only when whoever was killed is back
			err := admit(c)
			tr.note(err, excused || tr.isExcused())
		}
	}()
	go func() {
		for range time.Tick(time.Second) {
			tr.look(c)
		}
	}()
	return tr, nil
}

// admit has one pod admitted and looks at what the webhook added.
func admit(c *cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: admissionNamespace, GenerateName: "admitted-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	if err := c.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	tolerates := func(t corev1.Toleration) bool { return t.Key == "virtual-node.liqo.io/not-allowed" }
	if !slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
		return errors.New("the pod went past the webhook")
	}
	return nil
}

func (tr *traffic) isExcused() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.excused
}

func (tr *traffic) note(err error, excused bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.count++
	if err != nil && !excused {
		tr.failures = append(tr.failures, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
	}
}

// excuse says whether failures are expected from now on.
func (tr *traffic) excuse(expected bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.excused = expected
}

func (tr *traffic) look(c *cluster) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var secret corev1.Secret
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: "liqo-webhook-certs"}, &secret); err != nil {
		return // the admissions tell whether anything is wrong
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	crt := secret.Data["tls.crt"]
	if len(tr.certificates) == 0 || !bytes.Equal(tr.certificates[len(tr.certificates)-1], crt) {
		tr.certificates = append(tr.certificates, crt)
	}
}

func (tr *traffic) seen() (count, certificates int, failures error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.count, len(tr.certificates), errors.Join(tr.failures...)
}
