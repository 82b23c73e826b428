// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/rules"
)

// shadowPodCreator writes down who made a ShadowPod. The label never changes, whoever updates the object: it says whose
// budget the pod is on.
type shadowPodCreator struct{}

func (shadowPodCreator) mutate(_ context.Context, req *admission.Request, old, sp *offv1beta1.ShadowPod) error {
	creator := rules.CreatorUser(req.UserInfo.Username)
	if old != nil {
		creator = old.Labels[names.CreatorUser]
	} else if creator == "" {
		return refuse(errors.New("the user who creates the ShadowPod has no name"))
	}
	if creator == "" {
		delete(sp.Labels, names.CreatorUser)
		return nil
	}
	sp.Labels = with(sp.Labels, names.CreatorUser, creator)
	return nil
}

// shadowPods applies the provider's policy.
type shadowPods struct{ reading }

func (s *shadowPods) validate(ctx context.Context, req *admission.Request, old, sp *offv1beta1.ShadowPod) ([]string, error) {
	if old != nil {
		return nil, refuse(rules.CheckShadowPodUpdate(old, sp))
	}
	namespace := &corev1.Namespace{}
	if err := s.get(ctx, client.ObjectKey{Name: req.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	return nil, refuse(rules.CheckShadowPod(sp, rules.Policy{
		Consumer:    namespace.Labels[names.RemoteClusterID],
		PodSecurity: namespace.Labels[rules.PodSecurityLabel],
	}))
}
