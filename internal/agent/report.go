// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// Reporter publishes the results and problems of an agent.
type Reporter struct {
	Client client.Client
	Events events.EventRecorder
	// Host is the name of the agent in the statuses of users' objects: of a node, or of a gateway.
	Host string
	// Namespace is the only namespace that the agent may write to, cluster-scoped objects excluded; "" for all.
	Namespace string

	reportedProblems map[plan.Problem]bool
	written          map[types.UID]networkingv1beta1.HostCondition // last written condition of this host, by UID of the user's object
}

// ReportProblems logs each new problem, and emits an event if permitted. A rejected object is the same on every host: the
// controller-manager reports it.
func (r *Reporter) ReportProblems(ctx context.Context, snapshot *Snapshot, problems []plan.Problem) {
	for _, p := range problems {
		if r.reportedProblems[p] {
			continue
		}
		log.FromContext(ctx).Info("left out", "object", p.Of.String(), "reason", p.Message)
		if obj := snapshot.Objects[p.Of]; obj != nil && p.Reason == "" && r.mayWrite(obj) {
			r.Events.Eventf(obj, nil, corev1.EventTypeWarning, networkingv1beta1.ReasonNotApplied, "Apply", "%s on %s: %s", p.Of.Kind, r.Host, p.Message)
		}
	}
	r.reportedProblems = map[plan.Problem]bool{}
	for _, p := range problems {
		r.reportedProblems[p] = true
	}
}

// Applied sets the condition of this host on users' objects: whether all of the object is applied. Objects for all gateways have no
// entry per gateway: their results stay in the logs.
func (r *Reporter) Applied(ctx context.Context, snapshot *Snapshot, problems []plan.Problem, failed error) error {
	if r.written == nil {
		r.written = map[types.UID]networkingv1beta1.HostCondition{}
	}
	here := map[types.UID]bool{}
	var errs []error
	say := func(kind string, obj client.Object) {
		of := plan.Object{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
		here[obj.GetUID()] = true
		errs = append(errs, r.recordApplied(ctx, of, obj, hostConditionOf(of, problems, failed)))
	}
	for _, o := range snapshot.Routes {
		say("RouteConfiguration", o)
	}
	for _, o := range snapshot.Firewalls {
		say("FirewallConfiguration", o)
	}
	maps.DeleteFunc(r.written, func(uid types.UID, _ networkingv1beta1.HostCondition) bool { return !here[uid] })
	return errors.Join(errs...)
}

// Lost reports whether the condition of this host was removed from an object.
func (r *Reporter) Lost(old, now client.Object) bool {
	return r.hostEntry(old) != nil && r.hostEntry(now) == nil
}

// hostEntry returns the condition of this host on an object, or nil.
func (r *Reporter) hostEntry(obj client.Object) *networkingv1beta1.HostCondition {
	var all []networkingv1beta1.HostCondition
	switch o := obj.(type) {
	case *networkingv1beta1.RouteConfiguration:
		all = o.Status.Conditions
	case *networkingv1beta1.FirewallConfiguration:
		all = o.Status.Conditions
	}
	i := slices.IndexFunc(all, func(c networkingv1beta1.HostCondition) bool {
		return c.Host == r.Host && c.Type == networkingv1beta1.HostConditionApplied
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (r *Reporter) mayWrite(obj client.Object) bool {
	return r.Namespace == "" || r.Namespace == obj.GetNamespace()
}

// hostConditionOf returns the condition of a host for an object.
func hostConditionOf(of plan.Object, problems []plan.Problem, failed error) networkingv1beta1.HostCondition {
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

// recordApplied writes a changed condition of this host. Each host owns an entry of the list, so all hosts may write at once. With a late cache, the
// last condition written by this process counts.
func (r *Reporter) recordApplied(ctx context.Context, of plan.Object, obj client.Object, c networkingv1beta1.HostCondition) error {
	if !r.mayWrite(obj) {
		return nil
	}
	c.Host, c.LastTransitionTime = r.Host, metav1.Now()
	shown := r.hostEntry(obj)
	last := shown
	if reported, ok := r.written[obj.GetUID()]; ok {
		last = &reported
	}
	if last != nil && last.Status == c.Status {
		c.LastTransitionTime = last.LastTransitionTime
	}
	if shown != nil && saysSame(*shown, c) && saysSame(*last, c) {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1beta1.GroupVersion.String(), "kind": of.Kind,
		"metadata": map[string]any{"namespace": of.Namespace, "name": of.Name, "uid": obj.GetUID()},
		"status":   map[string]any{"conditions": []networkingv1beta1.HostCondition{c}},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", of, err)
	}
	answer := obj.DeepCopyObject().(client.Object)
	err = r.Client.Status().Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(names.HostFieldManager(r.Host)), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s: %w", of, err)
	}
	r.written[obj.GetUID()] = c
	return nil
}

// saysSame reports whether two conditions are equal, apart from their times.
func saysSame(a, b networkingv1beta1.HostCondition) bool {
	a.LastTransitionTime = b.LastTransitionTime
	return a == b
}
