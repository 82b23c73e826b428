// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// accessState is the access that the provider's administrator grants to the consumer now.
type accessState int

const (
	granted   accessState = iota
	undecided             // the Tenant was changed and not reconciled yet: create nothing and leave everything as is for the moment
	refused               // the Tenant is not ready: no rights, no new namespaces, but nothing is deleted
	suspended             // the consumer has no Tenant: the same
	drained               // the Tenant is Drained: no rights and no pods, but namespaces keep their data
)

// mapInput is the input of all decisions about the remote namespaces of one NamespaceMap.
type mapInput struct {
	// owner is namespace/name of the NamespaceMap, the value of the annotation of its remote namespaces.
	owner    string
	tenant   string // the tenant namespace
	consumer string
	access   accessState
	// users are the users of the consumer's granted ResourceSlices, sorted. They get rights in the remote namespaces.
	users   []string
	desired map[string]string
	current map[string]offv1beta1.RemoteNamespaceStatus
	// namespaces are the namespaces of the cluster, by name.
	namespaces map[string]*corev1.Namespace
	reserved   policy.Reserved
	limit      int
	level      string // of Pod Security, for new namespaces
	// younger is true unless the NamespaceMap is the oldest of the peering. Only the oldest is effective.
	younger bool
	// bound maps each desired namespace whose ServiceAccounts have rights to one of the granting bindings.
	bound map[string]string
	// networks are the networks of the consumer as this cluster sees them, for the status.
	networks []offv1beta1.TranslatedNetwork
}

// mapStep is the action for one remote namespace.
type mapStep struct {
	local, remote string
	do            action
	namespace     *corev1.Namespace // the current namespace, nil if missing
	refusal       *denial           // why the consumer cannot use the namespace
	warning       *denial           // a problem of a namespace in use, for the administrator
}

// denial is the reason why a consumer cannot use a namespace: reason and message are for the consumer, detail is only for the
// provider.
type denial struct{ reason, message, detail string }

func (d *denial) Error() string { return cmp.Or(d.detail, d.message) }

func newDenial(reason, format string, args ...any) *denial {
	return &denial{reason: reason, message: fmt.Sprintf(format, args...)}
}

type action int

const (
	create action = iota
	keep
	remove
	leave  // the namespace is terminating already
	refuse // the namespace is not created, or not ours
)

// decideSteps returns the steps in order of local names. A removal comes before a creation for the same local name.
func decideSteps(in mapInput) []mapStep {
	var steps []mapStep
	busy := map[string]bool{}
	for _, namespace := range ownedNamespaces(in) {
		local := namespace.Annotations[names.OriginalName]
		if in.desired[local] == namespace.Name {
			continue
		}
		s := mapStep{local: local, remote: namespace.Name, do: remove, namespace: namespace}
		if !namespace.DeletionTimestamp.IsZero() {
			s.do = leave
		}
		busy[local] = true
		steps = append(steps, s)
	}
	capacity := in.limit - countOfTenant(in)
	for _, local := range slices.Sorted(maps.Keys(in.desired)) {
		if busy[local] {
			continue
		}
		s := wantedStep(in, local, capacity)
		if s.do == create {
			capacity--
		}
		steps = append(steps, s)
	}
	return steps
}

func wantedStep(in mapInput, local string, capacity int) mapStep {
	s := mapStep{local: local, remote: in.desired[local], namespace: in.namespaces[in.desired[local]]}
	if err := policy.CheckTwinNamespace(s.remote, in.reserved); err != nil {
		s.do, s.refusal = refuse, newDenial(offv1beta1.MappingNameReserved, "%v", err)
		return s
	}
	switch {
	case s.namespace == nil && in.access != granted:
		s.do, s.refusal = refuse, in.access.accessDenial()
	case s.namespace == nil && capacity <= 0:
		s.do, s.refusal = refuse, newDenial(offv1beta1.MappingLimitReached, "the limit of %d namespaces of one consumer is reached", in.limit)
	case s.namespace == nil && in.younger:
		s.do, s.refusal = refuse, newDenial(offv1beta1.MappingNotTheOldest, "another NamespaceMap of this consumer is older, and only the oldest one counts")
	case s.namespace == nil && in.bound[s.remote] != "":
		s.do, s.refusal = refuse, errBound(s.remote, in.bound[s.remote])
	case s.namespace == nil:
		s.do = create
	case !isOwnedBy(s.namespace, in.owner, local):
		s.do, s.refusal = refuse, errNotOurs(s.remote)
	case !s.namespace.DeletionTimestamp.IsZero():
		s.do = leave
	default:
		s.do = keep
		if in.access == drained {
			s.refusal = in.access.accessDenial()
		}
		if binding := in.bound[s.remote]; binding != "" {
			s.warning = errBound(s.remote, binding)
		}
	}
	return s
}

func errNotOurs(name string) *denial {
	return newDenial(offv1beta1.MappingNamespaceExists, "namespace %q already exists and was not created for this offloading", name)
}

// errBound names the binding in the detail for the provider's administrator only: the consumer must not learn the rights of
// others.
func errBound(name, binding string) *denial {
	d := newDenial(offv1beta1.MappingNameBound, "a binding in the provider grants permissions to ServiceAccounts of a namespace %q", name)
	d.detail = fmt.Sprintf("%s grants permissions to ServiceAccounts of the namespace %q, in which the consumer can run pods", binding, name)
	return d
}

// accessDenial returns why the consumer has no access, in words for the consumer's administrator and the provider's. An
// undecided Tenant is no reason: the decision takes a moment only.
func (a accessState) accessDenial() *denial {
	switch a {
	case refused:
		return newDenial(offv1beta1.MappingTenantNotReady, "the Tenant is not ready")
	case suspended:
		return newDenial(offv1beta1.MappingNoTenant, "the consumer has no Tenant")
	case drained:
		return newDenial(offv1beta1.MappingTenantDrained, "the Tenant is drained")
	default:
		return nil
	}
}

// isOwnedBy reports whether a namespace is ours: only annotations prove the creation, and for which mapping.
func isOwnedBy(namespace *corev1.Namespace, owner, local string) bool {
	return namespace.Annotations[names.ManagedByNamespaceMap] == owner && namespace.Annotations[names.OriginalName] == local
}

func ownedNamespaces(in mapInput) []*corev1.Namespace {
	var out []*corev1.Namespace
	for _, name := range slices.Sorted(maps.Keys(in.namespaces)) {
		if n := in.namespaces[name]; n.Annotations[names.ManagedByNamespaceMap] == in.owner {
			out = append(out, n)
		}
	}
	return out
}

// countOfTenant returns the number of remote namespaces of all NamespaceMaps of the peering.
func countOfTenant(in mapInput) int {
	count := 0
	for _, n := range in.namespaces {
		if tenant, _, ok := cutOwner(n.Annotations[names.ManagedByNamespaceMap]); ok && tenant == in.tenant {
			count++
		}
	}
	return count
}

// mayReport reports whether the status may name a namespace: the spec requests it, or the status names it already. A remote
// namespace no longer requested before the status named it is removed without a report.
func (in *mapInput) mayReport(local string) bool {
	_, desired := in.desired[local]
	_, current := in.current[local]
	return desired || current
}

// newNamespace returns the namespace to create.
func newNamespace(in mapInput, s mapStep) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.remote,
		Labels: map[string]string{
			names.RemoteClusterID:   in.consumer,
			names.AppManagedBy:      names.ManagedByLiqo,
			policy.PodSecurityLabel: in.level,
		},
		Annotations: map[string]string{
			names.ManagedByNamespaceMap: in.owner,
			names.OriginalName:          s.local,
			names.DefaultLimits:         names.DefaultLimitsPending,
		},
	}}
}

// missingLabels returns the required labels that a remote namespace lacks. The administrator may change the level of Pod
// Security of an existing namespace; the level is restored only if the label is missing or empty.
func missingLabels(in mapInput, namespace *corev1.Namespace) map[string]string {
	missing := map[string]string{}
	if namespace.Labels[names.RemoteClusterID] != in.consumer {
		missing[names.RemoteClusterID] = in.consumer
	}
	if namespace.Labels[policy.PodSecurityLabel] == "" {
		missing[policy.PodSecurityLabel] = in.level
	}
	return missing
}

// mappingPhase returns the phase of one mapping after its step; err is the result of the step. An accepted mapping stays
// accepted on errors of the provider's own, because the consumer would abort its pods otherwise.
func mappingPhase(in mapInput, s mapStep, err error) offv1beta1.MappingPhase {
	switch {
	case s.do == remove || s.do == leave:
		return offv1beta1.MappingTerminating
	case s.do == refuse || in.access == drained:
		return offv1beta1.MappingCreationLoopBackOff
	case err != nil:
		if was := in.current[s.local]; was.Phase == offv1beta1.MappingAccepted && was.RemoteNamespace == s.remote && s.do == keep {
			return offv1beta1.MappingAccepted
		}
		return offv1beta1.MappingCreationLoopBackOff
	default:
		return offv1beta1.MappingAccepted
	}
}

// longestMessage is the maximum length, in bytes, of the message about one namespace: a NamespaceMap may have hundreds.
const longestMessage = 256

// mappingStatus returns the status of one mapping for the consumer, after its step; err is the result of the step.
func mappingStatus(in mapInput, s mapStep, err error) offv1beta1.RemoteNamespaceStatus {
	out := offv1beta1.RemoteNamespaceStatus{RemoteNamespace: s.remote, Phase: mappingPhase(in, s, err)}
	if out.Phase == offv1beta1.MappingAccepted {
		out.PodSecurity = in.enforcedLevel(s)
	}
	if out.Phase != offv1beta1.MappingCreationLoopBackOff {
		return out
	}
	switch {
	case s.refusal != nil:
		out.Reason, out.Message = s.refusal.reason, s.refusal.message
	case s.do == refuse:
		out.Reason, out.Message = offv1beta1.MappingTenantPending, "the Tenant has not been processed yet"
	case isForbidden(err):
		out.Reason, out.Message = offv1beta1.MappingForbidden, "the API server of the provider does not allow the namespace: "+statusMessage(err)
	default:
		// The cause stays internal to the provider: errors name addresses and objects of the provider's cluster.
		out.Reason, out.Message = offv1beta1.MappingRetried, "creating the namespace failed and is being retried"
	}
	if len(out.Message) > longestMessage {
		out.Message = strings.ToValidUTF8(out.Message[:longestMessage], "") + "…"
	}
	return out
}

// enforcedLevel returns the level of Pod Security of an accepted namespace: from the label, else the level of new
// namespaces.
func (in *mapInput) enforcedLevel(s mapStep) string {
	level := in.level
	if s.namespace != nil {
		level = cmp.Or(s.namespace.Labels[policy.PodSecurityLabel], in.level)
	}
	return level[:min(len(level), maxLevel)]
}

// maxLevel limits the length of the level as the CRD does: the label may have any value.
const maxLevel = 32

// isForbidden reports whether a policy or a missing permission denied the request, in contrast to errors that a retry may
// solve.
func isForbidden(err error) bool {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	return !strings.Contains(statusMessage(err), "not yet ready to handle request") // from an admission plugin that has just started
}

func statusMessage(err error) string {
	var status apierrors.APIStatus // not an error type, so errors.AsType does not apply
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Message
}

// accessOf returns the access granted by the spec and conditions of the consumer's Tenant.
func accessOf(tenants []authv1beta1.Tenant, consumer string) accessState {
	tenant := peer.Tenant(tenants, liqov1beta1.ClusterID(consumer))
	if tenant == nil {
		return suspended
	}
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	switch {
	case tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained:
		return drained
	case ready == nil || ready.ObservedGeneration != tenant.Generation:
		return undecided
	case ready.Status != metav1.ConditionTrue:
		return refused
	}
	return granted
}

// usersOf returns the users of granted ResourceSlices: each has a Quota, deleted with the grant. A cordoned user keeps
// the rights, because the virtual kubelet of running pods needs them; admission denies new pods.
func usersOf(quotas []offv1beta1.Quota) []string {
	users := map[string]bool{}
	for i := range quotas {
		if quotas[i].DeletionTimestamp.IsZero() {
			users[quotas[i].Spec.User] = true
		}
	}
	return slices.Sorted(maps.Keys(users))
}

// isEntitled reports whether the consumer's users have rights in a remote namespace; bound reports whether some have a binding
// already.
func (in *mapInput) isEntitled(bound bool) bool {
	return len(in.users) > 0 && (in.access == granted || in.access == undecided && bound)
}
