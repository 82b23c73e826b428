// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// This file has the client of a dry run: the client records writes instead of sending them. The code of a command needs no second version that
// predicts the writes.
//
// The API server validates each write by a server-side dry run, unless the write depends on an earlier write that did not happen: an object in a
// namespace that is only recorded, or with a value assigned by a controller. Later reads return the recorded objects. The results of controllers are
// not known: waits end at once (await.Skipped), and the placeholder Assigned stands for values of controllers.

package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Assigned stands for a value from a controller.
const Assigned = "<assigned by the controller>"

// WriteVerb is the effect of a command on an object.
type WriteVerb string

// The verbs of a Write.
const (
	Create WriteVerb = "create"
	Update WriteVerb = "update"
	Delete WriteVerb = "delete"
	// Keep is the verb of an object that is already as a command wants it.
	Keep WriteVerb = "keep"
)

// RecordedWrite is an object that a command would write.
type RecordedWrite struct {
	Verb WriteVerb
	// Object is the object as the command sends it: of an apply, only the applied fields.
	Object *unstructured.Unstructured
	// Replaces reports that an object of the same name would be deleted before.
	Replaces bool

	now *unstructured.Unstructured // the resulting object, nil if the object would be gone
}

// DryRunClient records writes, and returns the resulting objects to later reads.
type DryRunClient struct {
	client.WithWatch

	mu     sync.Mutex
	writes []*RecordedWrite
}

// NewDryRunClient returns a client that reads by the given client.
func NewDryRunClient(of client.WithWatch) *DryRunClient { return &DryRunClient{WithWatch: of} }

// SkipsWaits marks the client for package await: nothing that the command waits for will happen.
func (c *DryRunClient) SkipsWaits() {}

// Writes returns the recorded writes, one for each object, in the order of the first write.
func (c *DryRunClient) Writes() []*RecordedWrite {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// Keep records an object that is already as the command wants it.
func (c *DryRunClient) Keep(obj client.Object) error {
	sent, w, err := c.prepareWrite(obj)
	if err == nil && w == nil {
		c.recordWrite(&RecordedWrite{Verb: Keep, Object: sent})
	}
	return err
}

// Get returns the object after the recorded writes.
func (c *DryRunClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	w := c.findWrite(kind, key)
	switch {
	case w != nil && w.now != nil:
		return fromUnstructured(w.now, obj)
	case w != nil, c.isVirtual(key.Namespace):
		return notFound(newEmpty(kind, key))
	}
	return c.WithWatch.Get(ctx, key, obj, opts...)
}

// List returns the objects after the recorded writes. The only field selectors are name and namespace.
func (c *DryRunClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.WithWatch.List(ctx, list, opts...); err != nil {
		return err
	}
	kind, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	items, err := apimeta.ExtractList(list)
	if err != nil {
		return err
	}
	items = slices.DeleteFunc(items, func(item runtime.Object) bool {
		key := client.ObjectKeyFromObject(item.(client.Object))
		return c.isVirtual(key.Namespace) || c.findWrite(kind, key) != nil
	})
	o := (&client.ListOptions{}).ApplyOptions(opts)
	for _, w := range c.Writes() {
		if w.now == nil || w.now.GroupVersionKind().GroupKind() != kind.GroupKind() || !matchesOptions(o, w.now) {
			continue
		}
		item, err := c.newItem(list, kind)
		if err == nil {
			err = fromUnstructured(w.now, item)
		}
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return apimeta.SetList(list, items)
}

func matchesOptions(o *client.ListOptions, obj client.Object) bool {
	names := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	return (o.Namespace == "" || o.Namespace == obj.GetNamespace()) &&
		(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels()))) &&
		(o.FieldSelector == nil || o.FieldSelector.Matches(names))
}

// newItem returns an empty object of the type of the items of a list.
func (c *DryRunClient) newItem(list client.ObjectList, kind schema.GroupVersionKind) (client.Object, error) {
	switch list.(type) {
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	case *unstructured.UnstructuredList:
		return &unstructured.Unstructured{}, nil
	}
	item, err := c.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	return item.(client.Object), nil
}

// Create records a new object. A review is sent, since it is no stored object.
func (c *DryRunClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	sent, w, err := c.prepareWrite(obj)
	if err != nil {
		return err
	}
	kind := sent.GroupVersionKind()
	if kind.Group == authorizationv1.GroupName || kind.Group == authenticationv1.GroupName {
		return c.WithWatch.Create(ctx, obj, opts...)
	}
	if w != nil && w.now != nil {
		return apierrors.NewAlreadyExists(resourceOf(kind), obj.GetName())
	}
	return c.writeObject(ctx, &RecordedWrite{Verb: Create, Object: sent, now: sent.DeepCopy()}, w, obj, func(now *unstructured.Unstructured) error {
		return c.WithWatch.Create(ctx, now, append(opts, client.DryRunAll)...)
	})
}

// Update records a changed object.
func (c *DryRunClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	sent, w, err := c.prepareWrite(obj)
	if err != nil {
		return err
	}
	if c.isGone(w, obj) {
		return notFound(sent)
	}
	return c.writeObject(ctx, &RecordedWrite{Verb: Update, Object: sent, now: sent.DeepCopy()}, w, obj, func(now *unstructured.Unstructured) error {
		return c.WithWatch.Update(ctx, now, append(opts, client.DryRunAll)...)
	})
}

// Patch records an object changed by a merge patch or an apply, or a new object of an apply.
func (c *DryRunClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	fields, w, err := c.prepareWrite(obj)
	if err != nil {
		return err
	}
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	before := newEmpty(fields.GroupVersionKind(), client.ObjectKeyFromObject(obj))
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), before); apierrors.IsNotFound(err) && patch.Type() == types.ApplyPatchType {
		before = nil
	} else if err != nil {
		return err
	}
	write := &RecordedWrite{Verb: Update}
	if before == nil {
		write.Verb = Create
	}
	if write.now, err = mergeFields(before, body); err != nil {
		return err
	}
	if write.Object = write.now.DeepCopy(); patch.Type() == types.ApplyPatchType {
		if write.Object, err = mergeFields(nil, body); err != nil {
			return err
		}
	}
	return c.writeObject(ctx, write, w, obj, func(now *unstructured.Unstructured) error {
		return c.WithWatch.Patch(ctx, now, client.RawPatch(patch.Type(), body), append(opts, client.DryRunAll)...)
	})
}

// Apply is Patch for an apply configuration.
func (c *DryRunClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	fields, err := mergeFields(nil, body)
	if err != nil {
		return err
	}
	o := (&client.ApplyOptions{}).ApplyOptions(opts)
	return c.Patch(ctx, fields, client.RawPatch(types.ApplyPatchType, body), &client.PatchOptions{Force: o.Force, FieldManager: o.FieldManager})
}

// Delete records a deletion, or drops the record of a new object. Finalizers do not count. A server-side dry run of a deletion is sent, and not
// recorded.
func (c *DryRunClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if len((&client.DeleteOptions{}).ApplyOptions(opts).DryRun) > 0 {
		return c.WithWatch.Delete(ctx, obj, opts...)
	}
	sent, w, err := c.prepareWrite(obj)
	switch {
	case err != nil:
		return err
	case c.isGone(w, obj):
		return notFound(sent)
	case w != nil && w.isNew():
		c.forgetWrite(w)
		return nil
	case w == nil || w.Verb == Update:
		if err := c.WithWatch.Delete(ctx, obj, append(opts, client.DryRunAll)...); err != nil {
			return err
		}
	}
	c.recordWrite(&RecordedWrite{Verb: Delete, Object: newEmpty(sent.GroupVersionKind(), client.ObjectKeyFromObject(obj))})
	return nil
}

// DeleteAllOf is not supported.
func (c *DryRunClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.New("a dry run cannot delete all objects of a kind at once")
}

// Status sends server-side dry runs, and records nothing: commands write no status.
func (c *DryRunClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource sends server-side dry runs, and records nothing.
func (c *DryRunClient) SubResource(name string) client.SubResourceClient {
	return client.NewDryRunClient(c.WithWatch).SubResource(name)
}

// prepareWrite returns an object in its form for a request, and the earlier write of the object, nil for none.
func (c *DryRunClient) prepareWrite(obj client.Object) (*unstructured.Unstructured, *RecordedWrite, error) {
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return nil, nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	sent := &unstructured.Unstructured{Object: content}
	sent.SetGroupVersionKind(kind)
	return sent, c.findWrite(kind, client.ObjectKeyFromObject(obj)), nil
}

// writeObject validates a write and records it. The API server computes the result of the first write of an object, if possible.
func (c *DryRunClient) writeObject(ctx context.Context, w, earlier *RecordedWrite, obj client.Object, send func(now *unstructured.Unstructured) error) error {
	_, incomplete := RevealAssigned(w.now.Object)
	validates := !incomplete && !c.isVirtual(w.now.GetNamespace())
	var err error
	switch {
	case earlier == nil && validates:
		err = send(w.now)
	case w.Verb == Create:
		w.now.SetUID(uuid.NewUUID())
		w.now.SetGeneration(1)
		w.now.SetCreationTimestamp(metav1.Now())
	default:
		w.now.SetGeneration(w.now.GetGeneration() + 1)
		if validates {
			err = c.validateResult(ctx, earlier, w.now.DeepCopy())
		}
	}
	if err != nil {
		return err
	}
	c.recordWrite(w)
	return fromUnstructured(w.now, obj)
}

// validateResult sends the result of two writes as one write.
func (c *DryRunClient) validateResult(ctx context.Context, earlier *RecordedWrite, now *unstructured.Unstructured) error {
	if !earlier.isNew() {
		return c.WithWatch.Update(ctx, now, client.DryRunAll)
	}
	for _, field := range []string{"uid", "resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(now.Object, "metadata", field)
	}
	return c.WithWatch.Create(ctx, now, client.DryRunAll)
}

// isNew reports whether the cluster has no object of the name.
func (w *RecordedWrite) isNew() bool { return w.Verb == Create && !w.Replaces }

// isGone reports whether an object would be gone, by the recorded write or else with its namespace.
func (c *DryRunClient) isGone(w *RecordedWrite, obj client.Object) bool {
	return w != nil && w.now == nil || w == nil && c.isVirtual(obj.GetNamespace())
}

// isVirtual reports whether a namespace would be created or deleted: the cluster does not have its objects, or would not keep them.
func (c *DryRunClient) isVirtual(namespace string) bool {
	if namespace == "" {
		return false
	}
	w := c.findWrite(schema.GroupVersionKind{Kind: "Namespace"}, client.ObjectKey{Name: namespace})
	return w != nil && w.Verb != Update
}

// findWrite returns the write of an object, nil for none.
func (c *DryRunClient) findWrite(kind schema.GroupVersionKind, key client.ObjectKey) *RecordedWrite {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.writeIndex(kind.GroupKind(), key); n >= 0 && c.writes[n].Verb != Keep {
		return c.writes[n]
	}
	return nil
}

func (c *DryRunClient) writeIndex(kind schema.GroupKind, key client.ObjectKey) int {
	return slices.IndexFunc(c.writes, func(w *RecordedWrite) bool {
		return w.Object.GroupVersionKind().GroupKind() == kind && client.ObjectKeyFromObject(w.Object) == key
	})
}

// recordWrite adds a write, or merges it with the earlier write of the same object.
func (c *DryRunClient) recordWrite(w *RecordedWrite) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.writeIndex(w.Object.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(w.Object))
	if n < 0 {
		c.writes = append(c.writes, w)
		return
	}
	earlier := c.writes[n]
	switch {
	case earlier.Verb == Keep:
	case w.Verb == Create: // after a deletion
		w.Replaces = true
	case w.Verb == Update:
		w.Verb, w.Replaces = earlier.Verb, earlier.Replaces
	}
	c.writes[n] = w
}

func (c *DryRunClient) forgetWrite(w *RecordedWrite) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = slices.DeleteFunc(c.writes, func(one *RecordedWrite) bool { return one == w })
}

func notFound(obj *unstructured.Unstructured) error {
	return apierrors.NewNotFound(resourceOf(obj.GroupVersionKind()), obj.GetName())
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	plural, _ := apimeta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource()
}

func newEmpty(kind schema.GroupVersionKind, key client.ObjectKey) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return obj
}

// mergeFields returns an object, nil for none, with fields merged into it. Lists are replaced.
func mergeFields(obj *unstructured.Unstructured, fields []byte) (*unstructured.Unstructured, error) {
	before := []byte("{}")
	if obj != nil {
		var err error
		if before, err = obj.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	merged, err := jsonpatch.MergePatch(before, fields)
	if err != nil {
		return nil, err
	}
	now := &unstructured.Unstructured{}
	return now, now.UnmarshalJSON(merged)
}

// fromUnstructured copies an object into an object of any type.
func fromUnstructured(from *unstructured.Unstructured, obj client.Object) error {
	if to, ok := obj.(*unstructured.Unstructured); ok {
		to.SetUnstructuredContent(from.DeepCopy().Object)
		return nil
	}
	reflect.ValueOf(obj).Elem().SetZero()
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from.DeepCopy().Object, obj)
}

// encoded is the begin of Assigned in base64, as bytes appear in objects. More bytes may follow.
var encoded = base64.StdEncoding.EncodeToString([]byte(Assigned)[:len(Assigned)/3*3])

// RevealAssigned returns content with Assigned in the place of bytes that begin with Assigned, and reports whether any value of the content is
// Assigned.
func RevealAssigned(content map[string]any) (revealed map[string]any, assigned bool) {
	var walk func(value any) any
	walk = func(value any) any {
		switch value := value.(type) {
		case string:
			if strings.HasPrefix(value, encoded) {
				value = Assigned
			}
			assigned = assigned || strings.Contains(value, Assigned)
			return value
		case map[string]any:
			out := maps.Clone(value)
			for key := range out {
				out[key] = walk(out[key])
			}
			return out
		case []any:
			out := slices.Clone(value)
			for i := range out {
				out[i] = walk(out[i])
			}
			return out
		}
		return value
	}
	return walk(content).(map[string]any), assigned
}
