// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// Reasons of the condition Ready of gateways, and of their events.
const (
	reasonReady   = "Ready"
	reasonPending = "Pending"

	reasonInvalidPeer        = "InvalidRemoteClusterID"
	reasonTemplateNotFound   = "TemplateNotFound"
	reasonTemplateNotAllowed = "TemplateNotAllowed"
	reasonInvalidTemplate    = "InvalidTemplate"
	reasonInvalidKeys        = "InvalidKeys"
	reasonInvalidService     = "InvalidService"
	reasonRefused            = "RefusedByAPIServer"
	reasonTaken              = "NameTaken"
	reasonReplicas           = "ReplicasNotSupported"
)

// reportReady sets the condition of a gateway and returns its event. An internal error leaves the condition unchanged, because the error is retried.
func reportReady(conditions *[]metav1.Condition, generation int64, err error) []kube.Event {
	c := metav1.Condition{Type: networkingv1beta1.ConditionGatewayReady, ObservedGeneration: generation}
	err = offendingObject(kube.Problem(err))
	waitsFor, _, waits := kube.WaitReason(err)
	if reason, ok := kube.InvalidReason(err); ok {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, kube.Note(err.Error())
	} else if waits {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonPending, waitsFor
	} else if err == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonReady, "the gateway runs and can be reached"
	} else {
		return replayReady(*conditions)
	}
	apimeta.SetStatusCondition(conditions, c)
	return replayReady(*conditions)
}

// replayReady returns the event of a condition. A wait has no event.
func replayReady(conditions []metav1.Condition) []kube.Event {
	c := apimeta.FindStatusCondition(conditions, networkingv1beta1.ConditionGatewayReady)
	switch {
	case c == nil || c.Reason == reasonPending:
		return nil
	case c.Status == metav1.ConditionTrue:
		return []kube.Event{{Type: corev1.EventTypeNormal, Reason: c.Reason, Message: c.Message}}
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: c.Message}}
}

// offendingObject returns, of several errors, the error that only the user can fix.
func offendingObject(err error) error {
	for {
		several, ok := err.(interface{ Unwrap() []error })
		if !ok {
			return err
		}
		i := slices.IndexFunc(several.Unwrap(), func(e error) bool {
			_, invalid := kube.InvalidReason(e)
			return invalid
		})
		if i < 0 {
			return err
		}
		err = several.Unwrap()[i]
	}
}
