// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Choice is a flag with a fixed set of values.
type Choice struct {
	value   *string
	allowed []string
}

// OneOf returns a flag with a fixed set of values.
func OneOf(value *string, def string, allowed []string) pflag.Value {
	*value = def
	return &Choice{value, allowed}
}

// String returns the text of the value.
func (c *Choice) String() string { return *c.value }

// Type returns the type in the help.
func (c *Choice) Type() string { return "string" }

// Set parses the value of the flag.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("it is one of %s", strings.Join(c.allowed, ", "))
	}
	*c.value = s
	return nil
}

// FlagValue returns the value of a flag among arguments, "" for none.
func FlagValue(command []string, flag string) string {
	for _, word := range command {
		if name, value, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok && name == flag {
			return value
		}
	}
	return ""
}
