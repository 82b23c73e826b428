// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

import cases from '../../../internal/ctl/diagnose/testdata/explanations.json';
import { Facts, listOf } from './facts';
import { explainNamespace, explainPod, Explanation, stopOf } from './why';

// What the plugin leaves to liqoctl: pods that are older than their strategy, and gateways.
const onlyLiqoctl = { cases: ['pod/of_Job', 'pod/older_than_selector', 'pod/excluded_nodes', 'pod/works_without_tunnel'], link: 'the pod fits the strategy' };

// The tests of Go write the cases, so that liqoctl and the plugin find the same.
for (const [name, { facts, explanation }] of Object.entries(cases)) {
  if (!onlyLiqoctl.cases.includes(name)) {
    test(`the explanation of ${name} is that of liqoctl explain`, () => {
      const scene = facts as unknown as Facts;
      const got = name.startsWith('pod/') ? explainPod(scene, listOf(scene, 'Pod')[0]) : explainNamespace(scene, 'shop');
      const want = explanation as unknown as Explanation;
      for (const chain of want.chains) {
        chain.links = chain.links.filter(link => link.name !== onlyLiqoctl.link);
      }
      expect(got).toEqual({ ...want, stopped: want.stopped ?? false });
      expect(!!stopOf(got)).toBe(got.stopped);
    });
  }
}

test('the cases are there', () => {
  expect(Object.keys(cases)).toEqual(expect.arrayContaining(onlyLiqoctl.cases));
});
