// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// shadowPodCreator labels a ShadowPod with its creator. The label is immutable, also in updates by other users: the label selects
// the pod's Quota. Only the metadata is decoded: the schema of the CRD bounds fields that are slow to parse, but is checked after
// this webhook.
type shadowPodCreator struct{}

func (shadowPodCreator) mutateObject(_ context.Context, req *admission.Request, old, sp *metav1.PartialObjectMetadata) error {
	creator := policy.CreatorUser(req.UserInfo.Username)
	if old != nil {
		creator = old.Labels[names.CreatorUser]
	} else if creator == "" {
		return newRefusal(errors.New("the creator of the ShadowPod has no user name"))
	}
	if creator == "" {
		delete(sp.Labels, names.CreatorUser)
		return nil
	}
	if sp.Labels == nil {
		sp.Labels = map[string]string{}
	}
	sp.Labels[names.CreatorUser] = creator
	return nil
}

// shadowPodValidator enforces the provider's policy, and denies pods that exceed the whole Quota of the user. The remaining quota is
// checked by quotaCache.Reserve in package provider: replicas with concurrent admissions would count differently.
type shadowPodValidator struct {
	cachedReader
	enforce bool
	allowed policy.RemotePods
	limits  *limits
}

func (s *shadowPodValidator) validateObject(ctx context.Context, req *admission.Request, old, sp *offv1beta1.ShadowPod) ([]string, error) {
	if err := policy.CheckAmounts(&sp.Spec.Pod); err != nil {
		return nil, newRefusal(err)
	}
	if old != nil {
		grows := policy.FindShortages(policy.PodRequests(&sp.Spec.Pod), nil, policy.PodRequests(&old.Spec.Pod)) != nil
		if err := policy.CheckShadowPodUpdate(old, sp, s.allowed); err != nil || !grows {
			return nil, newRefusal(err)
		}
	}
	if old == nil {
		if err := policy.CheckShadowPodItself(sp); err != nil { // first, because this check needs no reads
			return nil, newRefusal(err)
		}
		if creator := policy.CreatorUser(req.UserInfo.Username); s.enforce && (creator == "" || sp.Labels[names.CreatorUser] != creator) {
			return nil, newRefusal(errors.New("the user of the request did not create the object"))
		}
	}
	if err := s.limits.check(ctx, req); err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{}
	if err := s.getObject(ctx, client.ObjectKey{Name: req.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	consumer := namespace.Labels[names.RemoteClusterID]
	if old == nil { // an existing pod was admitted, and may grow even if the policy became stricter
		allowed := policy.Policy{Consumer: consumer, PodSecurity: namespace.Labels[policy.PodSecurityLabel], Pods: s.allowed}
		if err := policy.CheckShadowPod(sp, allowed); err != nil {
			return nil, newRefusal(err)
		}
	}
	if !s.enforce {
		return nil, nil
	}
	creator := sp.Labels[names.CreatorUser] // may differ from the user of the update
	budget, err := s.readQuota(ctx, liqov1beta1.ClusterID(consumer), creator)
	if err != nil {
		return nil, err
	}
	if budget == nil {
		return nil, newRefusal(fmt.Errorf("failed getting quota: user %q has none for cluster %q", creator, consumer))
	}
	if old != nil {
		budget.Cordoned = nil // cordoning affects new pods only
	}
	return nil, newRefusal(withoutBudget(policy.CheckQuota(budget, &sp.Spec.Pod, nil)))
}

// withoutBudget returns the error without the amounts of the Quota; the ResourceSlice shows them to its owner. Any
// client with access to the port could otherwise read the quotas of other consumers. Such a client can still try which
// amounts fit: the API server does not authenticate to webhooks by default.
func withoutBudget(err error) error {
	short, ok := errors.AsType[policy.Shortages](err)
	if !ok {
		return err
	}
	parts := make([]string, len(short))
	for i, s := range short {
		if parts[i] = s.String(); !s.Unlisted {
			parts[i] = fmt.Sprintf("peering %s quota usage exceeded - requested %s, more than was granted", s.Resource, s.Need.String())
		}
	}
	return errors.New(strings.Join(parts, "; "))
}

// readQuota returns the Quota of a user from the consumer's own tenant namespace, or nil. No consumer can shadow the
// Quota of another consumer.
func (s *shadowPodValidator) readQuota(ctx context.Context, consumer liqov1beta1.ClusterID, creator string) (*offv1beta1.QuotaSpec, error) {
	for _, reader := range []client.Reader{s.cached, s.live} {
		tenant, err := peer.TenantNamespace(ctx, reader, consumer)
		if errors.Is(err, peer.ErrNotFound) {
			continue
		}
		if errors.Is(err, peer.ErrAmbiguous) {
			return nil, newRefusal(fmt.Errorf("failed getting quota: %w; which of them counts is for the provider's administrator to decide, who deletes the others or takes the label %s off them",
				err, names.TenantNamespace))
		}
		if err != nil {
			return nil, fmt.Errorf("looking for the quota: %w", err)
		}
		quotas := &offv1beta1.QuotaList{}
		if err := reader.List(ctx, quotas, client.InNamespace(tenant)); err != nil {
			return nil, fmt.Errorf("listing quotas: %w", err)
		}
		for i := range quotas.Items {
			if q := &quotas.Items[i]; policy.CreatorUser(q.Spec.User) == creator && q.DeletionTimestamp.IsZero() {
				return &q.Spec, nil
			}
		}
	}
	return nil, nil
}
