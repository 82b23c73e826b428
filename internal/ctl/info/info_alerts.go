// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// Alerts about an installation beyond its pods: CRDs, the webhook, networks and the certificates from peers.

// collectAlerts collects all alerts. Unreadable objects cause no alert.
func (f *Collector) collectAlerts(ctx context.Context, now time.Time) (all []diagnose.Finding, problems []error) {
	for _, look := range []func(context.Context) ([]diagnose.Finding, error){
		f.FindCRDs,
		f.FindWebhooks,
		f.FindNetworks,
		f.FindOrphans,
		func(ctx context.Context) ([]diagnose.Finding, error) { return f.FindCertificates(ctx, now) },
	} {
		found, err := look(ctx)
		if err != nil {
			problems = append(problems, err)
		}
		all = append(all, found...)
	}
	return all, problems
}

// collectHealed returns the failures of peerings that are over, the newest last.
func (f *Collector) collectHealed(ctx context.Context) ([]string, error) {
	var events corev1.EventList // events of objects without a namespace are in the default namespace
	if err := f.List(ctx, &events, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.kind": "ForeignCluster", "reason": peer.ReasonHealed}); err != nil {
		return nil, fmt.Errorf("looking at the events of ForeignClusters: %w", err)
	}
	since := func(e corev1.Event) time.Time {
		times := []time.Time{e.EventTime.Time, e.LastTimestamp.Time}
		if e.Series != nil {
			times = append(times, e.Series.LastObservedTime.Time)
		}
		return slices.MaxFunc(times, time.Time.Compare).UTC()
	}
	slices.SortFunc(events.Items, func(a, b corev1.Event) int { return since(a).Compare(since(b)) })
	var all []string
	for _, e := range events.Items {
		all = append(all, fmt.Sprintf("%s: %s (%s)", e.InvolvedObject.Name, diagnose.ForeignText(e.Message), since(e).Format(time.RFC3339)))
	}
	return all[max(0, len(all)-maxHealed):], nil
}

// maxHealed is the number of printed healed failures.
const maxHealed = 20

// FindCRDs compares the cluster's CRDs with the chart's.
func (f *Collector) FindCRDs(ctx context.Context) ([]diagnose.Finding, error) {
	crds, err := install.CRDs(f.Chart)
	if err != nil {
		return nil, err
	}
	return f.compareCRDs(ctx, crds)
}

// compareCRDs compares the cluster's CRDs with this program's. CRDs of an installation of another version may differ.
func (f *Collector) compareCRDs(ctx context.Context, crds []*unstructured.Unstructured) (all []diagnose.Finding, err error) {
	var list unstructured.UnstructuredList
	list.SetAPIVersion("apiextensions.k8s.io/v1")
	list.SetKind("CustomResourceDefinitionList")
	if err := f.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("looking at the CRDs: %w", err)
	}
	current := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		current[list.Items[i].GetName()] = &list.Items[i]
	}
	same := false
	if manager, err := cluster.ControllerManager(ctx, f, f.Namespace); err == nil {
		container, err := cluster.ManagerContainer(manager)
		same = err == nil && cluster.ImageVersion(container.Image) == cluster.Version
	}
	for _, want := range crds {
		switch existing := current[want.GetName()]; {
		case existing == nil:
			all = append(all, newFinding(diagnose.Ref("CustomResourceDefinition", want), "CRD "+want.GetName()+" is missing", "run liqoctl install to create it", pageCRD))
		case same && isOlder(existing, want):
			all = append(all, newFinding(diagnose.Ref("CustomResourceDefinition", want), "the CRD "+want.GetName()+" is older than this version of Liqo",
				"liqoctl install brings it up to date", pageCRD))
		}
	}
	return all, nil
}

// isOlder reports whether a CRD lacks a version or a field of another CRD.
func isOlder(current, want *unstructured.Unstructured) bool {
	schemas := func(crd *unstructured.Unstructured) map[string]any {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		found := map[string]any{}
		for _, v := range versions {
			if version, ok := v.(map[string]any); ok {
				found[fmt.Sprint(version["name"])] = version["schema"]
			}
		}
		return found
	}
	return !isSubset(schemas(want), schemas(current))
}

// isSubset reports whether a part of a schema is contained in the whole, without regard to descriptions.
func isSubset(part, whole any) bool {
	switch want := part.(type) {
	case map[string]any:
		current, ok := whole.(map[string]any)
		for key, value := range want {
			if _, text := value.(string); text && key == "description" {
				continue
			}
			if ok = ok && isSubset(value, current[key]); !ok {
				return false
			}
		}
		return ok
	case []any:
		current, ok := whole.([]any)
		return ok && slices.EqualFunc(want, current, isSubset)
	}
	return fmt.Sprint(part) == fmt.Sprint(whole)
}

// FindWebhooks checks whether the API server can call the webhook, and steers pods by a policy if the webhook does not.
func (f *Collector) FindWebhooks(ctx context.Context) (all []diagnose.Finding, err error) {
	key := client.ObjectKey{Name: names.WebhookConfiguration}
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	bundles := map[string][][]byte{}
	all, err = f.findMissing(ctx, key.Name, map[string]client.Object{"MutatingWebhookConfiguration": &mutating, "ValidatingWebhookConfiguration": &validating})
	if err != nil {
		return all, err
	}
	if len(mutating.Webhooks) > 0 && !slices.ContainsFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return w.Name == names.PodWebhook }) {
		missing, err := f.findMissing(ctx, names.PodPolicy, map[string]client.Object{
			"MutatingAdmissionPolicy": &admissionv1.MutatingAdmissionPolicy{}, "MutatingAdmissionPolicyBinding": &admissionv1.MutatingAdmissionPolicyBinding{},
		})
		if all = append(all, missing...); err != nil {
			return all, err
		}
	}
	for _, w := range mutating.Webhooks {
		bundles["MutatingWebhookConfiguration"] = append(bundles["MutatingWebhookConfiguration"], w.ClientConfig.CABundle)
	}
	for _, w := range validating.Webhooks {
		bundles["ValidatingWebhookConfiguration"] = append(bundles["ValidatingWebhookConfiguration"], w.ClientConfig.CABundle)
	}
	for _, kind := range slices.Sorted(maps.Keys(bundles)) {
		if slices.ContainsFunc(bundles[kind], func(bundle []byte) bool { return !isTrusting(bundle, time.Now()) }) {
			all = append(all, newFinding(kind+" "+key.Name, kind+" "+key.Name+" has no valid authority in each caBundle",
				"see the log of liqo-controller-manager, which should write it", "docs/troubleshooting.md#no-valid-authority-in-each-cabundle"))
		} else if late := findLateAuthority(bundles[kind], time.Now()); late != nil {
			all = append(all, newFinding(kind+" "+key.Name, fmt.Sprintf("the authority in the caBundle of %s %s %v", kind, key.Name, late),
				"see the log of liqo-controller-manager, which should renew it", "docs/troubleshooting.md#no-valid-authority-in-each-cabundle"))
		}
	}
	slices.SortFunc(all, func(a, b diagnose.Finding) int { return cmp.Compare(a.Message, b.Message) })
	if len(bundles) == 0 {
		return all, nil
	}
	var endpoints discoveryv1.EndpointSliceList
	if err := f.List(ctx, &endpoints, client.InNamespace(f.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: names.WebhookConfiguration}); err != nil {
		return all, fmt.Errorf("looking at the webhook: %w", err)
	}
	if !slices.ContainsFunc(endpoints.Items, hasEndpoints) {
		service := fmt.Sprintf("Service %s/%s", f.Namespace, names.WebhookConfiguration)
		all = append(all, newFinding(service, "the webhook does not answer: "+service+" has no ready pod",
			"see the pods of liqo-controller-manager", "docs/troubleshooting.md#the-webhook-does-not-answer"))
	}
	return all, nil
}

// findMissing returns a finding for each missing object, by kind.
func (f *Collector) findMissing(ctx context.Context, name string, objects map[string]client.Object) (all []diagnose.Finding, err error) {
	for kind, obj := range objects {
		err := f.Get(ctx, client.ObjectKey{Name: name}, obj)
		switch {
		case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
			all = append(all, newFinding(kind+" "+name, kind+" "+name+" is missing", "run liqoctl install to create it", "docs/troubleshooting.md#a-webhook-configuration-is-missing"))
		case err != nil:
			return all, fmt.Errorf("looking at %s %s: %w", kind, name, err)
		}
	}
	return all, nil
}

// findLateAuthority returns why the newest authority of a bundle should have been renewed, nil if none should.
func findLateAuthority(bundles [][]byte, now time.Time) error {
	for _, bundle := range bundles {
		var newest *x509.Certificate
		for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
			if ca, err := x509.ParseCertificate(block.Bytes); err == nil && (newest == nil || ca.NotAfter.After(newest.NotAfter)) {
				newest = ca
			}
		}
		if newest == nil {
			continue
		}
		if err := diagnose.CheckExpiry(newest, now); err != nil {
			return err
		}
	}
	return nil
}

// isTrusting reports whether a bundle has an unexpired authority.
func isTrusting(bundle []byte, now time.Time) bool {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(ca.NotAfter) {
			return true
		}
	}
	return false
}

func hasEndpoints(s discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready })
}

// FindNetworks checks the networks of the cluster: no peer is connected without their prefixes.
func (f *Collector) FindNetworks(ctx context.Context) (all []diagnose.Finding, err error) {
	var networks ipamv1alpha1.NetworkList
	if err := f.List(ctx, &networks, client.InNamespace(f.Namespace), client.HasLabels{names.NetworkType}); apimeta.IsNoMatchError(err) {
		return nil, nil // FindCRDs reports the missing CRD
	} else if err != nil {
		return nil, fmt.Errorf("looking at the networks: %w", err)
	}
	for i := range networks.Items {
		n := &networks.Items[i]
		if n.Status.CIDR != "" || n.DeletionTimestamp != nil {
			continue
		}
		key := client.ObjectKeyFromObject(n)
		message, remedy := fmt.Sprintf("the Network %s has no prefix", key), "the controller-manager grants it at once, and its log says why it does not"
		if c := apimeta.FindStatusCondition(n.Status.Conditions, ipamv1alpha1.ConditionAllocated); c != nil && c.Status == metav1.ConditionFalse {
			message, remedy = message+": "+c.Message, "free the range, or delete the Network and pass another range to liqoctl install"
		}
		all = append(all, newFinding(diagnose.Ref("Network", n), message, remedy, "docs/troubleshooting.md#the-network-has-no-prefix"))
	}
	return all, nil
}

// FindOrphans reports orphans: ResourceSlices of consumers without a Tenant. Orphans are not deleted automatically, because a returning consumer
// needs its pods.
func (f *Collector) FindOrphans(ctx context.Context) (all []diagnose.Finding, err error) {
	var copies authv1beta1.ResourceSliceList
	var tenants authv1beta1.TenantList
	for _, err := range []error{f.List(ctx, &copies, client.MatchingLabels{names.Replicated: "true"}), f.List(ctx, &tenants)} {
		if apimeta.IsNoMatchError(err) {
			return nil, nil // FindCRDs reports the missing CRD
		} else if err != nil {
			return nil, fmt.Errorf("looking at the slices of consumers: %w", err)
		}
	}
	remaining := map[string]int{}
	for i := range copies.Items {
		remaining[copies.Items[i].Labels[names.ReplicationOrigin]]++
	}
	for i := range tenants.Items {
		delete(remaining, string(tenants.Items[i].Spec.ClusterID))
	}
	for _, id := range slices.Sorted(maps.Keys(remaining)) {
		all = append(all, newFinding("Tenant of "+id, fmt.Sprintf("Consumer %s has no Tenant but %d ResourceSlices, whose pods keep running", id, remaining[id]),
			"authenticate it again, or remove everything with: liqoctl force unpeer "+id, "docs/troubleshooting.md#the-consumer-has-no-tenant-and-still-has-resourceslices-here"))
	}
	return all, nil
}

// FindCertificates checks the certificates issued by peers. Renewal is due at the latest when a third of the lifetime is left.
func (f *Collector) FindCertificates(ctx context.Context, now time.Time) (all []diagnose.Finding, err error) {
	var identities authv1beta1.IdentityList
	if err := f.List(ctx, &identities); apimeta.IsNoMatchError(err) {
		return nil, nil // FindCRDs reports the missing CRD
	} else if err != nil {
		return nil, fmt.Errorf("looking at the certificates of peerings: %w", err)
	}
	for i := range identities.Items {
		id := &identities.Items[i]
		key := client.ObjectKeyFromObject(id)
		certificate, err := pki.ParseCertificate(id.Spec.AuthParams.SignedCRT)
		if err != nil || id.DeletionTimestamp != nil {
			continue
		}
		if late := diagnose.CheckExpiry(certificate, now); late != nil {
			found := newFinding(diagnose.Ref("Identity", id), fmt.Sprintf("the certificate of the Identity %s %s", key, late),
				fmt.Sprintf("is the API server of %s reached?", id.Spec.ClusterID), "docs/troubleshooting.md#the-certificate-of-an-identity-ended-or-was-not-renewed")
			found.Peer = string(id.Spec.ClusterID)
			all = append(all, found)
		}
	}
	return all, nil
}

const pageCRD = "docs/troubleshooting.md#a-crd-is-missing-or-older-than-this-version"

// newFinding returns a finding that fails a check.
func newFinding(object, message, remedy, page string) diagnose.Finding {
	return diagnose.Finding{Severity: diagnose.Failed, Object: object, Message: message, Remedy: remedy, Page: page}
}
