// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network/plan"
)

// Reporter tells what an agent did for others to see.
type Reporter struct {
	Client client.Client
	Events events.EventRecorder
	// Host is the name of the agent in the statuses of users' objects: of a node, or of a gateway.
	Host string
	// Namespace is the only one whose objects the agent may write to, those of the whole cluster not among them; "": all.
	Namespace string

	told []plan.Problem
}

// Tell makes a line of the log, and an event if it may, of each problem that was not there before. Refusals are the same
// everywhere: the controller-manager tells of them.
func (r *Reporter) Tell(ctx context.Context, seen *Seen, problems []plan.Problem) {
	for _, p := range problems {
		if slices.Contains(r.told, p) {
			continue
		}
		log.FromContext(ctx).Info("left out", "object", p.Of.String(), "reason", p.Message)
		if obj := seen.Objects[p.Of]; obj != nil && p.Reason == "" && r.mayWrite(obj) {
			r.Events.Eventf(obj, nil, corev1.EventTypeWarning, networkingv1beta1.ReasonNotApplied, "Apply", "%s on %s: %s", p.Of.Kind, r.Host, p.Message)
		}
	}
	r.told = slices.Clone(problems)
}

// Applied says on the objects of users whether all of them is done here. There are many gateways, and what is for all of them has no
// place for what each did: that stays in their logs.
func (r *Reporter) Applied(ctx context.Context, seen *Seen, problems []plan.Problem, failed error) error {
	var errs []error
	for _, o := range seen.Routes {
		of := plan.Object{Kind: "RouteConfiguration", Namespace: o.Namespace, Name: o.Name}
		errs = append(errs, r.applied(ctx, o, &o.Status.Conditions, verdict(of, problems, failed)))
	}
	for _, o := range seen.Firewalls {
		of := plan.Object{Kind: "FirewallConfiguration", Namespace: o.Namespace, Name: o.Name}
		errs = append(errs, r.applied(ctx, o, &o.Status.Conditions, verdict(of, problems, failed)))
	}
	return errors.Join(errs...)
}

func (r *Reporter) mayWrite(obj client.Object) bool {
	return r.Namespace == "" || r.Namespace == obj.GetNamespace()
}

// verdict is what a host says of an object.
func verdict(of plan.Object, problems []plan.Problem, failed error) networkingv1beta1.HostCondition {
	c := networkingv1beta1.HostCondition{Type: networkingv1beta1.HostConditionApplied, Status: metav1.ConditionFalse}
	var out []string
	for _, p := range problems {
		if p.Of == of {
			out = append(out, p.Message)
		}
	}
	slices.Sort(out)
	switch {
	case failed != nil:
		c.Reason, c.Message = networkingv1beta1.ReasonApplyFailed, kube.Note(failed.Error())
	case len(out) > 0:
		c.Reason, c.Message = networkingv1beta1.ReasonNotApplied, kube.Note(strings.Join(slices.Compact(out), "; "))
	default:
		c.Status = metav1.ConditionTrue
	}
	return c
}

// applied writes the condition of this host, if it changes. Others write theirs to the same list: a conflict is an error like any
// other, for the news of their write are no reason to run.
func (r *Reporter) applied(ctx context.Context, obj client.Object, conditions *[]networkingv1beta1.HostCondition, c networkingv1beta1.HostCondition) error {
	c.Host, c.LastTransitionTime = r.Host, metav1.Now()
	i := slices.IndexFunc(*conditions, func(c networkingv1beta1.HostCondition) bool { return c.Host == r.Host })
	if i >= 0 && (*conditions)[i].Status == c.Status {
		c.LastTransitionTime = (*conditions)[i].LastTransitionTime
	}
	if i >= 0 && (*conditions)[i] == c || !r.mayWrite(obj) {
		return nil
	}
	before := obj.DeepCopyObject().(client.Object)
	if i >= 0 {
		(*conditions)[i] = c
	} else {
		*conditions = append(*conditions, c)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, obj, patch); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of %s: %w", obj.GetName(), err)
	}
	return nil
}
