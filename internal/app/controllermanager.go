// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/auth"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/consumer"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/provider"
	"liqo.io/liqo/internal/resourceslice"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/webhook"
)

// Namespaces of peers and of consumers, and the pods in them.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=create;list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas/status,verbs=update
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies/finalizers,verbs=update
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/ephemeralcontainers;pods/resize,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims/status,verbs=patch
//
// Our own kinds.
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices;tenants,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps;quotas;virtualnodes,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings;shadowpods,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowendpointslices;vkoptionstemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=connections;firewallconfigurations;gatewayclients;gatewayservers;routeconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=internalnodes,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations/status;configurations/finalizers,verbs=update;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=wggatewayclients;wggatewayservers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.liqo.io,resources=wggatewayclienttemplates;wggatewayservertemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=connections/status;firewallconfigurations/status;gatewayclients/status;gatewayservers/status;internalnodes/status;routeconfigurations/status;wggatewayclients/status;wggatewayservers/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=gatewayclients/finalizers;gatewayservers/finalizers;wggatewayclients/finalizers;wggatewayservers/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips;networks,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips/status;ips/finalizers;networks/status;networks/finalizers,verbs=update;patch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters/status;foreignclusters/finalizers,verbs=update;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities/status;identities/finalizers;renews/status;resourceslices/status;resourceslices/finalizers;tenants/status;tenants/finalizers,verbs=update;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status;namespaceoffloadings/status;shadowendpointslices/finalizers;shadowpods/status;shadowpods/finalizers;virtualnodes/status;virtualnodes/finalizers,verbs=update;patch
//
// Virtual kubelets: their Deployments and accounts, and the roles granted to them and to peers, each by name.
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets,resourceNames=kube-router,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets,resourceNames=cilium,verbs=list
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=cilium-config,verbs=list
//
// The replicas of gateways: Leases and disruption budgets are written in the namespaces of gateways alone, see below.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list;watch
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings;rolebindings,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-gateway;liqo-gateway-reader;liqo-remote-controlplane;liqo-tenant-replication;liqo-tenant-secrets;liqo-virtual-kubelet-local;liqo-virtual-kubelet-local-namespace;liqo-virtual-kubelet-remote;liqo-virtual-kubelet-remote-clusterwide,verbs=bind
//
// Certificates of consumers and of virtual kubelets.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kube-apiserver-client;kubernetes.io/kubelet-serving,verbs=approve
//
// Admission: the webhook configurations, which get the CA bundle; authentication of metrics requests.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=liqo-webhook,verbs=update;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// In the namespace of the installation: keys, the webhooks' certificate, the lease of the leader.
// +kubebuilder:rbac:groups="",namespace=liqo,resources=secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",namespace=liqo,resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=liqo,resources=leases,verbs=get;list;watch;create;update;patch;delete
//
// In each tenant namespace, by a RoleBinding there: the credentials of and for the peer; the Lease of each gateway of several replicas, which its
// pods may write by a Role for that Lease, and its disruption budget.
// +kubebuilder:rbac:groups="",namespace=tenant,resources=secrets,verbs=create;delete;get;list;patch;update;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=tenant,resources=leases,verbs=create;delete;get;list;patch;update;watch
// +kubebuilder:rbac:groups=policy,namespace=tenant,resources=poddisruptionbudgets,verbs=create;delete;get;patch

// controllerManager runs every controller of the cluster, and admission on every replica.
func controllerManager() *cobra.Command {
	o := &controllerManagerOptions{}
	cmd := &cobra.Command{
		Use:   "controller-manager",
		Short: "Every controller of this cluster, and its admission webhooks",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.runManager(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *controllerManagerOptions) runManager(ctx context.Context) error {
	program.LeaveGarbage()
	settings, err := o.parseSettings()
	if err != nil {
		return err
	}
	cfg, err := program.LocalConfig(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	managerOptions := o.managerOptions(names.ControllerManager)
	managerOptions.Objects = cachedKinds(o.liqoNamespace)
	mgr, err := kube.NewManager(cfg, managerOptions)
	if err != nil {
		return err
	}
	kept, err := certissuer.NewKept(mgr)
	if err != nil {
		return err
	}
	settings.tenants.Certificates.Kept, settings.remote.Kept = kept, kept
	err = setUp(mgr,
		withOptions(webhook.SetupWebhooks, settings.webhooks),
		// Peers and their permissions.
		withOptions(peering.Setup, peering.Options{LiqoNamespace: o.liqoNamespace, Version: program.Version, Disabled: settings.disabled}),
		withOptions(auth.SetupKeys, auth.KeysOptions{LiqoNamespace: o.liqoNamespace, TLSCompatibility: o.tlsCompatibility}),
		withOptions(auth.SetupSigner, auth.SignerOptions{ClusterID: o.clusterIdentity(), LiqoNamespace: o.liqoNamespace, LegacyNonces: o.legacyNonces}),
		withOptions(auth.SetupTenant, settings.tenants),
		withOptions(auth.SetupIdentity, auth.IdentityOptions{
			ClusterID: o.clusterIdentity(), LiqoNamespace: o.liqoNamespace, AllowLoopbackPeers: o.allowLoopbackPeers, Networking: o.networking,
		}),
		auth.SetupRenew,
		withOptions(auth.SetupServing, auth.ServingOptions{}),
		// Addresses, and their translation by peer.
		registerIf(o.networking, withOptions(ipam.Setup, settings.addresses)),
		registerIf(o.networking, withOptions(network.SetupConfigurations, network.ConfigurationOptions{LiqoNamespace: o.liqoNamespace})),
		registerIf(o.networking, withOptions(network.SetupGateways, settings.gateways)),
		registerIf(o.networking, withOptions(network.SetupRefusals, network.RefusalOptions{LiqoNamespace: o.liqoNamespace})),
		registerIf(o.networking, network.SetupUnreadyNodes),
		registerIf(o.networking, withOptions(network.SetupHosts, network.HostOptions{LiqoNamespace: o.liqoNamespace})),
		// Requests to providers, and grants to consumers.
		withOptions(resourceslice.SetupLocal, settings.local),
		withOptions(resourceslice.SetupRemote, settings.remote),
		// As a consumer: virtual nodes and offloaded namespaces.
		withOptions(consumer.SetupVirtualNodes, settings.virtualNodes),
		withOptions(consumer.SetupNamespaceOffloadings, settings.offloadings),
		registerIf(o.networking && o.offloading, withOptions(consumer.SetupEndpointIPs, settings.virtualNodes)),
		registerIf(o.networking && o.offloading, withOptions(consumer.SetupRemotePodPolicies, o.admitRemotePods)),
		registerIf(o.storage, withOptions(storage.Setup, o.volumes)),
		// As a provider: remote namespaces, their pods, and the endpoints of other clusters.
		withOptions(provider.SetupNamespaceMaps, settings.twins),
		withOptions(provider.SetupShadowPods, settings.shadowPods),
		withOptions(provider.SetupShadowEndpointSlices, provider.ShadowEndpointSliceOptions{LiqoNamespace: o.liqoNamespace, Workers: o.shadowSliceWorkers, DroppedMetadata: o.droppedMetadata, DenyDirectConnections: o.denyDirect}),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
