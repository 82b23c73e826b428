// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/test/story"
)

//go:embed testdata/volumes.yaml
var volumesYAML string

// bindingSteps are what happens to the claim of the first pod until the pod is ready, in this order, and how kubectl shows it.
var bindingSteps = []struct {
	name     string
	provider bool // in the provider, else in the consumer
	args     []string
}{
	{"the node of the claim is chosen", false, []string{"get", "pvc", "data-volumes-0", "-o", `jsonpath={.metadata.annotations.volume\.kubernetes\.io/selected-node}`}},
	{"the claim has a volume", false, []string{"get", "pvc", "data-volumes-0", "-o", "jsonpath={.spec.volumeName}"}},
	{"the remote claim is created", true, []string{"get", "pvc", "data-volumes-0", "-o", "name"}},
	{"the remote claim is bound", true, []string{"get", "pvc", "data-volumes-0", "-o", `jsonpath={.status.capacity}`}},
	{"the claim is bound", false, []string{"get", "pvc", "data-volumes-0", "-o", "jsonpath={.status.capacity}"}},
	{"the pod runs", false, []string{"get", "pod", "volumes-0", "-o", "jsonpath={.status.containerStatuses[0].state.running.startedAt}"}},
}

// TestVolumesSurviveKills kills a process at each step of binding: each process at every step, in as many rounds as processes. One more is killed
// while the claims are deleted. All pods get their volume, a restarted pod finds its data, and nothing is left in the end.
func TestVolumesSurviveKills(t *testing.T) {
	all := append(kills[:len(kills):len(kills)], struct {
		name string
		do   func(context.Context) error
	}{"API server of the consumer", func(context.Context) error {
		if err := story.Playground("fail", "a/apiserver"); err != nil {
			return err
		}
		return story.Playground("heal", "a/apiserver")
	}})
	for round := range min(number(t, "LIQO_SOAK_VOLUMES", len(all)), len(all)) {
		kill := func(step int, when string) {
			victim := all[(round+step)%len(all)]
			story.Eventually(t, "the end of the "+victim.name, 2*time.Minute, func(context.Context) error { return victim.do(t.Context()) })
			t.Logf("round %d: killed the %s when %s", round, victim.name, when)
		}
		kubectl := func(stdin string, args ...string) string {
			var out string
			story.Eventually(t, "kubectl "+strings.Join(args, " "), 2*time.Minute, func(context.Context) (err error) {
				out, err = consumer.Kubectl(stdin, append(args, "-n", peering.Namespace)...)
				return err
			})
			return out
		}
		kubectl(volumesYAML, "apply", "-f", "-")
		for step, reached := range bindingSteps {
			story.Eventually(t, reached.name, 3*time.Minute, func(context.Context) error {
				ask, namespace := consumer.Kubectl, peering.Namespace
				if reached.provider {
					ask, namespace = provider.Kubectl, peering.Twin()
				}
				out, err := ask("", append(reached.args, "-n", namespace)...)
				if err == nil && out == "" {
					err = errors.New("it is empty")
				}
				return err
			})
			kill(step, reached.name)
		}
		ready := func(context.Context) error {
			got, err := consumer.Kubectl("", "get", "statefulset", "volumes", "-n", peering.Namespace, "-o", "jsonpath={.status.readyReplicas}")
			if err == nil && got != "3" {
				err = fmt.Errorf("%q of 3 pods are ready", got)
			}
			return err
		}
		story.Eventually(t, "3 pods with volumes", 3*time.Minute, ready)
		kubectl("", "delete", "pod", "volumes-1")
		story.Eventually(t, "the pod that was deleted", 3*time.Minute, ready)
		story.Eventually(t, "the log of the restarted pod", time.Minute, func(context.Context) error {
			log, err := consumer.Kubectl("", "logs", "volumes-1", "-n", peering.Namespace)
			if err == nil && log != "first\nagain\n" {
				err = fmt.Errorf("starts are %q", log)
			}
			return err
		})
		kubectl("", "delete", "statefulset", "volumes", "--wait=false", "--ignore-not-found")
		kubectl("", "delete", "pvc", "--all", "--wait=false")
		kill(0, "the claims are deleted")
		story.Eventually(t, "all volumes to be deleted", 3*time.Minute, func(context.Context) error {
			for _, c := range []struct {
				kubectl   func(string, ...string) (string, error)
				namespace string
			}{{consumer.Kubectl, peering.Namespace}, {provider.Kubectl, peering.Twin()}} {
				claims, err := c.kubectl("", "get", "pvc", "-n", c.namespace, "-o", "name")
				if err != nil {
					return err
				}
				volumes, err := c.kubectl("", "get", "pv", "-o", "name")
				if claims += volumes; err != nil || claims != "" {
					return fmt.Errorf("claims and volumes are left: %q (%v)", claims, err)
				}
			}
			return nil
		})
	}
}
