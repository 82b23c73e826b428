// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package names holds every string that others can see: labels, annotations, finalizers, ports and object names.
// They are a contract with manifests, scripts and the other clusters; nothing here may change without a migration.
package names

// Labels and annotations of peering, identity and replication.
const (
	// RemoteClusterID is the universal look-up key: the ID of the peer an object concerns.
	RemoteClusterID = "liqo.io/remote-cluster-id"
	// TenantNamespace marks the namespace of one peering; its value is "true".
	TenantNamespace = "liqo.io/tenant-namespace"
	// Replication is "true" on objects to copy to the peer and "false" on the copy. It is written for old readers only.
	Replication = "liqo.io/replication"
	// ReplicationDestination is the ID of the cluster an object is copied to.
	ReplicationDestination = "liqo.io/remoteID"
	// ReplicationOrigin is the ID of the cluster a copy comes from.
	ReplicationOrigin = "liqo.io/originID"
	// Replicated is "true" on a copy. Admission makes it trustworthy: see docs/permissions.md.
	Replicated = "liqo.io/replicated"
	// IdentityType is ControlPlane or ResourceSlice, on kubeconfig Secrets.
	IdentityType = "liqo.io/identity-type"
	// ResourceSliceName is on the Identity and the VirtualNode of a slice.
	ResourceSliceName = "liqo.io/resourceslice-name"
	// Nonce is on the Secret in which a provider keeps the nonce for a consumer, SignedNonce on the one in which a consumer has
	// the nonce of a provider signed.
	Nonce       = "liqo.io/nonce"
	SignedNonce = "liqo.io/signed-nonce"
	// ServedNonces is on the Secret with the nonces for a consumer that served.
	ServedNonces = "liqo.io/served-nonces"
	// IssuedCertificate is on the Secrets with the certificates that were issued to peers; its value is "true".
	IssuedCertificate = "liqo.io/issued-certificate"
	// RemoteTenantCSR marks the CertificateSigningRequests made for peers.
	RemoteTenantCSR = "liqo.io/remote-tenant-csr"
	// TenantCertificateFor annotates them with the <namespace>/<name> of the Tenant.
	TenantCertificateFor = "liqo.io/tenant-certificate-for"
	// Version annotates the copy of a NamespaceMap with the version of Liqo at the consumer.
	Version = "liqo.io/version"
	// Capabilities annotates it with what that Liqo does that a peer has to know of, comma-separated.
	Capabilities = "liqo.io/capabilities"
	// FollowedOffer annotates an Identity with the hash of what its provider offered when that was taken over last, and when one last changed something.
	FollowedOffer = "liqo.io/followed-offer"
	// PeeringUser is on what makes a peering user: its bindings, and the request for its certificate.
	PeeringUser = "liqo.io/peering-user-name"
	// CreatorUser is the escaped name of the user that created a ShadowPod.
	CreatorUser = "liqo.io/creator-user"
	// CertificateFor annotates those with the <namespace>/<name> of the ResourceSlice.
	CertificateFor = "liqo.io/certificate-for"
	// Managed is on every object made by a controller, unless the chart says otherwise.
	Managed = "liqo.io/managed"
	// ManagedBy is shadowpod or shadowendpointslice, on what is made from those.
	ManagedBy = "liqo.io/managed-by"

	// RemoteTenantNamespace annotates a control-plane kubeconfig Secret with the tenant namespace at the peer.
	RemoteTenantNamespace = "liqo.io/remote-tenant-namespace"
	// CreateVirtualNode annotates a ResourceSlice: anything but empty and "false" asks for a VirtualNode.
	CreateVirtualNode = "liqo.io/create-virtual-node"
	// Cordon annotates a replicated ResourceSlice that may not start new pods.
	Cordon = "liqo.io/cordon"
	// PermanentlyUnreachable annotates a ForeignCluster that will never come back.
	PermanentlyUnreachable = "liqo.io/foreign-cluster-permanently-unreachable"
	// Preinstalled annotates objects that belong to the installation.
	Preinstalled = "liqo.io/preinstalled"
	// DroppedMetadata annotates an object that a consumer wrote in a provider with the keys of labels and annotations that the provider
	// dropped, so that they are not put back.
	DroppedMetadata = "offloading.liqo.io/dropped-metadata"
	// AppliedHash annotates an object with the hash of what was last applied to it, so that equal writes are skipped.
	AppliedHash = "liqo.io/applied-hash"
)

// Labels and annotations of offloading.
const (
	// KeepOffVirtualNodes is "false" on DaemonSets whose pods are made for virtual nodes, too, although they only tolerate everything.
	KeepOffVirtualNodes = "liqo.io/keep-off-virtual-nodes"
	// AllowVirtualNodes is "true" on namespaces besides tenant namespaces in which VirtualNodes may be made.
	AllowVirtualNodes = "liqo.io/allow-virtual-nodes"
	// NodeType is virtual-node on virtual nodes.
	NodeType            = "liqo.io/type"
	NodeTypeVirtualNode = "virtual-node"
	// Withdrawn annotates a VirtualNode with the reason for which its provider denies the ResourceSlice that it was made for, or for
	// which their versions do not work together.
	Withdrawn = "liqo.io/withdrawn"
	// AppliedTaints annotates a virtual node with the taints that are ours, to take away those that are not wanted any more.
	AppliedTaints = "liqo.io/applied-taints"
	// VirtualNode is the VirtualNode's name, on the virtual kubelet's Deployment and pods.
	VirtualNode = "liqo.io/virtual-node"
	// OffloadingComponent is virtual-kubelet on the virtual kubelet's Deployment and pods.
	OffloadingComponent     = "offloading.liqo.io/component"
	ComponentVirtualKubelet = "virtual-kubelet"
	// ServingApproved is the reason of our approvals of the serving certificates of virtual kubelets.
	ServingApproved = "VirtualKubeletServing"
	// SchedulingEnabled is "true" on offloaded namespaces.
	SchedulingEnabled = "liqo.io/scheduling-enabled"
	// ShadowPod is "true" on local pods that run remotely.
	ShadowPod = "liqo.io/shadowPod"
	// PodAccepted is a condition of offloaded pods: False while the provider refuses them, absent otherwise.
	PodAccepted = "offloading.liqo.io/Accepted"
	// RemoteUnavailable is "true" on local offloaded pods while their virtual node is not ready.
	RemoteUnavailable = "liqo.io/remote-unavailable"
	// OffloadingOrigin and OffloadingDestination are cluster IDs, on every object reflected into a provider.
	OffloadingOrigin      = "offloading.liqo.io/origin"
	OffloadingDestination = "offloading.liqo.io/destination"
	// OffloadingNodeName is the virtual node's name, on ShadowPods and token Secrets.
	OffloadingNodeName = "offloading.liqo.io/nodename"
	// OffloadingNamespace annotates a remote pod with its local namespace, for files of the downward API.
	OffloadingNamespace = "offloading.liqo.io/namespace"
	// OffloadingUID annotates ShadowPods and remote pods with the UID of the local pod they are for.
	OffloadingUID = "offloading.liqo.io/uid"
	// OffloadingLabels and OffloadingAnnotations annotate a remote pod with those of the local pod, as files of the
	// downward API show them.
	OffloadingLabels      = "offloading.liqo.io/labels"
	OffloadingAnnotations = "offloading.liqo.io/annotations"
	// HomeAPIServer annotates a ShadowPod whose pod reaches the API server of the consumer, with the way: see translate.Home.
	HomeAPIServer = "offloading.liqo.io/api-server"
	// ServiceAccountName labels a Secret with tokens with the account that they are of.
	ServiceAccountName = "offloading.liqo.io/service-account-name"
	// TokenPodName, TokenPodUID and TokenExpiration annotate it with the pod that they are bound to, and with when the first of
	// them expires; TokenRenewal with when there are to be new ones.
	TokenPodName    = "offloading.liqo.io/service-account-for-pod-name"
	TokenPodUID     = "offloading.liqo.io/service-account-for-pod-uid"
	TokenExpiration = "offloading.liqo.io/service-account-expiration"
	TokenRenewal    = "offloading.liqo.io/service-account-renewal"
	// StorageAvailable is true or false on virtual nodes.
	StorageAvailable = "storage.liqo.io/available"

	// ManagedByNamespaceMap annotates a twin namespace with <namespace>/<name> of the NamespaceMap that asked for it.
	ManagedByNamespaceMap = "liqo.io/managed-by-namespace-map"
	// DefaultLimits annotates a twin namespace with whether it has been given its default ResourceQuota and LimitRange.
	DefaultLimits = "liqo.io/default-limits"
	// DefaultLimitsPending and DefaultLimitsCreated are its values. Once created, the limits are the administrator's.
	DefaultLimitsPending = "pending"
	DefaultLimitsCreated = "created"
	// OriginalName annotates a twin namespace with the consumer's name for it.
	OriginalName = "liqo.io/original-name"
	// OffloadingPatchHash annotates the virtual kubelet's pod template, so that a changed patch rolls it.
	OffloadingPatchHash = "liqo.io/offloading-patch-hash"
	// EvictMisplacedPods annotates a NamespaceOffloading whose strategy is to reach pods that run already: true.
	EvictMisplacedPods = "liqo.io/evict-misplaced-pods"
	// ImposedAffinity annotates a pod that requires more of its node than its owner wrote, with a hash of what was added.
	ImposedAffinity = "liqo.io/imposed-affinity"
	SkipReflection  = "liqo.io/skip-reflection"
	AllowReflection = "liqo.io/allow-reflection"
	// ForceRemoteNodePort annotates a Service that has the same node ports in the provider.
	ForceRemoteNodePort = "liqo.io/force-remote-node-port"
	// DirectConnections annotates a ShadowEndpointSlice with what is never copied to its EndpointSlice.
	DirectConnections = "liqo.io/direct-connections-data"
	// EndpointSliceManager is the value of the label endpointslice.kubernetes.io/managed-by on slices that are reflected.
	EndpointSliceManager = "endpointslice.reflection.liqo.io"
	// APIServerSupport annotates a pod: remote or disabled.
	APIServerSupport         = "liqo.io/api-server-support"
	APIServerSupportRemote   = "remote"
	APIServerSupportDisabled = "disabled"
	// TokenAudiences annotates a pod with the audiences, beside the API server, whose tokens go to the provider with it: a list with
	// commas, or *.
	TokenAudiences = "liqo.io/token-audiences"
	// DownwardAPINamespace annotates a pod with whose metadata.namespace the downward API shows it: remote, that of the namespace
	// it runs in, or local, that of its own cluster.
	DownwardAPINamespace       = "liqo.io/downward-api-namespace"
	DownwardAPINamespaceLocal  = "local"
	DownwardAPINamespaceRemote = "remote"
	// RemoteServiceAccountName annotates a pod with the provider's account to run as.
	RemoteServiceAccountName = "liqo.io/remote-service-account-name"
	RemoteRuntimeClassName   = "liqo.io/remote-runtime-class-name"
	AntiAffinityPreset       = "liqo.io/anti-affinity-preset"
	AntiAffinityLabels       = "liqo.io/anti-affinity-labels"
)

// Labels of webhooks and of the chart.
const (
	Webhook = "liqo.io/webhook"
	// WebhookServiceName annotates the webhook's certificate Secret with the Service the certificate is for.
	WebhookServiceName = "liqo.io/webhook-service-name"

	AppName      = "app.kubernetes.io/name"
	AppVersion   = "app.kubernetes.io/version"
	AppInstance  = "app.kubernetes.io/instance"
	AppComponent = "app.kubernetes.io/component"
	AppPartOf    = "app.kubernetes.io/part-of"
	AppManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByLiqo is the value of AppManagedBy on what our controllers make.
	ManagedByLiqo = "liqo"
)

// Labels and annotations of IPAM.
const (
	NetworkType = "ipam.liqo.io/network-type"
	// NetworkNotRemapped on a Network asks for its prefix or none, NetworkShared for one that other shared ones may overlap.
	NetworkNotRemapped = "ipam.liqo.io/network-not-remapped"
	NetworkShared      = "ipam.liqo.io/network-shared"
	// NetworkNamespace and NetworkName say on an IP which Network its address is of.
	NetworkNamespace = "ipam.liqo.io/network-namespace"
	NetworkName      = "ipam.liqo.io/network-name"
	// CIDRType says on a Network made for a Configuration which of the peer's networks it is: pod or external.
	CIDRType         = "configuration.liqo.io/cidr-type"
	CIDRTypePod      = "pod"
	CIDRTypeExternal = "external"
	// LastGrant annotates the Lease IPAMLease with what was granted last.
	LastGrant = "ipam.liqo.io/last-grant"
	IPType    = "ipam.liqo.io/ip-type"
	// IPTypeAPIServer and IPTypeAPIServerProxy are the addresses that belong to the installation.
	IPTypeAPIServer      = "api-server"
	IPTypeAPIServerProxy = "api-server-proxy"
)

// Types of Networks, values of NetworkType.
const (
	NetworkTypePod      = "pod-cidr"
	NetworkTypeService  = "service-cidr"
	NetworkTypeExternal = "external-cidr"
	NetworkTypeInternal = "internal-cidr"
	NetworkTypeReserved = "reserved"
)

// Devices of a network namespace.
const (
	FabricDevice = "liqo.fabric"
	TunnelDevice = "liqo-tunnel"
	// What one of these sends the other one gets: by them nodes probe peers as pods reach them.
	ProbeDevice = "liqo.probe"
	EchoDevice  = "liqo.echo"
)

// Finalizers.
const (
	// NetworkFinalizer keeps a Network until no IP has an address of it.
	NetworkFinalizer          = "network.ipam.liqo.io/finalizer"
	ReplicatorSecretFinalizer = "crdreplicator.liqo.io/operator"
	ReplicatorFinalizer       = "crdreplicator.liqo.io/resource"
	// ReplicatorCopiesIn, an annotation beside ReplicatorSecretFinalizer, is to which namespaces of the peer something was copied, a list with commas.
	ReplicatorCopiesIn = "crdreplicator.liqo.io/copies-in"
	// ResourceSliceFinalizer keeps a slice until the node made for it is drained, because its credentials go with it.
	ResourceSliceFinalizer = "resourceslice.liqo.io/finalizer"
	TenantFinalizer        = "tenant.liqo.io/finalizer"
	// TenantRightsFinalizer keeps the RoleBindings of a tenant namespace until nobody needs the rights to clean up there.
	TenantRightsFinalizer        = "tenantnamespace-controller.liqo.io/finalizer"
	VirtualNodeFinalizer         = "virtualnode-controller.liqo.io/finalizer"
	NamespaceMapFinalizer        = "namespacemap-controller.liqo.io/finalizer"
	NamespaceOffloadingFinalizer = "namespaceoffloading-controller.liqo.io/finalizer"
)

// VirtualNodeTaint keeps pods off virtual nodes; its value is "true" and its effect NoExecute.
const VirtualNodeTaint = "virtual-node.liqo.io/not-allowed"

// WithdrawnTaint keeps new pods off a virtual node with that annotation; its effect is NoSchedule.
const WithdrawnTaint = "virtual-node.liqo.io/withdrawn"

// Names of objects of an installation.
const (
	LiqoNamespace        = "liqo"
	ClusterIDConfigMap   = "liqo-clusterid-configmap"
	ClusterIDKey         = "CLUSTER_ID"
	ClusterIDApp         = "clusterid-configmap" // value of AppName on the ConfigMap
	KeysSecret           = "authentication-keys" // keys privateKey and publicKey, PEM
	PrivateKeyKey        = "privateKey"
	PublicKeyKey         = "publicKey"
	NonceKey             = "nonce"       // of Secrets labelled Nonce or SignedNonce
	SignedNonceKey       = "signedNonce" // of those labelled SignedNonce
	NonceSecret          = "liqo-nonce"  // what commands call them
	SignedNonceSecret    = "liqo-signed-nonce"
	WebhookConfiguration = "liqo-webhook"
	WebhookCertsSecret   = "liqo-webhook-certs"
	ControllerManager    = "liqo-controller-manager"
	CRDReplicator        = "liqo-crd-replicator"
	Fabric               = "liqo-fabric"
	APIServerService     = "kubernetes"         // in the namespace default
	APIServerProxyIP     = "api-server-proxy"   // the IP of the proxy through which peers reach the API server
	ProxyService         = "liqo-proxy"         // the Service of that proxy
	APIServerHost        = "kubernetes.default" // the name of that Service for offloaded pods
	VkOptionsTemplate    = "virtual-kubelet-default"
	RuntimeClass         = "liqo"
	NamespaceOffloading  = "offloading"
	IPAMLease            = "liqo-ipam" // lets one grant through at a time
	StorageClass         = "liqo"
	KubeconfigKey        = "kubeconfig"
	// ControlPlaneCertificate is the Secret with the control-plane certificate of a consumer, in its tenant namespace.
	ControlPlaneCertificate = "liqo-remote-certificate"
	// ControlPlaneGroup is the organisation of control-plane certificates.
	ControlPlaneGroup = "liqo.io"
)

// ClusterRoles: what peers are given, and what our own processes are given namespace by namespace.
const (
	RoleRemoteControlPlane       = "liqo-remote-controlplane"
	RoleVirtualKubeletRemote     = "liqo-virtual-kubelet-remote"
	RoleVirtualKubeletRemoteWide = "liqo-virtual-kubelet-remote-clusterwide"
	RoleVirtualKubeletLocal      = "liqo-virtual-kubelet-local"
	// RoleVirtualKubeletNamespace is bound to a virtual kubelet in each namespace it serves.
	RoleVirtualKubeletNamespace = "liqo-virtual-kubelet-local-namespace"
	// RoleTenantSecrets lets the controller-manager handle Secrets of one tenant namespace.
	RoleTenantSecrets = "liqo-tenant-secrets"
	// RoleTenantReplication lets the replicator handle the replicated kinds of one tenant namespace.
	RoleTenantReplication = "liqo-tenant-replication"
	// RolePeeringUser is what a peering user gets in the tenant namespace of its cluster.
	RolePeeringUser = "liqo-peering-user-tenant-ns"
)

// ComponentPeeringUser is the value of AppComponent on the roles of peering users, and PeeringUsersPolicy holds those to them.
const (
	ComponentPeeringUser = "peering-user"
	PeeringUsersPolicy   = "liqo-peering-users"
)

// VerbReplicate is the virtual verb that only credentials given to peers hold, and VerbOriginate the one that they lack
// while administrators, who hold every verb, have both: replicate without originate tells a peer from everybody else.
const (
	VerbReplicate = "replicate"
	VerbOriginate = "originate"
)

// VerbPeer is to peering users, of Tenants, what VerbReplicate is to peers.
const VerbPeer = "peer"

// Field managers of server-side apply.
const (
	FieldManager           = "liqo"
	ReflectionFieldManager = "reflection.liqo.io"
	ReplicatorFieldManager = "liqo-replicator"
	// CLIFieldManager is that of what commands apply.
	CLIFieldManager       = "liqoctl"
	ShadowPodFieldManager = "shadow-pod"
	// ShadowEndpointSliceFieldManager is that of the EndpointSlices made from ShadowEndpointSlices.
	ShadowEndpointSliceFieldManager = "shadow-endpointslice-controller"
)

// Ports that a process of ours opens.
const (
	WebhookPort = 9443
	HealthPort  = 8081
	MetricsPort = 8082
	KubeletPort = 10250
	ProxyPort   = 8118
)
