// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/names"
)

type ensureOptions struct {
	manager string
	owner   client.Object
	scheme  *runtime.Scheme
	of      types.UID
	asSeen  bool
}

// EnsureOption changes how Ensure applies.
type EnsureOption func(*ensureOptions)

// FieldManager names the writer. Two pieces of code that own different fields of one object need different names.
func FieldManager(name string) EnsureOption { return func(o *ensureOptions) { o.manager = name } }

// OwnedBy makes owner the controller of the applied object.
func OwnedBy(owner client.Object, scheme *runtime.Scheme) EnsureOption {
	return func(o *ensureOptions) { o.owner, o.scheme = owner, scheme }
}

// DecidedOf says of which object, that of this UID, the fields were decided: one that is gone is not made again with them, nor
// is another changed. An empty UID says nothing.
func DecidedOf(uid types.UID) EnsureOption { return func(o *ensureOptions) { o.of = uid } }

// AsSeen has an object that is not there, as c reads it, be made, and not be written over where somebody made it meanwhile: the name may be
// taken, which the reader has yet to find out.
func AsSeen() EnsureOption { return func(o *ensureOptions) { o.asSeen = true } }

// Ensure makes the object look as want says, by server-side apply. want, typed or unstructured, holds only the fields we
// own, and all of them: what an earlier Ensure of the same field manager set and this one leaves out is removed. Nothing
// is sent when the object, as c reads it, already has these fields and they are what was applied last. want is not
// changed. An object that is being deleted is waited for.
func Ensure(ctx context.Context, c client.Client, want client.Object, opts ...EnsureOption) (changed bool, err error) {
	o := ensureOptions{manager: names.FieldManager}
	for _, opt := range opts {
		opt(&o)
	}
	gvk, err := apiutil.GVKForObject(want, c.Scheme())
	if err != nil {
		return false, fmt.Errorf("finding the kind of %T: %w", want, err)
	}
	what := gvk.Kind + " " + client.ObjectKeyFromObject(want).String()
	if o.owner != nil {
		if want, err = setOwned(want, o); err != nil {
			return false, fmt.Errorf("setting the owner of %s: %w", what, err)
		}
	}
	application, err := NewApplication(want, gvk, o.manager)
	if err != nil {
		return false, fmt.Errorf("preparing %s: %w", what, err)
	}
	current, err := readCurrent(ctx, c, want, gvk)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", what, err)
	}
	if o.of != "" && (current == nil || current.GetUID() != o.of) {
		return false, disappearedError(what)
	}
	if o.asSeen && current == nil {
		made, err := application.Make(ctx, c)
		if err == nil && !made {
			err = Wait(conflictDelay, what+" is there already, and not read yet")
		}
		return made, err
	}
	now, err := application.Apply(ctx, c, current)
	return now != nil, err
}

// Owns tells whether an object goes with that one, with others or alone: names may have been used before.
func Owns(owner, obj client.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() })
}

func setOwned(want client.Object, o ensureOptions) (client.Object, error) {
	want = want.DeepCopyObject().(client.Object)
	if err := controllerutil.SetControllerReference(o.owner, want, o.scheme); err != nil {
		return nil, err
	}
	return want, nil
}

// readCurrent returns the object as it is, nil when there is none. A kind of the scheme is read as its Go type, because
// that is what caches hold.
func readCurrent(ctx context.Context, c client.Client, want client.Object, gvk schema.GroupVersionKind) (client.Object, error) {
	current, err := emptyObject(c.Scheme(), gvk)
	if err != nil {
		return nil, err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), current); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return current, nil
}

func emptyObject(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	if !scheme.Recognizes(gvk) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	obj, ok := typed.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object with metadata", gvk.Kind)
	}
	return obj, nil
}

// Application is one wanted set of fields, ready to be compared and applied.
type Application struct {
	gvk     schema.GroupVersionKind
	key     client.ObjectKey
	fields  map[string]any
	manager string
	version string
}

// NewApplication prepares want for field manager manager. The hash of all wanted fields goes along as an annotation: it
// alone shows that a field we once set is no longer wanted.
func NewApplication(want client.Object, gvk schema.GroupVersionKind, manager string) (*Application, error) {
	fields, err := ToMap(want)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
	annotations := wantedAnnotations(fields)
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the fields: %w", err)
	}
	sum := sha256.Sum256(encoded)
	annotations[hashAnnotation(manager)] = hex.EncodeToString(sum[:8])
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s has no metadata", gvk.Kind)
	}
	metadata["annotations"] = annotations
	return &Application{
		gvk:     gvk,
		key:     client.ObjectKeyFromObject(want),
		fields:  fields,
		manager: manager,
	}, nil
}

// wantedAnnotations takes the annotations out of fields, less hashes that came along with a copied object, and returns
// them; fields keeps the rest of them.
func wantedAnnotations(fields map[string]any) map[string]any {
	kept, _, _ := unstructured.NestedMap(fields, "metadata", "annotations")
	maps.DeleteFunc(kept, func(key string, _ any) bool { return strings.HasPrefix(key, names.AppliedHash) })
	if len(kept) == 0 {
		unstructured.RemoveNestedField(fields, "metadata", "annotations")
		return map[string]any{}
	}
	metadata := fields["metadata"].(map[string]any)
	metadata["annotations"] = kept
	return maps.Clone(kept)
}

// hashAnnotation is one per field manager: two managers of one object must not overwrite each other's.
func hashAnnotation(manager string) string {
	if manager == names.FieldManager {
		return names.AppliedHash
	}
	return names.AppliedHash + "." + manager
}

// Applied tells whether current, nil for none, needs nothing.
func (a *Application) Applied(current client.Object) (bool, error) {
	if current == nil {
		return false, nil
	}
	have, err := ToMap(current)
	if err != nil {
		return false, err
	}
	have["apiVersion"], have["kind"] = a.fields["apiVersion"], a.fields["kind"]
	return SubsetOf(a.without(current), have), nil
}

// without returns the fields less the labels and annotations that the other cluster dropped, as it noted on the object: sending them again
// changes nothing.
func (a *Application) without(current client.Object) map[string]any {
	note := current.GetAnnotations()[names.DroppedMetadata]
	if note == "" || a.manager != names.ReflectionFieldManager {
		return a.fields
	}
	fields := runtime.DeepCopyJSON(a.fields)
	for _, key := range strings.Split(note, ",") {
		for name, have := range map[string]map[string]string{"labels": current.GetLabels(), "annotations": current.GetAnnotations()} {
			if _, there := have[key]; !there {
				unstructured.RemoveNestedField(fields, "metadata", name, key)
			}
		}
	}
	return fields
}

// At has the fields applied to this version of the object only: what was decided on an older one is a conflict.
func (a *Application) At(resourceVersion string) *Application {
	a.version = resourceVersion
	return a
}

// AsMade tells whether current was made with these fields and its spec never changed since, from its metadata alone: the hash
// is of all fields, and whoever changed the spec would have raised the generation.
func (a *Application) AsMade(current metav1.Object) bool {
	metadata, _ := a.fields["metadata"].(map[string]any)
	return current.GetGeneration() == 1 && hasAll(metadata["labels"], current.GetLabels()) && hasAll(metadata["annotations"], current.GetAnnotations())
}

func hasAll(want any, have map[string]string) bool {
	entries, _ := want.(map[string]any)
	for key, value := range entries {
		if now, ok := have[key]; !ok || now != value {
			return false
		}
	}
	return true
}

// Apply sends the fields unless current, nil for none, already has them. It returns the metadata that the object has then,
// nil when nothing was sent. What was decided about current is not applied to another that took its name, nor makes it again: that is a
// conflict.
func (a *Application) Apply(ctx context.Context, c client.Client, current client.Object) (*metav1.PartialObjectMetadata, error) {
	if current != nil && !current.GetDeletionTimestamp().IsZero() {
		return nil, BeingDeleted(a.gvk.Kind, a.key.String())
	}
	applied, err := a.Applied(current)
	if err != nil {
		return nil, fmt.Errorf("comparing %s %s: %w", a.gvk.Kind, a.key, err)
	}
	if applied {
		return nil, nil
	}
	uid := types.UID("")
	if current != nil {
		uid = current.GetUID()
	}
	now, err := a.sendApply(ctx, c, uid)
	if current != nil && (apierrors.IsNotFound(err) || isAnothers(err)) {
		return nil, disappearedError(a.gvk.Kind + " " + a.key.String())
	}
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", a.gvk.Kind, a.key, err)
	}
	return now, nil
}

// disappearedError is about an object whose name another took meanwhile, or whose namespace or kind went; the caches will say which.
func disappearedError(what string) error { return Wait(conflictDelay, what+" disappeared") }

// isAnothers tells whether the object of this name has not the UID that was sent.
func isAnothers(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// Make sends the fields if there is no object of that name yet; false says that there is one, whoever made it. It is one
// request: applying with a version that no object has creates, and never changes what is there.
func (a *Application) Make(ctx context.Context, c client.Client) (made bool, err error) {
	first := *a
	_, err = first.At("1").sendApply(ctx, c, "")
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("making %s %s: %w", a.gvk.Kind, a.key, err)
	}
	return true, nil
}

// asWeSay spares the API server a second decoding that looks for fields named twice: ours come from an encoder. Fields
// that the schema does not know are refused nevertheless.
const asWeSay = client.FieldValidation(metav1.FieldValidationIgnore)

// sendApply applies to the object of that UID, or any where it is empty. It asks for the metadata only, because nobody reads more of the answer.
func (a *Application) sendApply(ctx context.Context, c client.Client, uid types.UID) (*metav1.PartialObjectMetadata, error) {
	metadata := a.fields["metadata"].(map[string]any)
	if a.version != "" {
		metadata["resourceVersion"] = a.version
		defer delete(metadata, "resourceVersion")
	}
	if uid != "" {
		metadata["uid"] = string(uid)
		defer delete(metadata, "uid")
	}
	body, err := json.Marshal(a.fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the fields: %w", err)
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(a.gvk)
	now.Namespace, now.Name = a.key.Namespace, a.key.Name
	err = c.Patch(ctx, now, client.RawPatch(types.ApplyPatchType, body), asWeSay, client.FieldOwner(a.manager), client.ForceOwnership)
	return now, err
}
