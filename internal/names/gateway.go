// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

// Labels of gateways. Those of a pod are how Services, nodes and the other replicas find it.
const (
	// GatewayResource is "true" on what gateways exchange: Secrets with their keys, and PublicKeys.
	GatewayResource = "networking.liqo.io/gateway-resource"
	// NetworkingComponent is gateway on all that is made for a gateway.
	NetworkingComponent = "networking.liqo.io/component"
	ComponentGateway    = "gateway"
	// GatewayName and GatewayNamespace say of which gateway something is.
	GatewayName      = "networking.liqo.io/gateway-name"
	GatewayNamespace = "networking.liqo.io/gateway-namespace"
	// GatewayActive is "true" on the replica of a gateway that has the tunnel.
	GatewayActive = "networking.liqo.io/active"
)

// GatewayTold is an annotation of a WgGatewayClient: what its peer said of the server when it was made.
const GatewayTold = "networking.liqo.io/told-endpoint"

// GatewayKeysVolume is the volume of a gateway's pods that holds its keys.
const GatewayKeysVolume = "wireguard-config"

// ClusterRoles of gateways.
const (
	// RoleGateway is bound to a gateway in its own namespace.
	RoleGateway = "liqo-gateway"
	// RoleGatewayReader is what all gateways read in the whole cluster; it is also the name of its binding.
	RoleGatewayReader = "liqo-gateway-reader"
)

// Gateway names the Deployment, the Service, the binding and the key Secret of a gateway.
func Gateway(gateway string) string { return Join("gw", gateway) }

// GatewayReplica names the binding that an earlier version gave to a gateway, to patch pods.
func GatewayReplica(gateway string) string { return Join("gateway-replica", gateway) }

// GatewayKeys names the binding by which the controller-manager handles the key Secret of a gateway.
func GatewayKeys(gateway string) string { return Join("gateway-keys", gateway) }

// GatewayLabel is the value of GatewayName.
func GatewayLabel(gateway string) string { return shorten(gateway, maxLabel) }
