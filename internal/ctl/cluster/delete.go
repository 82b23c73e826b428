// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ItemsOf returns the items of a list.
func ItemsOf(list client.ObjectList) (all []client.Object) {
	_ = apimeta.EachListItem(list, func(obj runtime.Object) error {
		all = append(all, obj.(client.Object))
		return nil
	})
	return all
}
