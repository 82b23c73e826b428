// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network/plan"
)

// reasonLeftOut is that of events about something of an object that is not done, and why.
const reasonLeftOut = "NotApplied"

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
			r.Events.Eventf(obj, nil, corev1.EventTypeWarning, reasonLeftOut, "Apply", "%s on %s: %s", p.Of.Kind, r.Host, p.Message)
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
		errs = append(errs, r.applied(ctx, o, &o.Status.Conditions, well(of, problems, failed)))
	}
	for _, o := range seen.Firewalls {
		of := plan.Object{Kind: "FirewallConfiguration", Namespace: o.Namespace, Name: o.Name}
		errs = append(errs, r.applied(ctx, o, &o.Status.Conditions, well(of, problems, failed)))
	}
	return errors.Join(errs...)
}

func (r *Reporter) mayWrite(obj client.Object) bool {
	return r.Namespace == "" || r.Namespace == obj.GetNamespace()
}

func well(of plan.Object, problems []plan.Problem, failed error) bool {
	return failed == nil && !slices.ContainsFunc(problems, func(p plan.Problem) bool { return p.Of == of })
}

// applied writes the condition of this host, if it changes. Others write theirs to the same list: a conflict is an error like any
// other, for the news of their write are no reason to run.
func (r *Reporter) applied(ctx context.Context, obj client.Object, conditions *[]networkingv1beta1.HostCondition, ok bool) error {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	i := slices.IndexFunc(*conditions, func(c networkingv1beta1.HostCondition) bool { return c.Host == r.Host })
	if i >= 0 && (*conditions)[i].Status == status {
		return nil
	}
	if !r.mayWrite(obj) {
		return nil
	}
	before := obj.DeepCopyObject().(client.Object)
	c := networkingv1beta1.HostCondition{Host: r.Host, Type: networkingv1beta1.HostConditionApplied, Status: status, LastTransitionTime: metav1.Now()}
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
