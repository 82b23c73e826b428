// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

type unpeerOptions struct {
	local, remote          cluster.ClusterFlags
	timeout                time.Duration
	wait, deleteNamespaces bool
	cluster.DryRunOptions
}

// NewUnpeerCommand returns the command "unpeer".
func NewUnpeerCommand(c *cluster.Session) *cobra.Command {
	o := &unpeerOptions{}
	cmd := &cobra.Command{
		Use:   "unpeer",
		Short: "Stop using the resources of another cluster, and undo all that peer did",
		Long: "Stop using the resources of the remote cluster, and undo a complete or interrupted peer. Pods in the provider are evicted, and their owners\n" +
			"recreate them elsewhere. A peering in the other direction stays, with the tunnel that both share.\n" +
			"If the other cluster is gone for good, use force unpeer.",
		Example: "  liqoctl unpeer --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.WithBothAndMessage(cmd.Context(), "", o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *cluster.Cluster) error {
				return c.RunOrPrint(ctx, &o.DryRunOptions, cluster.ToDelete, func(ctx context.Context, c *cluster.Session) error {
					return (&unpeering{Session: c, options: o, consumer: local, provider: remote}).runSteps(ctx)
				}, local, remote)
			})
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.timeout, "timeout", 120*time.Second, "How long all of it may take")
	fs.BoolVar(&o.wait, "wait", true, "Wait until nothing is left. ResourceSlices and virtual nodes are always waited for: they end with what goes after them")
	fs.BoolVar(&o.deleteNamespaces, "delete-namespaces", false, "Delete the tenant namespaces, too")
	o.DryRunOptions.AddFlags(fs)
	twoInstallations(cmd, &o.local, &o.remote)
	return cmd
}

// unpeering is a run of the command unpeer. The command ends the use of a provider by a consumer. The run only deletes existing objects: it is
// idempotent and cleans up incomplete peerings, too.
type unpeering struct {
	*cluster.Session
	options            *unpeerOptions
	consumer, provider *cluster.Cluster
	// reverse reports that the provider uses the consumer, too. Both directions may be ended concurrently: the last step checks again.
	reverse bool
	// known is the initial authentication state of both clusters.
	known *deauthentication
	// shut reports that the provider denies all access to the consumer.
	shut bool
	// byProxy reports that the consumer reaches the provider by a proxy, possibly behind the tunnel.
	byProxy bool
	// runs reports that a pod may be on a virtual node: until its end, the pod may need the tunnel.
	runs bool
}

func (u *unpeering) runSteps(ctx context.Context) error {
	if err := u.readState(ctx); err != nil {
		return err
	}
	if u.shut {
		if err := u.giveUp(ctx); err != nil {
			return err
		}
	}
	p := ui.NewPlan(u.Printer)
	nodes := p.Add(u.endOffloading)
	var needs []*ui.Step
	if u.runs { // virtual kubelets end concurrently with the gateways, pods before them
		needs = append(needs, p.Add(u.awaitDrained))
	}
	last := p.Add(u.endAuthentication, nodes)
	if u.byProxy || u.reverse { // the copies in the provider are deleted through the tunnel
		needs = append(needs, last)
	}
	p.Add(u.endNetworking, needs...)
	p.Add(u.removeOrphans, p.All()...)
	err := p.Run(ctx)
	if f, ok := err.(*ui.Failure); ok && ctx.Err() != nil {
		return f.Hint("Run it again to go on from here. A cluster that is gone for good is forgotten by: liqoctl force unpeer %s", u.provider.ID)
	}
	return err
}

// readState reads the state of both clusters and checks all preconditions. Nothing is changed.
func (u *unpeering) readState(ctx context.Context) (err error) {
	if u.reverse, err = u.usedInReverse(ctx); err != nil {
		return ui.Fail("an error occurred while checking bidirectional peering: %w", err)
	}
	if u.reverse && u.options.deleteNamespaces {
		return ui.Fail("cannot delete the tenant namespace when a bidirectional is enabled, please remove the --delete-namespaces flag")
	}
	u.known = &deauthentication{Session: u.Session, consumer: u.consumer, provider: u.provider}
	checks, within := errgroup.WithContext(ctx)
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{}, &offv1beta1.NamespaceMapList{}} {
		checks.Go(func() error { return u.mayEnd(within, list) })
	}
	if u.options.deleteNamespaces {
		checks.Go(func() error {
			return errors.Join(mayDeleteNamespace(within, u.consumer, u.options.wait), mayDeleteNamespace(within, u.provider, u.options.wait))
		})
	}
	checks.Go(func() error {
		if err := u.known.findObjects(within); err != nil {
			return err
		}
		if err := u.known.mayRemove(within); err != nil || len(u.known.identities) > 0 {
			return err
		}
		return u.known.findSecrets(within) // Secrets may describe a deleted Identity; the permission to read them is optional
	})
	checks.Go(func() (err error) {
		u.byProxy, err = u.mayLeadThroughProxy(within)
		return u.consumer.WrapWithCluster(err)
	})
	checks.Go(func() error {
		return u.consumer.WrapWithCluster(cluster.KeepData(within, u.consumer.Kube, u.provider.ID, ""))
	})
	checks.Go(func() (err error) {
		u.runs, err = u.anyPod(within)
		return u.consumer.WrapWithCluster(err)
	})
	if !u.reverse {
		checks.Go(func() error {
			return network.LookAll(within, append(network.GatewaysBetween(u.consumer, u.provider), network.ConfigurationsBetween(u.consumer, u.provider)...))
		})
	}
	if err := checks.Wait(); err != nil {
		return err
	}
	u.byProxy = u.byProxy || u.known.nameProxy()
	if u.shut = u.known.isLockedOut(time.Now()); u.shut {
		if err := requireDeclarePermission(ctx, u.consumer, u.provider.ID); err != nil {
			return err
		}
	}
	return nil
}

// nameProxy reports whether credentials of the handshake use a proxy, such as the proxy behind the tunnel.
func (d *deauthentication) nameProxy() bool {
	return slices.ContainsFunc(d.identities, func(obj client.Object) bool { return obj.(*authv1beta1.Identity).Spec.AuthParams.ProxyURL != nil }) ||
		slices.ContainsFunc(d.tenants, func(obj client.Object) bool { return obj.(*authv1beta1.Tenant).Spec.ProxyURL != nil })
}

// mayLeadThroughProxy reports whether any credentials use a proxy, including credentials made by hand. Unreadable credentials count.
func (u *unpeering) mayLeadThroughProxy(ctx context.Context) (bool, error) {
	fc := &liqov1beta1.ForeignCluster{}
	err := u.consumer.Kube.Get(ctx, client.ObjectKey{Name: u.provider.ID}, fc)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil
	}
	return fc.Status.ForeignProxyURL != "", err
}

// anyPod reports whether a pod is on one of the virtual nodes to delete. Unreadable pods count.
func (u *unpeering) anyPod(ctx context.Context) (bool, error) {
	nodes, err := u.ownObjects(ctx, &offv1beta1.VirtualNodeList{})
	if err != nil {
		return true, err
	}
	for _, node := range nodes {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := u.consumer.Kube.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.GetName()}, client.Limit(1))
		if apierrors.IsForbidden(err) || len(pods.Items) > 0 {
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("looking for pods on the virtual node %s: %w", node.GetName(), err)
		}
	}
	return false, nil
}

// mayEnd fails if the user may not delete the existing objects of a kind.
func (u *unpeering) mayEnd(ctx context.Context, list client.ObjectList) error {
	found, err := u.ownObjects(ctx, list)
	if err != nil {
		return u.consumer.WrapWithCluster(err)
	}
	return u.consumer.RequireDeletion(ctx, found...)
}

// usedInReverse reports whether the provider uses the consumer, or began to, even without a ForeignCluster.
func (u *unpeering) usedInReverse(ctx context.Context) (bool, error) {
	stays := func(obj client.Object) bool { return !peer.IsReplica(obj) && obj.GetDeletionTimestamp() == nil }
	tenants, err := network.FindOfPeer(ctx, u.consumer, &authv1beta1.TenantList{}, u.provider.ID)
	if err != nil || slices.ContainsFunc(tenants, stays) {
		return err == nil, u.consumer.WrapWithCluster(err)
	}
	for _, list := range []client.ObjectList{&authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{}} {
		found, err := network.FindOfPeer(ctx, u.provider, list, u.consumer.ID)
		if apierrors.IsForbidden(err) {
			continue // a user of the consumer with access only to objects about the consumer
		}
		if err != nil {
			return false, u.provider.WrapWithCluster(err)
		}
		if slices.ContainsFunc(found, stays) {
			return true, nil
		}
	}
	return false, nil
}

func wrapDisabling(what string, err error) error {
	if err == nil {
		return nil
	}
	return ui.Fail("unable to disable %s: %w", what, err)
}

// endOffloading ends the offloading. Virtual nodes are drained first, while their credentials exist.
func (u *unpeering) endOffloading(ctx context.Context, printer *ui.Printer) error {
	p, s := ui.NewPlan(printer), u.consumer
	ended := u.endAll(p, &authv1beta1.ResourceSliceList{}, "resourceslices", p.Add(u.deleteMadeByHand))
	u.endAll(p, &offv1beta1.VirtualNodeList{}, "virtualnodes", ended)
	// The last virtual node takes the namespace along, except a virtual node made by hand or an orphan.
	s.AddStep(p, "Waiting for the namespaces in the provider to go", "", func(ctx context.Context) error {
		list := &offv1beta1.NamespaceMapList{}
		maps, err := u.ownObjects(ctx, list)
		if err == nil {
			err = s.RemoveAll(ctx, maps, true)
		}
		return err
	}, p.All()...)
	return wrapDisabling("offloading", p.Run(ctx))
}

// deleteMadeByHand deletes the virtual nodes without a slice: a slice whose credentials they use waits for virtual nodes already being deleted.
func (u *unpeering) deleteMadeByHand(ctx context.Context, printer *ui.Printer) error {
	list := &offv1beta1.VirtualNodeList{}
	found, err := u.ownObjects(ctx, list)
	if err == nil {
		err = u.consumer.RemoveAll(ctx, slices.DeleteFunc(found, func(obj client.Object) bool { return metav1.GetControllerOf(obj) != nil }), false)
	}
	return u.consumer.WithPrinter(printer).WrapWithCluster(err)
}

// awaitDrained waits until no pod is left on the virtual nodes deleted by endOffloading; the nodes exist a moment longer.
func (u *unpeering) awaitDrained(ctx context.Context, printer *ui.Printer) error {
	s := u.consumer.WithPrinter(printer)
	for _, of := range []struct {
		list client.ObjectList
		done func(client.Object) bool
	}{{&authv1beta1.ResourceSliceList{}, cluster.IsDeleting}, {&offv1beta1.VirtualNodeList{}, isDrained}} { // no node is made for a slice that is being deleted
		found, err := u.ownObjects(ctx, of.list)
		if err != nil {
			return wrapDisabling("offloading", s.WrapWithCluster(err))
		}
		for _, obj := range found {
			if err := kube.WaitForDeletion(ctx, s.Kube, obj, of.done); err != nil {
				return wrapDisabling("offloading", s.WrapWithCluster(err))
			}
		}
	}
	return nil
}

// isDrained reports whether all pods of a virtual node have ended. Its kubelet can end then.
func isDrained(obj client.Object) bool {
	return cluster.IsDeleting(obj) && slices.ContainsFunc(obj.(*offv1beta1.VirtualNode).Status.Conditions, func(c offv1beta1.VirtualNodeCondition) bool {
		return c.Type == offv1beta1.VirtualKubeletConditionType && c.Status == offv1beta1.DeletingConditionStatusType
	})
}

// ownObjects returns the local objects of a kind about the provider, without replicas.
func (u *unpeering) ownObjects(ctx context.Context, list client.ObjectList) ([]client.Object, error) {
	if requests, is := list.(*authv1beta1.ResourceSliceList); is {
		return network.ListSlices(ctx, u.consumer, requests, u.provider.ID)
	}
	found, err := network.FindOfPeer(ctx, u.consumer, list, u.provider.ID)
	return slices.DeleteFunc(found, peer.IsReplica), err
}

// endAll adds the steps to delete all local objects of a kind about the provider and to wait for their end. It returns the deletion step.
func (u *unpeering) endAll(p *ui.Plan, list client.ObjectList, what string, needs ...*ui.Step) *ui.Step {
	var found []client.Object
	deleted := p.Add(func(ctx context.Context, printer *ui.Printer) (err error) {
		s := u.consumer.WithPrinter(printer)
		if found, err = u.ownObjects(ctx, list); err != nil {
			return s.WrapWithCluster(err)
		}
		done := "All " + what + " deleted"
		if len(found) == 0 {
			done = "No " + what + " found"
		}
		return s.RunStep("Deleting "+what, done, func() error { return s.RemoveAll(ctx, found, false) })
	}, needs...)
	ensured := ""
	if u.options.wait {
		ensured = "Ensured " + what + " absence"
	}
	u.consumer.AddStep(p, "Waiting for "+what+" to go", ensured, func(ctx context.Context) error { return u.awaitEnd(ctx, found) }, deleted)
	return deleted
}

// awaitEnd waits until objects are gone, and shows the reason for a delay.
func (u *unpeering) awaitEnd(ctx context.Context, found []client.Object) error {
	err := u.consumer.RemoveAll(ctx, found, true)
	if err == nil || ctx.Err() == nil {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), network.TakingBack)
	defer cancel()
	if reason := holdReason(late, u.consumer, u.provider.ID); reason != "" {
		return fmt.Errorf("%w: %s", err, reason)
	}
	return err
}

// holdReason returns the problems that delay a deletion: of the replicator with the other cluster, and of the virtual nodes.
func holdReason(ctx context.Context, s *cluster.Cluster, other string) string {
	var all []string
	var nodes offv1beta1.VirtualNodeList
	if s.Kube.List(ctx, &nodes, client.MatchingLabels{names.RemoteClusterID: other}) == nil {
		for i := range nodes.Items {
			if reason := cluster.ProblemOf(&nodes.Items[i]); reason != "" {
				all = append(all, "virtual node "+nodes.Items[i].Name+reason)
			}
		}
	}
	var fc liqov1beta1.ForeignCluster
	if s.Kube.Get(ctx, client.ObjectKey{Name: other}, &fc) == nil {
		if reason := peer.Trouble(&fc); reason != "" {
			all = append(all, reason)
		}
	}
	return strings.Join(all, "; ")
}

// endAuthentication makes the provider forget the consumer. The credentials go first, while they are usable for cleanup.
func (u *unpeering) endAuthentication(ctx context.Context, printer *ui.Printer) error {
	d := &deauthentication{Session: u.WithPrinter(printer), consumer: u.consumer.WithPrinter(printer), provider: u.provider.WithPrinter(printer), wait: true}
	return wrapDisabling("authentication", inTurn(ctx, d.checkUnused, d.findObjects, d.findSecrets, d.runSteps, u.endReplicas)) // the permissions were checked at first
}

// endReplicas deletes the orphans in the provider: replicas of the consumer's objects that no controller deletes any more, because the consumer has
// no credentials. The consumer forgot the provider, or lost its state. Kinds without list or delete permission are skipped.
func (u *unpeering) endReplicas(ctx context.Context) error {
	identities, err := network.FindOfPeer(ctx, u.consumer, &authv1beta1.IdentityList{}, u.provider.ID)
	if err != nil || slices.ContainsFunc(identities, isControlPlane) {
		return u.consumer.WrapWithCluster(err)
	}
	var all []client.Object
	for _, kind := range peer.Replicated() {
		found, err := network.ListLabelled(ctx, u.provider, kind.List, client.MatchingLabels{names.Replicated: "true", names.ReplicationOrigin: u.consumer.ID})
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return u.provider.WrapWithCluster(fmt.Errorf("looking for what %s left: %w", u.consumer.ID, err))
		}
		all = append(all, found...)
	}
	for _, wait := range []bool{false, true} {
		for _, obj := range all {
			if err := u.provider.RemoveAll(ctx, []client.Object{obj}, wait); err != nil && !apierrors.IsForbidden(err) {
				return u.provider.WrapWithCluster(err)
			}
		}
	}
	return nil
}

// endNetworking disconnects the networks, unless the provider still uses the consumer. The permissions were checked at first, unless
// the reverse direction was in use then.
func (u *unpeering) endNetworking(ctx context.Context, printer *ui.Printer) (err error) {
	find := network.FindAll
	if u.reverse {
		if u.reverse, err = u.usedInReverse(ctx); err != nil || u.reverse {
			return wrapDisabling("networking", err)
		}
		find = network.LookAll
	}
	local, remote := u.consumer.WithPrinter(printer), u.provider.WithPrinter(printer)
	all := append(network.GatewaysBetween(local, remote), network.ConfigurationsBetween(local, remote)...)
	if err = find(ctx, all); err == nil {
		err = network.RemoveFound(ctx, u.WithPrinter(printer), all, u.options.wait)
	}
	return wrapDisabling("networking", err)
}
