// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package uninstall checks the preconditions of a removal of Liqo, and deletes the objects that its controllers keep for themselves.
// The CLI and the in-cluster uninstaller share it.
package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Blockers are the objects still in use, which block a removal. Each list is sorted.
type Blockers struct {
	Networking, Authentication, Offloading []string // cluster IDs of active peerings, by module
	Namespaces                             []string // offloaded namespaces
	Resources                              []string // <Kind>.<group>: <namespace>/<name>, of no active peering
}

// Check returns all objects in use. Kinds unknown to the cluster are not in use.
func Check(ctx context.Context, c client.Reader) (Blockers, error) {
	in := &inventory{reader: c}
	for _, collect := range []func(context.Context) error{
		in.collectPeers, in.collectOffloadings, in.collectSlices, in.collectConfigurations, in.collectIPs, in.collectNetworks,
	} {
		if err := collect(ctx); err != nil && !apimeta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return Blockers{}, fmt.Errorf("checking for objects in use: %w", err)
		}
	}
	return in.listBlockers(), nil
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

// inventory collects the objects in use.
type inventory struct {
	reader                                             client.Reader
	known                                              map[string]bool // cluster IDs with a ForeignCluster
	networking, authentication, offloading, namespaces set
	resources                                          set
}

type set map[string]bool

func (s *set) addItem(item string) {
	if *s == nil {
		*s = set{}
	}
	(*s)[item] = true
}

func (s set) sortedItems() []string { return slices.Sorted(maps.Keys(s)) }

func (in *inventory) listBlockers() Blockers {
	return Blockers{
		Networking:     in.networking.sortedItems(),
		Authentication: in.authentication.sortedItems(),
		Offloading:     in.offloading.sortedItems(),
		Namespaces:     in.namespaces.sortedItems(),
		Resources:      in.resources.sortedItems(),
	}
}

func (in *inventory) collectPeers(ctx context.Context) error {
	in.known = map[string]bool{}
	var list liqov1beta1.ForeignClusterList
	if err := in.reader.List(ctx, &list); err != nil {
		return err
	}
	for _, fc := range list.Items {
		id := string(fc.Spec.ClusterID)
		in.known[id] = true
		if fc.Status.Modules.Networking.Enabled {
			in.networking.addItem(id)
		}
		if fc.Status.Modules.Authentication.Enabled {
			in.authentication.addItem(id)
		}
		if fc.Status.Modules.Offloading.Enabled {
			in.offloading.addItem(id)
		}
	}
	return nil
}

func (in *inventory) collectOffloadings(ctx context.Context) error {
	var list offv1beta1.NamespaceOffloadingList
	if err := in.reader.List(ctx, &list); err != nil {
		return err
	}
	for _, nso := range list.Items {
		in.namespaces.addItem(nso.Namespace)
	}
	return nil
}

func (in *inventory) collectSlices(ctx context.Context) error {
	var list authv1beta1.ResourceSliceList
	if err := in.reader.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		in.addResource("ResourceSlice.authentication.liqo.io", &list.Items[i], &in.authentication)
	}
	return nil
}

func (in *inventory) collectConfigurations(ctx context.Context) error {
	var list networkingv1beta1.ConfigurationList
	if err := in.reader.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		in.addResource("Configuration.networking.liqo.io", &list.Items[i], &in.networking)
	}
	return nil
}

func (in *inventory) collectIPs(ctx context.Context) error {
	var list ipamv1alpha1.IPList
	if err := in.reader.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		ip := &list.Items[i]
		switch ip.Labels[names.IPType] {
		case names.IPTypeAPIServer, names.IPTypeAPIServerProxy:
			continue // part of the installation
		}
		in.addFinalized("IP.ipam.liqo.io", ip)
	}
	return nil
}

func (in *inventory) collectNetworks(ctx context.Context) error {
	var list ipamv1alpha1.NetworkList
	if err := in.reader.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		in.addFinalized("Network.ipam.liqo.io", &list.Items[i])
	}
	return nil
}

// addFinalized records an address that is still in use (has a finalizer) and is not part of the installation.
func (in *inventory) addFinalized(kind string, obj client.Object) {
	preinstalled, marked := obj.GetAnnotations()[names.Preinstalled]
	if len(obj.GetFinalizers()) == 0 || (marked && preinstalled != "false") {
		return
	}
	in.addResource(kind, obj, &in.networking)
}

// addResource records an object as the peering of its cluster or, without a peering, by its own name.
func (in *inventory) addResource(kind string, obj client.Object, module *set) {
	if peer := obj.GetLabels()[names.RemoteClusterID]; in.known[peer] {
		module.addItem(peer)
		return
	}
	in.resources.addItem(fmt.Sprintf("%s: %s/%s", kind, obj.GetNamespace(), obj.GetName()))
}
