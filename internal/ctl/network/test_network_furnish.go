// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	// removalTimeout bounds the cleanup, when the timeout of the test may be over.
	removalTimeout = 2 * time.Minute
	// spreadTimeout bounds the propagation of endpoints to all clusters. The checks report missing ones afterwards.
	spreadTimeout = 30 * time.Second
	// refusalTimeout is how long the provider may deny a pod.
	refusalTimeout = 5 * time.Second
	// balancerTimeout is how long a load balancer may take to get an address.
	balancerTimeout = 3 * time.Minute
)

// removeFixtures deletes the orphans of a killed run.
func (t *networkTest) removeFixtures(ctx context.Context) error {
	if exist, err := t.hasFixtures(ctx); err != nil || !exist {
		return err
	}
	t.Info("Removing the objects of an earlier run")
	return t.removeAll(ctx)
}

// hasFixtures reports whether orphans of a killed run exist. It fails if a required namespace has another owner.
func (t *networkTest) hasFixtures(ctx context.Context) (exist bool, err error) {
	var errs []error
	for _, p := range t.allClusters() {
		ns, err := p.madeBefore(ctx)
		switch {
		case err != nil:
			errs = append(errs, p.WrapWithCluster(err))
		case ns == nil:
		case !ofTest(ns):
			errs = append(errs, p.WrapWithCluster(ui.Fail("namespace %q exists and is not of a test: delete it", ns.Name)))
		default:
			exist = true
		}
	}
	return exist, errors.Join(errs...)
}

// madeBefore returns the namespace of the test in a cluster, nil for none.
func (p *testCluster) madeBefore(ctx context.Context) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	err := kube.RetryTransient(ctx, func() error { return p.Kube.Get(ctx, client.ObjectKey{Name: p.askers}, ns) })
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return ns, err
}

// deleteFixtures deletes the namespace of the test, unless it has another owner.
func (p *testCluster) deleteFixtures(ctx context.Context) error {
	ns, err := p.madeBefore(ctx)
	if err != nil || ns == nil || !ofTest(ns) {
		return err
	}
	return kube.RetryTransient(ctx, func() error {
		return client.IgnoreNotFound(p.Kube.Delete(ctx, ns, client.Preconditions{UID: &ns.UID}))
	})
}

func ofTest(ns *corev1.Namespace) bool { return ns.Labels[testLabel] != "" }

// finishTest deletes the fixtures, unless the user wants to keep them.
func (t *networkTest) finishTest(ctx context.Context) error {
	if !t.remove {
		t.Info("The namespace %s and those like it in the other clusters are left: the next run removes them", TestNamespace)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
	defer cancel()
	return t.removeAll(ctx)
}

// removeAll deletes the namespaces of all clusters concurrently, and waits until they and the remote namespaces are gone. A cluster
// with an unresponsive API server does not delay the others.
func (t *networkTest) removeAll(ctx context.Context) error {
	all := t.allClusters()
	step := t.Spin("Removing the test")
	defer step.Stop()
	errs := make([]error, len(all))
	var removing sync.WaitGroup
	for i, p := range all {
		removing.Go(func() { errs[i] = p.removeNamespace(ctx) })
	}
	removing.Wait()
	step.Stop()
	for i, p := range all {
		if errs[i] = p.WrapWithCluster(errs[i]); errs[i] == nil {
			p.Success("The objects of the test are removed")
		}
	}
	return errors.Join(errs...)
}

// removeNamespace deletes the namespace in one cluster.
func (p *testCluster) removeNamespace(ctx context.Context) error {
	if err := p.deleteFixtures(ctx); err != nil {
		return err
	}
	gone := kube.WaitForNone(ctx, p.Kube, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": p.askers})
	if p.askers == p.servers {
		return gone
	}
	remote := kube.WaitForNone(ctx, p.Kube, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": p.servers})
	return errors.Join(gone, kube.IgnoreSkipped(remote)) // controllers delete the remote namespace
}

// deployFixtures creates the namespaces, the Services and the server pods.
func (t *networkTest) deployFixtures(ctx context.Context) error {
	for _, p := range t.allClusters() {
		ns := t.namespaceOf(p)
		if err := p.RunStep("Making namespace "+ns.Name, "", func() error { return t.ensureMade(ctx, p, ns) }); err != nil {
			return err
		}
	}
	if err := t.offloadNamespace(ctx); err != nil {
		return err
	}
	if t.ip {
		if err := t.showAll(ctx); err != nil {
			return err
		}
	}
	for _, service := range t.newServices() {
		t.SetCommonMetadata(service)
		if err := t.ensureMade(ctx, t.consumer, service); err != nil {
			return t.consumer.WrapWithCluster(err)
		}
	}
	servers := t.allServers()
	done := fmt.Sprintf("%d pods to ask are ready", len(servers))
	return t.consumer.RunStep("Waiting for the pods to ask", done, func() error {
		if err := t.awaitAccount(ctx, t.consumer); err != nil {
			return err
		}
		for _, pod := range servers {
			t.SetCommonMetadata(pod)
			if err := t.ensureMade(ctx, t.consumer, pod); err != nil {
				return err
			}
		}
		return t.awaitServers(ctx, len(servers))
	})
}

// ensureMade creates an object. An existing one is from an attempt whose answer was lost: it is read.
func (t *networkTest) ensureMade(ctx context.Context, p *testCluster, obj client.Object) error {
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
func (t *networkTest) offloadNamespace(ctx context.Context) error {
	want := t.newOffloading()
	t.SetCommonMetadata(want)
	return t.consumer.RunStep("Offloading namespace "+want.Namespace, "Namespace "+want.Namespace+" is offloaded", func() error {
		if err := t.ensureMade(ctx, t.consumer, want); err != nil {
			return err
		}
		final, err := cluster.AwaitOffloading(ctx, t.consumer.Kube, want)
		switch {
		case err != nil:
			return err
		case final.Status.OffloadingPhase != offv1beta1.ReadyOffloadingPhaseType:
			return cluster.OffloadingFailure(final)
		}
		return nil
	})
}

// awaitAccount waits for the default service account, which pods need.
func (t *networkTest) awaitAccount(ctx context.Context, p *testCluster) error {
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

// awaitServers waits until all server pods are ready and have addresses. A denial may be transient, because the provider counts
// just-deleted pods in its quota for a moment. A permanent denial ends the wait.
func (t *networkTest) awaitServers(ctx context.Context, n int) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	tired := time.AfterFunc(time.Hour, cancel)
	tired.Stop()
	defer tired.Stop()
	refused := ""
	what := kube.Watched{List: &corev1.PodList{}, Opts: []client.ListOption{client.InNamespace(t.consumer.servers), client.HasLabels{ServerLabel}}}
	err := kube.WaitUntil(within, t.consumer.Kube, func(ctx context.Context) error {
		var list corev1.PodList
		if err := t.consumer.Kube.List(ctx, &list, what.Opts...); err != nil {
			return err
		}
		if len(list.Items) != n {
			return ui.Fail("%d server pods exist instead of %d: another client created or deleted some", len(list.Items), n)
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
		return nil
	}, what)
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

// awaitEndpoints waits until a cluster knows all backends of a Service, and returns the Service. Missing ones cause a warning: the
// checks find them, too.
func (t *networkTest) awaitEndpoints(ctx context.Context, p *testCluster, name string, n int) (*corev1.Service, error) {
	within, cancel := context.WithTimeout(ctx, spreadTimeout)
	defer cancel()
	service, key := &corev1.Service{}, client.ObjectKey{Namespace: p.servers, Name: name}
	its := []client.ListOption{client.InNamespace(p.servers), client.MatchingLabels{discoveryv1.LabelServiceName: name}}
	err := kube.WaitUntil(within, p.Kube, func(ctx context.Context) error {
		err := p.Kube.Get(ctx, key, service)
		if apierrors.IsNotFound(err) {
			return kube.Pending("there is no Service " + key.String())
		} else if err != nil {
			return err
		}
		var list discoveryv1.EndpointSliceList
		if err := p.Kube.List(ctx, &list, its...); err != nil {
			return err
		}
		if known := readyEndpoints(list.Items); known < n {
			return kube.Pending(fmt.Sprintf("the Service %s has %d of %d endpoints", key, known, n))
		}
		return nil
	}, kube.WatchOne(&corev1.ServiceList{}, key), kube.Watched{List: &discoveryv1.EndpointSliceList{}, Opts: its})
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		p.Warn("%s", cluster.DescribeError(err))
		return service, nil
	}
	return service, p.WrapWithCluster(err)
}

func readyEndpoints(slices []discoveryv1.EndpointSlice) int {
	ready := map[string]bool{}
	for i := range slices {
		for _, e := range slices[i].Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				ready[e.Addresses[0]] = true
			}
		}
	}
	return len(ready)
}

// awaitLoadBalancer waits for the external address of a Service.
func (p *testCluster) awaitLoadBalancer(ctx context.Context, key client.ObjectKey) (string, error) {
	at := ""
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := kube.WaitForReady(ctx, p.Kube, service, func(_ context.Context, service *corev1.Service) error {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if at = cmp.Or(ingress.IP, ingress.Hostname); at != "" {
				return nil
			}
		}
		return kube.Pending("the Service " + key.String() + " has no address of a load balancer")
	})
	return at, err
}
