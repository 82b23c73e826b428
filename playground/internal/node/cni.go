// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"

	"liqo.io/liqo/playground/internal/spec"
)

// CNIConfig returns the CNI configuration of a node: a veth per pod, with addresses of the node's pod network.
func CNIConfig(c spec.Cluster, n spec.Node) (string, error) {
	type object = map[string]any
	ranges, routes := [][]object{}, []object{}
	for _, p := range n.PodCIDRs {
		ranges = append(ranges, []object{{"subnet": p.String()}})
		if p.Addr().Is4() {
			routes = append(routes, object{"dst": "0.0.0.0/0"})
		} else {
			routes = append(routes, object{"dst": "::/0"})
		}
	}
	mtu := 1500
	if c.CNI == spec.Overlay {
		mtu = overlayMTU(c)
	}
	data, err := json.MarshalIndent(object{
		"cniVersion": "0.4.0",
		"name":       "playground",
		"plugins": []object{
			{"type": "ptp", "mtu": mtu, "ipMasq": false, "ipam": object{"type": "host-local", "ranges": ranges, "routes": routes}},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("rendering the CNI configuration of %s: %w", n.Name, err)
	}
	return string(data) + "\n", nil
}
