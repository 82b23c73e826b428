// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Templates that are part of Liqo, as group/version/plural.
var (
	ServerTemplates = networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayServerTemplateResource
	ClientTemplates = networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayClientTemplateResource
)
