// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/testkit"
)

func TestProfilingFlag(t *testing.T) {
	c := testkit.NthCluster(t, 2*worlds+1) // in a world it would get in the way of stories
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	node := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "profiled"},
		Spec:       offv1beta1.VirtualNodeSpec{ClusterID: "provider", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "none-yet"}},
	}
	if err := c.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	common := []string{"--enable-profiling", "--health-probe-address=0"}
	process := append([]string{"--cluster-id=here", "--enable-leader-election=false", "--metrics-address=0"}, common...)
	for role, args := range map[string][]string{
		controllerManagerRole: append([]string{"--webhook-port=" + strconv.Itoa(testkit.Port(t))}, process...),
		replicatorRole:        process,
		"virtual-kubelet": append([]string{"--nodename=profiled", "--node-ip=127.0.0.1", "--home-cluster-id=here", "--foreign-cluster-id=provider",
			"--vk-lease-enabled=false", "--certificate-type=self-signed", "--listen-port=" + strconv.Itoa(testkit.Port(t))}, common...),
	} {
		t.Run(role, func(t *testing.T) {
			p := c.Run(t, c.Config, "profiled-"+role, []string{asProgram + "=yes"}, self, append([]string{role}, args...)...)
			defer p.Kill()
			testkit.Eventually(t, time.Minute, func() error {
				resp, err := http.Get("http://" + program.ProfilingAddress + "/debug/pprof/heap")
				if err != nil {
					return errors.Join(err, p.Alive())
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("the heap profile: %s", resp.Status)
				}
				return nil
			})
		})
	}
}
