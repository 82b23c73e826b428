// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"time"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// Uninstall removes the release with its hooks. A missing release is an error only if some of its objects still exist.
func Uninstall(ctx context.Context, c client.Client, kube genericclioptions.RESTClientGetter, namespace string, timeout time.Duration, log slog.Handler) error {
	h, err := newHelm(kube, namespace, nil, log)
	if err != nil {
		return err
	}
	err = untilStuck(ctx, c, namespace, func(wait context.Context) error { return h.uninstallRelease(wait, timeout, true) })
	if _, stuck := errors.AsType[*stuckPod](err); stuck {
		return ui.Fail("Error uninstalling Liqo: %w", err).
			Hint("It has to check and clean up before anything is removed: mend what keeps it from starting, then run this again")
	}
	if err != nil {
		return ui.Fail("Error uninstalling Liqo: %w", err).
			Hint("The job that cleans up says why: kubectl logs -n %s -l %s=pre-delete", namespace, names.AppName)
	}
	return nothingLeft(ctx, c)
}

// FindInstalled fails if objects of an installation exist without a release that Uninstall could remove.
func FindInstalled(ctx context.Context, c client.Client, kube genericclioptions.RESTClientGetter, namespace string, log slog.Handler) error {
	h, err := newHelm(kube, namespace, nil, log)
	if err != nil {
		return err
	}
	revisions, err := h.releaseHistory(Release)
	if err != nil || len(revisions) > 0 {
		return err
	}
	return nothingLeft(ctx, c)
}

// Released returns the objects of the release. Uninstall deletes these objects.
func Released(kube genericclioptions.RESTClientGetter, namespace string, log slog.Handler) ([]*unstructured.Unstructured, error) {
	h, err := newHelm(kube, namespace, nil, log)
	if err != nil {
		return nil, err
	}
	revisions, err := h.releaseHistory(Release)
	if err != nil || len(revisions) == 0 {
		return nil, err
	}
	texts := releaseutil.SplitManifests(revisions[len(revisions)-1].Manifest)
	keys := slices.Collect(maps.Keys(texts))
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	var documents []string
	for _, key := range keys {
		documents = append(documents, texts[key])
	}
	return decodeManifests(documents)
}

func nothingLeft(ctx context.Context, c client.Client) error {
	var roles rbacv1.ClusterRoleList
	if err := c.List(ctx, &roles, client.MatchingLabels{names.AppPartOf: "liqo"}); err != nil {
		return fmt.Errorf("looking for what is left: %w", err)
	}
	if len(roles.Items) > 0 {
		return ui.Fail("cluster-wide resources are still present - did you specify the right namespace?")
	}
	return nil
}
