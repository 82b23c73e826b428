// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

const (
	// MinimumKernel is the oldest supported kernel of nodes.
	MinimumKernel = "5.10.0"
	// Clocks may differ by skewWarning unnoticed. Signers backdate certificates by skewFailure: they are not valid yet beyond that.
	skewWarning, skewFailure = 30 * time.Second, 5 * time.Minute
	// signingPatience is how long the signer of Kubernetes may take.
	signingPatience = 2 * time.Minute

	pageClock  = "docs/troubleshooting.md#the-clock-of-the-api-server-differs"
	pageSigner = "docs/troubleshooting.md#certificatelate"
)

// HasOldKernel reports whether the kernel of a real node is older than the oldest supported kernel.
func HasOldKernel(node *corev1.Node) bool {
	current, err := version.ParseGeneric(node.Status.NodeInfo.KernelVersion)
	return err == nil && node.Labels[names.NodeType] != names.NodeTypeVirtualNode && current.LessThan(version.MustParseGeneric(MinimumKernel))
}

// FindVersion returns why the version of Kubernetes is not supported.
func (f *Facts) FindVersion() []Finding {
	if f.VersionProblem == "" {
		return nil
	}
	return []Finding{newFailure("API server "+f.ServerVersion, f.VersionProblem, "upgrade Kubernetes first", "docs/install.md")}
}

// FindSkew compares the clock of the API server with the clock of this machine.
func (f *Facts) FindSkew() []Finding {
	skew := f.Skew.Abs()
	if skew < skewWarning {
		return nil
	}
	direction := "ahead of"
	if f.Skew < 0 {
		direction = "behind"
	}
	found := newFailure("API server", fmt.Sprintf("its clock is %s %s the one of this machine", skew.Round(time.Second), direction),
		"synchronise both by NTP: certificates and nonces have times", pageClock)
	if skew < skewFailure {
		found = warningOf(found)
	}
	return []Finding{found}
}

// UnreadableNodeLeases is the entry of Facts.Unreadable for the Leases of kubelets.
const UnreadableNodeLeases = "Lease of " + corev1.NamespaceNodeLease

// nodeLeasePatience is the least age of the Lease of a Ready node with a slow clock. Kubelets renew after a quarter of the Lease's duration, by
// default 40 seconds, and a stopped node is not Ready within a minute.
const nodeLeasePatience = 2 * time.Minute

// FindNodeClocks compares the clocks of nodes with the clock of the API server, by the times at which kubelets renewed their Leases. If the newest
// Lease of all nodes is old, slow clocks are not reported: the API server did not answer, or the cluster has one node.
func (f *Facts) FindNodeClocks() (all []Finding) {
	var newest time.Time
	for i := range f.NodeLeases {
		if at := f.NodeLeases[i].Spec.RenewTime; at != nil && at.After(newest) {
			newest = at.Time
		}
	}
	for _, n := range f.realNodes() {
		i := slices.IndexFunc(f.NodeLeases, func(l coordinationv1.Lease) bool { return l.Name == n.Name })
		if i < 0 || f.NodeLeases[i].Spec.RenewTime == nil || !kube.NodeReady(n) {
			continue
		}
		text, patience := "", nodeLeasePatience
		if d := f.NodeLeases[i].Spec.LeaseDurationSeconds; d != nil {
			patience = max(patience, 4*time.Duration(*d)*time.Second)
		}
		switch ahead := f.NodeLeases[i].Spec.RenewTime.Sub(f.Now); {
		case ahead > skewWarning:
			text = fmt.Sprintf("its clock is at least %s ahead of the one of the API server", ahead.Round(time.Second))
		case -ahead > patience && f.Now.Sub(newest) <= patience:
			text = fmt.Sprintf("it is Ready, and renewed its Lease %s ago by its own clock, which is behind the one of the API server", -ahead.Round(time.Second))
		}
		if text != "" {
			all = append(all, warningOf(newFailure(Ref("Node", n), text, "synchronise its clock by NTP: certificates and nonces have times", pageClock)))
		}
	}
	return all
}

// FindNodes returns real nodes that are not Ready, or have an old kernel.
func (f *Facts) FindNodes() (all []Finding) {
	for _, n := range f.realNodes() {
		if !kube.NodeReady(n) {
			all = append(all, warningOf(newFailure(Ref("Node", n), "it is not Ready"+whyNotReady(n), "see its kubelet", "docs/troubleshooting.md#nodestatusunknown")))
		}
		if HasOldKernel(n) {
			all = append(all, newFailure(Ref("Node", n), fmt.Sprintf("its kernel %s is older than %s", n.Status.NodeInfo.KernelVersion, MinimumKernel), "upgrade the kernel", "docs/install.md"))
		}
		if f.hasForeignKubelet(n) {
			all = append(all, warningOf(newFailure(Ref("Node", n), fmt.Sprintf("its kubelet %s does not fit the API server %s", n.Status.NodeInfo.KubeletVersion, f.ServerVersion),
				"upgrade the kubelet: it may be three minor versions older, and none newer", "docs/install.md")))
		}
	}
	return all
}

// mostKubeletSkew is how many minor versions a kubelet may be older than the API server.
const mostKubeletSkew = 3

// hasForeignKubelet reports whether Kubernetes does not support the version of a node's kubelet with the version of the API server.
func (f *Facts) hasForeignKubelet(node *corev1.Node) bool {
	kubelet, err := version.ParseGeneric(node.Status.NodeInfo.KubeletVersion)
	if err != nil {
		return false
	}
	server, err := version.ParseGeneric(f.ServerVersion)
	if err != nil || server.Major() != kubelet.Major() {
		return err == nil
	}
	return kubelet.Minor() > server.Minor() || server.Minor()-kubelet.Minor() > mostKubeletSkew
}

// FindSigning returns requests of Liqo without an answer of the signer of Kubernetes.
func (f *Facts) FindSigning() (all []Finding) {
	for i := range f.Requests {
		r := &f.Requests[i]
		for _, c := range r.Status.Conditions {
			if c.Type == certv1.CertificateDenied || c.Type == certv1.CertificateFailed {
				all = append(all, newFailure(Ref("CertificateSigningRequest", r), fmt.Sprintf("%s: %s", c.Type, c.Message), "see which approver or signer says so", pageSigner))
			}
		}
		all = append(all, f.findUnsigned(r)...)
	}
	return all
}

// findUnsigned returns that a request was approved, and that the signer neither signed in time nor gave a reason.
func (f *Facts) findUnsigned(r *certv1.CertificateSigningRequest) []Finding {
	conditionOf := func(kind certv1.RequestConditionType) int {
		return slices.IndexFunc(r.Status.Conditions, func(c certv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
	}
	i := conditionOf(certv1.CertificateApproved)
	if i < 0 || len(r.Status.Certificate) > 0 || conditionOf(certv1.CertificateFailed) >= 0 {
		return nil
	}
	waiting := f.Now.Sub(r.Status.Conditions[i].LastUpdateTime.Time)
	if waiting <= signingPatience {
		return nil
	}
	return []Finding{newFailure(Ref("CertificateSigningRequest", r), fmt.Sprintf("approved %s ago, and not signed", waiting.Round(time.Second)),
		"see the log of kube-controller-manager, which needs the key of the signing CA", pageSigner)}
}

// FindSigner returns a client certificate request without an answer of a signer, if no request was signed. Only requests show whether a signer runs:
// without requests, there is no finding.
func (f *Facts) FindSigner() (all []Finding) {
	for i := range f.Requests {
		if len(f.Requests[i].Status.Certificate) > 0 {
			return nil
		}
		if found := f.findUnsigned(&f.Requests[i]); len(all) == 0 && len(found) > 0 {
			all = append(all, warningOf(found[0]))
		}
	}
	return all
}
