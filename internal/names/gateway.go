// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

// Labels of gateways. Services, nodes and other replicas find a pod by its labels.
const (
	// GatewayResource is "true" on objects exchanged by gateways: Secrets with their keys, and PublicKeys.
	GatewayResource = "networking.liqo.io/gateway-resource"
	// NetworkingComponent is gateway on all objects created for a gateway.
	NetworkingComponent = "networking.liqo.io/component"
	ComponentGateway    = "gateway"
	// GatewayName and GatewayNamespace identify the gateway of an object.
	GatewayName      = "networking.liqo.io/gateway-name"
	GatewayNamespace = "networking.liqo.io/gateway-namespace"
	// GatewayActive is "true" on the active replica of a gateway.
	GatewayActive = "networking.liqo.io/active"
)

// GatewayStandbys is an annotation of the Lease of a gateway: the replicas that may take the Lease while the holder runs, separated by commas.
const GatewayStandbys = "networking.liqo.io/standbys"

// GatewayTold is an annotation of a WgGatewayClient: the server's endpoint as reported by the peer at its creation.
const GatewayTold = "networking.liqo.io/told-endpoint"

// GatewayKeysVolume is the volume with the keys in a gateway's pods.
const GatewayKeysVolume = "wireguard-config"

// ClusterRoles of gateways.
const (
	// RoleGateway is bound to a gateway in its own namespace.
	RoleGateway = "liqo-gateway"
	// RoleGatewayReader has the cluster-wide read permissions of all gateways, and is also the name of the binding.
	RoleGatewayReader = "liqo-gateway-reader"
)

// Gateway names the Deployment, the Service, the binding, the key Secret and the Lease of a gateway.
func Gateway(gateway string) string { return Join("gw", gateway) }

// GatewayReplica names a binding created by an earlier version, for patching pods.
func GatewayReplica(gateway string) string { return Join("gateway-replica", gateway) }

// GatewayLease names the Role for the Lease of a gateway with several replicas, and the binding of the Role.
func GatewayLease(gateway string) string { return Join("gateway-lease", gateway) }

// GatewayKeys names the binding that lets the controller-manager manage the key Secret of a gateway.
func GatewayKeys(gateway string) string { return Join("gateway-keys", gateway) }

// GatewayLabel returns the value of GatewayName.
func GatewayLabel(gateway string) string { return shorten(gateway, maxLabel) }
