// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

// Reasons of the condition of a Configuration.
const (
	ReasonConfigured = "NetworkCIDRsConfigured"
	ReasonWaiting    = "WaitingForNetworks"
	ReasonNoCluster  = "NoRemoteCluster"
	ReasonSecond     = networkingv1beta1.ReasonAnotherConfiguration
	ReasonUnusable   = "UnusableCIDRs"
	ReasonNameTaken  = "NameTaken"
	ReasonDiffers    = "PeerNetworksDiffer"
)

// ConfigurationOptions say where the installation is.
type ConfigurationOptions struct {
	// LiqoNamespace holds the Networks of this cluster.
	LiqoNamespace string
}

// SetupConfigurations registers the controller that allocates a free local prefix for each network of a peer.
func SetupConfigurations(mgr ctrl.Manager, o ConfigurationOptions) error {
	s := &configurations{client: mgr.GetClient(), installation: o.LiqoNamespace, followed: map[types.UID]time.Time{}, held: map[types.UID]time.Time{}}
	c := kube.NewController(mgr, kube.Options{Name: "configuration"}, s)
	return c.Complete(c.Builder().
		Owns(&ipamv1alpha1.Network{}).
		Owns(&ipamv1alpha1.IP{}).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(s.requestsForOwn)).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(s.requestsForOthers)).
		Watches(&ipamv1alpha1.IP{}, handler.EnqueueRequestsFromMapFunc(s.requestsForProxy)).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(s.requestsForOthers)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(s.requestsForOthers), builder.WithPredicates(kube.NamespaceChanged)))
}

type configurations struct {
	client       client.Client
	installation string
	// followed has the times of the last change of a Configuration's networks by the peer's report. held has the ends of delays in the publication of
	// this cluster's networks. One worker uses both maps.
	followed, held map[types.UID]time.Time
}

// requestsForOwn are all Configurations, when a network of this cluster changes.
func (s *configurations) requestsForOwn(ctx context.Context, n client.Object) []reconcile.Request {
	if n.GetNamespace() != s.installation || n.GetLabels()[names.NetworkType] == "" {
		return nil
	}
	return s.requestsFor(ctx, func(*networkingv1beta1.Configuration) bool { return true })
}

// requestsForOthers returns requests for the remaining Configurations of the same peer: one of them becomes effective after the deletion of obj, and
// may wait for a Network. The namespace may be the peer's tenant namespace.
func (s *configurations) requestsForOthers(ctx context.Context, obj client.Object) []reconcile.Request {
	id := obj.GetLabels()[names.RemoteClusterID]
	if id == "" {
		return nil
	}
	return s.requestsFor(ctx, func(other *networkingv1beta1.Configuration) bool {
		return other.Labels[names.RemoteClusterID] == id && other.UID != obj.GetUID()
	})
}

func (s *configurations) requestsFor(ctx context.Context, which func(*networkingv1beta1.Configuration) bool) []reconcile.Request {
	return kube.Requests(ctx, s.client, &networkingv1beta1.ConfigurationList{}, which)
}

// Sync creates a Network for each network of the peer, and reports the allocations in the status.
func (s *configurations) Sync(ctx context.Context, cfg *networkingv1beta1.Configuration) error {
	if err := s.followPeer(ctx, cfg); err != nil {
		return err
	}
	return s.syncRemote(ctx, cfg)
}

const (
	// followInterval is the minimum time between two changes caused by a peer's reports.
	followInterval = 30 * time.Second
	// manyTimes bounds the memory of the times of Configurations.
	manyTimes = 1000
)

// followPeer changes spec.remote to the peer's report, if spec.remote still has the networks last agreed by both clusters.
func (s *configurations) followPeer(ctx context.Context, cfg *networkingv1beta1.Configuration) error {
	reported := cfg.Status.ReportedRemote
	if reported != nil && policy.SameNetworks(cfg.Spec.Remote, *reported) {
		cfg.Status.AgreedRemote = cfg.Spec.Remote.DeepCopy()
		return nil
	}
	next, differs := policy.NextNetworks(cfg.Spec.Remote, reported, cfg.Status.AgreedRemote)
	if !differs || s.followDelay(cfg) > 0 {
		return nil
	}
	changed := cfg.DeepCopy()
	changed.Spec.Remote = next
	if err := s.client.Patch(ctx, changed, client.MergeFromWithOptions(cfg, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("following the networks of the peer: %w", err)
	}
	setTime(s.followed, cfg.UID, time.Now())
	return kube.Wait(0, "spec.remote follows the networks that the peer reports")
}

// setTime sets the time of a Configuration.
func setTime(times map[types.UID]time.Time, uid types.UID, at time.Time) {
	if len(times) >= manyTimes {
		clear(times)
	}
	times[uid] = at
}

// followDelay returns the delay until the networks of a peer may be followed again, 0 if there is nothing to follow.
func (s *configurations) followDelay(cfg *networkingv1beta1.Configuration) time.Duration {
	if _, differs := policy.NextNetworks(cfg.Spec.Remote, cfg.Status.ReportedRemote, cfg.Status.AgreedRemote); !differs {
		return 0
	}
	return max(followInterval-time.Since(s.followed[cfg.UID]), 0)
}

// Next returns the delay until the networks of a peer may be followed again, or those of this cluster are published.
func (s *configurations) Next(cfg *networkingv1beta1.Configuration) time.Duration {
	delay := s.followDelay(cfg)
	if until, held := s.held[cfg.UID]; held {
		if left := max(time.Until(until), time.Millisecond); delay == 0 || left < delay {
			return left
		}
	}
	return delay
}

// syncRemote writes the local prefixes into the status. A failure is retried, and leaves the status unchanged.
func (s *configurations) syncRemote(ctx context.Context, cfg *networkingv1beta1.Configuration) error {
	placed, err := s.placeNetworks(ctx, cfg)
	if err != nil && !isReported(err) {
		return err
	}
	cfg.Status.Remote, cfg.Status.ObservedRemote = nil, cfg.Spec.Remote.DeepCopy()
	var failed error
	if !placed.isEmpty() {
		cfg.Status.Remote, cfg.Status.ObservedRemote = &placed.local, &placed.remote
		failed = s.showUnknownSource(ctx, cfg, placed)
	}
	if reason, after, waits := kube.WaitReason(err); waits && after == 0 {
		err = kube.Wait(cmp.Or(s.Next(cfg), max(waitingPatience-waitedSince(cfg), 0)), reason)
	}
	return errors.Join(err, failed)
}

// isReported reports whether an error is a state that the condition tells: an expected wait, or a problem of the user.
func isReported(err error) bool {
	_, invalid := kube.InvalidReason(err)
	return invalid || kube.IsWait(err)
}

// placeNetworks returns the peer's networks with local prefixes, and the error of the first of the other networks.
func (s *configurations) placeNetworks(ctx context.Context, cfg *networkingv1beta1.Configuration) (placement, error) {
	id := cfg.Labels[names.RemoteClusterID]
	if id == "" {
		if err := s.giveBack(ctx, cfg); err != nil {
			return placement{}, err
		}
		return placement{}, kube.Invalid(ReasonNoCluster, fmt.Errorf("the label %s is missing: it names the cluster whose networks these are", names.RemoteClusterID))
	}
	alone := s.checkOnlyOne(ctx, cfg, id)
	if err := errors.Join(alone, s.showLocal(ctx, cfg)); err != nil { // also for an ineffective Configuration: cfg may have been effective before
		return placement{}, err
	}
	current, err := s.networksOf(ctx, cfg)
	if err != nil {
		return placement{}, err
	}
	if err := checkUsable(cfg.Spec.Remote.CIDR); err != nil {
		return placedBefore(cfg, current), kube.Invalid(ReasonUnusable, err)
	}
	if err := s.takeOver(ctx, cfg, id, len(current) == 0); err != nil {
		return placement{}, err
	}
	var out placement
	var unplaced error
	for _, v := range remappedCIDRs(cfg) {
		local, err := s.remapCIDR(ctx, cfg, v, current)
		if err != nil && !isReported(err) {
			return placement{}, err
		}
		out.addNetworks(v, local)
		unplaced = cmp.Or(unplaced, err)
	}
	return out, unplaced
}

// checkOnlyOne ensures one effective Configuration per peer. The first Configuration in a tenant namespace takes precedence, because only the
// administrator writes there; without one, the first elsewhere. The rest release their allocations, unless the effective Configuration is invalid.
func (s *configurations) checkOnlyOne(ctx context.Context, cfg *networkingv1beta1.Configuration, id string) error {
	homes, err := peer.TenantNamespaces(ctx, s.client, liqov1beta1.ClusterID(id))
	if err != nil {
		return err
	}
	var list networkingv1beta1.ConfigurationList
	if err := s.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: id}); err != nil {
		return fmt.Errorf("listing Configurations: %w", err)
	}
	of := func(c *networkingv1beta1.Configuration) bool { return c.Labels[names.RemoteClusterID] == id }
	first := policy.Oldest(list.Items, func(c *networkingv1beta1.Configuration) bool { return of(c) && slices.Contains(homes, c.Namespace) })
	if first == nil {
		first = policy.Oldest(list.Items, of)
	}
	if first == nil || first.UID == cfg.UID {
		return nil
	}
	if checkUsable(first.Spec.Remote.CIDR) == nil {
		if err := s.giveBack(ctx, cfg); err != nil {
			return err
		}
	}
	return kube.Invalid(ReasonSecond, fmt.Errorf("the Configuration %s is of the cluster %s, too, and comes first: delete one of them",
		client.ObjectKeyFromObject(first), id))
}

// giveBack deletes the objects of a Configuration that is no longer effective.
func (s *configurations) giveBack(ctx context.Context, cfg *networkingv1beta1.Configuration) error {
	current, err := s.networksOf(ctx, cfg)
	if err != nil {
		return err
	}
	for i := range current {
		if err := s.deleteNetworks(ctx, &current[i]); err != nil {
			return err
		}
	}
	return s.hideUnknownSource(ctx, cfg)
}

// hideUnknownSource deletes that translated IP.
func (s *configurations) hideUnknownSource(ctx context.Context, cfg *networkingv1beta1.Configuration) error {
	ip := &ipamv1alpha1.IP{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: cfg.Namespace, Name: names.UnknownSource(cfg.Name)}, ip); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(ip, cfg) {
		return nil
	}
	return s.deleteNetworks(ctx, ip)
}

// handOver is the maximum wait of a Configuration without prefixes for the prefixes of its predecessor.
const handOver = 30 * time.Second

// takeOver deletes the objects of the peer's Configurations that are no longer effective: they may be in deletion, and never be
// reconciled again. A Configuration without Networks waits for their end, and gets their prefixes; for a Network with foreign
// finalizers the wait is limited.
func (s *configurations) takeOver(ctx context.Context, cfg *networkingv1beta1.Configuration, id string, wait bool) error {
	if err := s.takeOverIPs(ctx, cfg, id); err != nil {
		return err
	}
	var list ipamv1alpha1.NetworkList
	if err := s.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: id}, client.HasLabels{names.CIDRType}); err != nil {
		return fmt.Errorf("listing the Networks of the peer: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var waiting error
	for i := range list.Items {
		n := &list.Items[i]
		exists, err := s.isLeft(ctx, n, cfg, id)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		if err := s.deleteNetworks(ctx, n); err != nil {
			return err
		}
		if more := awaitedSince(n, time.Now()); wait && waiting == nil && more > 0 {
			waiting = kube.Wait(more, fmt.Sprintf("the Network %s of another Configuration of the peer is being deleted", client.ObjectKeyFromObject(n)))
		}
	}
	return waiting
}

// takeOverIPs does the same for the translated IPs of unknown sources.
func (s *configurations) takeOverIPs(ctx context.Context, cfg *networkingv1beta1.Configuration, id string) error {
	var list ipamv1alpha1.IPList
	if err := s.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: id}); err != nil {
		return fmt.Errorf("listing the IPs of the peer: %w", err)
	}
	for i := range list.Items {
		ip := &list.Items[i]
		exists, err := s.isLeft(ctx, ip, cfg, id)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		if err := s.deleteNetworks(ctx, ip); err != nil {
			return err
		}
	}
	return nil
}

// isLeft reports whether an object of the peer is an orphan of another Configuration than cfg. A Configuration that changed its peer is excluded: the
// Configuration moves its own objects.
func (s *configurations) isLeft(ctx context.Context, obj client.Object, cfg *networkingv1beta1.Configuration, id string) (bool, error) {
	owner := metav1.GetControllerOf(obj)
	if owner == nil || owner.Kind != "Configuration" || owner.UID == cfg.UID {
		return false, nil
	}
	other := &networkingv1beta1.Configuration{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: owner.Name}, other)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the Configuration of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	now := other.Labels[names.RemoteClusterID]
	moved := err == nil && other.UID == owner.UID && other.DeletionTimestamp.IsZero() && now != "" && now != id
	return !moved, nil
}

// awaitedSince returns how much longer a Network in deletion is awaited.
func awaitedSince(n *ipamv1alpha1.Network, now time.Time) time.Duration {
	if n.DeletionTimestamp.IsZero() {
		return handOver
	}
	return handOver - now.Sub(n.DeletionTimestamp.Time)
}

// deleteNetworks deletes an object in the version read, and tolerates its absence.
func (s *configurations) deleteNetworks(ctx context.Context, obj client.Object) error {
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	as := client.Preconditions{UID: new(obj.GetUID()), ResourceVersion: new(obj.GetResourceVersion())}
	if err := s.client.Delete(ctx, obj, as); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// checkUsable validates the networks that a peer reports.
func checkUsable(of networkingv1beta1.ClusterConfigCIDR) error {
	var all []netip.Prefix
	for _, list := range []struct {
		name  string
		cidrs []networkingv1beta1.CIDR
	}{{"pod", of.Pod}, {"external", of.External}} {
		if len(list.cidrs) == 0 {
			return fmt.Errorf("spec.remote.cidr.%s is empty: it takes the %s networks of the other cluster", list.name, list.name)
		}
		for _, text := range list.cidrs {
			p, err := netip.ParsePrefix(string(text))
			switch {
			case err != nil || p.Addr().Is4In6():
				return fmt.Errorf("spec.remote.cidr.%s: %q is not an address range such as 10.200.0.0/16", list.name, text)
			case p.Masked() != p:
				return fmt.Errorf("spec.remote.cidr.%s has %q: did you mean %q?", list.name, text, p.Masked())
			}
			if i := slices.IndexFunc(all, p.Overlaps); i >= 0 {
				return fmt.Errorf("%s and %s of spec.remote.cidr overlap", all[i], p)
			}
			all = append(all, p)
		}
	}
	return nil
}

// networksOf are the Networks made for a Configuration.
func (s *configurations) networksOf(ctx context.Context, cfg *networkingv1beta1.Configuration) ([]ipamv1alpha1.Network, error) {
	var list ipamv1alpha1.NetworkList
	if err := s.client.List(ctx, &list, client.InNamespace(cfg.Namespace), client.HasLabels{names.CIDRType}); err != nil {
		return nil, fmt.Errorf("listing the Networks of the Configuration: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(n ipamv1alpha1.Network) bool { return !metav1.IsControlledBy(&n, cfg) }), nil
}

// showUnknownSource allocates a translated IP for the source address that the peer uses for traffic without an address of its own, so that third
// peers know the source, too.
func (s *configurations) showUnknownSource(ctx context.Context, cfg *networkingv1beta1.Configuration, placed placement) error {
	from, waits, err := unknownSource(cfg.Spec.Remote.CIDR.External, placed.remote.CIDR.External, placed.local.CIDR.External)
	if err != nil || waits {
		return err
	}
	if !from.IsValid() {
		return s.hideUnknownSource(ctx, cfg)
	}
	want := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cfg.Namespace, Name: names.UnknownSource(cfg.Name),
			Labels: map[string]string{names.RemoteClusterID: cfg.Labels[names.RemoteClusterID]},
		},
		Spec: ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(from.String())},
	}
	current := &ipamv1alpha1.IP{}
	err = s.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the IP %s: %w", want.Name, err)
	case !metav1.IsControlledBy(current, cfg):
		return kube.Invalid(ReasonNameTaken, fmt.Errorf("IP %s already exists and was not created for this Configuration: delete it, or rename the Configuration", want.Name))
	case current.Spec.IP != want.Spec.IP: // immutable
		return s.deleteNetworks(ctx, current) // a watch reports its deletion
	}
	_, err = kube.Ensure(ctx, s.client, want, kube.OwnedBy(cfg, s.client.Scheme()))
	return err
}

// unknownSource returns the address after local translation, the zero value for none, and whether the network of the address has no local prefix yet.
// One address suffices: IPs have translated IPs of one family only.
func unknownSource(all, remote, local []networkingv1beta1.CIDR) (from netip.Addr, waits bool, err error) {
	placed, errs := prefix.Pairs(names.CIDRTypeExternal, remote, local)
	if err := errors.Join(errs...); err != nil {
		return netip.Addr{}, false, fmt.Errorf("reading the external networks of the peer: %w", err)
	}
	every, _ := prefix.Pairs(names.CIDRTypeExternal, all, all) // checkUsable reports unreadable ones
	of := plan.Peer{External: every}.Gateways()
	i := slices.IndexFunc(placed, func(p prefix.Pair) bool { return p.Remote == of })
	if i < 0 {
		return netip.Addr{}, of.IsValid(), nil
	}
	return placed[i].Local.Addr(), false, nil
}
