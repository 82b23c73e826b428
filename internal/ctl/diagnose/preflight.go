// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Preflight has the facts before an installation.
type Preflight struct {
	// MissingRights are the missing permissions of the user.
	MissingRights []string
	// Other is the installation of another product, Installed the installed version of this product.
	Other, Installed string
	// PodCIDRs and ServiceCIDR are the ranges of the cluster, RangeProblem why they are not known. In a dual-stack cluster, ServiceCIDR has two
	// ranges, with a comma.
	PodCIDRs     []string
	ServiceCIDR  string
	RangeProblem string
	Services     []corev1.Service
}

// listRanges returns the ranges of pods and Services.
func (p *Preflight) listRanges() (all []string) {
	for _, text := range append(slices.Clone(p.PodCIDRs), strings.Split(p.ServiceCIDR, ",")...) {
		all = append(all, strings.TrimSpace(text))
	}
	return all
}

// joinRanges returns the ranges of the cluster for a note.
func (p *Preflight) joinRanges() string {
	if p.RangeProblem != "" {
		return ""
	}
	return strings.Join(p.listRanges(), ", ")
}

// FindMissingRights returns the missing permissions of the user.
func (f *Facts) FindMissingRights() (all []Finding) {
	for _, right := range f.Preflight.MissingRights {
		all = append(all, newFailure("user", "you are not allowed to "+right, "ask the administrator of the cluster, or take another user", "docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to"))
	}
	return all
}

// FindOtherLiqo returns existing installations.
func (f *Facts) FindOtherLiqo() (all []Finding) {
	if f.Preflight.Other != "" {
		all = append(all, newFailure("cluster", f.Preflight.Other, "unpeer and uninstall it with its own liqoctl", "docs/migration.md"))
	}
	if f.Preflight.Installed != "" {
		all = append(all, warningOf(newFailure("Namespace "+f.Namespace, "Liqo "+f.Preflight.Installed+" is installed", "liqoctl install upgrades it; see liqoctl check", "docs/install.md")))
	}
	return all
}

// FindClusterRanges returns nodes inside of the address ranges of pods and Services, or that the ranges are not known.
func (f *Facts) FindClusterRanges() (all []Finding) {
	if f.Preflight.RangeProblem != "" {
		remedy := "pass both: liqoctl install --pod-cidr <CIDR> --service-cidr <CIDR>"
		if strings.Contains(f.ServerVersion, "+k3s") {
			remedy = "run: liqoctl install k3s, with --pod-cidr and --service-cidr if they are not the defaults of k3s"
		}
		return []Finding{warningOf(newFailure("cluster", f.Preflight.RangeProblem, remedy, "docs/install.md"))}
	}
	for _, text := range f.Preflight.listRanges() {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			all = append(all, newFailure("cluster", fmt.Sprintf("%q is no address range", text), "pass it: liqoctl install --pod-cidr <CIDR> --service-cidr <CIDR>", "docs/install.md"))
			continue
		}
		for _, n := range f.realNodes() {
			for _, address := range n.Status.Addresses {
				if ip, err := netip.ParseAddr(address.Address); err == nil && prefix.Contains(ip) {
					all = append(all, newFailure(Ref("Node", n), fmt.Sprintf("its address %s is in %s, a range of pods or Services", ip, prefix), "peers cannot reach such nodes: give the nodes other addresses", pageRange))
				}
			}
		}
	}
	return all
}

// FindLoadBalancers returns a Service without an address in a cluster where no Service has an address: gateways would wait, too.
func (f *Facts) FindLoadBalancers() []Finding {
	var waiting *corev1.Service
	for i := range f.Preflight.Services {
		s := &f.Preflight.Services[i]
		switch {
		case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		case len(s.Status.LoadBalancer.Ingress) > 0:
			return nil
		default:
			waiting = s
		}
	}
	if waiting == nil {
		return nil
	}
	return []Finding{warningOf(newFailure(Ref("Service", waiting), "it waits for an address, and no load balancer has one",
		"peer with --gw-server-service-type NodePort, or --gw-server-service-location at the other cluster", pageGateway))}
}
