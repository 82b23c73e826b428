// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	releasecommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// previousRelease is the existing installation, if any.
type previousRelease struct {
	clusterID string
	revision  int            // 0 = none
	deployed  int            // the last successful revision, 0 = none
	values    map[string]any // the values of the user and of the installer in the previous installation

	interrupted *release.Release // the last revision, if the installer or uninstaller was killed
}

// findPrevious looks for an installation of ours to upgrade, and rejects a conflicting installation.
func (i *Installer) findPrevious(ctx context.Context, h *helmClient) (*previousRelease, error) {
	if err := i.checkOriginal(ctx); err != nil {
		return nil, err
	}
	p := &previousRelease{}
	var err error
	if p.clusterID, err = i.installedID(ctx); err != nil {
		return nil, err
	}
	history, err := h.releaseHistory(Release)
	if err != nil {
		return nil, err
	}
	for _, r := range history {
		p.revision = max(p.revision, r.Version)
		if r.Info.Status == "deployed" {
			p.deployed = r.Version
		}
	}
	if len(history) == 0 {
		return p, nil
	}
	last := history[len(history)-1]
	if err := i.checkIdle(last); err != nil {
		return nil, err
	}
	if !isUpgradable(last.Info.Status) {
		p.interrupted = last
	}
	if !i.ResetValues {
		p.values = last.Config
	}
	return p, nil
}

// isUpgradable reports whether Helm upgrades a release whose last revision has this status.
func isUpgradable(s releasecommon.Status) bool {
	return slices.Contains([]releasecommon.Status{releasecommon.StatusDeployed, releasecommon.StatusFailed, releasecommon.StatusSuperseded}, s)
}

// checkIdle fails while another process changes the release. An old pending revision is from a killed process and is ignored.
func (i *Installer) checkIdle(last *release.Release) error {
	what, start := "installation or upgrade", last.Info.LastDeployed
	switch {
	case last.Info.Status == releasecommon.StatusUninstalling:
		what, start = "uninstallation", last.Info.Deleted
	case !last.Info.Status.IsPending():
		return nil
	}
	age := time.Since(start)
	if age >= i.Timeout {
		return nil
	}
	return ui.Fail("another %s began %s ago and has not ended", what, age.Round(time.Second)).
		Hint("Wait for it. If it was killed, try again in %s, or remove its remains at once: liqoctl uninstall -n %s",
			(i.Timeout - age).Round(time.Second), i.Namespace)
}

// installedID returns the cluster ID of the installation in the Liqo namespace, and fails if another namespace has an ID.
func (i *Installer) installedID(ctx context.Context) (string, error) {
	var list corev1.ConfigMapList
	if err := i.Client.List(ctx, &list, client.MatchingLabels{names.AppName: names.ClusterIDApp}); err != nil {
		return "", fmt.Errorf("looking for an installation: %w", err)
	}
	id := ""
	for _, cm := range list.Items {
		if cm.Namespace != i.Namespace {
			return "", ui.Fail("liqo is already installed in namespace %q of this cluster", cm.Namespace).
				Hint("To upgrade it, add -n %s; to move it, uninstall it first: liqoctl uninstall -n %s", cm.Namespace, cm.Namespace)
		}
		id = cm.Data[names.ClusterIDKey]
	}
	return id, nil
}

// checkClusterID rejects a changed ID: peers know the cluster by its ID.
func (p *previousRelease) checkClusterID(wanted string) error {
	if p.clusterID == "" || wanted == "" || p.clusterID == wanted {
		return nil
	}
	return ui.Fail("this cluster already has the cluster ID %q: changing it to %q is not allowed", p.clusterID, wanted).
		Hint("Leave --cluster-id out to keep it, or uninstall first: liqoctl uninstall")
}

func (i *Installer) resolveClusterID(f *clusterFacts, prev *previousRelease) error {
	if err := prev.checkClusterID(i.ClusterID); err != nil {
		return err
	}
	// An interrupted uninstallation deletes the ID, and keeps the values with the ID.
	f.clusterID = cmp.Or(i.ClusterID, prev.clusterID, stringAt(prev.values, "discovery", "config", "clusterID"))
	if f.clusterID == "" {
		f.clusterID = generateID()
		i.Printer.Info("No cluster id specified. Generated: %q", f.clusterID)
	}
	return CheckClusterID(f.clusterID)
}

// CheckClusterID rejects an invalid cluster ID.
func CheckClusterID(id string) error {
	if problems := validation.IsDNS1123Label(id); len(problems) > 0 {
		return ui.Fail("validating cluster id: %q: %s", id, strings.Join(problems, "; "))
	}
	return nil
}

var (
	adjectives = strings.Fields("able airy apt bold brave brief bright brisk calm civil clear clever cosy crisp deft eager early easy fair fast fine firm fleet " +
		"fresh glad grand green keen kind light lively loyal lucid merry mild neat noble plain proud quick quiet rapid ready round sharp shy sleek " +
		"smooth snug solid spry steady still sunny sure swift tidy vivid warm wise witty young")
	nouns = strings.Fields("alder ash aspen badger basin bay beech birch brook cape cedar cliff cove crane creek delta dune elm falcon fern finch fjord ford " +
		"glade grove harbor hazel heron hill isle lagoon lake larch lark maple marsh mesa moor oak otter pass peak pine plover pond quay reef ridge " +
		"river robin rowan shore sound sparrow spring stork swan thrush vale wren yew")
)

// generateID returns a readable random ID. The number keeps the IDs of a company's clusters distinct.
func generateID() string {
	return fmt.Sprintf("%s-%s-%04d", adjectives[rand.IntN(len(adjectives))], nouns[rand.IntN(len(nouns))], rand.IntN(10000))
}
