// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// clusterFacts are the facts about the cluster, from flags and from the cluster itself.
type clusterFacts struct {
	clusterID       string
	podCIDRs        []netip.Prefix
	serviceCIDR     netip.Prefix
	reservedSubnets []netip.Prefix
	apiServer       string
	values          map[string]any // values for this provider of clusters
	labels          map[string]string
	workers         int // nodes for the pods of Liqo
}

// Default CIDRs of kubeadm and k3s.
const (
	kubeadmPodCIDR     = "172.16.0.0/16"
	kubeadmServiceCIDR = "10.96.0.0/12"
	k3sPodCIDR         = "10.42.0.0/16"
	k3sServiceCIDR     = "10.43.0.0/16"
)

// detectCluster fills the facts for the chosen provider of clusters. CIDRs of a previous installation are the default in an upgrade.
func (i *Installer) detectCluster(ctx context.Context, prev *previousRelease) (*clusterFacts, error) {
	pods, services := i.PodCIDRs, i.ServiceCIDR
	f := &clusterFacts{}
	switch i.Provider {
	case "kubeadm", "kind":
		var err error
		if pods, services, err = kubeadmCIDRs(ctx, i.Client); err != nil {
			return nil, err
		}
		if i.Provider == "kind" {
			// A kubeconfig of kind has the address 127.0.0.1, which is useless for a peer.
			i.SkipAPIServerCheck, i.apiServerFromTheNode = true, true
			f.values = nestedValue(true, "networking", "fabric", "config", "gatewayMasqueradeBypass")
		}
	case "k3s":
		i.SkipAPIServerCheck = true
		pods, services = orElse(pods, k3sPodCIDR), cmp.Or(services, k3sServiceCIDR)
		f.values = nestedValue(false, "networking", "fabric", "config", "nftablesMonitor")
	default:
		pods, services = orElse(pods, stringsAt(prev.values, "ipam", "podCIDRs")...), cmp.Or(services, stringAt(prev.values, "ipam", "serviceCIDR"))
	}
	if i.Provider != "generic" {
		f.labels = map[string]string{"liqo.io/provider": i.Provider}
	}
	var err error
	if f.podCIDRs, err = parseCIDRs("pod", pods); err != nil {
		return nil, err
	}
	if f.serviceCIDR, err = i.chooseServiceCIDR(services); err != nil {
		return nil, err
	}
	if len(f.podCIDRs) == 0 || !f.serviceCIDR.IsValid() {
		return nil, ui.Fail("--pod-cidr and --service-cidr are required: the address ranges of the cluster cannot be found out in general").
			Hint("Sub-commands detect the ranges of kubeadm, kind and k3s: liqoctl install --help")
	}
	if f.reservedSubnets, err = parseCIDRs("reserved", i.ReservedSubnets); err != nil {
		return nil, err
	}
	f.apiServer = i.chooseAPIServer(stringAt(prev.values, "apiServer", "address"))
	f.workers, err = countWorkers(ctx, i.Client)
	return f, err
}

// chooseServiceCIDR returns the IPv4 range of a dual-stack cluster, because the values hold a single range. Several ranges in a flag
// are an error.
func (i *Installer) chooseServiceCIDR(text string) (netip.Prefix, error) {
	all, err := parseCIDRs("service", strings.Split(text, ","))
	switch {
	case err != nil || len(all) == 0:
		return netip.Prefix{}, err
	case len(all) == 1:
		return all[0], nil
	case i.ServiceCIDR != "":
		return netip.Prefix{}, ui.Fail("the service CIDR %q is more than one address range", text).
			Hint("Liqo supports one range; in a dual-stack cluster use the IPv4 range")
	}
	n := max(slices.IndexFunc(all, func(p netip.Prefix) bool { return p.Addr().Is4() }), 0)
	i.Printer.Warn("The services of this cluster have the address ranges %s: Liqo takes %s", joinPrefixes(all), all[n])
	return all[n], nil
}

// withValues returns the facts with the overrides of the final values, whose types the chart has validated.
func (f *clusterFacts) withValues(values map[string]any) (*clusterFacts, error) {
	said := *f
	said.apiServer = stringAt(values, "apiServer", "address")
	var err error
	if said.podCIDRs, err = parseCIDRs("pod", stringsAt(values, "ipam", "podCIDRs")); err != nil {
		return nil, err
	}
	services, err := parseCIDRs("service", []string{stringAt(values, "ipam", "serviceCIDR")})
	if err != nil {
		return nil, err
	}
	if len(said.podCIDRs) == 0 || len(services) == 0 {
		return nil, ui.Fail("the values take away ipam.podCIDRs or ipam.serviceCIDR, which are required")
	}
	said.serviceCIDR = services[0]
	said.reservedSubnets, err = parseCIDRs("reserved", stringsAt(values, "ipam", "reservedSubnets"))
	return &said, err
}

// countWorkers counts the nodes of this cluster that take any pod.
func countWorkers(ctx context.Context, c client.Reader) (int, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return 0, fmt.Errorf("listing nodes: %w", err)
	}
	n := 0
	for i := range nodes.Items {
		node := &nodes.Items[i]
		repels := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
		if node.Labels[names.NodeType] != names.NodeTypeVirtualNode && !node.Spec.Unschedulable && !repels {
			n++
		}
	}
	return n, nil
}

func orElse(current []string, def ...string) []string {
	if len(current) > 0 {
		return current
	}
	return def
}

// parseCIDRs rejects an address with host bits, and names the probably meant network.
func parseCIDRs(what string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, ui.Fail("the %s CIDR %q is not an address range such as 10.0.0.0/16", what, text)
		}
		if prefix != prefix.Masked() {
			return nil, ui.Fail("the %s CIDR %q has bits beyond its length: did you mean %q?", what, text, prefix.Masked())
		}
		all = append(all, prefix)
	}
	return all, nil
}

// kubeadmCIDRs reads the flags of the kube-controller-manager or, if the pod is not visible, the ConfigMap of kubeadm.
func kubeadmCIDRs(ctx context.Context, c client.Reader) (pods []string, services string, err error) {
	var managers corev1.PodList
	err = c.List(ctx, &managers, client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{"component": "kube-controller-manager", "tier": "control-plane"})
	if err != nil {
		return nil, "", fmt.Errorf("looking for the kube-controller-manager: %w", err)
	}
	for _, pod := range managers.Items {
		for _, container := range pod.Spec.Containers {
			command := slices.Concat(container.Command, container.Args)
			return strings.Split(argumentValue(command, "cluster-cidr", kubeadmPodCIDR), ","),
				argumentValue(command, "service-cluster-ip-range", kubeadmServiceCIDR), nil
		}
	}
	return kubeadmConfig(ctx, c)
}

func kubeadmConfig(ctx context.Context, c client.Reader) (pods []string, services string, err error) {
	var cm corev1.ConfigMap
	err = c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}, &cm)
	if apierrors.IsNotFound(err) {
		return nil, "", ui.Fail("this cluster was not made by kubeadm: kube-system has neither a kube-controller-manager pod nor a ConfigMap kubeadm-config").
			Hint("Set its address ranges instead: liqoctl install --pod-cidr <CIDR> --service-cidr <CIDR>")
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration of kubeadm: %w", err)
	}
	var config struct {
		Networking struct{ PodSubnet, ServiceSubnet string }
	}
	if err := yaml.Unmarshal([]byte(cm.Data["ClusterConfiguration"]), &config); err != nil {
		return nil, "", fmt.Errorf("reading the configuration of kubeadm: %w", err)
	}
	return strings.Split(cmp.Or(config.Networking.PodSubnet, kubeadmPodCIDR), ","),
		cmp.Or(config.Networking.ServiceSubnet, kubeadmServiceCIDR), nil
}

// argumentValue returns the value of a flag of a command line, written with = or as the next word.
func argumentValue(command []string, flag, def string) string {
	for n, word := range command {
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(word, "-"):
		case given:
			return value
		case n+1 < len(command):
			return command[n+1]
		}
	}
	return def
}
