// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	helmkube "helm.sh/helm/v4/pkg/kube"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/ui"
)

// helmClient runs Helm in one namespace.
type helmClient struct {
	config    *action.Configuration
	namespace string
	stamp     metadataSetter
}

func newHelm(kube genericclioptions.RESTClientGetter, namespace string, stamp metadataSetter, log slog.Handler) (*helmClient, error) {
	// Without the field manager of Helm's CLI, the CLI could not upgrade the release.
	helmkube.ManagedFieldsManager = "helm"
	getter := namespaced{kube, namespace}
	objects := helmkube.New(getter)
	objects.SetLogger(log)
	set, err := objects.Factory.KubernetesClientSet()
	if err != nil {
		return nil, fmt.Errorf("preparing Helm: %w", err)
	}
	secrets := driver.NewSecrets(set.CoreV1().Secrets(namespace))
	secrets.SetLogger(log)
	// Configuration.Init is not used: it would link the SQL databases, an alternative storage of releases.
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(log))
	cfg.RESTClientGetter, cfg.KubeClient, cfg.Releases = getter, objects, storage.Init(secrets)
	cfg.HookOutputFunc = func(_, _, _ string) io.Writer { return io.Discard }
	return &helmClient{config: cfg, namespace: namespace, stamp: stamp}, nil
}

// releaseHistory returns the revisions of a release, oldest first; none if the release does not exist.
func (h *helmClient) releaseHistory(name string) ([]*release.Release, error) {
	found, err := h.config.Releases.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the history of Helm release %q: %w", name, err)
	}
	var all []*release.Release
	for _, r := range found {
		if v1, ok := r.(*release.Release); ok {
			all = append(all, v1)
		}
	}
	releaseutil.SortByRevision(all)
	return all, nil
}

// markFailed marks a revision as failed whose installer or uninstaller was killed.
func (h *helmClient) markFailed(r *release.Release) error {
	r.SetStatus(releasecommon.StatusFailed, fmt.Sprintf("interrupted while it was %s", r.Info.Status))
	if err := h.config.Releases.Update(r); err != nil {
		return fmt.Errorf("taking over the interrupted revision %d of Helm release %q: %w", r.Version, r.Name, err)
	}
	return nil
}

// renderChart returns the objects of an installation of the chart. Unlike Helm's dry run, it does not need the kinds of CRDs that are not installed
// yet.
func (h *helmClient) renderChart(ctx context.Context, c *chart.Chart, values map[string]any, revision int) ([]*unstructured.Unstructured, error) {
	caps, err := h.clusterCapabilities()
	if err != nil {
		return nil, err
	}
	if err := checkKubernetes(c, caps.KubeVersion.Version); err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: Release, Namespace: h.namespace, Revision: revision + 1, IsInstall: revision == 0, IsUpgrade: revision > 0}
	restConfig, err := h.config.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	objects, err := renderObjects(ctx, c, values, options, caps, engine.New(restConfig))
	return h.stamp.setAll(objects), err
}

// renderObjects returns the objects of the chart, hooks last.
func renderObjects(ctx context.Context, c *chart.Chart, values map[string]any, options common.ReleaseOptions, caps *common.Capabilities, e engine.Engine) ([]*unstructured.Unstructured, error) {
	top, err := commonutil.ToRenderValues(c, values, options, caps)
	if err != nil {
		return nil, ui.Fail("the values are not valid: %w", err)
	}
	files, err := e.RenderWithContext(ctx, c, top)
	if err != nil {
		return nil, ui.Fail("rendering the chart: %w", err)
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("sorting the chart's objects: %w", err)
	}
	var texts []string
	for _, m := range manifests {
		texts = append(texts, m.Content)
	}
	for _, hook := range hooks {
		texts = append(texts, hook.Manifest)
	}
	return decodeManifests(texts)
}

// checkKubernetes returns an error if the chart does not support a version of Kubernetes.
func checkKubernetes(c *chart.Chart, version string) error {
	if needed := c.Metadata.KubeVersion; needed != "" && !chartutil.IsCompatibleRange(needed, version) {
		return ui.Fail("this version of Liqo needs Kubernetes %s, and the cluster runs %s", needed, version)
	}
	return nil
}

// CheckKubernetes returns an error if the chart in a folder does not support a version of Kubernetes.
func CheckKubernetes(folder fs.FS, version string) error {
	c, err := loadChart(folder)
	if err != nil {
		return fmt.Errorf("loading the embedded chart: %w", err)
	}
	return checkKubernetes(c, version)
}

func decodeManifests(texts []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, text := range texts {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			return nil, fmt.Errorf("reading the rendered chart: %w", err)
		}
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

func (h *helmClient) clusterCapabilities() (*common.Capabilities, error) {
	dc, err := h.config.RESTClientGetter.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	dc.Invalidate() // the kinds on disk may be of an earlier version of Kubernetes
	v, err := dc.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking for the version of Kubernetes: %w", err)
	}
	versions, err := action.GetVersionSet(dc)
	if err != nil {
		return nil, fmt.Errorf("asking for the kinds that the cluster knows: %w", err)
	}
	return &common.Capabilities{
		APIVersions: versions,
		KubeVersion: common.KubeVersion{Version: v.GitVersion, Major: v.Major, Minor: v.Minor},
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}, nil
}

// installChart installs the release for the first time. The end of wait only ends the wait for pods. The end of ctx would leave Helm
// writing in the background, concurrently with the rollback.
func (h *helmClient) installChart(ctx, wait context.Context, c *chart.Chart, values map[string]any) error {
	a := action.NewInstall(h.config)
	a.ReleaseName, a.Namespace = Release, h.namespace
	a.SkipCRDs = true // already applied
	a.PostRenderer = h.stamp
	a.Timeout, a.WaitForJobs = timeLeft(wait), true
	a.WaitStrategy, a.WaitOptions = waitOptions(wait)
	_, err := a.RunWithContext(ctx, c, values)
	return err
}

// upgradeChart creates a new revision of the release. The values are complete: they include the kept values of the last revision.
func (h *helmClient) upgradeChart(ctx, wait context.Context, c *chart.Chart, values map[string]any) error {
	a := action.NewUpgrade(h.config)
	a.Namespace, a.MaxHistory = h.namespace, 10
	a.ResetValues, a.SkipCRDs = true, true
	a.PostRenderer = h.stamp
	// The chart overrides manual edits of a Deployment, as in every upgrade.
	a.ForceConflicts, a.ServerSideApply = true, "true"
	a.Timeout, a.WaitForJobs = timeLeft(wait), true
	a.WaitStrategy, a.WaitOptions = waitOptions(wait)
	_, err := a.RunWithContext(ctx, Release, c, values)
	return err
}

// rollbackTo rolls back to a revision, or removes the remains of a first installation.
func (h *helmClient) rollbackTo(revision int, timeout time.Duration) error {
	if revision > 0 {
		a := action.NewRollback(h.config)
		a.Version, a.Timeout, a.CleanupOnFail, a.ForceConflicts = revision, timeout, true, true
		a.WaitStrategy = helmkube.StatusWatcherStrategy
		return a.Run(Release)
	}
	// No hooks: nothing was peered, and the missing image of the hook may be the cause of the failure.
	return h.uninstallRelease(context.Background(), timeout, false)
}

// uninstallRelease removes the release; a missing release is fine.
func (h *helmClient) uninstallRelease(ctx context.Context, timeout time.Duration, hooks bool) error {
	a := action.NewUninstall(h.config)
	a.IgnoreNotFound, a.DisableHooks, a.Timeout = true, !hooks, timeout
	a.WaitStrategy, a.WaitOptions = waitOptions(ctx)
	_, err := a.Run(Release)
	return err
}

func waitOptions(ctx context.Context) (helmkube.WaitStrategy, []helmkube.WaitOption) {
	return helmkube.StatusWatcherStrategy, []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
}

// writePatience is how long Helm may go on writing after the end of the command's context.
const writePatience = 30 * time.Second

// cleanupContext returns a context that ends writePatience after ctx.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(writePatience, cancel) })
	return later, func() { stop(); cancel() }
}

// timeLeft returns the time until the deadline.
func timeLeft(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline)
}
