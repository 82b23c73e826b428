// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

const page = 500

// validateFacts compares the facts from flags with the cluster.
func (i *Installer) validateFacts(ctx context.Context, f *clusterFacts) error {
	if err := i.validateAPIServer(f.apiServer); err != nil {
		return err
	}
	if err := i.validatePodCIDRs(ctx, f); err != nil {
		return ui.Fail("validating Pod CIDRs %q: %w. Try setting the correct Pod CIDR using the vanilla *liqoctl install* command, or installing Liqo with Helm",
			joinPrefixes(f.podCIDRs), err)
	}
	if err := i.validateServiceCIDR(ctx, f.serviceCIDR); err != nil {
		return ui.Fail("validating Service CIDR %q: %w", f.serviceCIDR, err)
	}
	return nil
}

func (i *Installer) validatePodCIDRs(ctx context.Context, f *clusterFacts) error {
	for n, a := range f.podCIDRs {
		for _, b := range f.podCIDRs[n+1:] {
			if a.Overlaps(b) {
				return fmt.Errorf("%s and %s overlap", a, b)
			}
		}
		if a.Overlaps(f.serviceCIDR) {
			return fmt.Errorf("%s overlaps the service CIDR %s", a, f.serviceCIDR)
		}
	}
	seen := false
	err := eachPage(ctx, i.Client, &corev1.PodList{}, func(list *corev1.PodList) error {
		for n := range list.Items {
			pod := &list.Items[n]
			if pod.Spec.HostNetwork || pod.Labels[names.ShadowPod] == "true" || policy.Ended(pod.Status.Phase) {
				continue
			}
			for _, ip := range pod.Status.PodIPs {
				seen = true
				if !isWithin(ip.IP, f.podCIDRs) {
					return fmt.Errorf("pod %s/%s has IP %s, which is outside", pod.Namespace, pod.Name, ip.IP)
				}
			}
		}
		return nil
	})
	if err != nil || seen {
		return err
	}
	return i.validateNodeCIDRs(ctx, f.podCIDRs)
}

// validateNodeCIDRs compares the pod CIDRs of nodes, in a cluster without pods on the pod network. Pods are better evidence, because
// some CNIs ignore the CIDRs of nodes.
func (i *Installer) validateNodeCIDRs(ctx context.Context, cidrs []netip.Prefix) error {
	return eachPage(ctx, i.Client, &corev1.NodeList{}, func(list *corev1.NodeList) error {
		for _, node := range list.Items {
			for _, text := range node.Spec.PodCIDRs {
				current, err := netip.ParsePrefix(text)
				if err == nil && node.Labels[names.NodeType] != names.NodeTypeVirtualNode && !isWithin(current.Addr().String(), cidrs) {
					return fmt.Errorf("node %s has pod CIDR %s, which is outside", node.Name, text)
				}
			}
		}
		return nil
	})
}

func (i *Installer) validateServiceCIDR(ctx context.Context, cidr netip.Prefix) error {
	return eachPage(ctx, i.Client, &corev1.ServiceList{}, func(list *corev1.ServiceList) error {
		for _, svc := range list.Items {
			for _, ip := range svc.Spec.ClusterIPs {
				if ip != corev1.ClusterIPNone && ip != "" && !isWithin(ip, []netip.Prefix{cidr}) {
					return fmt.Errorf("service %s/%s has cluster IP %s, which is outside", svc.Namespace, svc.Name, ip)
				}
			}
		}
		return nil
	})
}

// isWithin reports whether an address is in one of the ranges. An address of a family without a range passes: a single-stack
// installation in a dual-stack cluster is fine.
func isWithin(address string, ranges []netip.Prefix) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	judged := false
	for _, r := range ranges {
		if r.Contains(ip) {
			return true
		}
		judged = judged || r.Addr().Is4() == ip.Is4()
	}
	return !judged
}

// checkKernels compares the kernels of all real nodes with the oldest supported kernel.
func (i *Installer) checkKernels(ctx context.Context) error {
	err := eachPage(ctx, i.Client, &corev1.NodeList{}, func(list *corev1.NodeList) error {
		for _, node := range list.Items {
			if text := node.Status.NodeInfo.KernelVersion; diagnose.HasOldKernel(&node) {
				return ui.Fail("kernel version %s does not satisfy the minimum requirements %s, disable this check with --disable-kernel-version-check", text, diagnose.MinimumKernel)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("checking the kernels: %w", err)
	}
	return nil
}

// eachPage lists page by page, since a cluster may be large.
func eachPage[L client.ObjectList](ctx context.Context, c client.Reader, list L, see func(L) error) error {
	next := ""
	for {
		if err := c.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return err
		}
		if err := see(list); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

func joinPrefixes(prefixes []netip.Prefix) string {
	var all []string
	for _, p := range prefixes {
		all = append(all, p.String())
	}
	return strings.Join(slices.Compact(all), ",")
}
