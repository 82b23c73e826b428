// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package provider runs the offloaded workloads of consumers in a provider: their remote namespaces, and the pods in them.
package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// defaultLimit is the default maximum number of namespaces for one consumer.
const defaultLimit = 100

// NamespaceMapOptions are the options of the NamespaceMap controller.
type NamespaceMapOptions struct {
	// LiqoNamespace is the namespace of the installation.
	LiqoNamespace string
	// Version is the version of Liqo in this cluster, reported to consumers; empty for no report.
	Version string
	// PodSecurity is the level of Pod Security that new namespaces enforce; "" is baseline.
	PodSecurity string
	// MaxNamespaces is the maximum number of namespaces created for one consumer; 0 is 100.
	MaxNamespaces int
	// ReservedNamespaces are names that no consumer gets. A pattern may begin or end with *, a wildcard for any characters.
	ReservedNamespaces []string
	// Quota is the default ResourceQuota of each namespace; empty for none.
	Quota corev1.ResourceList
	// Requests and Limits are the defaults for containers without any, by a LimitRange; empty for none.
	Requests, Limits corev1.ResourceList
	// NetworkPolicies is whether the CNI plugin enforces NetworkPolicies: one of the constants Policies*; "" is PoliciesDetected.
	NetworkPolicies string
	// Workers is the number of NamespaceMaps reconciled concurrently; 0 is 4. Each NamespaceMap occupies one worker at a time,
	// and only the oldest of a peering is effective: a consumer cannot occupy all workers.
	Workers int
}

const (
	defaultMapWorkers = 4
	// turn is the number of namespaces created for a NamespaceMap before the next NamespaceMap is processed.
	turn = 16
	// turnDelay is the delay before a NamespaceMap is reconciled again after its turn.
	turnDelay = 10 * time.Millisecond
	// maxMissed is the number of namespaces of a NamespaceMap that may fail in a turn. The next turn begins with the following
	// namespaces, missedDelay later.
	maxMissed   = 16
	missedDelay = 5 * time.Second
)

// SetupNamespaceMaps registers the controller of the namespaces requested by consumers.
func SetupNamespaceMaps(mgr ctrl.Manager, o NamespaceMapOptions) error {
	if o.PodSecurity == "" {
		o.PodSecurity = policy.PodSecurityBaseline
	}
	if o.MaxNamespaces == 0 {
		o.MaxNamespaces = defaultLimit
	}
	if o.Workers == 0 {
		o.Workers = defaultMapWorkers
	}
	if err := indexBindings(mgr); err != nil {
		return err
	}
	if _, err := mgr.GetCache().GetInformer(context.Background(), &offv1beta1.ShadowPod{}); err != nil {
		return fmt.Errorf("caching ShadowPods: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the discovery client: %w", err)
	}
	s := &namespaceMaps{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), options: o,
		enforcement: policyEnforcement{setting: o.NetworkPolicies, live: mgr.GetAPIReader(), nodes: mgr.GetClient(), groups: discover},
	}
	c := kube.NewController(mgr, kube.Options{
		Name:           "namespacemap",
		Finalizer:      names.NamespaceMapFinalizer,
		NeedsFinalizer: peer.IsReplica,
		Workers:        o.Workers,
	}, s)
	return c.Complete(s.addWatches(c.Builder()))
}

// namespaceMaps reconciles the replicas of consumers' NamespaceMaps. NamespaceMaps of this cluster for its own providers are
// ignored.
type namespaceMaps struct {
	client  client.Client
	live    client.Reader
	options NamespaceMapOptions
	// enforcement is whether the CNI plugin enforces NetworkPolicies.
	enforcement policyEnforcement

	mu sync.Mutex
	// last is the last attempted namespace of each NamespaceMap whose namespaces could not all be attempted.
	last map[types.UID]string
}

// rotateCreations moves the creations after the last attempted namespace to the front of all creations.
func (s *namespaceMaps) rotateCreations(of types.UID, steps []mapStep) []mapStep {
	s.mu.Lock()
	last := s.last[of]
	s.mu.Unlock()
	early := func(st mapStep) bool { return st.do == create && st.local <= last }
	if last == "" {
		return steps
	}
	late := slices.DeleteFunc(slices.Clone(steps), early)
	return append(late, slices.DeleteFunc(slices.Clone(steps), func(st mapStep) bool { return !early(st) })...)
}

func (s *namespaceMaps) recordLast(of types.UID, local string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if local == "" {
		delete(s.last, of)
		return
	}
	if s.last == nil {
		s.last = map[types.UID]string{}
	}
	s.last[of] = local
}

// Sync creates, updates and deletes remote namespaces, and writes the result of each to the status.
func (s *namespaceMaps) Sync(ctx context.Context, nm *offv1beta1.NamespaceMap) error {
	if !peer.IsReplica(nm) {
		return nil
	}
	in, err := s.gatherInput(ctx, s.client, nm)
	if err != nil {
		return err
	}
	if in.consumer == "" {
		return kube.Invalid("NoTenantNamespace", fmt.Errorf("the namespace %q is not that of a peering", nm.Namespace))
	}
	in.desired = nm.Spec.DesiredMapping
	if in.bound, err = s.bindingsOf(ctx, in); err != nil {
		return err
	}
	return s.applyMap(ctx, nm, in)
}

// Cleanup deletes all remote namespaces. The last pass reads from the API server: the cache may lack a just created
// namespace, and the namespace would remain as an orphan.
func (s *namespaceMaps) Cleanup(ctx context.Context, nm *offv1beta1.NamespaceMap) error {
	for _, from := range []client.Reader{s.client, s.live} {
		in, err := s.gatherInput(ctx, from, nm)
		if err != nil {
			return err
		}
		if err := s.applyMap(ctx, nm, in); err != nil {
			return err
		}
		if remaining := len(decideSteps(in)); remaining > 0 {
			return kube.Wait(0, fmt.Sprintf("%d namespaces are being removed", remaining))
		}
	}
	return nil
}

func (s *namespaceMaps) applyMap(ctx context.Context, nm *offv1beta1.NamespaceMap, in mapInput) error {
	status := map[string]offv1beta1.RemoteNamespaceStatus{}
	var refused, failed []error
	made, missed, waiting, last := 0, 0, 0, ""
	for _, st := range s.rotateCreations(nm.UID, decideSteps(in)) {
		creates := st.do == create
		if creates && (made >= turn || missed >= maxMissed) {
			waiting++
			if previous, ok := in.current[st.local]; ok && previous.RemoteNamespace == st.remote && in.mayReport(st.local) {
				status[st.local] = previous
			}
			continue // a new mapping without a result, for which the consumer waits
		}
		err := s.doStep(ctx, in, &st)
		switch {
		case creates && (err != nil || st.do == refuse):
			missed, last = missed+1, st.local
		case creates:
			made, last = made+1, st.local
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("offloading namespace %q: %w", st.local, err))
		}
		if st.refusal != nil {
			refused = append(refused, fmt.Errorf("namespace %q: %w", st.local, st.refusal))
		}
		if st.warning != nil {
			failed = append(failed, kube.Invalid(st.warning.reason, fmt.Errorf("namespace %q: %w", st.local, st.warning)))
		}
		if in.mayReport(st.local) {
			status[st.local] = mappingStatus(in, st, err)
		}
	}
	nm.Status.CurrentMapping, nm.Status.ProviderVersion, nm.Status.ProviderCapabilities = status, s.options.Version, nil
	if s.options.Version != "" {
		nm.Status.ProviderCapabilities = peer.Capabilities()
		if s.enforcement.isEnforced(ctx) {
			nm.Status.ProviderCapabilities = append(nm.Status.ProviderCapabilities, peer.EnforcedNetworkPolicies)
			slices.Sort(nm.Status.ProviderCapabilities)
		}
	}
	nm.Status.ConsumerNetworks = in.networks
	if waiting > 0 {
		delay := turnDelay
		if missed > 0 {
			delay = missedDelay
		}
		failed = append(failed, kube.Wait(delay, fmt.Sprintf("%d namespaces remain to be created", waiting)))
	} else {
		last = ""
	}
	s.recordLast(nm.UID, last)
	return errors.Join(invalidError(refused), errors.Join(failed...))
}

// invalidError returns refusals as an error for an event; a watch retries when the conflicting namespace is deleted.
func invalidError(refused []error) error {
	if len(refused) == 0 {
		return nil
	}
	return kube.Invalid(string(offv1beta1.MappingCreationLoopBackOff), errors.Join(refused...))
}

func (s *namespaceMaps) gatherInput(ctx context.Context, from client.Reader, nm *offv1beta1.NamespaceMap) (mapInput, error) {
	in := mapInput{
		owner:      ownerKey(nm),
		tenant:     nm.Namespace,
		current:    nm.Status.CurrentMapping,
		namespaces: map[string]*corev1.Namespace{},
		reserved:   policy.Reserved{Liqo: s.options.LiqoNamespace, Names: s.options.ReservedNamespaces},
		limit:      s.options.MaxNamespaces,
		level:      s.options.PodSecurity,
	}
	all := &corev1.NamespaceList{}
	if err := from.List(ctx, all); err != nil {
		return in, fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range all.Items {
		n := &all.Items[i]
		in.namespaces[n.Name] = n
		if _, ok := peer.OfNamespace(n); ok {
			in.reserved.Tenants = append(in.reserved.Tenants, n.Name)
		}
	}
	if liqoNamespace, known := in.namespaces[nm.Namespace]; known {
		consumer, _ := peer.OfNamespace(liqoNamespace)
		in.consumer = string(consumer)
	}
	siblings := &offv1beta1.NamespaceMapList{}
	if err := from.List(ctx, siblings, client.InNamespace(nm.Namespace)); err != nil {
		return in, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	oldest := policy.Oldest(siblings.Items, func(other *offv1beta1.NamespaceMap) bool { return peer.IsReplica(other) })
	in.younger = oldest != nil && oldest.Name != nm.Name
	tenants := &authv1beta1.TenantList{}
	if err := from.List(ctx, tenants, client.InNamespace(nm.Namespace)); err != nil {
		return in, fmt.Errorf("listing Tenants: %w", err)
	}
	in.access = accessOf(tenants.Items, in.consumer)
	configurations := &networkingv1beta1.ConfigurationList{}
	if err := from.List(ctx, configurations); err != nil {
		return in, fmt.Errorf("listing Configurations: %w", err)
	}
	in.networks = translatedNetworks(peer.Configuration(configurations.Items, liqov1beta1.ClusterID(in.consumer)))
	quotas := &offv1beta1.QuotaList{}
	if err := from.List(ctx, quotas, client.InNamespace(nm.Namespace)); err != nil {
		return in, fmt.Errorf("listing Quotas: %w", err)
	}
	in.users = usersOf(quotas.Items)
	return in, nil
}

func (s *namespaceMaps) doStep(ctx context.Context, in mapInput, st *mapStep) error {
	switch st.do {
	case create:
		if err := s.createNamespace(ctx, in, st); err != nil || st.do == refuse {
			return err
		}
		// Limits come before rights: usage is counted from the first object of the consumer.
		if err := s.ensureLimits(ctx, st.namespace); err != nil {
			return err
		}
		return s.bindRoles(ctx, in, st.remote)
	case keep:
		if err := s.labelNamespace(ctx, in, st.namespace); err != nil {
			return err
		}
		if err := s.ensureLimits(ctx, st.namespace); err != nil {
			return err
		}
		return s.bindRoles(ctx, in, st.remote)
	case remove:
		log.FromContext(ctx).Info("removing namespace", "namespace", st.remote, "consumer", in.consumer)
		if err := kube.DeleteObject(ctx, s.client, st.namespace, "deleting namespace %q", st.remote); err != nil {
			return err
		}
	}
	return nil
}

// createNamespace creates the namespace and never adopts an existing namespace, possibly missing in the cache.
func (s *namespaceMaps) createNamespace(ctx context.Context, in mapInput, st *mapStep) error {
	remoteNamespace := newNamespace(in, *st)
	err := s.client.Create(ctx, remoteNamespace)
	if err == nil {
		log.FromContext(ctx).Info("made namespace", "namespace", st.remote, "consumer", in.consumer)
		st.namespace = remoteNamespace
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %q: %w", st.remote, err)
	}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(remoteNamespace), remoteNamespace); err != nil {
		return fmt.Errorf("reading namespace %q: %w", st.remote, err)
	}
	if !isOwnedBy(remoteNamespace, in.owner, st.local) {
		st.do, st.refusal = refuse, errNotOurs(st.remote)
	}
	st.namespace = remoteNamespace
	return nil
}

func (s *namespaceMaps) labelNamespace(ctx context.Context, in mapInput, namespace *corev1.Namespace) error {
	missing := missingLabels(in, namespace)
	if len(missing) == 0 {
		return nil
	}
	labelled := namespace.DeepCopy()
	labelled.Labels = maps.Clone(namespace.Labels)
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	maps.Copy(labelled.Labels, missing)
	if err := s.client.Patch(ctx, labelled, client.MergeFrom(namespace)); err != nil {
		return fmt.Errorf("labelling namespace %q: %w", namespace.Name, err)
	}
	return nil
}

// bindRoles grants the consumer's users their role in the namespace, or revokes the role. The pods of a drained consumer
// are evicted.
func (s *namespaceMaps) bindRoles(ctx context.Context, in mapInput, namespace string) error {
	want := newBinding(in, namespace)
	current := &rbacv1.RoleBinding{}
	err := s.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the rights in namespace %q: %w", namespace, err)
	}
	bound := err == nil
	entitled := in.isEntitled(bound)
	withdraw := func(ctx context.Context, binding *rbacv1.RoleBinding) error {
		return client.IgnoreNotFound(s.client.Delete(ctx, binding, client.Preconditions{UID: new(binding.UID)}))
	}
	if bound && !entitled {
		if err := withdraw(ctx, current); err != nil {
			return fmt.Errorf("withdrawing the rights in namespace %q: %w", namespace, err)
		}
	}
	if entitled {
		if err := kube.EnsureRoleBinding(ctx, s.client, want, withdraw); err != nil {
			return fmt.Errorf("granting rights in namespace %q: %w", namespace, err)
		}
	}
	if in.access == drained {
		return s.evictPods(ctx, namespace)
	}
	return nil
}

// evictPods deletes the consumer's pods. Volumes and configuration stay until the Tenant is active again.
func (s *namespaceMaps) evictPods(ctx context.Context, namespace string) error {
	remaining := &offv1beta1.ShadowPodList{}
	if err := s.client.List(ctx, remaining, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing ShadowPods: %w", err)
	}
	// The garbage collector alone is not enough: a ShadowPod may have a finalizer, and a pod may have lost its owner.
	pods := &corev1.PodList{}
	if err := s.live.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{names.ManagedBy: madeFrom}); err != nil {
		return fmt.Errorf("listing the pods in namespace %q: %w", namespace, err)
	}
	if len(remaining.Items)+len(pods.Items) == 0 {
		return nil
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if err := s.client.Delete(ctx, pod, client.Preconditions{UID: new(pod.UID)}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("removing pod %q in namespace %q: %w", pod.Name, namespace, err)
		}
	}
	for i := range remaining.Items {
		if err := kube.DeleteObject(ctx, s.client, &remaining.Items[i], "removing the pods in namespace %q", namespace); err != nil {
			return err
		}
	}
	return kube.Wait(evictionDelay, "pods of a drained tenant are being removed")
}

// newBinding returns the RoleBinding of the consumer's users, named after the tenant namespace: each peering has a separate
// binding in a namespace. The subjects are users and never the group of the consumer: certificates cannot be revoked, and
// certificates of deleted ResourceSlices have the group, too.
func newBinding(in mapInput, namespace string) *rbacv1.RoleBinding {
	subjects := make([]rbacv1.Subject, 0, len(in.users))
	for _, user := range in.users {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: in.tenant, Namespace: namespace,
			Labels:      map[string]string{names.RemoteClusterID: in.consumer, names.AppManagedBy: names.ManagedByLiqo},
			Annotations: map[string]string{names.ManagedByNamespaceMap: in.owner},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleVirtualKubeletRemote},
		Subjects: subjects,
	}
}

func ownerKey(nm *offv1beta1.NamespaceMap) string { return nm.Namespace + "/" + nm.Name }

func cutOwner(annotation string) (namespace, name string, ok bool) {
	return strings.Cut(annotation, "/")
}

// isDesired reports whether the NamespaceMap requests a namespace of that name.
func isDesired(nm *offv1beta1.NamespaceMap, namespace string) bool {
	return slices.Contains(slices.Collect(maps.Values(nm.Spec.DesiredMapping)), namespace)
}
