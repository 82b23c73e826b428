// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

const (
	pageInstall = "docs/troubleshooting.md#begin-here"
	// leasePatience is how many durations a leader may be late before the Lease is called stale.
	leasePatience = 4
)

// versionOf returns the label with the version of an object of the chart.
func versionOf(labels map[string]string) string { return labels[names.AppVersion] }

// InstalledVersion returns the version of the controller-manager, "" if it is not known.
func (f *Facts) InstalledVersion() (installed string) {
	for i := range f.Deployments {
		if d := &f.Deployments[i]; d.Labels[names.AppName] == "controller-manager" {
			installed = versionOf(d.Labels)
		}
	}
	return installed
}

// FindVersions compares the versions of the workloads of the chart with each other and with this program.
func (f *Facts) FindVersions() (all []Finding) {
	installed := f.InstalledVersion()
	different := func(ref string, labels map[string]string) {
		if v := versionOf(labels); labels[names.AppPartOf] == "liqo" && v != "" && installed != "" && v != installed {
			all = append(all, newFailure(ref, fmt.Sprintf("its version is %s, that of the controller-manager %s", v, installed), "run liqoctl install to upgrade all of Liqo", pageInstall))
		}
	}
	for i := range f.Deployments {
		different(Ref("Deployment", &f.Deployments[i]), f.Deployments[i].Labels)
	}
	for i := range f.DaemonSets {
		if f.DaemonSets[i].Namespace == f.Namespace {
			different(Ref("DaemonSet", &f.DaemonSets[i]), f.DaemonSets[i].Labels)
		}
	}
	if gap := peer.VersionGap(f.CLIVersion, installed); gap != peer.NoGap {
		all = append(all, warningOf(newFailure("liqoctl", fmt.Sprintf("its version is %s, that of the installed Liqo %s", f.CLIVersion, installed),
			"use the liqoctl of that version", "docs/troubleshooting.md#versions-do-not-work-together")))
	}
	return all
}

// FindLeases returns the Leases of controllers in the namespace of Liqo that no process renews.
func (f *Facts) FindLeases() (all []Finding) {
	for i := range f.Leases {
		l := &f.Leases[i]
		d := slices.IndexFunc(f.Deployments, func(d appsv1.Deployment) bool {
			return d.Labels[names.AppPartOf] == "liqo" && strings.HasSuffix(d.Name, strings.TrimPrefix(l.Name, "liqo"))
		})
		if d < 0 || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil || !electsLeader(&f.Deployments[d]) {
			continue
		}
		late := f.Now.Sub(l.Spec.RenewTime.Time)
		if late < leasePatience*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
			continue
		}
		all = append(all, newFailure(Ref("Lease", l), fmt.Sprintf("no process has led for %s", late.Round(time.Second)),
			fmt.Sprintf("see the pods and the log of Deployment %s", f.Deployments[d].Name), pageInstall))
	}
	return all
}

// electsLeader reports whether a Deployment has pods, and these elect a leader.
func electsLeader(d *appsv1.Deployment) bool {
	if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		return false // FindWorkloads reports the workload
	}
	return !slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(slices.Concat(c.Command, c.Args), "--enable-leader-election=false")
	})
}

// FindAPIServices returns unavailable aggregated APIs of Liqo.
func (f *Facts) FindAPIServices() (all []Finding) {
	for i := range f.APIServices {
		api := &f.APIServices[i]
		if namespace, _, _ := unstructured.NestedString(api.Object, "spec", "service", "namespace"); namespace != f.Namespace {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		for _, item := range conditions {
			c, _ := item.(map[string]any)
			if c["type"] == "Available" && c["status"] != string(corev1.ConditionTrue) {
				all = append(all, newFailure(Ref("APIService", api), fmt.Sprintf("%v: %v", c["reason"], c["message"]), "see the pods of liqo-metric-agent", "docs/troubleshooting.md#a-virtual-node-has-no-metrics"))
			}
		}
	}
	return all
}
