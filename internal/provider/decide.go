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

// accessState is what the provider's administrator grants the consumer right now.
type accessState int

const (
	granted   accessState = iota
	undecided             // the Tenant was changed and not judged yet: nothing new, and what there is stays for that moment
	refused               // the Tenant is not ready: no rights and nothing new, but nothing is destroyed
	suspended             // no Tenant: the same
	drained               // the Tenant is Drained: no rights and no pods, but namespaces keep their data
)

// mapInput is what the twins of one NamespaceMap depend on.
type mapInput struct {
	// owner is namespace/name of the NamespaceMap: what its twins are annotated with.
	owner    string
	tenant   string // the namespace of the peering
	consumer string
	access   accessState
	// users of the consumer's granted slices, sorted: those who get rights in the twins.
	users   []string
	desired map[string]string
	current map[string]offv1beta1.RemoteNamespaceStatus
	// namespaces of the cluster, by name.
	namespaces map[string]*corev1.Namespace
	reserved   policy.Reserved
	limit      int
	level      string // of Pod Security, for new namespaces
	// younger is true of a NamespaceMap that is not the oldest one of the peering, which alone counts.
	younger bool
	// bound are the bindings that give rights to ServiceAccounts of a namespace, one for each name that is desired and has any.
	bound map[string]string
}

// A step is what to do about one twin.
type mapStep struct {
	local, remote string
	do            action
	namespace     *corev1.Namespace // as it is, nil when there is none
	refusal       *denial           // why the consumer cannot use it
	warning       *denial           // what the administrator has to know about one that is used
}

// denial is why a consumer cannot use a namespace: in one word, as the consumer reads it, and in more words where only the provider
// may read them.
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
	leave  // it is on its way out already
	refuse // it is not made, or is not ours
)

// decideSteps lists the steps, in order of local names. What has to go comes before what has to come under the same name.
func decideSteps(in mapInput) []mapStep {
	var steps []mapStep
	busy := map[string]bool{}
	for _, namespace := range ownedTwins(in) {
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
	room := in.limit - countOfTenant(in)
	for _, local := range slices.Sorted(maps.Keys(in.desired)) {
		if busy[local] {
			continue
		}
		s := wantedStep(in, local, room)
		if s.do == create {
			room--
		}
		steps = append(steps, s)
	}
	return steps
}

func wantedStep(in mapInput, local string, room int) mapStep {
	s := mapStep{local: local, remote: in.desired[local], namespace: in.namespaces[in.desired[local]]}
	if err := policy.CheckTwinNamespace(s.remote, in.reserved); err != nil {
		s.do, s.refusal = refuse, newDenial(offv1beta1.MappingNameReserved, "%v", err)
		return s
	}
	switch {
	case s.namespace == nil && in.access != granted:
		s.do, s.refusal = refuse, in.access.accessDenial()
	case s.namespace == nil && room <= 0:
		s.do, s.refusal = refuse, newDenial(offv1beta1.MappingLimitReached, "no more than %d namespaces are made for one consumer", in.limit)
	case s.namespace == nil && in.younger:
		s.do, s.refusal = refuse, newDenial(offv1beta1.MappingNotTheOldest, "another NamespaceMap of this consumer is older, and only the oldest one counts")
	case s.namespace == nil && in.bound[s.remote] != "":
		s.do, s.refusal = refuse, errBound(s.remote, in.bound[s.remote])
	case s.namespace == nil:
		s.do = create
	case !isTwin(s.namespace, in.owner, local):
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
	return newDenial(offv1beta1.MappingNamespaceExists, "the namespace %q exists already and was not made for this offloading", name)
}

// errBound names the binding to the administrator of the provider only: the consumer is not to learn who has which rights.
func errBound(name, binding string) *denial {
	d := newDenial(offv1beta1.MappingNameBound, "a binding in the provider gives rights to ServiceAccounts of a namespace %q", name)
	d.detail = fmt.Sprintf("%s gives rights to ServiceAccounts of the namespace %q, under which the consumer can run pods", binding, name)
	return d
}

// accessDenial returns why the consumer has no access, in words that its administrator can pass on to the provider's. An
// undecided Tenant is no reason: it only takes a moment.
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

// isTwin: a namespace is ours only if we wrote into it that we made it, and for what.
func isTwin(namespace *corev1.Namespace, owner, local string) bool {
	return namespace.Annotations[names.ManagedByNamespaceMap] == owner && namespace.Annotations[names.OriginalName] == local
}

func ownedTwins(in mapInput) []*corev1.Namespace {
	var out []*corev1.Namespace
	for _, name := range slices.Sorted(maps.Keys(in.namespaces)) {
		if n := in.namespaces[name]; n.Annotations[names.ManagedByNamespaceMap] == in.owner {
			out = append(out, n)
		}
	}
	return out
}

// countOfTenant counts the twins of all NamespaceMaps of the peering.
func countOfTenant(in mapInput) int {
	count := 0
	for _, n := range in.namespaces {
		if tenant, _, ok := cutOwner(n.Annotations[names.ManagedByNamespaceMap]); ok && tenant == in.tenant {
			count++
		}
	}
	return count
}

// mayReport reports whether the status may name a namespace: it is asked for, or the status names it already. A twin that was asked for
// no more before the status named it goes without a word.
func (in *mapInput) mayReport(local string) bool {
	_, desired := in.desired[local]
	_, current := in.current[local]
	return desired || current
}

// newTwin is the namespace to make.
func newTwin(in mapInput, s mapStep) *corev1.Namespace {
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

// missingLabels are those that a twin has to have. The level of Pod Security is the administrator's once the namespace
// exists, and comes back only if nothing is left of it.
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

// mappingPhase is the state of one mapping after its step, which failed with err or not. What was accepted stays so while only
// we have trouble: the consumer would abort its pods otherwise.
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

// longestMessage bounds what is said about one namespace, in bytes: a NamespaceMap may have hundreds.
const longestMessage = 256

// mappingStatus is what the consumer is told about one mapping after its step, which failed with err or not.
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
		// What failed is the provider's own affair: its errors name addresses and objects of its cluster.
		out.Reason, out.Message = offv1beta1.MappingRetried, "creating the namespace failed and is being retried"
	}
	if len(out.Message) > longestMessage {
		out.Message = strings.ToValidUTF8(out.Message[:longestMessage], "") + "…"
	}
	return out
}

// enforcedLevel returns the level of Pod Security of an accepted namespace: the administrator's, or that of new ones.
func (in *mapInput) enforcedLevel(s mapStep) string {
	level := in.level
	if s.namespace != nil {
		level = cmp.Or(s.namespace.Labels[policy.PodSecurityLabel], in.level)
	}
	return level[:min(len(level), maxLevel)]
}

// maxLevel bounds the level as the kind does: the label may be anything.
const maxLevel = 32

// isForbidden reports whether a policy or a right is missing, in contrast to what a later attempt may change by itself.
func isForbidden(err error) bool {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	return !strings.Contains(statusMessage(err), "not yet ready to handle request") // of an admission plugin that has just started
}

func statusMessage(err error) string {
	var status apierrors.APIStatus // not an error itself, so AsType does not apply
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Message
}

// accessOf reads what the consumer's Tenant says, and what was found about it.
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

// usersOf are the users of the granted slices: each has a Quota, which goes with the grant. A cordoned one keeps its
// rights, because pods that run need their virtual kubelet; it is refused new ones by admission.
func usersOf(quotas []offv1beta1.Quota) []string {
	users := map[string]bool{}
	for i := range quotas {
		if quotas[i].DeletionTimestamp.IsZero() {
			users[quotas[i].Spec.User] = true
		}
	}
	return slices.Sorted(maps.Keys(users))
}

// isEntitled tells whether the consumer's users have rights in a twin, where some are bound already or not.
func (in *mapInput) isEntitled(bound bool) bool {
	return len(in.users) > 0 && (in.access == granted || in.access == undecided && bound)
}
