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
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
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

// EnsureOption configures Ensure.
type EnsureOption func(*ensureOptions)

// FieldManager sets the field manager. Two callers that own different fields of one object need different names.
func FieldManager(name string) EnsureOption { return func(o *ensureOptions) { o.manager = name } }

// OwnedBy makes owner the controller reference of the applied object.
func OwnedBy(owner client.Object, scheme *runtime.Scheme) EnsureOption {
	return func(o *ensureOptions) { o.owner, o.scheme = owner, scheme }
}

// DecidedOf makes the UID of the object from which the fields were computed a precondition: a deleted object is not
// created again, and an object of another UID is not changed. An empty UID is no precondition.
func DecidedOf(uid types.UID) EnsureOption { return func(o *ensureOptions) { o.of = uid } }

// AsSeen creates an object absent from the cache, instead of applying: an object created meanwhile by another writer is
// not overwritten, because the name may be taken, and the cache may not show the object yet.
func AsSeen() EnsureOption { return func(o *ensureOptions) { o.asSeen = true } }

// Ensure applies want by server-side apply. want, typed or unstructured, contains exactly the fields owned by this field
// manager: a field set by an earlier Ensure and missing in want is removed. Nothing is sent if the object, as read by c,
// has these fields and the hash of the last apply matches. want is not changed. For an object being deleted, Ensure
// returns a Wait.
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
		created, err := application.Make(ctx, c)
		if err == nil && !created {
			err = Wait(conflictDelay, what+" is there already, and not read yet")
		}
		return created, err
	}
	now, err := application.Apply(ctx, c, current)
	return now != nil, err
}

// Owns reports whether obj has an owner reference to owner, alone or among others. The UID is compared, because names
// are reused.
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

// readCurrent returns the current object, or nil. A kind of the scheme is read as its Go type, because caches contain Go
// types.
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

// Application is a set of wanted fields, ready to be compared and applied.
type Application struct {
	gvk     schema.GroupVersionKind
	key     client.ObjectKey
	fields  map[string]any
	manager string
	version string
}

// NewApplication prepares want for a field manager. The hash of all wanted fields is added as an annotation: only the
// hash shows that a field of an earlier apply is no longer wanted.
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

// wantedAnnotations returns the annotations of fields without the hashes of a copied object, and removes these hashes
// from fields.
func wantedAnnotations(fields map[string]any) map[string]any {
	annotations, _, _ := unstructured.NestedMap(fields, "metadata", "annotations")
	maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, names.AppliedHash) })
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(fields, "metadata", "annotations")
		return map[string]any{}
	}
	metadata := fields["metadata"].(map[string]any)
	metadata["annotations"] = annotations
	return maps.Clone(annotations)
}

// hashAnnotation returns the annotation of a field manager's hash: two managers of one object must not overwrite each
// other's hash.
func hashAnnotation(manager string) string {
	if manager == names.FieldManager {
		return names.AppliedHash
	}
	return names.AppliedHash + "." + manager
}

// Applied reports whether current, nil for none, needs no change.
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

// without returns the fields less the labels and annotations that the remote cluster dropped and listed in an
// annotation: sending them again has no effect.
func (a *Application) without(current client.Object) map[string]any {
	note := current.GetAnnotations()[names.DroppedMetadata]
	if note == "" || a.manager != names.ReflectionFieldManager {
		return a.fields
	}
	fields := runtime.DeepCopyJSON(a.fields)
	for _, key := range strings.Split(note, ",") {
		for name, have := range map[string]map[string]string{"labels": current.GetLabels(), "annotations": current.GetAnnotations()} {
			if _, present := have[key]; !present {
				unstructured.RemoveNestedField(fields, "metadata", name, key)
			}
		}
	}
	return fields
}

// At makes resourceVersion a precondition of the apply: a decision based on an older version fails with a conflict.
func (a *Application) At(resourceVersion string) *Application {
	a.version = resourceVersion
	return a
}

// AsMade reports, from the metadata alone, whether current was created with these fields and its spec never changed:
// the hash covers all fields, and a change of the spec would have raised the generation.
func (a *Application) AsMade(current metav1.Object) bool {
	metadata, _ := a.fields["metadata"].(map[string]any)
	return current.GetGeneration() == 1 && hasAll(metadata["labels"], current.GetLabels()) && hasAll(metadata["annotations"], current.GetAnnotations())
}

func hasAll(want any, current map[string]string) bool {
	entries, _ := want.(map[string]any)
	for key, value := range entries {
		if now, ok := current[key]; !ok || now != value {
			return false
		}
	}
	return true
}

// Apply sends the fields unless current, nil for none, already has them. Apply returns the resulting metadata, nil if
// nothing was sent. The UID of current is a precondition: an object recreated under the same name is not changed, and a
// deleted one is not created again; both are conflicts.
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

// disappearedError returns the Wait for an object that was replaced under its name, or whose namespace or kind was
// deleted; the caches will show the cause.
func disappearedError(what string) error { return Wait(conflictDelay, what+" disappeared") }

// isAnothers reports whether the object of this name has another UID than the precondition.
func isAnothers(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// Make creates the object, and returns false if an object of the same name exists, regardless of its creator. Make is one
// request: an apply with an impossible resourceVersion creates, and never changes an existing object.
func (a *Application) Make(ctx context.Context, c client.Client) (created bool, err error) {
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

// asWeSay disables the strict field validation. For this validation, the API server decodes twice to find duplicate fields, and an
// encoder produces none. An apply still rejects fields unknown to the schema.
const asWeSay = client.FieldValidation(metav1.FieldValidationIgnore)

// sendApply applies the fields to the object of that UID, or any object if uid is empty. The response is limited to
// metadata, because no caller needs more.
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

// EnsureRoleBinding applies a RoleBinding as Ensure does. The roleRef is immutable: a binding with another roleRef is
// passed to drop, which deletes the binding, and is created again by the next attempt.
func EnsureRoleBinding(ctx context.Context, c client.Client, want *rbacv1.RoleBinding, drop func(context.Context, *rbacv1.RoleBinding) error) error {
	_, applied := Ensure(ctx, c, want)
	if !apierrors.IsInvalid(applied) {
		return applied
	}
	have := &rbacv1.RoleBinding{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return fmt.Errorf("reading RoleBinding %s/%s: %w", want.Namespace, want.Name, err)
	}
	if have.RoleRef == want.RoleRef {
		return applied
	}
	if err := drop(ctx, have); err != nil {
		return err
	}
	return Wait(conflictDelay, "a binding with another role is being replaced")
}

// nameTakenDelay is the interval at which a name in use by another object is checked.
const nameTakenDelay = 30 * time.Second

// ApplyOwned creates or changes an object controlled by owner. current is the cached object, without a UID for none; live reads the object if
// the cache lags. An existing object not controlled by owner is not changed: the error is Invalid with the reason NameTaken.
func ApplyOwned(ctx context.Context, c client.Client, live client.Reader, owner, want, current client.Object) error {
	if err := controllerutil.SetControllerReference(owner, want, c.Scheme()); err != nil {
		return fmt.Errorf("owning the %T: %w", want, err)
	}
	application, err := NewApplication(want, want.GetObjectKind().GroupVersionKind(), names.FieldManager)
	if err != nil {
		return fmt.Errorf("preparing the %T: %w", want, err)
	}
	if current.GetUID() == "" {
		created, err := application.Make(ctx, c)
		if err != nil || created {
			return err
		}
		// The cache may lag, and has no object whose label is gone.
		if err := live.Get(ctx, client.ObjectKeyFromObject(want), current); err != nil {
			return client.IgnoreNotFound(fmt.Errorf("reading the conflicting %T: %w", want, err))
		}
	}
	if !metav1.IsControlledBy(current, owner) {
		of, err := apiutil.GVKForObject(owner, c.Scheme())
		if err != nil {
			return fmt.Errorf("naming the kind of %T: %w", owner, err)
		}
		return Again(nameTakenDelay, Invalid("NameTaken", fmt.Errorf("%s %s already exists and is not of the %s", want.GetObjectKind().GroupVersionKind().Kind,
			client.ObjectKeyFromObject(want), of.Kind)))
	}
	_, err = application.Apply(ctx, c, current)
	return err
}
