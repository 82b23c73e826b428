// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// removeOrphans waits until all objects of the peering are gone, and deletes the tenant namespaces if wanted.
func (u *unpeering) removeOrphans(ctx context.Context, printer *ui.Printer) error {
	p := ui.NewPlan(printer)
	p.Add(func(ctx context.Context, _ *ui.Printer) error { // the ForeignCluster stays after giveUp, also after giveUp of an earlier command
		return u.consumer.WrapWithCluster(mayComeBack(ctx, u.consumer, u.provider.ID))
	})
	for _, s := range []struct {
		*cluster.Cluster
		other string
	}{{u.consumer, u.provider.ID}, {u.provider, u.consumer.ID}} {
		var settled []*ui.Step
		if u.options.wait && (s.Cluster == u.consumer || !u.reverse) {
			settled = append(settled, s.AddStep(p, "Waiting for what was left of virtual kubelets to go", "", func(ctx context.Context) error {
				return awaitKubelets(ctx, s.Cluster, s.other)
			}))
		}
		if u.options.wait && !u.reverse {
			settled = append(settled, s.AddStep(p, "Waiting for what was made of the peering to go", "", func(ctx context.Context) error {
				return awaitNothing(ctx, s.Cluster, s.other)
			}))
		}
		if u.options.deleteNamespaces {
			p.Add(func(ctx context.Context, printer *ui.Printer) error {
				return deleteNamespace(ctx, s.WithPrinter(printer), s.other, u.options.wait)
			}, settled...)
		}
	}
	if err := p.Run(ctx); err != nil {
		return ui.Fail("unable to end what was made of the peering: %w", err)
	}
	return nil
}

// createdLists returns the kinds of objects that controllers create for a peering and delete by themselves, in about the order of
// their deletion: pods take the longest, and the ForeignCluster goes last.
func createdLists() []client.ObjectList {
	return []client.ObjectList{
		&ipamv1alpha1.NetworkList{}, &ipamv1alpha1.IPList{}, &authv1beta1.RenewList{},
		&networkingv1beta1.WgGatewayServerList{}, &networkingv1beta1.WgGatewayClientList{}, &networkingv1beta1.ConnectionList{},
		&appsv1.DeploymentList{}, &corev1.PodList{}, &liqov1beta1.ForeignClusterList{},
	}
}

// awaitNothing waits until all objects created for a peering are gone. Kinds without list permission are skipped, and objects with another purpose
// are ignored.
func awaitNothing(ctx context.Context, s *cluster.Cluster, other string) error {
	if stays, err := staysFor(ctx, s, other); err != nil || stays != "" {
		if stays != "" {
			s.Warn("%s stays, and the ForeignCluster %s with it", stays, other)
		}
		return err
	}
	for _, list := range createdLists() {
		found, err := network.FindOfPeer(ctx, s, list, other)
		if err == nil {
			err = s.AwaitAll(ctx, found, isSomebodys)
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// isSomebodys reports whether an object of a peering's kinds was created by hand: a workload other than a gateway or virtual kubelet,
// or a network or an address without a Configuration.
func isSomebodys(obj client.Object) bool {
	switch obj.(type) {
	case *corev1.Pod: // awaitKubelets waits for the pods of virtual kubelets
		return obj.GetLabels()[names.NetworkingComponent] != names.ComponentGateway
	case *appsv1.Deployment:
		return obj.GetLabels()[names.NetworkingComponent] != names.ComponentGateway && obj.GetLabels()[names.VirtualNode] == ""
	case *ipamv1alpha1.Network, *ipamv1alpha1.IP:
		return !ownedBy(obj, "Configuration")
	}
	return false
}

func ownedBy(obj client.Object, kind string) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind == kind })
}

// awaitKubelets waits until all remains of the virtual kubelets of a provider are gone: pods, leases, and requests for serving certificates. Kinds
// without list permission are skipped.
func awaitKubelets(ctx context.Context, s *cluster.Cluster, provider string) error {
	for _, of := range []struct {
		list   client.ObjectList
		among  []client.ListOption
		theirs func(client.Object) bool
	}{
		{&corev1.PodList{}, []client.ListOption{client.MatchingLabels{
			names.OffloadingComponent: names.ComponentVirtualKubelet, names.RemoteClusterID: provider,
		}}, func(client.Object) bool { return true }},
		{&coordinationv1.LeaseList{}, []client.ListOption{client.InNamespace(s.Namespace)}, func(obj client.Object) bool { return ownedBy(obj, "VirtualNode") }},
		{&certv1.CertificateSigningRequestList{}, []client.ListOption{client.MatchingFields{"spec.signerName": certv1.KubeletServingSignerName}}, func(obj client.Object) bool { return askedInside(s, obj) }},
	} {
		found, err := network.ListLabelled(ctx, s, of.list, of.among...)
		if err == nil {
			err = s.AwaitAll(ctx, found, func(obj client.Object) bool { return !of.theirs(obj) })
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// askedInside reports whether a service account of the tenant namespace made a certificate request. Such a request is deleted with the virtual node.
// A denied request is kept for the user to read, and so is a request approved by another client.
func askedInside(s *cluster.Cluster, obj client.Object) bool {
	request := obj.(*certv1.CertificateSigningRequest)
	return strings.HasPrefix(request.Spec.Username, "system:serviceaccount:"+s.Namespace+":") &&
		!slices.ContainsFunc(request.Status.Conditions, func(c certv1.CertificateSigningRequestCondition) bool {
			return c.Type != certv1.CertificateApproved || c.Reason != names.ServingApproved
		})
}

// staysFor returns the name of an object made by hand for a peering, "" for none.
func staysFor(ctx context.Context, s *cluster.Cluster, other string) (string, error) {
	found, err := network.FindOfPeer(ctx, s, &corev1.SecretList{}, other)
	if err != nil {
		if apierrors.IsForbidden(err) {
			return "", nil
		}
		return "", err
	}
	for _, obj := range found {
		if obj.GetLabels()[names.IdentityType] == string(authv1beta1.ControlPlaneIdentityType) && len(obj.GetOwnerReferences()) == 0 && obj.GetNamespace() == s.Namespace {
			return "the Secret " + client.ObjectKeyFromObject(obj).String() + ", with credentials that were made by hand,", nil
		}
	}
	return "", nil
}

// mayDeleteNamespace fails if the user may not delete the tenant namespace of the other cluster or, with a wait, not watch it. A permission inside
// the namespace includes the namespace itself, except for watch, a cluster-wide permission.
func mayDeleteNamespace(ctx context.Context, s *cluster.Cluster, wait bool) error {
	if s.WholeCluster().Missing {
		return nil
	}
	actions := []string{"delete tenant namespace"}
	if wait {
		actions = append(actions, "watch namespaces")
	}
	return s.RequirePermissions(ctx, cluster.ForObject(s.Namespace, s.PermissionsFor("", actions...))...)
}

// deleteNamespace deletes the tenant namespace of the other cluster with all objects in the namespace.
func deleteNamespace(ctx context.Context, s *cluster.Cluster, other string, wait bool) error {
	done := "Tenant namespace deleted"
	ns := &corev1.Namespace{}
	err := s.Kube.Get(ctx, client.ObjectKey{Name: s.Namespace}, ns)
	if id, ok := peer.OfNamespace(ns); apierrors.IsNotFound(err) || err == nil && (!ok || string(id) != other) {
		s.Success("Tenant namespace already deleted")
		return nil
	} else if err != nil {
		return s.WrapWithCluster(err)
	}
	namespaces := []client.Object{ns}
	if err := s.RunStep("Deleting tenant namespace", done, func() error { return s.RemoveAll(ctx, namespaces, false) }); err != nil {
		return err
	}
	if !wait {
		return nil
	}
	var held client.Object
	was := ns.DeepCopy() // keeps the UID: ns is read again
	err = s.RunWaiting(ctx, "Waiting for tenant namespace to go", "", func(ctx context.Context) (err error) {
		if held, err = s.HeldBy(ctx, ns); err != nil || held != nil {
			return err
		}
		if err := kube.WaitForDeletion(ctx, s.Kube, ns, nil); err != nil {
			return err
		}
		return awaitKeys(ctx, s, other, was)
	})
	switch {
	case err != nil:
		return err
	case held != nil:
		s.Warn("The tenant namespace %s is being deleted, and goes with its pod %s", ns.Name, held.GetName())
	default:
		s.Success("Ensured tenant namespace absence")
	}
	return nil
}

// awaitKeys waits until the keys of a cluster in the deleted tenant namespace are gone, or have only other owners.
func awaitKeys(ctx context.Context, s *cluster.Cluster, other string, ns *corev1.Namespace) error {
	found, err := network.FindOfPeer(ctx, s, &corev1.SecretList{}, other)
	if err != nil {
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	}
	released := func(obj client.Object) bool { return !kube.Owns(ns, obj) }
	for _, obj := range found {
		if released(obj) {
			continue
		}
		if err := kube.WaitForDeletion(ctx, s.Kube, obj, released); err != nil {
			return err
		}
	}
	return nil
}
