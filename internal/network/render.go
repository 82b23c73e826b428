// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/template"
)

// gateway is what a GatewayServer and a GatewayClient have in common.
type gateway struct {
	client.Object
	// spec points to what templates are filled with.
	spec        any
	templateRef corev1.ObjectReference
	// field is where the template is named.
	field      string
	secretName string

	child      **corev1.ObjectReference
	keys       **corev1.ObjectReference
	endpoint   **networkingv1beta1.EndpointStatus // nil for a client, whose status has that of its server
	inner      **networkingv1beta1.InternalGatewayEndpoint
	conditions *[]metav1.Condition
	// dials are the addresses of the server; nil for a server.
	dials *networkingv1beta1.EndpointStatus
}

func gatewayOf(obj client.Object) *gateway {
	out := &gateway{Object: obj}
	switch o := obj.(type) {
	case *networkingv1beta1.GatewayServer:
		out.spec, out.templateRef, out.field, out.secretName = &o.Spec, o.Spec.ServerTemplateRef, "spec.serverTemplateRef", o.Spec.SecretRef.Name
		out.child, out.keys, out.inner, out.conditions = &o.Status.ServerRef, &o.Status.SecretRef, &o.Status.InternalEndpoint, &o.Status.Conditions
		out.endpoint = &o.Status.Endpoint
	case *networkingv1beta1.GatewayClient:
		spec := o.Spec.DeepCopy()
		spec.Endpoint = dialled(o.Spec.Endpoint, o.Status.Endpoint)
		out.spec, out.templateRef, out.field, out.secretName = spec, o.Spec.ClientTemplateRef, "spec.clientTemplateRef", o.Spec.SecretRef.Name
		out.child, out.keys, out.inner, out.conditions = &o.Status.ClientRef, &o.Status.SecretRef, &o.Status.InternalEndpoint, &o.Status.Conditions
		out.dials = &spec.Endpoint
	}
	return out
}

func kindOf(obj client.Object) schema.GroupVersionKind {
	kind, err := apiutil.GVKForObject(obj, kube.Scheme)
	if err != nil {
		panic(err) // the types of this package are in the scheme
	}
	return kind
}

// rendering is what it takes to render any gateway.
type rendering struct {
	client, live  client.Client
	templates     client.Reader
	liqoNamespace string
	allowed       []string
}

// gateways has the templates of GatewayServers or GatewayClients rendered, and tells what became of it.
type gateways[T client.Object] struct {
	rendering
	// template is the kind of template that is watched; others are read from time to time.
	template schema.GroupVersionKind
	// kinds may be rendered.
	kinds []schema.GroupVersionKind
}

func setupGateways[T client.Object](mgr ctrl.Manager, r rendering, templates cache.Cache, resources []string) error {
	name, usual, of := "gatewayserver", networkingv1beta1.WgGatewayServerResource, client.Object(&networkingv1beta1.WgGatewayServerTemplate{})
	if _, dials := client.Object(newObject[T]()).(*networkingv1beta1.GatewayClient); dials {
		name, usual, of = "gatewayclient", networkingv1beta1.WgGatewayClientResource, &networkingv1beta1.WgGatewayClientTemplate{}
	}
	if len(resources) == 0 {
		resources = []string{networkingv1beta1.GroupVersion.String() + "/" + usual}
	}
	kinds, err := kindsOf(mgr.GetRESTMapper(), resources)
	if err != nil {
		return err
	}
	g := &gateways[T]{rendering: r, template: kindOf(of), kinds: kinds}
	c := kube.NewController[T](mgr, kube.Options{Name: name}, g)
	b := c.Builder().WatchesRawSource(source.Kind(templates, of, handler.EnqueueRequestsFromMapFunc(g.of)))
	for _, kind := range kinds {
		b.Watches(objectOf(kind), handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), newObject[T](), handler.OnlyControllerOwner()))
	}
	return c.Complete(b)
}

// of wakes the gateways of a template.
func (g *gateways[T]) of(ctx context.Context, t client.Object) []reconcile.Request {
	return requestsOf[T](ctx, g.client, func(obj client.Object) bool {
		ref := g.reference(gatewayOf(obj))
		return ref.Name == t.GetName() && ref.Namespace == t.GetNamespace()
	})
}

// reference is what a gateway says about its template, less what it may leave out.
func (r rendering) reference(g *gateway) corev1.ObjectReference {
	ref := g.templateRef
	ref.Namespace = cmp.Or(ref.Namespace, r.liqoNamespace)
	return ref
}

// Sync renders the template, and copies the state of what was rendered.
func (g *gateways[T]) Sync(ctx context.Context, obj T) error {
	w := gatewayOf(obj)
	if err := checkPeer(obj.GetLabels()[names.RemoteClusterID]); err != nil {
		return err
	}
	if w.dials != nil && len(w.dials.Addresses) == 0 {
		return kube.Wait(0, "no address of the server is known")
	}
	t, err := g.readTemplate(ctx, w)
	if err != nil {
		return err
	}
	want, err := g.render(w, t)
	if err != nil {
		return err
	}
	if err := g.prune(ctx, w, want); err != nil {
		return err
	}
	if _, err := kube.Ensure(ctx, g.client, want, kube.OwnedBy(obj, kube.Scheme)); err != nil {
		return refused(err)
	}
	have := objectOf(want.GetObjectKind().GroupVersionKind())
	if err := g.client.Get(ctx, client.ObjectKeyFromObject(want), have); apierrors.IsNotFound(err) {
		return kube.Wait(0, "the gateway is being made")
	} else if err != nil {
		return fmt.Errorf("reading what was rendered: %w", err)
	}
	return adopt(w, want.GetObjectKind().GroupVersionKind(), have)
}

// othersDelay is how often a template is read of whose changes nothing tells.
const othersDelay = time.Minute

// readTemplate reads the template that a gateway names, if it may be used.
func (g *gateways[T]) readTemplate(ctx context.Context, w *gateway) (*networkingv1beta1.GatewayTemplateSpec, error) {
	ref := g.reference(w)
	if ref.Name == "" || ref.Kind == "" || ref.APIVersion == "" {
		return nil, kube.Invalid(reasonTemplateNotFound, fmt.Errorf("%s names no template: it needs apiVersion, kind and name, such as %s", w.field, g.template.Kind))
	}
	if ref.Namespace != g.liqoNamespace && !slices.Contains(g.allowed, ref.Namespace) {
		return nil, kube.Invalid(reasonTemplateNotAllowed, fmt.Errorf("templates of namespace %s may not be used: those of %s may",
			ref.Namespace, strings.Join(append([]string{g.liqoNamespace}, g.allowed...), ", ")))
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	reader, obj := g.templates, objectOf(kind)
	if kind != g.template {
		reader = g.live
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, obj)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err), apierrors.IsForbidden(err):
		missing := kube.Invalid(reasonTemplateNotFound, fmt.Errorf("the template %s %s/%s, which %s names, cannot be read: %w", ref.Kind, ref.Namespace, ref.Name, w.field, err))
		if kind != g.template {
			return nil, again(othersDelay, missing)
		}
		return nil, missing
	case err != nil:
		return nil, fmt.Errorf("reading template %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("reading template %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	out := &networkingv1beta1.GatewayTemplateSpec{}
	if err := decode(fields["spec"], out); err != nil {
		return nil, kube.Invalid(reasonInvalidTemplate, fmt.Errorf("the template %s/%s has no spec of a template: %w", ref.Namespace, ref.Name, err))
	}
	return out, nil
}

func decode(fields, into any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// render fills the template.
func (g *gateways[T]) render(w *gateway, t *networkingv1beta1.GatewayTemplateSpec) (client.Object, error) {
	ref := g.reference(w)
	broken := func(err error) error {
		return kube.Invalid(reasonInvalidTemplate, fmt.Errorf("the template %s/%s: %w", ref.Namespace, ref.Name, err))
	}
	kind := t.ObjectKind.GroupVersionKind()
	if !slices.Contains(g.kinds, kind) {
		return nil, broken(fmt.Errorf("it renders %s of %s, which is not among what templates may render", kind.Kind, kind.GroupVersion()))
	}
	rendered, err := template.Render(*t, template.Gateway{
		Spec: w.spec, Name: w.GetName(), Namespace: w.GetNamespace(), GatewayUID: string(w.GetUID()),
		ClusterID: w.GetLabels()[names.RemoteClusterID], SecretName: w.secretName,
	}, specOf(kind))
	if err != nil {
		return nil, broken(err)
	}
	if template.IsOriginals(rendered) {
		return nil, broken(errors.New("it is made for other images, with a container for each of gateway, wireguard and geneve; here one container does it all: see docs/migration.md"))
	}
	rendered.SetLabels(merged(rendered.GetLabels(), map[string]string{names.RemoteClusterID: w.GetLabels()[names.RemoteClusterID]}))
	out := objectOf(kind)
	if _, other := out.(*unstructured.Unstructured); other {
		return rendered, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(rendered.Object, out); err != nil {
		return nil, broken(err)
	}
	out.GetObjectKind().SetGroupVersionKind(kind)
	return out, nil
}

// specOf points to the spec of a kind, nil if we do not know its fields.
func specOf(kind schema.GroupVersionKind) any {
	switch kind {
	case kindOf(&networkingv1beta1.WgGatewayServer{}):
		return &networkingv1beta1.WgGatewayServerSpec{}
	case kindOf(&networkingv1beta1.WgGatewayClient{}):
		return &networkingv1beta1.WgGatewayClientSpec{}
	}
	return nil
}

// prune deletes what an earlier template rendered for the gateway under another name or kind.
func (g *gateways[T]) prune(ctx context.Context, w *gateway, want client.Object) error {
	for _, kind := range g.kinds {
		all, err := listOf(ctx, g.client, kind, client.InNamespace(w.GetNamespace()))
		if err != nil {
			return err
		}
		for _, obj := range all {
			if !metav1.IsControlledBy(obj, w.Object) || kind == want.GetObjectKind().GroupVersionKind() && obj.GetName() == want.GetName() {
				continue
			}
			uid := obj.GetUID()
			if err := g.client.Delete(ctx, obj, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting %s %s, which is not rendered any more: %w", kind.Kind, obj.GetName(), err)
			}
		}
	}
	return nil
}

// rendered is what the status of any kind that templates render may say.
type renderedStatus struct {
	SecretRef        *corev1.ObjectReference                    `json:"secretRef"`
	Endpoint         *networkingv1beta1.EndpointStatus          `json:"endpoint"`
	InternalEndpoint *networkingv1beta1.InternalGatewayEndpoint `json:"internalEndpoint"`
	Conditions       []metav1.Condition                         `json:"conditions"`
}

// adopt copies the state of what was rendered.
func adopt(w *gateway, kind schema.GroupVersionKind, child client.Object) error {
	*w.child = &corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: child.GetNamespace(), Name: child.GetName(), UID: child.GetUID()}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child)
	if err != nil {
		return fmt.Errorf("reading the status of %s: %w", child.GetName(), err)
	}
	var said renderedStatus
	if err := decode(fields["status"], &said); err != nil {
		return kube.Invalid(reasonInvalidTemplate, fmt.Errorf("the status of %s %s cannot be read: %w", kind.Kind, child.GetName(), err))
	}
	*w.keys, *w.inner = said.SecretRef, usableInner(said.InternalEndpoint)
	if w.endpoint != nil {
		*w.endpoint = usableEndpoint(said.Endpoint)
	}
	ready := apimeta.FindStatusCondition(said.Conditions, networkingv1beta1.ConditionGatewayReady)
	switch {
	case ready != nil && ready.Status != metav1.ConditionTrue && ready.Reason != reasonPending:
		return kube.Invalid(ready.Reason, errors.New(ready.Message))
	case ready != nil && ready.Status != metav1.ConditionTrue:
		return kube.Wait(0, ready.Message)
	case ready == nil && specOf(kind) != nil:
		return kube.Wait(0, "the gateway is being made")
	case *w.inner == nil:
		return kube.Wait(0, "no replica of the gateway is running")
	case w.endpoint != nil && *w.endpoint == nil:
		return kube.Wait(0, "the gateway has no address yet")
	}
	return nil
}

// usableEndpoint is an endpoint with a port, in one of the two ways to say it.
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

// Next reads a template again of whose changes nothing tells.
func (g *gateways[T]) Next(obj T) time.Duration {
	ref := gatewayOf(obj).templateRef
	if schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind) != g.template {
		return othersDelay
	}
	return 0
}

// Report says whether the gateway is there, or why not.
func (g *gateways[T]) Report(obj T, err error) []kube.Event {
	return reportReady(gatewayOf(obj).conditions, obj.GetGeneration(), err)
}

// Recall tells what the condition says.
func (g *gateways[T]) Recall(obj T) []kube.Event { return recallReady(*gatewayOf(obj).conditions) }
