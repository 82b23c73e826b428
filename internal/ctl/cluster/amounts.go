// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/internal/ctl/ui"
)

// Amounts are the resources to request from a provider, or the capacity of a node.
type Amounts struct {
	cpu, memory, pods string
	others            map[string]string
}

// AddFlags adds the flags of the amounts. The provider chooses an amount that is empty.
func (a *Amounts) AddFlags(fs *pflag.FlagSet, cpu, memory, pods string) {
	fs.StringVar(&a.cpu, "cpu", cpu, "The amount of CPU, such as 2 or 500m")
	fs.StringVar(&a.memory, "memory", memory, "The amount of memory, such as 4Gi")
	fs.StringVar(&a.pods, "pods", pods, "The number of pods")
	fs.StringToStringVar(&a.others, "resource", nil, "Other resources, such as nvidia.com/gpu=2")
}

// CheckFlags rejects flags that exclude each other, before any request to a cluster.
func (a *Amounts) CheckFlags(*cobra.Command, []string) error {
	_, err := a.ParseAll()
	return err
}

// ParseAll parses the amounts. Empty amounts are left out, and --resource wins over another flag for the same resource.
func (a *Amounts) ParseAll() (corev1.ResourceList, error) {
	all := corev1.ResourceList{}
	for _, one := range []struct {
		name corev1.ResourceName
		text string
	}{{corev1.ResourceCPU, a.cpu}, {corev1.ResourceMemory, a.memory}, {corev1.ResourcePods, a.pods}} {
		if one.text == "" {
			continue
		}
		var err error
		if all[one.name], err = readAmount(one.name, one.text); err != nil {
			return nil, ui.Fail("--%s: %w", one.name, err)
		}
	}
	for _, name := range SortedKeys(a.others) {
		if err := CheckResource(name + "=" + a.others[name]); err != nil {
			return nil, ui.Fail("--resource: %w", err)
		}
		all[corev1.ResourceName(name)] = resource.MustParse(a.others[name])
	}
	return all, nil
}

func readAmount(name corev1.ResourceName, text string) (resource.Quantity, error) {
	quantity, err := resource.ParseQuantity(text)
	whole := quantity.DeepCopy()
	switch {
	case err != nil:
		return quantity, ui.Fail("invalid amount %q: must be a quantity such as 2, 500m or 4Gi", text)
	case quantity.Sign() < 0:
		return quantity, ui.Fail("an amount cannot be negative, as %q is", text)
	case name != corev1.ResourceCPU && !whole.RoundUp(0):
		return quantity, ui.Fail("invalid amount %q: must be a whole number", text)
	}
	return quantity, nil
}
