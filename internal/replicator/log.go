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

// The user guide shows these lines and tells to look for them, so their text is fixed: constant messages with key/values
// would read differently. Everything else that this package logs is structured.
//
// The guide asks for the last five lines, and they are these five: what else a start has to say needs -v=1.

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

// logLevel is that of a line, which is always printed if the guide shows it.
func logLevel(shown bool) klog.Level {
	if shown {
		return 0
	}
	return 1
}
