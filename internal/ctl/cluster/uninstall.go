// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// RunStep shows a spinner while do runs, and prints done on success.
func (c *Session) RunStep(doing, done string, do func() error) error {
	step := c.Spin(doing)
	defer step.Stop()
	if err := do(); err != nil {
		return err
	}
	step.Done("%s", done)
	return nil
}
