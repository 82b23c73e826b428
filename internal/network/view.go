// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Servers and clients differ in few fields. Controllers use their common view.

// gateway is the common view of a GatewayServer and a GatewayClient.
type gateway struct {
	client.Object
	// spec points to the values for templates.
	spec        any
	templateRef corev1.ObjectReference
	// field is where the template is named.
	field      string
	secretName string

	child      **corev1.ObjectReference
	keys       **corev1.ObjectReference
	public     *[]byte
	endpoint   **networkingv1beta1.EndpointStatus // nil for a client, whose status has the server's endpoint
	inner      **networkingv1beta1.InternalGatewayEndpoint
	replicas   *[]networkingv1beta1.GatewayReplica
	mtu        *int
	conditions *[]metav1.Condition
	// dials are the addresses of the server; nil for a server. reported means that they were set by the peer, and not set by the user.
	dials    *networkingv1beta1.EndpointStatus
	reported bool
}

func gatewayOf(obj client.Object) *gateway {
	out := &gateway{Object: obj}
	switch o := obj.(type) {
	case *networkingv1beta1.GatewayServer:
		spec := o.Spec.DeepCopy()
		spec.Endpoint.NodePort = firstNodePort(o.Spec.Endpoint)
		out.spec, out.templateRef, out.field, out.secretName = spec, o.Spec.ServerTemplateRef, "spec.serverTemplateRef", o.Spec.SecretRef.Name
		out.child, out.keys, out.inner, out.conditions = &o.Status.ServerRef, &o.Status.SecretRef, &o.Status.InternalEndpoint, &o.Status.Conditions
		out.endpoint, out.mtu, out.public = &o.Status.Endpoint, &o.Status.MTU, &o.Status.PublicKey
		out.replicas = &o.Status.Replicas
	case *networkingv1beta1.GatewayClient:
		spec := o.Spec.DeepCopy()
		spec.Endpoint = dialledEndpoint(o.Spec.Endpoint, o.Status.Endpoint)
		out.spec, out.templateRef, out.field, out.secretName = spec, o.Spec.ClientTemplateRef, "spec.clientTemplateRef", o.Spec.SecretRef.Name
		out.child, out.keys, out.inner, out.conditions = &o.Status.ClientRef, &o.Status.SecretRef, &o.Status.InternalEndpoint, &o.Status.Conditions
		out.dials, out.reported, out.mtu, out.public = &spec.Endpoint, len(o.Spec.Endpoint.Addresses) == 0, &o.Status.MTU, &o.Status.PublicKey
		out.replicas = &o.Status.Replicas
	}
	return out
}

// wireguard is the common view of a WgGatewayServer and a WgGatewayClient.
type wireguard struct {
	client.Object
	// gateway is the name of the GatewayServer or GatewayClient, from which all names derive.
	gateway string
	// peer is the remote cluster.
	peer       string
	secretName string
	deployment *networkingv1beta1.DeploymentTemplate
	// service is nil for a client, which accepts no connections.
	service *networkingv1beta1.ServiceTemplate

	keys       **corev1.ObjectReference
	public     *[]byte
	endpoint   **networkingv1beta1.EndpointStatus // nil for a client
	inner      **networkingv1beta1.InternalGatewayEndpoint
	replicas   *[]networkingv1beta1.GatewayReplica
	conditions *[]metav1.Condition
}

func wireguardOf(obj client.Object) *wireguard {
	out := &wireguard{Object: obj, gateway: obj.GetName(), peer: obj.GetLabels()[names.RemoteClusterID]}
	if owner := metav1.GetControllerOf(obj); owner != nil {
		out.gateway = owner.Name
	}
	switch o := obj.(type) {
	case *networkingv1beta1.WgGatewayServer:
		out.secretName, out.deployment, out.service, out.public = o.Spec.SecretRef.Name, &o.Spec.Deployment, &o.Spec.Service, &o.Status.PublicKey
		out.keys, out.endpoint, out.inner, out.conditions = &o.Status.SecretRef, &o.Status.Endpoint, &o.Status.InternalEndpoint, &o.Status.Conditions
		out.replicas = &o.Status.Replicas
	case *networkingv1beta1.WgGatewayClient:
		out.secretName, out.deployment, out.public = o.Spec.SecretRef.Name, &o.Spec.Deployment, &o.Status.PublicKey
		out.keys, out.inner, out.conditions = &o.Status.SecretRef, &o.Status.InternalEndpoint, &o.Status.Conditions
		out.replicas = &o.Status.Replicas
	}
	return out
}

// gatewayLabels returns the labels of all objects of the gateway.
func (w *wireguard) gatewayLabels() map[string]string {
	return map[string]string{
		names.AppManagedBy: names.ManagedByLiqo, names.NetworkingComponent: names.ComponentGateway, names.RemoteClusterID: w.peer,
		names.GatewayName: names.GatewayLabel(w.gateway), names.GatewayNamespace: w.GetNamespace(),
	}
}

func (w *wireguard) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.GetNamespace(), Name: name, Labels: w.gatewayLabels()}
}

// ownerReference returns a reference to the GatewayServer or GatewayClient, or to the object itself if it has none.
func (w *wireguard) ownerReference() metav1.OwnerReference {
	if owner := metav1.GetControllerOf(w.Object); owner != nil {
		return *owner
	}
	return *metav1.NewControllerRef(w.Object, kindOf(w.Object))
}

// serviceAccountName returns the ServiceAccount of the gateway's pods. The original's templates use the name of the gateway. serviceAccountName adds
// the prefix of all objects of a gateway: gateways and virtual nodes have the name of their peer, and the account of a virtual kubelet has the name
// of its virtual node. Without the prefix the names would clash.
func (w *wireguard) serviceAccountName() string {
	if name := w.deployment.Spec.Template.Spec.ServiceAccountName; name != w.gateway && name != w.GetName() && name != "" {
		return name
	}
	return names.Gateway(w.gateway)
}

func kindOf(obj client.Object) schema.GroupVersionKind {
	kind, err := apiutil.GVKForObject(obj, kube.Scheme)
	if err != nil {
		panic(err) // the types of this package are in the scheme
	}
	return kind
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}
