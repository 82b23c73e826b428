// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/facts"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Gatherer reads the facts of a cluster.
type Gatherer struct {
	// Config and Client are the connection.
	Config *rest.Config
	Client client.WithWatch
	// Reader is the source of facts: Client, or a cache filled by watches.
	Reader    client.Reader
	session   *cluster.Session
	namespace string
	clock     *cluster.ServerClock
	// version has the facts about the version once they are known.
	version *diagnose.Facts
}

// NewGatherer returns a Gatherer of the facts about the Liqo in a namespace.
func NewGatherer(ctx context.Context, c *cluster.Session, namespace string) (*Gatherer, error) {
	cfg, err := c.RestConfig()
	if err != nil {
		return nil, err
	}
	clock := cluster.NewServerClock(cfg)
	kube, err := cluster.NewClientOf(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Gatherer{Config: cfg, Client: kube, Reader: kube, session: c, namespace: namespace, clock: clock}, nil
}

// GatherFacts lists each kind once. A kind that cannot be listed is unreadable; rules for this kind are not applied.
func (g *Gatherer) GatherFacts(ctx context.Context) (*diagnose.Facts, error) {
	r := facts.NewReader(g.Reader, g.namespace)
	in, ofChart := client.InNamespace(g.namespace), client.MatchingLabels{names.AppPartOf: "liqo"}
	var deployments appsv1.DeploymentList
	var daemons appsv1.DaemonSetList
	var leases, kubelets coordinationv1.LeaseList
	var clusterBindings rbacv1.ClusterRoleBindingList
	var bindings rbacv1.RoleBindingList
	var requests certv1.CertificateSigningRequestList
	apis := unstructured.UnstructuredList{}
	apis.SetAPIVersion("apiregistration.k8s.io/v1")
	apis.SetKind("APIServiceList")
	var internal networkingv1beta1.InternalNodeList
	var networks ipamv1alpha1.NetworkList
	var identities authv1beta1.IdentityList
	var maps offv1beta1.NamespaceMapList
	var offloadings offv1beta1.NamespaceOffloadingList
	var quotas offv1beta1.QuotaList
	var consumers corev1.PodList
	err := r.List(ctx,
		facts.Kind{Name: "Deployment", List: &deployments, Opts: []client.ListOption{in}},
		facts.Kind{Name: "DaemonSet", List: &daemons},
		facts.Kind{Name: "Lease", List: &leases, Opts: []client.ListOption{in}},
		nodeLeases(&kubelets),
		facts.Kind{Name: "ClusterRoleBinding", List: &clusterBindings, Opts: []client.ListOption{ofChart}},
		facts.Kind{Name: "RoleBinding", List: &bindings, Opts: []client.ListOption{ofChart}},
		facts.Kind{Name: "CertificateSigningRequest", List: &requests, Opts: []client.ListOption{client.MatchingLabels{names.RemoteTenantCSR: "true"}}},
		facts.Kind{Name: "APIService", List: &apis},
		facts.Kind{Name: "InternalNode", List: &internal},
		facts.Kind{Name: "Network", List: &networks},
		facts.Kind{Name: "Identity", List: &identities},
		facts.Kind{Name: "NamespaceMap", List: &maps}, // before the offloadings, whose end is awaited by their entries
		facts.Kind{Name: "NamespaceOffloading", List: &offloadings},
		facts.Kind{Name: "Quota", List: &quotas},
		facts.Kind{Name: "Pod", List: &consumers, Opts: []client.ListOption{client.MatchingLabels{names.ManagedBy: names.ManagedByShadowPod}}},
	)
	if err == nil {
		err = r.ListPeerings(ctx)
	}
	if err == nil {
		err = r.ListOffloadedPods(ctx)
	}
	if err != nil {
		return nil, err
	}
	f := r.Facts
	f.Deployments, f.DaemonSets, f.Leases, f.Requests, f.APIServices = deployments.Items, daemons.Items, leases.Items, requests.Items, apis.Items
	f.NodeLeases, f.ClusterBindings, f.Bindings = kubelets.Items, clusterBindings.Items, bindings.Items
	f.InternalNodes, f.Networks, f.Identities = internal.Items, networks.Items, identities.Items
	f.NamespaceMaps, f.Offloadings, f.Quotas, f.ConsumerPods = maps.Items, offloadings.Items, quotas.Items, consumers.Items
	if err := listCNISettings(ctx, r); err != nil {
		return nil, err
	}
	g.gatherVersion(f)
	g.gatherHealth(ctx, f)
	return f, nil
}

// nodeLeases is the list of the Leases of kubelets.
func nodeLeases(into *coordinationv1.LeaseList) facts.Kind {
	return facts.Kind{Name: diagnose.UnreadableNodeLeases, List: into, Opts: []client.ListOption{client.InNamespace(corev1.NamespaceNodeLease)}}
}

// gatherPreflight reads the facts for an installation.
func (g *Gatherer) gatherPreflight(ctx context.Context) (*diagnose.Facts, error) {
	r := facts.NewReader(g.Reader, g.namespace)
	f := r.Facts
	var nodes corev1.NodeList
	var daemons appsv1.DaemonSetList
	var services corev1.ServiceList
	var kubelets coordinationv1.LeaseList
	var requests certv1.CertificateSigningRequestList
	if err := r.List(ctx, facts.Kind{Name: "Node", List: &nodes}, facts.Kind{Name: "DaemonSet", List: &daemons}, facts.Kind{Name: "Service", List: &services}, nodeLeases(&kubelets),
		facts.Kind{Name: "CertificateSigningRequest", List: &requests, Opts: []client.ListOption{client.MatchingFields{"spec.signerName": certv1.KubeAPIServerClientSignerName}}}); err != nil {
		return nil, err
	}
	f.NodeLeases, f.Requests = kubelets.Items, requests.Items
	f.Nodes, f.DaemonSets, f.Preflight.Services = nodes.Items, daemons.Items, services.Items
	if err := listCNISettings(ctx, r); err != nil {
		return nil, err
	}
	install.GatherPreflight(ctx, g.Client, f)
	g.gatherVersion(f)
	return f, nil
}

// listCNISettings lists the settings of Cilium, in clusters with Cilium.
func listCNISettings(ctx context.Context, r *facts.Reader) error {
	if !slices.ContainsFunc(r.Facts.DaemonSets, func(d appsv1.DaemonSet) bool { return d.Name == policy.CiliumDaemonSet }) {
		return nil
	}
	var settings corev1.ConfigMapList
	err := r.List(ctx, facts.Kind{Name: "ConfigMap", List: &settings, Opts: []client.ListOption{client.MatchingFields{"metadata.name": policy.CiliumConfig}}})
	r.Facts.CNISettings = policy.CiliumSettings(r.Facts.DaemonSets, settings.Items)
	return err
}

// ListKind lists a kind. A kind that cannot be listed is unreadable, except at the end of ctx.
func (g *Gatherer) ListKind(ctx context.Context, f *diagnose.Facts, name string, list client.ObjectList, opts ...client.ListOption) error {
	r := facts.Reader{Client: g.Reader, Facts: f}
	return r.List(ctx, facts.Kind{Name: name, List: list, Opts: opts})
}

// gatherVersion asks once for the version of Kubernetes, and takes the time of the answers so far.
func (g *Gatherer) gatherVersion(f *diagnose.Facts) {
	f.Skew, f.Now = g.clock.Skew(), g.clock.Now()
	if g.version != nil {
		f.ServerVersion, f.VersionProblem = g.version.ServerVersion, g.version.VersionProblem
		return
	}
	cfg := rest.CopyConfig(g.Config)
	cfg.Timeout = 10 * time.Second
	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err == nil {
		v, asked := dc.ServerVersion()
		if err = asked; err == nil {
			f.ServerVersion = v.GitVersion
		}
	}
	if err != nil {
		f.Unreadable["version"] = cluster.DescribeError(err)
		return
	}
	if err := install.CheckKubernetes(g.session.Chart, f.ServerVersion); err != nil {
		f.VersionProblem = err.Error()
	}
	g.version = &diagnose.Facts{ServerVersion: f.ServerVersion, VersionProblem: f.VersionProblem}
}

// gatherHealth takes what "liqoctl info" finds.
func (g *Gatherer) gatherHealth(ctx context.Context, f *diagnose.Facts) {
	from := &info.Collector{Reader: g.Reader, Namespace: g.namespace, Chart: g.session.Chart}
	take := func(to *[]diagnose.Finding, name string, find func(context.Context) ([]diagnose.Finding, error)) {
		found, err := find(ctx)
		if err != nil {
			f.Unreadable[name] = cluster.DescribeError(err)
		}
		*to = found
	}
	take(&f.Health.Workloads, diagnose.Workloads, from.FindWorkloads)
	take(&f.Health.CRDs, diagnose.CRDs, from.FindCRDs)
	take(&f.Health.Webhooks, diagnose.Webhooks, from.FindWebhooks)
	take(&f.Health.Networks, diagnose.Networks, from.FindNetworks)
	take(&f.Health.Orphans, diagnose.Orphans, from.FindOrphans)
	take(&f.Health.Certificates, diagnose.Certificates, func(ctx context.Context) ([]diagnose.Finding, error) { return from.FindCertificates(ctx, f.Now) })
}
