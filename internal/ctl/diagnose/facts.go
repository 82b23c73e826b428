// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Facts are the objects of a cluster for the rules. The rules shared with liqoctl info list some kinds again.
type Facts struct {
	// Unreadable are the reasons why kinds could not be listed, by the names of the kinds.
	Unreadable map[string]string
	// Now is the time of the API server.
	Now time.Time
	// Skew is how far the clock of the API server is ahead of the clock of this machine.
	Skew time.Duration
	// ServerVersion is the version of Kubernetes, CLIVersion the version of this program.
	ServerVersion, CLIVersion string
	// VersionProblem is why this version of Kubernetes is not supported.
	VersionProblem string
	// Namespace is the namespace of Liqo.
	Namespace string

	Nodes       []corev1.Node
	Deployments []appsv1.Deployment                // of the namespace of Liqo
	DaemonSets  []appsv1.DaemonSet                 // of all namespaces: CNIs are among them
	CNISettings []corev1.ConfigMap                 // of Cilium
	Leases      []coordinationv1.Lease             // of the namespace of Liqo
	NodeLeases  []coordinationv1.Lease             // of kubelets
	Requests    []certv1.CertificateSigningRequest // of Liqo; before an installation, of the signer that Liqo asks
	// ClusterBindings and Bindings are the bindings of the chart.
	ClusterBindings []rbacv1.ClusterRoleBinding
	Bindings        []rbacv1.RoleBinding
	APIServices     []unstructured.Unstructured

	Peers          []liqov1beta1.ForeignCluster
	Namespaces     []corev1.Namespace // tenant namespaces
	Configurations []networkingv1beta1.Configuration
	Servers        []networkingv1beta1.GatewayServer
	Clients        []networkingv1beta1.GatewayClient
	Connections    []networkingv1beta1.Connection
	PublicKeys     []networkingv1beta1.PublicKey
	InternalNodes  []networkingv1beta1.InternalNode
	Networks       []ipamv1alpha1.Network
	Tenants        []authv1beta1.Tenant
	Identities     []authv1beta1.Identity
	Slices         []authv1beta1.ResourceSlice
	VirtualNodes   []offv1beta1.VirtualNode
	// OffloadedPods are the pods on virtual nodes.
	OffloadedPods []corev1.Pod
	Offloadings   []offv1beta1.NamespaceOffloading
	NamespaceMaps []offv1beta1.NamespaceMap
	// Quotas limit consumers, whose pods are ConsumerPods.
	Quotas       []offv1beta1.Quota
	ConsumerPods []corev1.Pod

	Health Health
	// Preflight is gathered before an installation only.
	Preflight Preflight
}
