// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// The user guide shows these lines to readers, and their text is fixed: constant messages with key/values would read
// differently. All other logs of this package are structured.
//
// The guide asks for the last five lines, and exactly these are printed: all other logs of the start need -v=1.

func logProcessing(secret types.NamespacedName) {
	klog.Infof("Processing Secret %q", secret)
}

func logStartingPeer(peer liqov1beta1.ClusterID) {
	klog.Infof("[%v] Starting reflection towards remote cluster", peer)
}

func logStarting(peer liqov1beta1.ClusterID, gvr schema.GroupVersionResource) {
	klog.V(logLevel(gvr.Resource != authv1beta1.RenewResource)).Infof("[%v] Starting reflection of %v", peer, gvr)
}

func logStarted(peer liqov1beta1.ClusterID, gvr schema.GroupVersionResource) {
	klog.V(logLevel(gvr.Resource == authv1beta1.ResourceSliceResource)).Infof("[%v] Reflection of %v correctly started", peer, gvr)
}

// logLevel returns the level of a line. A line in the guide is always printed.
func logLevel(shown bool) klog.Level {
	if shown {
		return 0
	}
	return 1
}
