// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
)

// apply changes the cluster, and changes it back if it fails.
func (i *Installer) apply(ctx context.Context, p *plan) error {
	step := i.Printer.Step("Installing or upgrading Liqo... (this may take a few minutes)")
	defer step.Stop()
	crds, err := crdsOf(p.chart)
	if err != nil {
		return err
	}
	i.warnLeftovers(ctx)
	if err := i.applyCRDs(ctx, crds); err != nil {
		return out.Fail("Error installing or upgrading Liqo: %w", err)
	}
	// The kinds of the CRDs are new to whoever asked before.
	if p.helm, err = newHelm(i.Kube, i.Namespace, i.HelmLog); err != nil {
		return err
	}
	left := i.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	change := p.helm.install
	if p.previous.revision > 0 {
		change = p.helm.upgrade
	}
	err = change(ctx, p.chart, p.values, left)
	if err == nil {
		return nil
	}
	return i.undo(ctx, p, step, err)
}

// undo goes back to what was there before, says what went wrong and what did not start.
func (i *Installer) undo(ctx context.Context, p *plan, step *out.Step, cause error) error {
	interrupted := errors.Is(ctx.Err(), context.Canceled)
	reason := "Failed: rolling back..."
	if interrupted {
		reason = "Operation canceled: rolling back..."
	}
	step.Text(reason)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.Timeout)
	defer cancel()
	problems := i.diagnose(ctx)
	failure := out.Fail("Error installing or upgrading Liqo: %w", cause)
	if p.previous.deployed > 0 || p.previous.revision == 0 {
		if err := p.helm.rollback(p.previous.deployed, i.Timeout); err != nil {
			failure = out.Fail("Error installing or upgrading Liqo: %w; rolling back failed too: %w", cause, err)
		}
	}
	for _, problem := range problems {
		failure.Hint("%s", problem)
	}
	if !interrupted && len(problems) == 0 {
		failure.Hint("Add --verbose to see what Helm did, or raise --timeout if the cluster is slow")
	}
	return failure
}

// diagnose names the pods that are not ready, and why.
func (i *Installer) diagnose(ctx context.Context) []string {
	var pods corev1.PodList
	if err := i.Client.List(ctx, &pods, client.InNamespace(i.Namespace)); err != nil {
		return nil
	}
	var problems []string
	for n := range pods.Items {
		if why := notReady(&pods.Items[n]); why != "" {
			problems = append(problems, fmt.Sprintf("Pod %s: %s", pods.Items[n].Name, why))
		}
	}
	return problems
}

// notReady says in one line why a pod does not work, or nothing if it does.
func notReady(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if w := status.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			why := cmp.Or(w.Reason, "waiting")
			if last := status.LastTerminationState.Terminated; last != nil {
				why += fmt.Sprintf(", exit code %d", last.ExitCode)
				return why + detail(last.Message)
			}
			return why + detail(w.Message)
		}
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("exit code %d", t.ExitCode) + detail(t.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return cmp.Or(c.Reason, "not scheduled") + detail(c.Message)
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse:
			return cmp.Or(c.Reason, "not ready") + detail(c.Message)
		}
	}
	return ""
}

func detail(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
