// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/internal/ctl/out"
)

// amounts are what is asked of a provider, or what a node shows.
type amounts struct {
	cpu, memory, pods string
	others            map[string]string
}

// flags adds those of amounts. An empty one is left to the provider.
func (a *amounts) flags(fs *pflag.FlagSet, cpu, memory, pods string) {
	fs.StringVar(&a.cpu, "cpu", cpu, "The amount of CPU, such as 2 or 500m")
	fs.StringVar(&a.memory, "memory", memory, "The amount of memory, such as 4Gi")
	fs.StringVar(&a.pods, "pods", pods, "The number of pods")
	fs.StringToStringVar(&a.others, "resource", nil, "Other resources, such as nvidia.com/gpu=2")
}

// list reads them. Amounts that nobody asked for are left out.
func (a *amounts) list() (corev1.ResourceList, error) {
	all := corev1.ResourceList{}
	for _, one := range []struct {
		name corev1.ResourceName
		text string
	}{{corev1.ResourceCPU, a.cpu}, {corev1.ResourceMemory, a.memory}, {corev1.ResourcePods, a.pods}} {
		if one.text == "" {
			continue
		}
		if err := set(all, "--"+string(one.name), one.name, one.text); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(a.others) {
		if len(validation.IsQualifiedName(name)) > 0 {
			return nil, out.Fail("--resource: %q is no name of a resource", name)
		}
		if _, twice := all[corev1.ResourceName(name)]; twice {
			return nil, out.Fail("--resource: %s is asked for by --%s, too", name, name)
		}
		if err := set(all, "--resource "+name, corev1.ResourceName(name), a.others[name]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func set(all corev1.ResourceList, flag string, name corev1.ResourceName, text string) error {
	quantity, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return out.Fail("%s: %q is no amount such as 2, 500m or 4Gi", flag, text)
	case quantity.Sign() < 0:
		return out.Fail("%s: an amount cannot be negative, as %q is", flag, text)
	case name != corev1.ResourceCPU && quantity.MilliValue()%1000 != 0:
		return out.Fail("%s: %q is no whole number", flag, text)
	}
	all[name] = quantity
	return nil
}
