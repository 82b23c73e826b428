// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// renderedStatus is the part of the status that is read from any kind rendered by a template.
type renderedStatus struct {
	SecretRef        *corev1.ObjectReference                    `json:"secretRef"`
	PublicKey        any                                        `json:"publicKey"` // a third-party kind may have another format
	Endpoint         *networkingv1beta1.EndpointStatus          `json:"endpoint"`
	InternalEndpoint *networkingv1beta1.InternalGatewayEndpoint `json:"internalEndpoint"`
	Replicas         []networkingv1beta1.GatewayReplica         `json:"replicas"`
	Conditions       []metav1.Condition                         `json:"conditions"`
}

// asked is the reason of a wait for a gateway whose new spec is not yet processed.
const asked = "the gateway is being changed"

// setOwnerOf copies the state of the rendered object.
func setOwnerOf(gw *gateway, kind schema.GroupVersionKind, child client.Object) error {
	*gw.child = &corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: child.GetNamespace(), Name: child.GetName(), UID: child.GetUID()}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child)
	if err != nil {
		return fmt.Errorf("reading the status of %s: %w", child.GetName(), err)
	}
	var status renderedStatus
	if err := decodeInto(fields["status"], &status); err != nil {
		return kube.Invalid(reasonInvalidTemplate, fmt.Errorf("the status of %s %s cannot be read: %w", kind.Kind, child.GetName(), err))
	}
	*gw.keys, *gw.public, *gw.inner = status.SecretRef, usableKey(status.PublicKey), usableInner(status.InternalEndpoint)
	*gw.replicas = usableReplicas(status.Replicas)
	if gw.endpoint != nil {
		*gw.endpoint = usableEndpoint(status.Endpoint)
	}
	ready := apimeta.FindStatusCondition(status.Conditions, networkingv1beta1.ConditionGatewayReady)
	switch {
	case ready != nil && ready.Status != metav1.ConditionTrue && ready.ObservedGeneration != 0 && ready.ObservedGeneration < child.GetGeneration():
		return kube.Wait(0, asked)
	case ready != nil && ready.Status != metav1.ConditionTrue && ready.Reason != reasonPending:
		return kube.Invalid(ready.Reason, errors.New(ready.Message))
	case ready != nil && ready.Status != metav1.ConditionTrue:
		return kube.Wait(0, ready.Message)
	case ready == nil && specOf(kind) != nil:
		return kube.Wait(0, "the gateway is being created")
	case *gw.inner == nil:
		return kube.Wait(0, "no replica of the gateway is running")
	case gw.endpoint != nil && *gw.endpoint == nil:
		return kube.Wait(0, "the gateway has no address yet")
	}
	return nil
}

// usableEndpoint returns an endpoint with a port, given in either of the two fields.
func usableEndpoint(e *networkingv1beta1.EndpointStatus) *networkingv1beta1.EndpointStatus {
	switch {
	case e == nil || e.Port == 0 && len(e.Ports) == 0:
		return nil
	case e.Port != 0:
		e.Ports = nil
	}
	return e
}

// usableInner is an endpoint with an address.
func usableInner(e *networkingv1beta1.InternalGatewayEndpoint) *networkingv1beta1.InternalGatewayEndpoint {
	if e == nil || e.IP == nil {
		return nil
	}
	if _, err := netip.ParseAddr(e.IP.String()); err != nil {
		return nil
	}
	return e
}

// usableReplicas returns the replicas with an address, as many as a status may have.
func usableReplicas(all []networkingv1beta1.GatewayReplica) []networkingv1beta1.GatewayReplica {
	all = slices.DeleteFunc(all, func(r networkingv1beta1.GatewayReplica) bool {
		_, err := netip.ParseAddr(r.IP.String())
		return err != nil || r.Name == ""
	})
	return all[:min(len(all), maxPublished)]
}

// usableKey is a public key in base64.
func usableKey(encoded any) []byte {
	text, _ := encoded.(string)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != 32 {
		return nil
	}
	return key
}
