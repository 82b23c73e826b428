// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package names holds every externally visible string: labels, annotations, finalizers, ports and object names. They are a contract with
// manifests, scripts and other clusters; a change needs a migration.
package names

// Labels and annotations of peering, identity and replication.
const (
	// RemoteClusterID is the universal look-up key: the ID of the peer concerned by an object.
	RemoteClusterID = "liqo.io/remote-cluster-id"
	// TenantNamespace marks the namespace of one peering; its value is "true".
	TenantNamespace = "liqo.io/tenant-namespace"
	// Replication is "true" on objects to be copied to the peer and "false" on the copy. It is written only for old versions that read it.
	Replication = "liqo.io/replication"
	// ReplicationDestination is the ID of the cluster an object is copied to.
	ReplicationDestination = "liqo.io/remoteID"
	// ReplicationOrigin is the ID of the cluster a copy comes from.
	ReplicationOrigin = "liqo.io/originID"
	// Replicated is "true" on a copy. Admission makes it trustworthy: see docs/permissions.md.
	Replicated = "liqo.io/replicated"
	// IdentityType is ControlPlane or ResourceSlice, on kubeconfig Secrets.
	IdentityType = "liqo.io/identity-type"
	// ResourceSliceName is on the Identity and the VirtualNode of a ResourceSlice.
	ResourceSliceName = "liqo.io/resourceslice-name"
	// Nonce is on the provider's Secret with the nonce for a consumer, SignedNonce on the consumer's Secret with the signed nonce of a
	// provider.
	Nonce       = "liqo.io/nonce"
	SignedNonce = "liqo.io/signed-nonce"
	// ServedNonces is on the Secret with the used nonces of a consumer.
	ServedNonces = "liqo.io/served-nonces"
	// IssuedCertificate is on the Secrets with the certificates issued to peers; its value is "true".
	IssuedCertificate = "liqo.io/issued-certificate"
	// RemoteTenantCSR marks the CertificateSigningRequests made for peers.
	RemoteTenantCSR = "liqo.io/remote-tenant-csr"
	// TenantCertificateFor annotates these requests with the <namespace>/<name> of the Tenant.
	TenantCertificateFor = "liqo.io/tenant-certificate-for"
	// Version annotates the copy of a NamespaceMap with the consumer's version of Liqo.
	Version = "liqo.io/version"
	// Capabilities annotates the copy of a NamespaceMap with the features of the writer's version that matter to a peer, comma-separated.
	Capabilities = "liqo.io/capabilities"
	// FollowedOffer annotates an Identity with the hash of the last adopted offer of the provider, and with the time at which an offer last changed
	// the Identity.
	FollowedOffer = "liqo.io/followed-offer"
	// PeeringUser is on the objects of a peering user: the bindings, and the certificate request.
	PeeringUser = "liqo.io/peering-user-name"
	// CreatorUser is the escaped name of the creator of a ShadowPod.
	CreatorUser = "liqo.io/creator-user"
	// CertificateFor annotates CertificateSigningRequests for peers with the <namespace>/<name> of the ResourceSlice.
	CertificateFor = "liqo.io/certificate-for"
	// Managed is on every object made by a controller, unless the chart says otherwise.
	Managed = "liqo.io/managed"
	// ManagedBy is shadowpod or shadowendpointslice, on objects created for these.
	ManagedBy = "liqo.io/managed-by"
	// ManagedByShadowPod is the value of ManagedBy on pods of consumers.
	ManagedByShadowPod = "shadowpod"

	// RemoteTenantNamespace annotates a control-plane kubeconfig Secret with the tenant namespace at the peer.
	RemoteTenantNamespace = "liqo.io/remote-tenant-namespace"
	// CreateVirtualNode annotates a ResourceSlice: anything but empty and "false" asks for a VirtualNode.
	CreateVirtualNode = "liqo.io/create-virtual-node"
	// Cordon annotates a replicated ResourceSlice that must not start new pods.
	Cordon = "liqo.io/cordon"
	// PermanentlyUnreachable annotates a ForeignCluster that is gone for good.
	PermanentlyUnreachable = "liqo.io/foreign-cluster-permanently-unreachable"
	// Preinstalled annotates objects of the installation.
	Preinstalled = "liqo.io/preinstalled"
	// DroppedMetadata annotates a consumer's object in a provider with the keys of labels and annotations dropped by the provider. Dropped keys are
	// not added again.
	DroppedMetadata = "offloading.liqo.io/dropped-metadata"
	// AppliedHash annotates an object with the hash of its last apply, to skip equal writes.
	AppliedHash = "liqo.io/applied-hash"
)

// Labels and annotations of offloading.
const (
	// KeepOffVirtualNodes is "false" on DaemonSets whose pods are created on virtual nodes although they only tolerate all taints.
	KeepOffVirtualNodes = "liqo.io/keep-off-virtual-nodes"
	// AllowVirtualNodes is "true" on namespaces besides tenant namespaces in which VirtualNodes are allowed.
	AllowVirtualNodes = "liqo.io/allow-virtual-nodes"
	// NodeType is virtual-node on virtual nodes.
	NodeType            = "liqo.io/type"
	NodeTypeVirtualNode = "virtual-node"
	// KubernetesMinor is the minor version of Kubernetes of the oldest node of the provider, on virtual nodes: for example 37.
	KubernetesMinor = "liqo.io/kubernetes-minor"
	// Withdrawn annotates a VirtualNode with the reason why the provider denies the ResourceSlice, or why the versions are incompatible.
	Withdrawn = "liqo.io/withdrawn"
	// AppliedTaints annotates a virtual node with our taints, to remove taints no longer wanted.
	AppliedTaints = "liqo.io/applied-taints"
	// VirtualNode is the VirtualNode's name, on the virtual kubelet's Deployment and pods.
	VirtualNode = "liqo.io/virtual-node"
	// OffloadingComponent is virtual-kubelet on the virtual kubelet's Deployment and pods.
	OffloadingComponent     = "offloading.liqo.io/component"
	ComponentVirtualKubelet = "virtual-kubelet"
	// ServingApproved is the reason of our approvals of serving certificates of virtual kubelets.
	ServingApproved = "VirtualKubeletServing"
	// SchedulingEnabled is "true" on namespaces whose new pods are steered.
	SchedulingEnabled = "liqo.io/scheduling-enabled"
	// ShadowPod is "true" on local pods that run remotely.
	ShadowPod = "liqo.io/shadowPod"
	// PodAccepted is a condition of offloaded pods: False while denied by the provider, absent otherwise.
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
	// OffloadingUID annotates ShadowPods and remote pods with the UID of their local pod.
	OffloadingUID = "offloading.liqo.io/uid"
	// OffloadingLabels and OffloadingAnnotations annotate a remote pod with the labels and annotations of the local pod, in the format of
	// downward API files.
	OffloadingLabels      = "offloading.liqo.io/labels"
	OffloadingAnnotations = "offloading.liqo.io/annotations"
	// RoleTolerations annotates a ShadowPod with tolerations for nodes with a role, in JSON: the pod gets the tolerations if the provider permits
	// them.
	RoleTolerations = "offloading.liqo.io/role-tolerations"
	// APIServerRoute annotates a ShadowPod whose pod reaches the consumer's API server with the route to the API server: see
	// translate.APIServerRoute.
	APIServerRoute = "offloading.liqo.io/api-server"
	// ServiceAccountName labels a Secret with tokens with their service account.
	ServiceAccountName = "offloading.liqo.io/service-account-name"
	// TokenPodName, TokenPodUID and TokenExpiration annotate a Secret with tokens with the pod of the tokens, and the first expiry; TokenRenewal with
	// the time of renewal.
	TokenPodName    = "offloading.liqo.io/service-account-for-pod-name"
	TokenPodUID     = "offloading.liqo.io/service-account-for-pod-uid"
	TokenExpiration = "offloading.liqo.io/service-account-expiration"
	TokenRenewal    = "offloading.liqo.io/service-account-renewal"
	// StorageAvailable is true on virtual nodes whose provider offers storage classes, and false on the rest.
	StorageAvailable = "storage.liqo.io/available"
	// StorageProvisioner labels the namespaces of real claims, and the virtual volumes, with "true".
	StorageProvisioner = "liqo.io/storage-provisioner"
	// VirtualClaimNamespace and VirtualClaimName label a real claim with its virtual claim.
	VirtualClaimNamespace = "storage.liqo.io/virtual-pvc-namespace"
	VirtualClaimName      = "storage.liqo.io/virtual-pvc-name"
	// RemoteClaim annotates a virtual volume with the name of its claim in the provider.
	RemoteClaim = "storage.liqo.io/remote-claim"
	// VirtualVolume annotates a claim in a provider with the consumer's virtual volume. The claim has the data of the volume.
	VirtualVolume = "storage.liqo.io/virtual-pv"
	// ReclaimPolicy annotates the claim behind a virtual volume: with Retain, the claim outlives the volume.
	ReclaimPolicy = "storage.liqo.io/reclaim-policy"
	// MovedClaim labels the objects of a move with the name of the moved claim: the temporary claim with its pods and Secrets, and both volumes while
	// the claims are switched. These volumes are retained, but their data is not to outlive the claims.
	MovedClaim = "storage.liqo.io/moved-claim"
	// ClaimProvisioned is a condition of claims whose data is in a provider: True once the provider had a volume for the claim.
	ClaimProvisioned = "storage.liqo.io/Provisioned"
	// RemoteStorageClass and RemoteAccessModes annotate a claim with its class and access modes in the provider; the class also annotates the virtual
	// volume.
	RemoteStorageClass = "liqo.io/remote-storage-class"
	RemoteAccessModes  = "liqo.io/remote-access-modes"

	// ManagedByNamespaceMap annotates a remote namespace with the <namespace>/<name> of its NamespaceMap.
	ManagedByNamespaceMap = "liqo.io/managed-by-namespace-map"
	// DefaultLimits annotates a remote namespace with the state of its default ResourceQuota and LimitRange.
	DefaultLimits = "liqo.io/default-limits"
	// DefaultLimitsPending and DefaultLimitsCreated are the values of DefaultLimits. Once created, the limits belong to the administrator.
	DefaultLimitsPending = "pending"
	DefaultLimitsCreated = "created"
	// OriginalName annotates a remote namespace with its name in the consumer.
	OriginalName = "liqo.io/original-name"
	// OffloadingPatchHash annotates the virtual kubelet's pod template: a changed patch rolls out the Deployment.
	OffloadingPatchHash = "liqo.io/offloading-patch-hash"
	// EvictMisplacedPods annotates a NamespaceOffloading whose strategy also applies to running pods: true.
	EvictMisplacedPods = "liqo.io/evict-misplaced-pods"
	// ImposedAffinity annotates a pod whose node affinity was extended with the extension as text.
	ImposedAffinity = "liqo.io/imposed-affinity"
	SkipReflection  = "liqo.io/skip-reflection"
	AllowReflection = "liqo.io/allow-reflection"
	// ForceRemoteNodePort annotates a Service with the same node ports in the provider.
	ForceRemoteNodePort = "liqo.io/force-remote-node-port"
	// UseDirectConnections annotates a Service whose pods in two providers reach each other without the consumer: true.
	UseDirectConnections = "liqo.io/use-direct-connections"
	// DirectConnections annotates a ShadowEndpointSlice with the endpoints of clusters that are not the consumer. The annotation is never copied to
	// the EndpointSlice.
	DirectConnections = "liqo.io/direct-connections-data"
	// EndpointSliceManager is the value of the label endpointslice.kubernetes.io/managed-by on reflected slices.
	EndpointSliceManager = "endpointslice.reflection.liqo.io"
	// IPEndpointSliceManager is the value of this label on the slice of the Service of an IP.
	IPEndpointSliceManager = "ip.ipam.liqo.io"
	// GatewayEndpointSliceManager is the value of this label on the slice of the Service of a gateway with several replicas.
	GatewayEndpointSliceManager = "gateway.networking.liqo.io"
	// APIServerSupport annotates a pod: remote or disabled.
	APIServerSupport         = "liqo.io/api-server-support"
	APIServerSupportRemote   = "remote"
	APIServerSupportDisabled = "disabled"
	// TokenAudiences annotates a pod with the audiences, besides the API server, whose tokens are copied to the provider: a comma-separated
	// list, or *.
	TokenAudiences = "liqo.io/token-audiences"
	// DownwardAPINamespace annotates a pod with the metadata.namespace seen through the downward API: remote, the namespace in the provider, or
	// local, the namespace in the consumer.
	DownwardAPINamespace       = "liqo.io/downward-api-namespace"
	DownwardAPINamespaceLocal  = "local"
	DownwardAPINamespaceRemote = "remote"
	// RemoteServiceAccountName annotates a pod with its service account in the provider.
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
	// ManagedByLiqo is the value of AppManagedBy on objects created by our controllers.
	ManagedByLiqo = "liqo"
)

// Labels and annotations of IPAM.
const (
	NetworkType = "ipam.liqo.io/network-type"
	// NetworkNotRemapped on a Network requests exactly the prefix of the spec, NetworkShared a prefix that may overlap with shared prefixes.
	NetworkNotRemapped = "ipam.liqo.io/network-not-remapped"
	NetworkShared      = "ipam.liqo.io/network-shared"
	// PreferredCIDR annotates a Network with the prefix to allocate if free: the prefix of the replaced Network.
	PreferredCIDR = "ipam.liqo.io/preferred-cidr"
	// NetworkNamespace and NetworkName on an IP identify the Network of its address.
	NetworkNamespace = "ipam.liqo.io/network-namespace"
	NetworkName      = "ipam.liqo.io/network-name"
	// CIDRType on a Network created for a Configuration is the kind of the peer's network: pod or external.
	CIDRType         = "configuration.liqo.io/cidr-type"
	CIDRTypePod      = "pod"
	CIDRTypeExternal = "external"
	// LastGrant annotates the Lease IPAMLease with the last allocation.
	LastGrant = "ipam.liqo.io/last-grant"
	IPType    = "ipam.liqo.io/ip-type"
	// IPTypeAPIServer and IPTypeAPIServerProxy are the addresses of the installation.
	IPTypeAPIServer      = "api-server"
	IPTypeAPIServerProxy = "api-server-proxy"
	// IPTypeEndpoint is the address of a pod in one provider for other providers.
	IPTypeEndpoint = "endpoint"
	// AllowedPeers on an IP of type endpoint are the cluster IDs of the peers that may use the IP, separated by commas, at most MaxAllowedPeers.
	AllowedPeers    = "ipam.liqo.io/allowed-peers"
	MaxAllowedPeers = 256
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
	// A veth pair. Nodes probe peers by the pair along the path of pods.
	ProbeDevice = "liqo.probe"
	EchoDevice  = "liqo.echo"
)

// Finalizers.
const (
	// NetworkFinalizer delays the deletion of a Network while an IP has an address of the Network.
	NetworkFinalizer          = "network.ipam.liqo.io/finalizer"
	ReplicatorSecretFinalizer = "crdreplicator.liqo.io/operator"
	ReplicatorFinalizer       = "crdreplicator.liqo.io/resource"
	// ReplicatorCopiesIn, an annotation beside ReplicatorSecretFinalizer, lists the peer's namespaces with copies, comma-separated.
	ReplicatorCopiesIn = "crdreplicator.liqo.io/copies-in"
	// ResourceSliceFinalizer delays the deletion of a ResourceSlice until its virtual node is drained, because the deletion also deletes the
	// credentials of the virtual node.
	ResourceSliceFinalizer = "resourceslice.liqo.io/finalizer"
	TenantFinalizer        = "tenant.liqo.io/finalizer"
	// TenantRightsFinalizer keeps the RoleBindings of a tenant namespace until the clean-up is complete: the clean-up needs their permissions.
	TenantRightsFinalizer        = "tenantnamespace-controller.liqo.io/finalizer"
	VirtualVolumeFinalizer       = "storage.liqo.io/finalizer"
	VirtualNodeFinalizer         = "virtualnode-controller.liqo.io/finalizer"
	NamespaceMapFinalizer        = "namespacemap-controller.liqo.io/finalizer"
	NamespaceOffloadingFinalizer = "namespaceoffloading-controller.liqo.io/finalizer"
)

// VirtualNodeTaint repels pods from virtual nodes; its value is "true" and its effect NoExecute.
const VirtualNodeTaint = "virtual-node.liqo.io/not-allowed"

// WithdrawnTaint repels new pods from a virtual node annotated Withdrawn; its effect is NoSchedule.
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
	SignedNonceKey       = "signedNonce" // of Secrets labelled SignedNonce
	NonceSecret          = "liqo-nonce"  // name in the commands
	SignedNonceSecret    = "liqo-signed-nonce"
	WebhookConfiguration = "liqo-webhook"
	PodWebhook           = "pod.mutate.liqo.io" // steers pods, unless PodPolicy does
	PodPolicy            = "liqo-pods"
	WebhookCertsSecret   = "liqo-webhook-certs"
	ControllerManager    = "liqo-controller-manager"
	CRDReplicator        = "liqo-crd-replicator"
	Fabric               = "liqo-fabric"
	Diagnostics          = "liqo-diagnostics"  // ServiceAccount that may read metrics and NetworkStatePath
	MetricAgent          = "liqo-metric-agent" // Deployment and Service
	// MetricAgentCertsSecret holds the certificate of the metric agent.
	MetricAgentCertsSecret = "liqo-metric-agent-certs"
	// MetricsGroup and MetricsVersion are the aggregated API of the metric agent, and MetricsAPIService is its APIService.
	MetricsGroup        = "metrics.liqo.io"
	MetricsVersion      = "v1beta1"
	MetricsAPIService   = MetricsVersion + "." + MetricsGroup
	APIServerService    = "kubernetes"         // in the namespace default
	APIServerProxyIP    = "api-server-proxy"   // the IP of the proxy between peers and the API server
	ProxyService        = "liqo-proxy"         // the Service of the proxy
	APIServerHost       = "kubernetes.default" // the DNS name of the API server's Service for offloaded pods
	VkOptionsTemplate   = "virtual-kubelet-default"
	RuntimeClass        = "liqo"
	NamespaceOffloading = "offloading"
	IPAMLease           = "liqo-ipam" // Lease that serialises allocations
	StorageClass        = "liqo"
	StorageProvider     = "liqo.io/storage" // the provisioner of the storage class
	StorageNamespace    = "liqo-storage"
	KubeconfigKey       = "kubeconfig"
	// ControlPlaneCertificate is the Secret with the control-plane certificate of a consumer, in the tenant namespace.
	ControlPlaneCertificate = "liqo-remote-certificate"
	// ControlPlaneGroup is the organisation of control-plane certificates.
	ControlPlaneGroup = "liqo.io"
)

// ClusterRoles of peers, and ClusterRoles of our own processes bound per namespace.
const (
	RoleRemoteControlPlane       = "liqo-remote-controlplane"
	RoleVirtualKubeletRemote     = "liqo-virtual-kubelet-remote"
	RoleVirtualKubeletRemoteWide = "liqo-virtual-kubelet-remote-clusterwide"
	RoleVirtualKubeletLocal      = "liqo-virtual-kubelet-local"
	// RoleVirtualKubeletNamespace is bound to a virtual kubelet in each served namespace.
	RoleVirtualKubeletNamespace = "liqo-virtual-kubelet-local-namespace"
	// RoleTenantSecrets lets the controller-manager manage Secrets, Leases and disruption budgets of one tenant namespace.
	RoleTenantSecrets = "liqo-tenant-secrets"
	// RoleTenantReplication lets the replicator manage the replicated kinds in one tenant namespace.
	RoleTenantReplication = "liqo-tenant-replication"
	// RolePeeringUser has the permissions of a peering user in the tenant namespace of the user's cluster.
	RolePeeringUser = "liqo-peering-user-tenant-ns"
)

// ComponentPeeringUser is the value of AppComponent on the roles of peering users, and PeeringUsersPolicy is the admission policy that restricts
// peering users to these roles.
const (
	ComponentPeeringUser = "peering-user"
	PeeringUsersPolicy   = "liqo-peering-users"
)

// VerbReplicate is the virtual verb held only by credentials of peers, and VerbOriginate the virtual verb that peers lack. Administrators hold every
// verb: replicate without originate identifies a peer.
const (
	VerbReplicate = "replicate"
	VerbOriginate = "originate"
)

// VerbPeer identifies peering users on Tenants, as VerbReplicate identifies peers.
const VerbPeer = "peer"

// Field managers of server-side apply.
const (
	FieldManager           = "liqo"
	ReflectionFieldManager = "reflection.liqo.io"
	ReplicatorFieldManager = "liqo-replicator"
	// CLIFieldManager is the field manager of commands.
	CLIFieldManager       = "liqoctl"
	ShadowPodFieldManager = "shadow-pod"
	// ShadowEndpointSliceFieldManager is the field manager of EndpointSlices created from ShadowEndpointSlices.
	ShadowEndpointSliceFieldManager = "shadow-endpointslice-controller"
)

// Metrics of gateways that are read by other programs: the encrypted bytes from the peer, and to the peer, and the lost part of the last probes.
const (
	ReceivedBytesMetric = "liqo_peer_receive_bytes_total"
	SentBytesMetric     = "liqo_peer_transmit_bytes_total"
	ProbeLossMetric     = "liqo_peer_probe_loss_ratio"
)

// NetworkStatePath is where agents of nodes and gateways serve their state in the kernel, beside their metrics.
const NetworkStatePath = "/debug/network"

// ProbePath is the path at which agents of nodes and gateways send probes to their peers on request, and report the answers.
const ProbePath = "/debug/probe"

// Ports opened by our processes.
const (
	WebhookPort = 9443
	HealthPort  = 8081
	MetricsPort = 8082
	KubeletPort = 10250
	ProxyPort   = 8118
	// MetricAgentPort is the port of the aggregated API.
	MetricAgentPort = 8443
)
