// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

const (
	// removalTimeout bounds the cleanup, when the timeout of the command may be over.
	removalTimeout = 2 * time.Minute
	// refusalTimeout is how long the provider may deny a pod.
	refusalTimeout = 5 * time.Second
)

// fixtures are the objects of a command in a consumer and its providers, each in a namespace of its own. The command removes them at its end, and the
// fixtures of a killed run at its start.
type fixtures struct {
	*cluster.Session
	purpose
	consumer  *testCluster
	providers []*testCluster
}

// purpose has the differences between the fixtures of commands.
type purpose struct {
	// noun names the run of the command in messages.
	noun string
	// namespace is the namespace of the consumer.
	namespace string
	// label marks the namespaces, manager is the value of the common label.
	label, manager string
	// podSecurity is the Pod Security profile of the namespaces.
	podSecurity string
}

func (f *fixtures) allClusters() []*testCluster {
	return append([]*testCluster{f.consumer}, f.providers...)
}

// nameNamespaces sets the names of the namespaces in all clusters.
func (f *fixtures) nameNamespaces() {
	f.consumer.servers, f.consumer.askers = f.namespace, f.namespace
	for _, p := range f.providers {
		// The name of a remote namespace must not begin with liqo-, and must differ for each consumer.
		p.servers, p.askers = names.Join(strings.TrimPrefix(f.namespace, "liqo-")+"-of", f.consumer.ID), names.Join(f.namespace, f.consumer.ID)
	}
}

// removeFixtures deletes the orphans of a killed run.
func (f *fixtures) removeFixtures(ctx context.Context) error {
	if exist, err := f.hasFixtures(ctx); err != nil || !exist {
		return err
	}
	f.Info("Removing the objects of an earlier run")
	return f.removeAll(ctx)
}

// hasFixtures reports whether orphans of a killed run exist. It fails if a required namespace has another owner.
func (f *fixtures) hasFixtures(ctx context.Context) (exist bool, err error) {
	var errs []error
	for _, p := range f.allClusters() {
		ns, err := p.madeBefore(ctx)
		switch {
		case err != nil:
			errs = append(errs, p.WrapWithCluster(err))
		case ns == nil:
		case ns.Labels[f.label] == "":
			errs = append(errs, p.WrapWithCluster(ui.Fail("namespace %q exists and is not of a %s: delete it", ns.Name, f.noun)))
		default:
			exist = true
		}
	}
	return exist, errors.Join(errs...)
}

// madeBefore returns the namespace of the command in a cluster, nil for none.
func (p *testCluster) madeBefore(ctx context.Context) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	err := kube.RetryTransient(ctx, func() error { return p.Kube.Get(ctx, client.ObjectKey{Name: p.askers}, ns) })
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return ns, err
}

// deleteFixtures deletes the namespace of the command in a cluster, unless it has another owner.
func (f *fixtures) deleteFixtures(ctx context.Context, p *testCluster) error {
	ns, err := p.madeBefore(ctx)
	if err != nil || ns == nil || ns.Labels[f.label] == "" {
		return err
	}
	return kube.RetryTransient(ctx, func() error {
		return client.IgnoreNotFound(p.Kube.Delete(ctx, ns, client.Preconditions{UID: &ns.UID}))
	})
}

// removeAtEnd is removeAll after an interrupt or a timeout, too.
func (f *fixtures) removeAtEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	return f.removeAll(ctx)
}

// removeAll deletes the namespaces of all clusters concurrently, and waits until they and the remote namespaces are gone. A cluster with an
// unresponsive API server does not delay the rest.
func (f *fixtures) removeAll(ctx context.Context) error {
	all := f.allClusters()
	step := f.Spin("Removing the " + f.noun)
	defer step.Stop()
	errs := make([]error, len(all))
	var removing sync.WaitGroup
	for i, p := range all {
		removing.Go(func() { errs[i] = f.removeNamespace(ctx, p) })
	}
	removing.Wait()
	step.Stop()
	for i, p := range all {
		if errs[i] == nil {
			p.Success("The objects of the %s are removed", f.noun)
			continue
		}
		errs[i] = p.WrapWithCluster(ui.Fail("removing namespace %s: %w", p.askers, errs[i]).
			Hint("Objects of the %s may be left in cluster %s, namespace %s: the next run removes them, or kubectl delete namespace %s", f.noun, p.ID, p.askers, p.askers))
	}
	return errors.Join(errs...)
}

// removeNamespace deletes the namespace in one cluster.
func (f *fixtures) removeNamespace(ctx context.Context, p *testCluster) error {
	if err := f.deleteFixtures(ctx, p); err != nil {
		return err
	}
	gone := kube.WaitForNone(ctx, p.Kube, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": p.askers})
	if p.askers == p.servers {
		return gone
	}
	remote := kube.WaitForNone(ctx, p.Kube, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": p.servers})
	return errors.Join(gone, kube.IgnoreSkipped(remote)) // controllers delete the remote namespace
}

// namespaceOf returns the namespace to create in a cluster.
func (f *fixtures) namespaceOf(p *testCluster) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.askers, Labels: map[string]string{
		names.AppManagedBy:                   f.manager,
		"pod-security.kubernetes.io/enforce": f.podSecurity, "pod-security.kubernetes.io/audit": f.podSecurity, "pod-security.kubernetes.io/warn": f.podSecurity,
	}}}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	f.SetCommonMetadata(ns)
	ns.Labels[f.label] = "true" // the user's labels must not override this label: cleanup needs it
	return ns
}

// createNamespaces creates the namespaces in all clusters.
func (f *fixtures) createNamespaces(ctx context.Context) error {
	for _, p := range f.allClusters() {
		ns := f.namespaceOf(p)
		if err := p.RunStep("Making namespace "+ns.Name, "", func() error { return f.ensureMade(ctx, p, ns) }); err != nil {
			return err
		}
	}
	return nil
}

// ensureMade creates an object. An existing object is from an attempt whose answer was lost, and is read.
func (f *fixtures) ensureMade(ctx context.Context, p *testCluster, obj client.Object) error {
	first := true
	err := kube.RetryTransient(ctx, func() error {
		err := p.Kube.Create(ctx, obj)
		if !first && apierrors.IsAlreadyExists(err) {
			return p.Kube.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		}
		first = false
		return err
	})
	if err != nil {
		return fmt.Errorf("making %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// offloadNamespace offloads the namespace of the consumer.
func (f *fixtures) offloadNamespace(ctx context.Context) error {
	want := f.newOffloading()
	f.SetCommonMetadata(want)
	return f.consumer.RunStep("Offloading namespace "+want.Namespace, "Namespace "+want.Namespace+" is offloaded", func() error {
		if err := f.ensureMade(ctx, f.consumer, want); err != nil {
			return err
		}
		final, err := cluster.AwaitOffloading(ctx, f.consumer.Kube, want)
		switch {
		case err != nil:
			return err
		case final.Status.OffloadingPhase != offv1beta1.ReadyOffloadingPhaseType:
			return cluster.OffloadingFailure(final)
		}
		return nil
	})
}

// awaitAccount waits for the default service account, a requirement of pods.
func (f *fixtures) awaitAccount(ctx context.Context, p *testCluster) error {
	what := kube.WatchOne(&corev1.ServiceAccountList{}, client.ObjectKey{Namespace: p.askers, Name: "default"})
	err := kube.WaitUntil(ctx, p.Kube, func(ctx context.Context) error {
		var list corev1.ServiceAccountList
		if err := p.Kube.List(ctx, &list, what.Opts...); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return kube.Pending("namespace " + p.askers + " has no ServiceAccount yet")
		}
		return nil
	}, what)
	return kube.IgnoreSkipped(err)
}

// awaitReady waits until all pods of a selection are ready and have addresses. check gets the pods before, after each change. A denial may be transient,
// because the provider counts just-deleted pods in its quota for a moment. A permanent denial ends the wait.
func awaitReady(ctx context.Context, p *testCluster, its []client.ListOption, check func([]corev1.Pod) error) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	tired := time.AfterFunc(time.Hour, cancel)
	tired.Stop()
	defer tired.Stop()
	refused := ""
	var list corev1.PodList
	err := kube.WaitForList(within, p.Kube, &list, func(context.Context) error {
		counted := check(list.Items)
		if _, waits := errors.AsType[kube.Pending](counted); counted != nil && !waits {
			return counted
		}
		now := ""
		for i := range list.Items {
			now = cmp.Or(now, refusalOf(&list.Items[i]))
		}
		if now == "" {
			tired.Stop()
		} else if refused == "" {
			tired.Reset(refusalTimeout)
		}
		refused = now
		for i := range list.Items {
			if pod := &list.Items[i]; !cluster.PodReady(pod) || pod.Status.PodIP == "" {
				return checkStarting(pod)
			}
		}
		return counted
	}, its...)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return ui.Fail("%s", refused)
	}
	return err
}

// refusalOf returns the reason why the provider denies a pod, "" if it does not.
func refusalOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == names.PodAccepted && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s does not start: %s", pod.Name, cmp.Or(c.Message, c.Reason))
		}
	}
	return ""
}

// checkStarting returns a Pending with the state of a pod, and an error for a missing image or an ended pod.
func checkStarting(pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodFailed {
		return ui.Fail("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
	}
	if reason := refusalOf(pod); reason != "" {
		return kube.Pending(reason)
	}
	if problem := kube.PodProblemOf(pod); kube.LacksImage(problem.Reason) && problem.Reason != "ErrImagePull" { // a second attempt may succeed
		return ui.Fail("pod %s does not start: %s", pod.Name, problem).Hint("--image names another image of Liqo")
	}
	return cluster.NotReady(pod.Name, []corev1.Pod{*pod})
}
