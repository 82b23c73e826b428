// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

// applyPlan changes the cluster, and rolls back on a failure.
func (i *Installer) applyPlan(ctx context.Context, p *installPlan) error {
	step := i.Printer.Spin("Installing or upgrading Liqo... (this may take a few minutes)")
	defer step.Stop()
	crds, err := crdsOf(p.chart)
	if err != nil {
		return err
	}
	i.warnLeftovers(ctx)
	if err := i.applyCRDs(ctx, metadataSetter(i.Stamp).setAll(crds)); err != nil {
		return ui.Fail("Error installing or upgrading Liqo: %w", err)
	}
	// A new client discovers the kinds of the CRDs.
	if p.helm, err = newHelm(i.Kube, i.Namespace, i.Stamp, i.HelmLog); err != nil {
		return err
	}
	if r := p.previous.interrupted; r != nil {
		i.Printer.Warn("Revision %d of Helm release %q is %s: continuing from there", r.Version, r.Name, r.Info.Status)
		if err := p.helm.markFailed(r); err != nil {
			return err
		}
	}
	if p.newNamespace, err = i.makeNamespace(ctx); err != nil {
		return ui.Fail("Error installing or upgrading Liqo: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, i.Timeout)
	defer cancel()
	change := p.helm.installChart
	if p.previous.revision > 0 {
		change = p.helm.upgradeChart
	}
	writing, stop := cleanupContext(ctx)
	defer stop()
	if err := i.startSteering(ctx, p); err != nil {
		return errors.Join(ui.Fail("Error installing or upgrading Liqo: %w", err), i.stopSteering(context.WithoutCancel(ctx), p))
	}
	err = untilStuck(ctx, i.Client, i.Namespace, func(wait context.Context) error { return change(writing, wait, p.chart, p.values) })
	if err == nil {
		return nil
	}
	return i.undoPlan(ctx, p, step, err)
}

// undoPlan rolls back to the previous state, and reports the cause and the pods that did not start.
func (i *Installer) undoPlan(ctx context.Context, p *installPlan, step *ui.Spinner, cause error) error {
	interrupted := errors.Is(ctx.Err(), context.Canceled)
	reason := "Failed: rolling back..."
	if interrupted {
		reason = "Operation canceled: rolling back..."
	}
	step.Text(reason)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.Timeout)
	defer cancel()
	reportedPod := ""
	if stuck, ok := errors.AsType[*stuckPod](cause); ok {
		reportedPod = stuck.name
	}
	problems := i.diagnosePods(ctx, reportedPod)
	failure := ui.Fail("Error installing or upgrading Liqo: %w", cause)
	if p.previous.deployed > 0 || p.previous.revision == 0 {
		if err := p.helm.rollbackTo(p.previous.deployed, i.Timeout); err != nil {
			failure = ui.Fail("Error installing or upgrading Liqo: %w; rolling back failed too: %w", cause, err)
		} else if err := i.stopSteering(ctx, p); err != nil {
			failure.Hint("%v", err)
		}
	}
	if p.newNamespace {
		if err := i.removeNamespace(ctx); err != nil {
			failure.Hint("Namespace %s was made and could not be removed again: %v", i.Namespace, err)
		}
	}
	for _, problem := range problems {
		failure.Hint("%s", problem)
	}
	if !interrupted && reportedPod == "" && len(problems) == 0 {
		failure.Hint("Add --verbose to see the log of Helm, or raise --timeout if the cluster is slow")
	}
	return failure
}

// makeNamespace creates the namespace as Helm would, and reports whether the namespace was missing.
func (i *Installer) makeNamespace(ctx context.Context) (bool, error) {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	err := i.Client.Get(ctx, client.ObjectKey{Name: i.Namespace}, ns)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	ns.Name, ns.Labels = i.Namespace, map[string]string{"name": i.Namespace}
	i.Stamp(ns)
	if err := i.Client.Create(ctx, ns); err != nil {
		return false, fmt.Errorf("making namespace %s: %w", i.Namespace, err)
	}
	return true, nil
}

// removeNamespace deletes a namespace created by this run and waits for its end: the next attempt must not find the namespace terminating.
func (i *Installer) removeNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{}
	ns.Name = i.Namespace
	if err := client.IgnoreNotFound(i.Client.Delete(ctx, ns)); err != nil {
		return err
	}
	return kube.WaitForNone(ctx, i.Client, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": i.Namespace})
}

// diagnosePods returns the unready pods with the reasons, except reportedPod.
func (i *Installer) diagnosePods(ctx context.Context, reportedPod string) []string {
	var pods corev1.PodList
	if err := i.Client.List(ctx, &pods, client.InNamespace(i.Namespace)); err != nil {
		return nil
	}
	var problems []string
	for n := range pods.Items {
		if why := kube.PodProblemOf(&pods.Items[n]); why.Reason != "" && pods.Items[n].Name != reportedPod {
			problems = append(problems, fmt.Sprintf("Pod %s: %s", pods.Items[n].Name, why))
		}
	}
	if len(problems) > 0 || reportedPod != "" {
		return problems
	}
	var deployments appsv1.DeploymentList
	if err := i.Client.List(ctx, &deployments, client.InNamespace(i.Namespace)); err != nil {
		return nil
	}
	for _, d := range deployments.Items {
		if want := ptr.Deref(d.Spec.Replicas, 1); d.Status.AvailableReplicas < want {
			problems = append(problems, fmt.Sprintf("Deployment %s: %d of %d pods are available", d.Name, d.Status.AvailableReplicas, want))
		}
	}
	return problems
}
