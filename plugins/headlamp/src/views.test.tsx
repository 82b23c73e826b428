// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import cases from '../../../internal/ctl/diagnose/testdata/explanations.json';
import fleet from '../../../internal/ctl/fleet/testdata/fleet.json';
import { Document } from './fleet';
import { Lists, PeerMap, Why } from './views';
import { Explanation } from './why';

// Headlamp's own box and table do not load here: its polyfills lack a dependency.
vi.mock('@kinvolk/headlamp-plugin/lib/CommonComponents', () => ({
  SectionBox: ({ children }: React.PropsWithChildren) => <div>{children}</div>,
  SimpleTable: ({ columns, data }: any) => data.map((row: any, i: number) => <div key={i}>{columns.map((c: any) => <i key={c.label}>{c.getter(row)}</i>)}</div>),
}));

const document = fleet as unknown as Document;

afterEach(cleanup);

test('the map names states and is used by keyboard', () => {
  const chosen: string[] = [];
  render(<PeerMap document={document} chosen="" choose={id => chosen.push(id)} />);
  const milan = screen.getByRole('button', { name: /^milan: ConsumerAndProvider, Unhealthy, tunnel Error, loses large packets, 3 ResourceSlices$/ });
  expect(milan.tabIndex).toBe(0);
  fireEvent.keyDown(milan, { key: 'Enter' });
  fireEvent.keyDown(milan, { key: 'Tab' });
  fireEvent.click(screen.getByRole('button', { name: /^rome/ }));
  expect(chosen).toEqual(['milan', 'rome']);
});

test('the lists are those of the chosen peer', () => {
  const lists = (peer?: string) => render(<Lists document={document} peer={peer} link={(_, name) => name} />).container.textContent;
  expect(lists('milan')).toContain('cpu 1 of 2');
  cleanup();
  expect(lists('turin')).not.toContain('cpu');
});

test('the link that stops a pod is first and bold, with its remedy', () => {
  render(<Why explanation={cases['pod/full'].explanation as unknown as Explanation} command="liqoctl explain pod web -n shop" />);
  expect(screen.getByRole('status').textContent).toBe('× Node milan: too little is free: cpu: 500m free, 1 requested');
  const stop = screen.getByRole('listitem', { name: 'failed: a node takes it' });
  expect(stop.style.fontWeight).toBe('bold');
  expect(stop.textContent).toContain('ask for more: liqoctl create resourceslice');
});
