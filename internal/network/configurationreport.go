// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/policy"
)

// waitingPatience is how long the networks of a peer lack local prefixes before an event tells.
const waitingPatience = 30 * time.Second

// Report sets the condition and emits whether all networks of the peer have a local prefix, or what is
// missing.
func (s *configurations) Report(cfg *networkingv1beta1.Configuration, err error) []kube.Event {
	c := metav1.Condition{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse, ObservedGeneration: cfg.Generation}
	if reason, ok := kube.InvalidReason(err); ok {
		c.Reason, c.Message = reason, offendingObject(err).Error()
	} else if waiting, _, ok := kube.WaitReason(err); ok {
		c.Reason, c.Message = ReasonWaiting, waiting
	} else if err != nil {
		return s.ReplayEvents(cfg)
	} else {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonConfigured, "every network of the peer has a local prefix"
	}
	if was := apimeta.FindStatusCondition(cfg.Status.Conditions, c.Type); was != nil && was.Reason != c.Reason {
		was.LastTransitionTime = metav1.Now() // waitedSince is since the reason, not the status
	}
	apimeta.SetStatusCondition(&cfg.Status.Conditions, c)
	return s.ReplayEvents(cfg)
}

// ReplayEvents replays the event of the condition, except for a short wait, and tells of networks of the peer that are none of the
// Configuration.
func (s *configurations) ReplayEvents(cfg *networkingv1beta1.Configuration) []kube.Event {
	return append(conditionEvents(cfg), differingEvents(cfg)...)
}

// differingEvents returns a warning if the networks reported by the peer differ from the networks written by the author of a Configuration.
func differingEvents(cfg *networkingv1beta1.Configuration) []kube.Event {
	reported := policy.PeerNetworks(cfg.Status.ReportedRemote)
	if reported == nil || policy.SameNetworks(cfg.Spec.Remote, *reported) {
		return nil
	}
	if _, follows := policy.NextNetworks(cfg.Spec.Remote, reported, cfg.Status.AgreedRemote); follows {
		return nil
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: ReasonDiffers, Message: fmt.Sprintf(
		"the peer reports the pod networks %v and the external networks %v: what spec.remote lacks is not reachable", reported.CIDR.Pod, reported.CIDR.External)}}
}

func conditionEvents(cfg *networkingv1beta1.Configuration) []kube.Event {
	c := apimeta.FindStatusCondition(cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
	if c == nil || c.Reason == ReasonWaiting && waitedSince(cfg) < waitingPatience {
		return nil
	}
	if c.Status == metav1.ConditionTrue {
		return []kube.Event{{Type: corev1.EventTypeNormal, Reason: c.Reason, Message: c.Message}}
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: c.Message}}
}

// waitedSince returns how long networks have been without local prefixes.
func waitedSince(cfg *networkingv1beta1.Configuration) time.Duration {
	c := apimeta.FindStatusCondition(cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason != ReasonWaiting {
		return 0
	}
	return time.Since(c.LastTransitionTime.Time)
}
