// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/testkit"
)

// Started while its own API server is away, as after a lost lease, it lives and waits. A process that ends instead is
// started again later and later, long after the outage.
func TestStartWithoutAPIServer(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testkit.Port(t))
	s := newTestEnv(t, func(o *Options) { o.HealthAddress = address })
	s.consumer.StopAPIServer(t)
	s.run()
	testkit.Eventually(t, limit, func() error {
		response, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the probe is answered with %s", response.Status)
		}
		return nil
	})
	s.consumer.StartAPIServer(t)
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, exists)
}
