// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// services maintains the Service in front of the address of an IP, as its template says, and the EndpointSlice of the Service.
type services struct {
	client client.Client
	// slices reads the EndpointSlices of services, live any object.
	slices, live client.Reader
}

// ofIPs selects the EndpointSlices of services.
var ofIPs = labels.Set{discoveryv1.LabelManagedBy: names.IPEndpointSliceManager}

func newServices(mgr ctrl.Manager) (*services, cache.Cache, error) {
	slices, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(ofIPs)}})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the endpoints of IPs: %w", err)
	}
	return &services{client: mgr.GetClient(), slices: slices, live: mgr.GetAPIReader()}, slices, nil
}

// syncService makes the Service and the EndpointSlice of an IP, or deletes them if the IP has no template.
func (s *services) syncService(ctx context.Context, ip *ipamv1alpha1.IP) error {
	service, slice := &corev1.Service{}, &discoveryv1.EndpointSlice{}
	if err := client.IgnoreNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(ip), service)); err != nil {
		return fmt.Errorf("reading the Service: %w", err)
	}
	if err := client.IgnoreNotFound(s.slices.Get(ctx, client.ObjectKeyFromObject(ip), slice)); err != nil {
		return fmt.Errorf("reading the EndpointSlice: %w", err)
	}
	if ip.Spec.ServiceTemplate == nil {
		for _, obj := range []client.Object{slice, service} {
			if metav1.IsControlledBy(obj, ip) {
				if err := kube.DeleteObject(ctx, s.client, obj, "deleting the %T of an IP without a template", obj); err != nil {
					return err
				}
			}
		}
		return nil
	}
	wantService, wantSlice, err := serviceOf(ip)
	if err != nil {
		return kube.Invalid("InvalidService", err)
	}
	if slice.UID != "" && slice.AddressType != wantSlice.AddressType { // immutable
		return kube.DeleteObject(ctx, s.client, slice, "deleting the EndpointSlice of the IP")
	}
	if err := s.applyObject(ctx, ip, wantService, service); err != nil {
		return err // an EndpointSlice would add the address to the Service of another owner
	}
	return s.applyObject(ctx, ip, wantSlice, slice)
}

// applyObject applies want, unless an object of the same name does not belong to the IP.
func (s *services) applyObject(ctx context.Context, ip *ipamv1alpha1.IP, want, current client.Object) error {
	return refusedService(kube.ApplyOwned(ctx, s.client, s.live, ip, want, current))
}

// refusedService marks errors that only the author of the template can fix.
func refusedService(err error) error {
	if apierrors.IsInvalid(err) {
		return kube.Invalid("InvalidService", err)
	}
	return err
}

// serviceOf returns the Service of an IP with a template, and its EndpointSlice with the address of the IP.
func serviceOf(ip *ipamv1alpha1.IP) (*corev1.Service, *discoveryv1.EndpointSlice, error) {
	addr, err := netip.ParseAddr(string(ip.Spec.IP))
	if err != nil {
		return nil, nil, fmt.Errorf("reading spec.ip: %w", err)
	}
	template := ip.Spec.ServiceTemplate.DeepCopy()
	// The right to write IPs does not include addresses of others.
	if spec := template.Spec; len(spec.Selector) > 0 || len(spec.ExternalIPs) > 0 || spec.Type == corev1.ServiceTypeExternalName {
		return nil, nil, errors.New("the template must have no selector, no externalIPs and no type ExternalName: the address of the IP is its only endpoint")
	}
	meta := metav1.ObjectMeta{Namespace: ip.Namespace, Name: ip.Name, Labels: maps.Clone(template.Metadata.Labels), Annotations: template.Metadata.Annotations}
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	meta.Labels[names.AppManagedBy] = names.ManagedByLiqo
	service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta, Spec: template.Spec}
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ip.Namespace, Name: ip.Name, Labels: map[string]string{
			discoveryv1.LabelServiceName: ip.Name, discoveryv1.LabelManagedBy: names.IPEndpointSliceManager, names.AppManagedBy: names.ManagedByLiqo,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{addr.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	if addr.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal == 0 {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
		target := port.TargetPort.IntVal
		if port.TargetPort.Type == intstr.String {
			target = port.Port // no pod has a port of that name
		}
		endpoint := discoveryv1.EndpointPort{Name: new(port.Name), Port: &target, AppProtocol: port.AppProtocol}
		if port.Protocol != "" {
			endpoint.Protocol = new(port.Protocol)
		}
		slice.Ports = append(slice.Ports, endpoint)
	}
	return service, slice, nil
}
