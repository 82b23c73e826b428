// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package uninstall checks the preconditions of a removal of Liqo, and deletes the controllers' own objects. The CLI and the in-cluster uninstaller
// share it.
package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Blockers are the objects still in use: they block a removal. Each list is sorted.
type Blockers struct {
	Networking, Authentication, Offloading []string // cluster IDs of active peerings, by module
	Namespaces                             []string // offloaded namespaces
	Resources                              []string // <Kind>.<group>: <namespace>/<name>, of no active peering
}

// Check returns all objects in use. Kinds unknown to the cluster are not in use.
func Check(ctx context.Context, c client.Reader) (Blockers, error) {
	in := inventory{known: set{}, networking: set{}, authentication: set{}, offloading: set{}, namespaces: set{}, resources: set{}}
	for _, of := range []struct {
		list client.ObjectList
		add  func(obj client.Object)
		opts []client.ListOption
	}{
		{&liqov1beta1.ForeignClusterList{}, in.addPeer, nil}, // first: the objects of peers are counted as their peerings
		{&offv1beta1.NamespaceOffloadingList{}, func(obj client.Object) { in.namespaces[obj.GetNamespace()] = true }, nil},
		{&authv1beta1.ResourceSliceList{}, func(obj client.Object) {
			in.addResource("ResourceSlice.authentication.liqo.io", obj, in.authentication)
		}, nil},
		{&networkingv1beta1.ConfigurationList{}, func(obj client.Object) { in.addResource("Configuration.networking.liqo.io", obj, in.networking) }, nil},
		{&ipamv1alpha1.IPList{}, func(obj client.Object) { in.addAddress("IP.ipam.liqo.io", obj) }, nil},
		{&ipamv1alpha1.NetworkList{}, func(obj client.Object) { in.addAddress("Network.ipam.liqo.io", obj) }, nil},
		{&corev1.PersistentVolumeList{}, in.addVolume, []client.ListOption{client.HasLabels{names.StorageProvisioner}}},
	} {
		if err := c.List(ctx, of.list, of.opts...); apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return Blockers{}, fmt.Errorf("checking for objects in use: %w", err)
		}
		_ = apimeta.EachListItem(of.list, func(obj runtime.Object) error {
			of.add(obj.(client.Object))
			return nil
		})
	}
	return Blockers{
		Networking:     slices.Sorted(maps.Keys(in.networking)),
		Authentication: slices.Sorted(maps.Keys(in.authentication)),
		Offloading:     slices.Sorted(maps.Keys(in.offloading)),
		Namespaces:     slices.Sorted(maps.Keys(in.namespaces)),
		Resources:      slices.Sorted(maps.Keys(in.resources)),
	}, nil
}

// Empty reports whether nothing blocks the removal.
func (b Blockers) Empty() bool {
	return len(b.Networking)+len(b.Authentication)+len(b.Offloading)+len(b.Namespaces)+len(b.Resources) == 0
}

// Peered reports whether a peering is active.
func (b Blockers) Peered() bool {
	return len(b.Networking)+len(b.Authentication)+len(b.Offloading) > 0
}

// String returns instructions for the user.
func (b Blockers) String() string {
	var text strings.Builder
	text.WriteString("you should:\n")
	for _, block := range []struct {
		title string
		items []string
	}{
		{"disable networking for clusters:", b.Networking},
		{"disable authentication for clusters:", b.Authentication},
		{"disable offloading for clusters:", b.Offloading},
		{"unoffload the following namespaces:", b.Namespaces},
		{"remove the following resources:", b.Resources},
	} {
		if len(block.items) == 0 {
			continue
		}
		text.WriteString(block.title + "\n")
		for _, item := range block.items {
			text.WriteString("- " + item + "\n")
		}
	}
	return text.String()
}

type set map[string]bool

// inventory has the objects in use; known has the cluster IDs with a ForeignCluster.
type inventory struct {
	known, networking, authentication, offloading, namespaces, resources set
}

func (in inventory) addPeer(obj client.Object) {
	fc := obj.(*liqov1beta1.ForeignCluster)
	id := string(fc.Spec.ClusterID)
	in.known[id] = true
	if fc.Status.Modules.Networking.Enabled {
		in.networking[id] = true
	}
	if fc.Status.Modules.Authentication.Enabled {
		in.authentication[id] = true
	}
	if fc.Status.Modules.Offloading.Enabled {
		in.offloading[id] = true
	}
}

// addAddress records an address outside of the installation that is still in use (has a finalizer).
func (in inventory) addAddress(kind string, obj client.Object) {
	preinstalled, marked := obj.GetAnnotations()[names.Preinstalled]
	of := obj.GetLabels()[names.IPType]
	if len(obj.GetFinalizers()) > 0 && (!marked || preinstalled == "false") && of != names.IPTypeAPIServer && of != names.IPTypeAPIServerProxy {
		in.addResource(kind, obj, in.networking)
	}
}

// addVolume records the claim of a virtual volume, or the volume without a claim: no other program deletes the data of the volume.
func (in inventory) addVolume(obj client.Object) {
	if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && obj.(*corev1.PersistentVolume).Status.Phase == corev1.VolumeBound {
		in.resources[fmt.Sprintf("PersistentVolumeClaim: %s/%s", ref.Namespace, ref.Name)] = true
		return
	}
	in.resources["PersistentVolume: "+obj.GetName()] = true
}

// addResource records an object as the peering of its cluster or, without a peering, by its own name.
func (in inventory) addResource(kind string, obj client.Object, module set) {
	if peer := obj.GetLabels()[names.RemoteClusterID]; in.known[peer] {
		module[peer] = true
		return
	}
	in.resources[fmt.Sprintf("%s: %s/%s", kind, obj.GetNamespace(), obj.GetName())] = true
}
