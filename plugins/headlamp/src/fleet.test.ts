// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

import wanted from '../../../internal/ctl/fleet/testdata/fleet.json';
import objects from '../../../internal/ctl/fleet/testdata/objects.json';
import { cleanLine, Facts } from './facts';
import { newDocument } from './fleet';
import { add, bound, requestsOf, subtract } from './quantity';

// The tests of Go write both files, so that liqoctl and the plugin make the same document.
test('the document is that of liqoctl fleet', () => {
  const { check, events, ...want } = wanted;
  expect([check, events]).toBeDefined();
  expect(newDocument(objects as unknown as Facts)).toEqual(want);
});

test('nothing readable is an empty document', () => {
  const unreadable = { Pod: 'pods is forbidden' };
  const d = newDocument({ now: '2026-11-29T12:00:00Z', clusterID: '', unreadable, objects: {} });
  expect(d.peers).toEqual([]);
  expect(d.unreadable).toEqual(unreadable);
});

test('quantities', () => {
  const canonical = (text: string) => bound({ r: text }).r;
  const forms = '1000m=1 0.5=500m 1.5Gi=1536Mi 1024Ki=1Mi 1000=1k 1e3=1k 100Mi=100Mi 0=0 -2=-2 nonsense=0';
  for (const [text, want] of forms.split(' ').map(form => form.split('='))) {
    expect([text, canonical(text)]).toEqual([text, want]);
  }
  const sum = { memory: '1Gi' };
  add(sum, { memory: '512Mi', cpu: '250m' } as any);
  expect(sum).toEqual({ memory: '1536Mi', cpu: '250m' });
  expect(subtract('4', '3500m')).toBe('500m');
});

test('requests of a pod', () => {
  const container = (cpu: string, more = {}) => ({ resources: { requests: { cpu } }, ...more });
  const pod = {
    metadata: { name: 'a' },
    spec: {
      containers: [container('100m'), { resources: { limits: { cpu: '200m' } } }],
      initContainers: [container('50m', { restartPolicy: 'Always' }), container('1')],
      overhead: { cpu: '10m' },
    },
  };
  expect(requestsOf(pod)).toEqual({ cpu: '1060m', pods: '1' });
});

test('texts of peers are bounded', () => {
  expect(cleanLine('a\u202eb\nc\u0007')).toBe('ab c');
  const cut = cleanLine('ä'.repeat(2000));
  expect(new TextEncoder().encode(cut).length).toBeLessThanOrEqual(1024);
  expect(cut.endsWith('ä…')).toBe(true);
});
