// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// rejection is a denial with a message for the user; any other error means that the webhook could not decide.
type rejection struct{ error }

func newRefusal(err error) error {
	if err == nil {
		return nil
	}
	return rejection{err}
}

// mutator changes obj in place. old is nil for a create request.
type mutator[T client.Object] interface {
	mutateObject(ctx context.Context, req *admission.Request, old, obj T) error
}

// validator validates obj; the strings are warnings. old is nil for a create request.
type validator[T client.Object] interface {
	validateObject(ctx context.Context, req *admission.Request, old, obj T) ([]string, error)
}

// mutatingHandler returns the admission handler of a mutator. Objects that are being deleted are not changed: removing
// a finalizer must always succeed.
func mutatingHandler[T client.Object](decoder admission.Decoder, m mutator[T]) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		old, obj, err := decodeBoth[T](decoder, &req)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if isDeleting(&req, obj) {
			return admission.Allowed("")
		}
		before, err := json.Marshal(obj)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		if err := m.mutateObject(ctx, &req, old, obj); err != nil {
			return denyResponse(err)
		}
		after, err := json.Marshal(obj)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		// The patch is computed between two encodings of the Go type: fields unknown to the type are never changed.
		return admission.PatchResponseFromRaw(before, after)
	})
}

// validatingHandler returns the admission handler of a validator.
func validatingHandler[T client.Object](decoder admission.Decoder, v validator[T]) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		old, obj, err := decodeBoth[T](decoder, &req)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if isDeleting(&req, obj) {
			return admission.Allowed("")
		}
		warnings, err := v.validateObject(ctx, &req, old, obj)
		if err != nil {
			return denyResponse(err)
		}
		return admission.Allowed("").WithWarnings(warnings...)
	})
}

func decodeBoth[T client.Object](decoder admission.Decoder, req *admission.Request) (old, obj T, err error) {
	if req.Operation == admissionv1.Delete {
		return old, obj, nil
	}
	obj = reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := decoder.DecodeRaw(req.Object, obj); err != nil {
		return old, obj, fmt.Errorf("decoding the object: %w", err)
	}
	if req.Operation != admissionv1.Update {
		return old, obj, nil
	}
	old = reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := decoder.DecodeRaw(req.OldObject, old); err != nil {
		return old, obj, fmt.Errorf("decoding the old object: %w", err)
	}
	return old, obj, nil
}

func isDeleting(req *admission.Request, obj client.Object) bool {
	return req.Operation == admissionv1.Delete || !obj.GetDeletionTimestamp().IsZero()
}

func denyResponse(err error) admission.Response {
	if no, ok := errors.AsType[rejection](err); ok {
		return admission.Denied(no.Error())
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && apierrors.IsTooManyRequests(err) {
		out := admission.Errored(http.StatusTooManyRequests, err)
		out.Result.Reason, out.Result.Details = metav1.StatusReasonTooManyRequests, &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)}
		return out
	}
	return admission.Errored(http.StatusInternalServerError, err)
}
