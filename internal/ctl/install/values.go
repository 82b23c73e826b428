// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"

	"liqo.io/liqo/internal/ctl/ui"
)

// ourValues returns the values from the flags and the cluster. The previous installation and the chart decide all other values.
func (i *Installer) ourValues(f *clusterFacts, prev *previousRelease) map[string]any {
	v := map[string]any{
		"tag": i.imageTag(),
		"ipam": map[string]any{
			"podCIDRs":    prefixTexts(f.podCIDRs),
			"serviceCIDR": f.serviceCIDR.String(),
		},
		"discovery": map[string]any{"config": map[string]any{"clusterID": f.clusterID}},
		"apiServer": map[string]any{"address": f.apiServer},
	}
	if len(f.reservedSubnets) > 0 {
		v = mergeValues(v, nestedValue(prefixTexts(f.reservedSubnets), "ipam", "reservedSubnets"))
	}
	if labels := clusterLabels(i.ClusterLabels, f.labels, prev); len(labels) > 0 {
		v = mergeValues(v, nestedValue(labels, "discovery", "config", "clusterLabels"))
	}
	if i.EnableMetrics {
		v = mergeValues(v, map[string]any{"metrics": map[string]any{"enabled": true, "prometheusOperator": map[string]any{"enabled": true}}})
	}
	// With several nodes, the admission webhook must survive the loss of a node.
	if replicas := []string{"controllerManager", "replicas"}; f.workers > 1 && valueAt(prev.values, replicas...) == nil {
		v = mergeValues(v, nestedValue(2, replicas...))
	}
	if i.SkipKernelCheck {
		v = mergeValues(v, nestedValue(false, "requirements", "kernel", "enabled"))
	}
	return v
}

// imageTag returns the tag of the image, or "" for the image of a release, which its chart names by digest.
func (i *Installer) imageTag() string {
	if i.chart != nil && i.Version == i.chart.Metadata.AppVersion && stringAt(i.chart.Values, "image", "digest") != "" {
		return ""
	}
	return i.Version
}

func clusterLabels(flags, provider map[string]string, prev *previousRelease) map[string]any {
	labels := map[string]any{}
	if old, ok := valueAt(prev.values, "discovery", "config", "clusterLabels").(map[string]any); ok {
		labels = mergeValues(labels, old)
	}
	for _, given := range []map[string]string{provider, flags} {
		for k, v := range given {
			labels[k] = v
		}
	}
	return labels
}

// userValues reads the files and the --set flags as Helm does: later values win.
func userValues(files, set, setString []string, stdin io.Reader) (map[string]any, error) {
	values := map[string]any{}
	for _, file := range files {
		data, err := readValues(file, stdin)
		if err != nil {
			return nil, ui.Fail("--values: reading the values in %s: %w", file, err)
		}
		given, err := loader.LoadValues(strings.NewReader(string(data)))
		if err != nil {
			return nil, ui.Fail("--values: reading the values in %s: %w", file, err)
		}
		values = mergeValues(values, given)
	}
	for _, s := range set {
		if err := strvals.ParseInto(s, values); err != nil {
			return nil, ui.Fail("reading --set %q: %w", s, err)
		}
	}
	for _, s := range setString {
		if err := strvals.ParseIntoString(s, values); err != nil {
			return nil, ui.Fail("reading --set-string %q: %w", s, err)
		}
	}
	return values, nil
}

func readValues(file string, stdin io.Reader) ([]byte, error) {
	const most = 4 << 20
	switch {
	case file == "-":
		return io.ReadAll(io.LimitReader(stdin, most))
	case strings.HasPrefix(file, "https://"), strings.HasPrefix(file, "http://"):
		response, err := (&http.Client{Timeout: 30 * time.Second}).Get(file)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the server answers %s", response.Status)
		}
		return io.ReadAll(io.LimitReader(response.Body, most))
	}
	return os.ReadFile(file)
}

// mergeValues returns a new map. Later maps win. Maps are merged, other values replaced; nil removes a default, as in Helm.
func mergeValues(maps ...map[string]any) map[string]any {
	merged := map[string]any{}
	for _, m := range maps {
		for k, v := range m {
			sub, isMap := v.(map[string]any)
			current, wasMap := merged[k].(map[string]any)
			switch {
			case isMap && wasMap:
				merged[k] = mergeValues(current, sub)
			case isMap:
				merged[k] = mergeValues(sub)
			default:
				merged[k] = v
			}
		}
	}
	return merged
}

// withoutValues returns a new map without the values equal in drop.
func withoutValues(values, drop map[string]any) map[string]any {
	kept := map[string]any{}
	for k, v := range values {
		sub, isMap := v.(map[string]any)
		dropped, toDrop := drop[k]
		if dropSub, ok := dropped.(map[string]any); isMap && ok {
			v = withoutValues(sub, dropSub)
			toDrop = len(v.(map[string]any)) == 0
		} else {
			toDrop = toDrop && reflect.DeepEqual(v, dropped)
		}
		if !toDrop {
			kept[k] = v
		}
	}
	return kept
}

// nestedValue wraps a value into maps.
func nestedValue(value any, path ...string) map[string]any {
	for n := len(path) - 1; n > 0; n-- {
		value = map[string]any{path[n]: value}
	}
	return map[string]any{path[0]: value}
}

func valueAt(values map[string]any, path ...string) any {
	var v any = values
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func stringAt(values map[string]any, path ...string) string {
	s, _ := valueAt(values, path...).(string)
	return s
}

func prefixTexts(prefixes []netip.Prefix) []any {
	all := []any{} // as in decoded YAML: the schema of the values knows only this type of slice
	for _, p := range prefixes {
		all = append(all, p.String())
	}
	return all
}

func stringsAt(values map[string]any, path ...string) []string {
	var all []string
	list, _ := valueAt(values, path...).([]any)
	for _, item := range list {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
