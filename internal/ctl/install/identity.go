// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	release "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

// previous is the installation that is there already, if there is one.
type previous struct {
	clusterID string
	revision  int            // 0 = none
	deployed  int            // the last revision that worked, 0 = none
	values    map[string]any // as the user and we gave them then

	interrupted *release.Release // the last revision, if its installer was killed
}

// findPrevious looks for an installation of ours to upgrade, and refuses one that is in the way.
func (i *Installer) findPrevious(ctx context.Context, h *helm) (*previous, error) {
	if err := i.checkOriginal(ctx); err != nil {
		return nil, err
	}
	p := &previous{}
	var err error
	if p.clusterID, err = i.installedID(ctx); err != nil {
		return nil, err
	}
	history, err := h.history(Release)
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
	if last.Info.Status.IsPending() {
		p.interrupted = last
	}
	if !i.ResetValues {
		p.values = last.Config
	}
	return p, nil
}

// checkIdle refuses to run beside another installer. One that was killed long ago does not count.
func (i *Installer) checkIdle(last *release.Release) error {
	if !last.Info.Status.IsPending() {
		return nil
	}
	if age := time.Since(last.Info.LastDeployed); age < i.Timeout {
		return out.Fail("another installation or upgrade began %s ago and has not ended", age.Round(time.Second)).
			Hint("Wait for it. If it was killed, remove what it left: liqoctl uninstall -n %s", i.Namespace)
	}
	return nil
}

// installedID reads the cluster ID of the installation in our namespace and refuses one in another namespace.
func (i *Installer) installedID(ctx context.Context) (string, error) {
	var list corev1.ConfigMapList
	if err := i.Client.List(ctx, &list, client.MatchingLabels{names.AppName: names.ClusterIDApp}); err != nil {
		return "", fmt.Errorf("looking for an installation: %w", err)
	}
	id := ""
	for _, cm := range list.Items {
		if cm.Namespace != i.Namespace {
			return "", out.Fail("liqo is already installed in namespace %q of this cluster", cm.Namespace).
				Hint("To upgrade it, add -n %s; to move it, uninstall it first: liqoctl uninstall -n %s", cm.Namespace, cm.Namespace)
		}
		id = cm.Data[names.ClusterIDKey]
	}
	return id, nil
}

// checkClusterID refuses to change the ID: peers know the cluster by it.
func (p *previous) checkClusterID(wanted string) error {
	if p.clusterID == "" || wanted == "" || p.clusterID == wanted {
		return nil
	}
	return out.Fail("this cluster already has the cluster ID %q: changing it to %q is not allowed", p.clusterID, wanted).
		Hint("Leave --cluster-id out to keep it, or uninstall first: liqoctl uninstall")
}

func (i *Installer) resolveClusterID(f *facts, prev *previous) error {
	if err := prev.checkClusterID(i.ClusterID); err != nil {
		return err
	}
	f.clusterID = i.ClusterID
	if f.clusterID == "" {
		f.clusterID = prev.clusterID
	}
	if f.clusterID == "" {
		f.clusterID = generateID()
		i.Printer.Info("No cluster id specified. Generated: %q", f.clusterID)
	}
	if problems := validation.IsDNS1123Label(f.clusterID); len(problems) > 0 {
		return out.Fail("validating cluster id: %q: %s", f.clusterID, strings.Join(problems, "; "))
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

// generateID makes an ID that people can tell apart. The number keeps two of a company's clusters from the same name.
func generateID() string {
	return fmt.Sprintf("%s-%s-%04d", adjectives[rand.IntN(len(adjectives))], nouns[rand.IntN(len(nouns))], rand.IntN(10000))
}
