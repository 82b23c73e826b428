// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// rendering is the common part of rendering any gateway.
type rendering struct {
	client, live  client.Client
	templates     client.Reader
	liqoNamespace string
	allowed       []string
}

// gateways renders the templates of GatewayServers or GatewayClients, and reports the results.
type gateways[T client.Object] struct {
	rendering
	// template is the watched kind of template; other kinds are polled.
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
	b := c.Builder().WatchesRawSource(source.Kind(templates, of, handler.EnqueueRequestsFromMapFunc(g.requestsForOwner)))
	ofGateway := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), newObject[T](), handler.OnlyControllerOwner())
	b.Watches(&networkingv1beta1.Connection{}, ofGateway, builder.WithPredicates(predicate.Funcs{UpdateFunc: replicasChanged}))
	for _, kind := range kinds {
		b.Watches(objectOf(kind), ofGateway)
	}
	return c.Complete(b)
}

// requestsForOwner wakes the gateways of a template.
func (g *gateways[T]) requestsForOwner(ctx context.Context, t client.Object) []reconcile.Request {
	return requestsOf[T](ctx, g.client, func(obj client.Object) bool {
		ref := g.objectReference(gatewayOf(obj))
		return ref.Name == t.GetName() && ref.Namespace == t.GetNamespace()
	})
}

// replicasChanged reports whether the MTU of a tunnel changed: its latency changes all the time.
func replicasChanged(e event.UpdateEvent) bool {
	old, okOld := e.ObjectOld.(*networkingv1beta1.Connection)
	now, okNow := e.ObjectNew.(*networkingv1beta1.Connection)
	return !okOld || !okNow || old.Status.MTU != now.Status.MTU || !apiequality.Semantic.DeepEqual(old.OwnerReferences, now.OwnerReferences)
}

// setMTU copies the MTU of the tunnel to the gateway's status. Nodes read the MTU there, and need no Connection with its frequent changes.
func (g *gateways[T]) setMTU(ctx context.Context, gw *gateway) error {
	conn := &networkingv1beta1.Connection{}
	err := g.client.Get(ctx, client.ObjectKey{Namespace: gw.GetNamespace(), Name: names.Gateway(gw.GetName())}, conn)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Connection of the gateway: %w", err)
	}
	if *gw.mtu = 0; err == nil && metav1.IsControlledBy(conn, gw.Object) {
		*gw.mtu = conn.Status.MTU
	}
	return nil
}

// objectReference returns the gateway's reference to its template, with defaults set.
func (r rendering) objectReference(g *gateway) corev1.ObjectReference {
	ref := g.templateRef
	ref.Namespace = cmp.Or(ref.Namespace, r.liqoNamespace)
	return ref
}

// Sync renders the template, and copies the state of the rendered object.
func (g *gateways[T]) Sync(ctx context.Context, obj T) error {
	gw := gatewayOf(obj)
	if err := g.setMTU(ctx, gw); err != nil {
		return err
	}
	if err := checkPeer(obj.GetLabels()[names.RemoteClusterID]); err != nil {
		return err
	}
	if gw.dials != nil && len(gw.dials.Addresses) == 0 {
		return kube.Wait(0, "no address of the server is known")
	}
	t, err := g.readTemplate(ctx, gw)
	if err != nil {
		return err
	}
	created, err := g.listRendered(ctx, gw)
	if err != nil {
		return err
	}
	want, err := g.renderGateway(gw, t, created)
	if err != nil {
		return err
	}
	if err := g.pruneOthers(ctx, created, want); err != nil {
		return err
	}
	changed, err := ensureNow(ctx, g.client, g.live, obj, want, kube.DecidedOf(uidAmong(created, want)))
	if err != nil {
		return err
	}
	current := objectOf(want.GetObjectKind().GroupVersionKind())
	if err := g.client.Get(ctx, client.ObjectKeyFromObject(want), current); apierrors.IsNotFound(err) {
		return kube.Wait(0, "the gateway is being created")
	} else if err != nil {
		return fmt.Errorf("reading the rendered object: %w", err)
	}
	err = setOwnerOf(gw, want.GetObjectKind().GroupVersionKind(), current)
	if _, refused := kube.InvalidReason(err); refused && changed {
		err = kube.Wait(0, asked) // the error is about the previous spec
	}
	if missing := checkServed(gw, want); missing != nil {
		return missing // the existing ports are served despite the error
	}
	return err
}

// othersDelay is how often a template is read of whose changes nothing tells.
const othersDelay = time.Minute

// readTemplate reads the template that a gateway names, if permitted.
func (g *gateways[T]) readTemplate(ctx context.Context, gw *gateway) (*networkingv1beta1.GatewayTemplateSpec, error) {
	ref := g.objectReference(gw)
	if ref.Name == "" || ref.Kind == "" || ref.APIVersion == "" {
		return nil, kube.Invalid(reasonTemplateNotFound, fmt.Errorf("%s names no template: it needs apiVersion, kind and name, such as %s", gw.field, g.template.Kind))
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
		missing := kube.Invalid(reasonTemplateNotFound, fmt.Errorf("the template %s %s/%s, which %s names, cannot be read: %w", ref.Kind, ref.Namespace, ref.Name, gw.field, err))
		if kind != g.template {
			return nil, kube.Again(othersDelay, missing)
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
	if err := decodeInto(fields["spec"], out); err != nil {
		return nil, kube.Invalid(reasonInvalidTemplate, fmt.Errorf("the template %s/%s has no spec of a template: %w", ref.Namespace, ref.Name, err))
	}
	return out, nil
}

func decodeInto(fields, into any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// listRendered returns the objects that templates rendered for the gateway.
func (g *gateways[T]) listRendered(ctx context.Context, gw *gateway) ([]client.Object, error) {
	var out []client.Object
	for _, kind := range g.kinds {
		all, err := listOf(ctx, g.client, kind, client.InNamespace(gw.GetNamespace()))
		if err != nil {
			return nil, err
		}
		for _, obj := range all {
			if metav1.IsControlledBy(obj, gw.Object) {
				out = append(out, obj)
			}
		}
	}
	return out, nil
}

// renderGateway fills the template.
func (g *gateways[T]) renderGateway(gw *gateway, t *networkingv1beta1.GatewayTemplateSpec, created []client.Object) (client.Object, error) {
	ref := g.objectReference(gw)
	broken := func(err error) error {
		return kube.Invalid(reasonInvalidTemplate, fmt.Errorf("the template %s/%s: %w", ref.Namespace, ref.Name, err))
	}
	kind := t.ObjectKind.GroupVersionKind()
	if !slices.Contains(g.kinds, kind) {
		return nil, broken(fmt.Errorf("it renders %s of %s, a kind that templates may not render", kind.Kind, kind.GroupVersion()))
	}
	if IsOriginals(*t) {
		return nil, broken(errors.New("it was written for the original's three containers gateway, wireguard and geneve, which are one container in this version: see docs/migration.md"))
	}
	if first := firstTold(created); gw.isFollowing(kind) && first != nil {
		*gw.dials = *first
	}
	rendered, err := Render(*t, TemplateValues{
		Spec: gw.spec, Name: gw.GetName(), Namespace: gw.GetNamespace(), GatewayUID: string(gw.GetUID()),
		ClusterID: gw.GetLabels()[names.RemoteClusterID], SecretName: gw.secretName,
	}, specOf(kind))
	if err != nil {
		return nil, broken(err)
	}
	rendered.SetLabels(mergeMaps(rendered.GetLabels(), map[string]string{names.RemoteClusterID: gw.GetLabels()[names.RemoteClusterID]}))
	if gw.isFollowing(kind) {
		if err := keepTold(rendered, *gw.dials); err != nil {
			return nil, err
		}
	}
	out := objectOf(kind)
	if _, other := out.(*unstructured.Unstructured); other {
		return rendered, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(rendered.Object, out); err != nil {
		return nil, broken(err)
	}
	out.GetObjectKind().SetGroupVersionKind(kind)
	if err := checkReplicas(wireguardOf(out)); err != nil {
		return nil, err
	}
	return out, nil
}

// specOf returns a pointer to the spec of a kind, or nil for an unknown kind.
func specOf(kind schema.GroupVersionKind) any {
	switch kind {
	case kindOf(&networkingv1beta1.WgGatewayServer{}):
		return &networkingv1beta1.WgGatewayServerSpec{}
	case kindOf(&networkingv1beta1.WgGatewayClient{}):
		return &networkingv1beta1.WgGatewayClientSpec{}
	}
	return nil
}

// isWanted reports whether an existing object is the wanted one.
func isWanted(created, want client.Object) bool {
	return kindOf(created) == want.GetObjectKind().GroupVersionKind() && created.GetName() == want.GetName()
}

// uidAmong returns the UID of the wanted object, or "" before its creation.
func uidAmong(created []client.Object, want client.Object) types.UID {
	for _, obj := range created {
		if isWanted(obj, want) {
			return obj.GetUID()
		}
	}
	return ""
}

// pruneOthers deletes objects that an earlier template rendered for the gateway under another name or kind.
func (g *gateways[T]) pruneOthers(ctx context.Context, created []client.Object, want client.Object) error {
	for _, obj := range created {
		if isWanted(obj, want) {
			continue
		}
		if err := kube.DeleteObject(ctx, g.client, obj, "deleting %s %s, which is not rendered any more", kindOf(obj).Kind, obj.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// Next reads a template again of whose changes nothing tells.
func (g *gateways[T]) Next(obj T) time.Duration {
	ref := gatewayOf(obj).templateRef
	if schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind) != g.template {
		return othersDelay
	}
	return 0
}

// Report sets the condition of the gateway and returns its event.
func (g *gateways[T]) Report(obj T, err error) []kube.Event {
	return reportReady(gatewayOf(obj).conditions, obj.GetGeneration(), err)
}

// ReplayEvents replays the event of the condition.
func (g *gateways[T]) ReplayEvents(obj T) []kube.Event {
	return replayReady(*gatewayOf(obj).conditions)
}
