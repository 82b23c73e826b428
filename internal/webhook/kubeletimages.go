// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// kubeletImages denies VirtualNodes whose virtual kubelet would run an image that is not allowed, before the next
// handler runs. The controller checks the same rule again.
type kubeletImages struct {
	cachedReader
	next admission.Handler
	// options is the name of the installation's VkOptionsTemplate.
	options types.NamespacedName
	// allowed lists the images that an administrator permits.
	allowed []string
}

// imageSpec contains the fields of a VirtualNode that select the image. No other field is decoded: the schema of the CRD
// bounds fields that are slow to parse, but is checked after this webhook.
type imageSpec struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		VkOptionsTemplateRef *struct{ Namespace, Name string } `json:"vkOptionsTemplateRef"`
		Template             struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Image string   `json:"image"`
							Args  []string `json:"args"`
						} `json:"containers"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// image returns the image that a user set, "" for none. The image of a Deployment rendered by the original Liqo is
// ignored.
func (s *imageSpec) image() string {
	containers := s.Spec.Template.Spec.Template.Spec.Containers
	if len(containers) == 0 || slices.ContainsFunc(containers[0].Args, func(arg string) bool {
		return arg == "--foreign-cluster-id" || strings.HasPrefix(arg, "--foreign-cluster-id=")
	}) {
		return ""
	}
	return containers[0].Image
}

// Handle checks only a new image: an object with an existing one must remain updatable and deletable.
func (k *kubeletImages) Handle(ctx context.Context, req admission.Request) admission.Response {
	var now, old imageSpec
	if err := json.Unmarshal(req.Object.Raw, &now); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the VirtualNode: %w", err))
	}
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old VirtualNode: %w", err))
		}
	}
	if isNew := req.Operation == admissionv1.Create || now.image() != old.image(); isNew && now.Metadata.DeletionTimestamp.IsZero() {
		if err := k.check(ctx, &now, req.Namespace); err != nil {
			return denyResponse(err)
		}
	}
	return k.next.Handle(ctx, req)
}

// check compares the image with the image of the options, if the options are in the namespace of the installation.
// Options in another namespace belong to a user.
func (k *kubeletImages) check(ctx context.Context, of *imageSpec, namespace string) error {
	key, image := k.options, of.image()
	if ref := of.Spec.VkOptionsTemplateRef; ref != nil {
		key = types.NamespacedName{Namespace: valueOr(ref.Namespace, namespace), Name: ref.Name}
	}
	if key.Namespace != k.options.Namespace {
		own, err := k.imageOf(ctx, key)
		if err != nil {
			return err
		}
		key, image = k.options, valueOr(image, own)
	}
	if image == "" {
		return nil
	}
	ours, err := k.imageOf(ctx, key)
	if err != nil {
		return err
	}
	return newRefusal(policy.CheckVirtualKubeletImage(image, []string{ours}, k.allowed))
}

// imageOf returns the image of options, "" if the options do not exist: another handler reports that.
func (k *kubeletImages) imageOf(ctx context.Context, key types.NamespacedName) (string, error) {
	options := &offv1beta1.VkOptionsTemplate{}
	if err := k.getObject(ctx, key, options); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading VkOptionsTemplate %q: %w", key, err)
	}
	return options.Spec.ContainerImage, nil
}
