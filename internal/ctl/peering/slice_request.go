// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// stepPrinter is a printer, or a printer for one of several clusters.
type stepPrinter interface {
	Success(format string, args ...any)
	Warn(format string, args ...any)
	Spin(text string) *ui.Spinner
}

// grace is how long an earlier denial may be outdated after a new request, and how long the amounts may stay ungranted before a
// warning.
const grace = 10 * time.Second

// sliceRequest is a request for resources from a provider by a ResourceSlice.
type sliceRequest struct {
	kube  client.WithWatch
	slice *authv1beta1.ResourceSlice
	tell  stepPrinter
	// earlier are the conditions of before the request.
	earlier []authv1beta1.ResourceSliceCondition
}

// Conditions of a slice. The provider accepts or denies each condition.
const (
	ofAuthentication = authv1beta1.ResourceSliceConditionTypeAuthentication
	ofResources      = authv1beta1.ResourceSliceConditionTypeResources
)

// runSteps applies the slice and waits for the answer. Missing resources are no failure: the provider may grant them later.
func (r *sliceRequest) runSteps(ctx context.Context) error {
	if err := r.applySlice(ctx); err != nil {
		return err
	}
	r.tell.Success("ResourceSlice created")
	step := r.tell.Spin("Waiting for ResourceSlice authentication to be accepted")
	defer step.Stop()
	if err := r.checkAnswer(kube.WithProgress(ctx, step.Waits), ofAuthentication); err != nil {
		return err
	}
	if condition := conditionOf(r.slice.Status.Conditions, ofAuthentication); condition.Status == authv1beta1.ResourceSliceConditionDenied {
		return ui.Fail("the provider denies the ResourceSlice %s: %s: %s", client.ObjectKeyFromObject(r.slice), condition.Reason, condition.Message).
			See("docs/troubleshooting.md#a-slice-is-not-accepted")
	}
	step.Stop()
	r.tell.Success("ResourceSlice authentication: Accepted")
	return r.checkResources(ctx)
}

// checkResources reports the granted amounts. Custom classes may be granted at any time, or never.
func (r *sliceRequest) checkResources(ctx context.Context) error {
	step := r.tell.Spin("Waiting for ResourceSlice resources to be accepted")
	defer step.Stop()
	within, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := r.waitForAnswer(within, ofResources, r.earlier)
	if err != nil && (ctx.Err() != nil || within.Err() == nil) {
		return err
	}
	if err != nil { // the last state is outdated if the API server was unavailable meanwhile
		if err := r.kube.Get(ctx, client.ObjectKeyFromObject(r.slice), r.slice); err != nil {
			return fmt.Errorf("reading the ResourceSlice: %w", err)
		}
	}
	step.Stop()
	condition, less := conditionOf(r.slice.Status.Conditions, ofResources), notGranted(r.slice)
	if condition.Status == authv1beta1.ResourceSliceConditionAccepted && less == "" {
		r.tell.Success("ResourceSlice resources: Accepted")
		return nil
	}
	r.tell.Warn("ResourceSlice resources not accepted. The provider cluster may have cordoned the tenant or the resourceslice")
	switch {
	case condition.Status == authv1beta1.ResourceSliceConditionAccepted:
		r.tell.Warn("The provider grants less than is asked for: %s", less)
	case condition.Message != "":
		r.tell.Warn("The provider says: %s", condition.Message)
	}
	return nil
}

func (r *sliceRequest) applySlice(ctx context.Context) error {
	if err := r.readSlice(ctx); err != nil {
		return err
	}
	return cluster.ApplyObject(ctx, r.kube, r.slice)
}

// readSlice reads the existing slice of this name, and fails if no node could be made of it.
func (r *sliceRequest) readSlice(ctx context.Context) error {
	var all authv1beta1.ResourceSliceList
	if err := r.kube.List(ctx, &all); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	for i := range all.Items {
		have := &all.Items[i]
		switch {
		case have.Name != r.slice.Name || peer.IsReplica(have):
		case have.Namespace != r.slice.Namespace:
			return ui.Fail("the ResourceSlice %s/%s has this name already, and names of slices become names of nodes", have.Namespace, have.Name)
		case have.DeletionTimestamp == nil:
			r.earlier = have.Status.Conditions
		}
	}
	var node corev1.Node
	err := r.kube.Get(ctx, client.ObjectKey{Name: r.slice.Name}, &node)
	if err == nil && node.Labels[names.NodeType] != names.NodeTypeVirtualNode && r.slice.Annotations[names.CreateVirtualNode] != "" {
		return ui.Fail("node %s already exists and is not a virtual node: a ResourceSlice of that name could not have a node", node.Name)
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// checkAnswer waits until the provider accepts or denies one condition of the slice. An earlier denial may have an outdated cause, and counts only
// after the grace period.
func (r *sliceRequest) checkAnswer(ctx context.Context, conditionType authv1beta1.ResourceSliceConditionType) error {
	fresh, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := r.waitForAnswer(fresh, conditionType, r.earlier); err == nil || fresh.Err() == nil || ctx.Err() != nil {
		return err
	}
	return r.waitForAnswer(ctx, conditionType, nil)
}

// waitForAnswer waits until one condition of the slice is accepted, or denied differently than before. Resources must also be granted,
// because the condition alone may be about earlier amounts.
func (r *sliceRequest) waitForAnswer(ctx context.Context, conditionType authv1beta1.ResourceSliceConditionType, earlier []authv1beta1.ResourceSliceCondition) error {
	now := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: r.slice.Namespace, Name: r.slice.Name}}
	return kube.WaitForReady(ctx, r.kube, now, func(ctx context.Context, _ *authv1beta1.ResourceSlice) error {
		r.slice = now
		condition := conditionOf(now.Status.Conditions, conditionType)
		if condition.Status == "" || condition.Status == authv1beta1.ResourceSliceConditionDenied && isSame(condition, conditionOf(earlier, conditionType)) {
			return r.checkPending(ctx, conditionType)
		}
		if conditionType == ofResources && condition.Status == authv1beta1.ResourceSliceConditionAccepted && notGranted(now) != "" {
			return r.checkPending(ctx, conditionType)
		}
		return nil
	})
}

// conditionOf returns the condition of a type, the zero value for none.
func conditionOf(of []authv1beta1.ResourceSliceCondition, conditionType authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceCondition {
	if i := slices.IndexFunc(of, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == conditionType }); i >= 0 {
		return of[i]
	}
	return authv1beta1.ResourceSliceCondition{}
}

// notGranted returns the requested amounts that are not granted, "" for none.
func notGranted(slice *authv1beta1.ResourceSlice) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(slice.Spec.Resources)) {
		requested, granted := slice.Spec.Resources[name], slice.Status.Resources[name]
		if granted.Cmp(requested) < 0 {
			all = append(all, fmt.Sprintf("%s %s of %s", name, granted.String(), requested.String()))
		}
	}
	return strings.Join(all, ", ")
}

func isSame(a, b authv1beta1.ResourceSliceCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// checkPending returns the likely reason why the provider has not answered yet.
func (r *sliceRequest) checkPending(ctx context.Context, conditionType authv1beta1.ResourceSliceConditionType) error {
	id := r.slice.Labels[names.RemoteClusterID]
	text := fmt.Sprintf("%s did not decide on the %s of the ResourceSlice %s yet", id, strings.ToLower(string(conditionType)), client.ObjectKeyFromObject(r.slice))
	var fc liqov1beta1.ForeignCluster
	if err := r.kube.Get(ctx, client.ObjectKey{Name: id}, &fc); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return kube.Pending(text)
		}
		return err
	}
	if !slices.ContainsFunc(fc.Status.Conditions, func(c liqov1beta1.Condition) bool { return c.Type == liqov1beta1.APIServerStatus }) {
		text += ": the clusters are not authenticated, or the replicator does not run"
	} else if reason := peer.Trouble(&fc); !strings.HasPrefix(reason, peer.TakesNotAll) || strings.HasPrefix(reason, peer.TakesNotAll+"resourceslices/"+r.slice.Name+":") {
		text = strings.TrimSuffix(text+": "+reason, ": ") // without the name of another object
	}
	return kube.Pending(text)
}
