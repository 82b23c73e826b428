// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Reasons of the conditions of a slice.
const (
	ReasonAuthenticationAccepted = "ResourceSliceAuthenticationAccepted"
	ReasonAuthenticationDenied   = "ResourceSliceAuthenticationDenied"
	ReasonResourcesAccepted      = "ResourceSliceResourcesAccepted"
	ReasonResourcesDenied        = "ResourceSliceResourcesDenied"
	ReasonDefaultClassDisabled   = "DefaultResourceSliceClassDisabled"
)

// Verdict is one condition of a ResourceSlice, without the time.
type Verdict struct {
	Type            authv1beta1.ResourceSliceConditionType
	Status          authv1beta1.ResourceSliceConditionStatus
	Reason, Message string
}

// AuthenticationAccepted returns the condition of a ResourceSlice with credentials.
func AuthenticationAccepted() Verdict {
	return Verdict{authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionAccepted,
		ReasonAuthenticationAccepted, "ResourceSlice authentication accepted"}
}

// AuthenticationDenied says why the slice gets no credentials.
func AuthenticationDenied(reason string) Verdict {
	return Verdict{authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionDenied,
		ReasonAuthenticationDenied, "ResourceSlice authentication denied: " + reason}
}

// ResourcesAccepted returns the condition of a ResourceSlice with the grant in its status.
func ResourcesAccepted() Verdict {
	return Verdict{authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionAccepted,
		ReasonResourcesAccepted, "ResourceSlice resources accepted"}
}

// ResourcesDenied says why the slice is granted nothing.
func ResourcesDenied(reason string) Verdict {
	return Verdict{authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionDenied,
		ReasonResourcesDenied, "ResourceSlice resources denied: " + reason}
}

// DefaultClassDisabled returns the condition for a provider that grants no ResourceSlices automatically.
func DefaultClassDisabled() Verdict {
	return Verdict{authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionDenied,
		ReasonDefaultClassDisabled, "the default class of ResourceSlices is disabled in this cluster"}
}

// Set writes the condition to the status. The time changes with any other field.
func (v Verdict) Set(status *authv1beta1.ResourceSliceStatus, now time.Time) {
	condition := authv1beta1.ResourceSliceCondition{Type: v.Type, Status: v.Status, Reason: v.Reason, Message: v.Message, LastTransitionTime: metav1.NewTime(now)}
	i := slices.IndexFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == v.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if current := status.Conditions[i]; current.Status != v.Status || current.Reason != v.Reason || current.Message != v.Message {
		status.Conditions[i] = condition
	}
}

// ClearDecision removes a condition to let another controller decide.
func ClearDecision(status *authv1beta1.ResourceSliceStatus, t authv1beta1.ResourceSliceConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == t })
}

// SliceCondition returns the status of a condition of the ResourceSlice, or "" before a decision.
func SliceCondition(slice *authv1beta1.ResourceSlice, t authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for _, c := range slice.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

// IsAccepted reports whether the provider accepted the ResourceSlice in respect of that condition.
func IsAccepted(slice *authv1beta1.ResourceSlice, t authv1beta1.ResourceSliceConditionType) bool {
	return SliceCondition(slice, t) == authv1beta1.ResourceSliceConditionAccepted
}

// IsDenied reports whether the provider denied the ResourceSlice in respect of that condition.
func IsDenied(slice *authv1beta1.ResourceSlice, t authv1beta1.ResourceSliceConditionType) bool {
	return SliceCondition(slice, t) == authv1beta1.ResourceSliceConditionDenied
}

// DenialReason returns the provider's message of the first denied condition, or "".
func DenialReason(slice *authv1beta1.ResourceSlice) string {
	for _, c := range slice.Status.Conditions {
		if c.Status == authv1beta1.ResourceSliceConditionDenied {
			return cmp.Or(c.Message, c.Reason, string(c.Type)+" denied")
		}
	}
	return ""
}
