// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// What is shown, made of a document or an explanation only. A sign stands beside each colour.
import { SectionBox, SimpleTable } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { useTheme } from '@mui/material';
import React from 'react';
import { Document, Peer, Tunnel } from './fleet';
import { amount, Resources } from './quantity';
import { Explanation, Link, stopOf } from './why';

type Kind = 'good' | 'warn' | 'bad' | 'off';
const signs: Record<Kind, string> = { good: '√', warn: '‼', bad: '×', off: '·' };
const kinds: Record<string, Kind> = { Healthy: 'good', Connected: 'good', Ready: 'good', Disabled: 'off', Pending: 'off', Connecting: 'warn' };
const kindOf = (state: string): Kind => kinds[state] ?? 'bad';

// Those of the page of "liqoctl dashboard", readable on the ground of each mode.
const colors: Record<'light' | 'dark', Record<Kind, string>> = {
  light: { good: '#116329', warn: '#7a4f00', bad: '#b3121d', off: '#57606a' },
  dark: { good: '#56d364', warn: '#e3b341', bad: '#ff8a80', off: '#9aa4af' },
};
const useColors = () => colors[useTheme().palette.mode];

export function Mark({ kind, children }: React.PropsWithChildren<{ kind: Kind }>) {
  return <span style={{ color: useColors()[kind] }}>{signs[kind]} {children}</span>;
}

export const State = ({ state }: { state: string }) => <Mark kind={kindOf(state)}>{state || 'unknown'}</Mark>;

function tunnelText({ state, latencyMilliseconds, lost }: Tunnel): string {
  const latency = state === 'Connected' && latencyMilliseconds !== undefined ? ` ${latencyMilliseconds} ms` : '';
  return state + latency + (lost ? `, loses ${lost.toLowerCase()} packets` : '');
}

/** worstTunnel returns the kind and the text of the worst tunnel of a peer. */
export function worstTunnel(id: string, tunnels: Tunnel[]): { kind: Kind; text: string } {
  const own = tunnels.filter(t => t.peer === id);
  const bad = own.find(t => t.state === 'Error') ?? own.find(t => t.state !== 'Connected') ?? own[0];
  return bad ? { kind: bad.lost ? 'bad' : kindOf(bad.state), text: tunnelText(bad) } : { kind: 'off', text: 'no tunnel' };
}

interface MapProps { document: Document; chosen: string; choose: (id: string) => void }

/** PeerMap draws the local cluster among its peers. Each is a button. */
export function PeerMap({ document: { cluster, peers, tunnels, slices }, chosen, choose }: MapProps) {
  const { palette } = useTheme();
  const colors = useColors();
  const short = (text: string) => (text.length > 22 ? text.slice(0, 21) + '…' : text);
  const around = peers.map((peer, i) => {
    const angle = (2 * Math.PI * i) / peers.length - Math.PI / 2;
    const ring = peers.length > 24 && i % 2 ? 0.66 : 1;
    const tunnel = worstTunnel(peer.id, tunnels);
    const label = `${peer.id}: ${peer.role}, ${peer.phase}, tunnel ${tunnel.text}, ${slices.filter(s => s.peer === peer.id).length} ResourceSlices`;
    return { id: peer.id, x: 500 + 430 * ring * Math.cos(angle), y: 170 + 120 * ring * Math.sin(angle), kind: kindOf(peer.phase), tunnel, label };
  });
  const center = { id: cluster.id || 'this cluster', x: 500, y: 170, kind: 'good' as Kind, tunnel: undefined, label: `${cluster.id}: this cluster` };
  const press = (id: string) => (event: React.KeyboardEvent) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    choose(id);
  };
  return (
    <svg viewBox="0 0 1000 350" role="group" aria-label="Clusters and tunnels" style={{ width: '100%', maxHeight: 420 }}>
      {around.map(({ id, x, y, tunnel: { kind } }) => (
        <line key={id} x1={500} y1={170} x2={x} y2={y} strokeWidth={2} stroke={colors[kind]} strokeDasharray={kind === 'good' ? '' : '6 4'} />
      ))}
      {[...around, center].map(({ id, x, y, kind, tunnel, label }) => (
        <g key={id} role="button" tabIndex={0} aria-label={label} aria-pressed={id === chosen} style={{ cursor: 'pointer' }} onClick={() => choose(id)} onKeyDown={press(id)}>
          <title>{label}</title>
          <circle cx={x} cy={y} r={14} strokeWidth={id === chosen ? 5 : 2} stroke={colors[kind]} fill={palette.background.paper} />
          <g textAnchor="middle" fontSize={15} fill={palette.text.primary} stroke={palette.background.paper} strokeWidth={3} paintOrder="stroke">
            <text x={x} y={y + 5}>{signs[kind]}</text>
            <text x={x} y={y - 20}>{short(id)}</text>
            <text x={x} y={y + 32} fontSize={12}>{tunnel && short(tunnel.text)}</text>
          </g>
        </g>
      ))}
    </svg>
  );
}

/** Usage shows used of granted resources. */
export function Usage({ used, granted }: { used: Resources; granted: Resources }) {
  const names = Object.keys(granted).sort().filter(name => ['cpu', 'memory', 'pods'].includes(name) || amount(used[name]) > 0);
  const rows = names.map(name => ({ most: amount(granted[name]), now: amount(used[name]), text: `${name} ${used[name] ?? 0} of ${granted[name]}` }));
  const meter = (max: number, now: number, text: string) => <meter max={max || 1} value={Math.min(now, max)} aria-label={text} style={{ width: 60 }} />;
  return <>{rows.map(({ most, now, text }) => <div key={text}>{meter(most, now, text)} {text}</div>)}</>;
}

export const resourcesText = (all: Resources): string => Object.keys(all).sort().map(name => `${name} ${all[name]}`).join(', ');

/** Alerts shows why something is not as it should be. */
export const Alerts = ({ alerts }: { alerts: string[] }) => <>{alerts.map(alert => <div key={alert}><Mark kind="bad">{alert}</Mark></div>)}</>;

interface TableProps<T> { title: string; rows: T[]; columns: Record<string, (one: T) => React.ReactNode> }

/** Table shows a list under a title, nothing if it is empty. */
function Table<T extends object>({ title, rows, columns }: TableProps<T>) {
  if (!rows.length) return null;
  return <SectionBox title={title}><SimpleTable columns={Object.entries(columns).map(([label, getter]) => ({ label, getter }))} data={rows} /></SectionBox>;
}

const isWaiting = (pod: { ready: boolean; phase: string }) => !pod.ready && !['Succeeded', 'Failed'].includes(pod.phase);

interface ListsProps { document: Document; peer?: string; link: (kind: string, name: string, namespace?: string) => React.ReactNode }

/** Lists shows the parts of a document, of one peer if it is given. */
export function Lists({ document: d, peer, link }: ListsProps) {
  const own = <T extends { peer: string }>(all: T[]) => all.filter(one => !peer || one.peer === peer);
  const module = (name: keyof Peer['modules']) => (p: Peer) => <State state={p.modules[name]} />;
  return (
    <>
      <Table title="Peers" rows={d.peers.filter(p => !peer || p.id === peer)} columns={{
        Cluster: p => link('ForeignCluster', p.id),
        Role: p => p.role,
        State: p => <State state={p.phase} />,
        Networking: module('networking'),
        Authentication: module('authentication'),
        Offloading: module('offloading'),
        Version: p => p.version ?? '',
        Alerts: p => <Alerts alerts={p.alerts} />,
      }} />
      <Table title="Tunnels" rows={own(d.tunnels)} columns={{
        Peer: t => t.peer,
        Connection: t => link('Connection', t.name, t.namespace),
        End: t => t.end,
        State: t => <Mark kind={t.lost ? 'bad' : kindOf(t.state)}>{tunnelText(t)}</Mark>,
        MTU: t => t.mtu ?? '',
        'Failed nodes': t => t.failedNodes?.join(', ') ?? '',
      }} />
      <Table title="Slices" rows={own(d.slices)} columns={{
        Peer: s => s.peer,
        Slice: s => link('ResourceSlice', s.name, s.namespace),
        Action: s => s.action,
        Accepted: s => (s.accepted ? <Mark kind="good">yes</Mark> : <Alerts alerts={s.alerts.length ? s.alerts : ['not judged yet']} />),
        Asked: s => resourcesText(s.asked),
        'Used of granted': s => <Usage used={s.used} granted={s.granted} />,
      }} />
      <Table title="Virtual nodes" rows={own(d.virtualNodes)} columns={{
        Peer: n => n.peer,
        Node: n => link('Node', n.name),
        State: n => <State state={n.status} />,
        'New pods': n => (n.cordoned ? <Mark kind="warn">cordoned</Mark> : 'yes'),
        Pods: n => n.pods,
        'Used of capacity': n => <Usage used={n.used} granted={n.capacity} />,
      }} />
      <Table title="Offloaded namespaces" rows={d.namespaces.filter(n => !peer || n.providers.some(p => p.id === peer))} columns={{
        Namespace: n => link('Namespace', n.name),
        'Name there': n => n.remoteName ?? '',
        Strategy: n => n.strategy,
        State: n => <State state={n.phase} />,
        Providers: n => n.providers.map(p => <div key={p.id}><Mark kind={p.ready ? 'good' : 'bad'}>{p.id}</Mark></div>),
        Alerts: n => <Alerts alerts={n.providers.flatMap(p => p.alerts.map(alert => `${p.id}: ${alert}`))} />,
      }} />
      <Table title="Waiting pods" rows={d.pods.filter(p => isWaiting(p) && (!peer || [p.cluster, p.consumer].includes(peer)))} columns={{
        Namespace: p => p.namespace,
        Pod: p => link('Pod', p.name, p.namespace),
        'Runs in': p => p.cluster ?? 'no node yet',
        Consumer: p => p.consumer ?? '',
        Why: p => p.reason ?? p.phase,
      }} />
      <Table title="Certificates" rows={own(d.certificates)} columns={{
        Object: c => c.object,
        Issuer: c => c.issuer,
        'Valid until': c => <Mark kind={c.notAfter > d.time ? 'good' : 'bad'}>{c.notAfter}</Mark>,
      }} />
      <Table title="Not readable" rows={Object.entries(d.unreadable)} columns={{ Kind: ([kind]) => kind, Why: ([, why]) => why }} />
    </>
  );
}

const kindOfLink: Record<Link['status'], Kind> = { passed: 'good', warning: 'warn', failed: 'bad', skipped: 'off' };

/** Why shows the chains of an explanation, with the link that stops the object in bold. */
export function Why({ explanation: { object, chains, ...rest }, command }: { explanation: Explanation; command: string }) {
  const stop = stopOf({ object, chains, ...rest });
  return (
    <SectionBox title="Liqo: why">
      <p role="status">
        {stop ? <Mark kind="bad">{stop.object}: {stop.message}</Mark> : <Mark kind="good">Nothing that this cluster shows stops {object}</Mark>}
      </p>
      {chains.map(chain => (
        <section key={chain.name} aria-label={chain.name}>
          <strong>{chain.name}</strong>
          <ul style={{ listStyle: 'none', paddingLeft: '1em' }}>
            {chain.links.map(({ name, status, note, findings = [] }) => (
              <li key={name} aria-label={`${status}: ${name}`} style={{ fontWeight: status === 'failed' ? 'bold' : 'normal' }}>
                <Mark kind={kindOfLink[status]}>{name + (note ? ` (${note})` : '')}</Mark>
                {findings.map(f => (
                  <div key={f.object + f.message} style={{ paddingLeft: '1.5em', fontWeight: 'normal' }}>
                    {f.object}: {f.message}<br />→ {f.remedy}; see {f.page}
                  </div>
                ))}
              </li>
            ))}
          </ul>
        </section>
      ))}
      <p>What the other cluster shows: <code>{command} --remote-kubeconfig FILE</code></p>
    </SectionBox>
  );
}
