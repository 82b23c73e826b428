// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// The document of "liqoctl fleet -o json", made from what the user of Headlamp may read: the same fields, without `check`, whose rules are in
// liqoctl only, and `events`, which Headlamp shows itself. docs/dashboard.md explains them.
import { parseCertificate } from './certificate';
import { cleanLine, Facts, find, hasEnded, isTrue, KubeObject, label, labelOf, listOf, problemOf, refOf } from './facts';
import { add, bound, requestsOf, Resources } from './quantity';

export type ModuleStatus = 'Healthy' | 'Unhealthy' | 'Disabled';

export interface Peer {
  id: string; role: string; phase: 'Healthy' | 'Unhealthy' | 'Pending'; version?: string;
  modules: Record<'networking' | 'authentication' | 'offloading', ModuleStatus>; alerts: string[];
}

export interface Tunnel {
  peer: string; namespace: string; name: string; end: string; state: string; latencyMilliseconds?: number; lost?: string; failedNodes?: string[];
  mtu?: number;
}

export interface Slice {
  peer: string; namespace: string; name: string; action: 'Consuming' | 'Providing'; class: string; accepted: boolean; alerts: string[];
  asked: Resources; granted: Resources; used: Resources;
}

export interface VirtualNode {
  name: string; peer: string; slice?: string; status: ModuleStatus; cordoned: boolean; pods: number; capacity: Resources; used: Resources;
}

export interface Namespace {
  name: string; remoteName?: string; strategy: string; phase: string; providers: { id: string; ready: boolean; alerts: string[] }[];
  misplacedPods?: number;
}

export interface Pod { namespace: string; name: string; phase: string; ready: boolean; cluster?: string; node?: string; consumer?: string; reason?: string }

export interface Document {
  format: 1; time: string; cluster: { id: string; version: string; kubernetes: string }; peers: Peer[]; tunnels: Tunnel[]; slices: Slice[];
  virtualNodes: VirtualNode[]; namespaces: Namespace[]; pods: Pod[];
  certificates: { object: string; peer: string; issuer: string; notBefore: string; notAfter: string }[];
  unreadable: Record<string, string>;
}

const maxEntries = 64;
const second = (time: string): string => new Date(time).toISOString().slice(0, 19) + 'Z';

/** sortBy sorts by fields that are texts, the first that differs counts. */
function sortBy<T>(all: T[], ...fields: (keyof T)[]): T[] {
  const compare = (a: any, b: any) => (a < b ? -1 : Number(a > b));
  return all.sort((a, b) => fields.reduce((order, field) => order || compare(a[field], b[field]), 0));
}

/** unready returns the conditions of a module in use that are not as they should be. */
export function unready(module: any): any[] {
  const all = module?.enabled ? (module.conditions ?? []) : [];
  return all.filter((c: any) => !['Established', 'Ready'].includes(c.status));
}

export const conditionText = (c: any): string => (c.reason ? c.reason + ': ' : '') + (c.message || `${c.type} is ${c.status}`);

const answers = 'the API server answers';

/** troubleOf returns why the API server of a provider does not answer, '' if it does. */
export function troubleOf(peer: KubeObject): string {
  const bad = (peer.status?.conditions ?? []).find(
    (c: any) => c.type === 'APIServerStatus' && (c.status !== 'Established' || (c.message?.startsWith(answers) && c.message !== answers))
  );
  return bad?.message || bad?.reason || '';
}

/** misbehaviourOf returns the condition of a peer that sends more than a limit, undefined for none. */
export const misbehaviourOf = (peer: KubeObject): any => peer.status?.conditions?.find((c: any) => c.type === 'PeerMisbehaves');

function newPeer(peer: KubeObject): Peer {
  const modules = peer.status?.modules ?? {};
  const all = [modules.networking, modules.authentication, modules.offloading];
  const status = (m: any): ModuleStatus => (m?.enabled ? (unready(m).length ? 'Unhealthy' : 'Healthy') : 'Disabled');
  const trouble = troubleOf(peer);
  const misbehaviour = misbehaviourOf(peer);
  const alerts = [...all.flatMap(unready).map(conditionText), ...(trouble ? [trouble] : []), ...(misbehaviour ? [conditionText(misbehaviour)] : [])];
  return {
    id: peer.spec?.clusterID,
    role: peer.status?.role ?? '',
    phase: alerts.length ? 'Unhealthy' : all.some(m => m?.enabled) ? 'Healthy' : 'Pending',
    ...(peer.status?.version && { version: cleanLine(peer.status.version) }),
    modules: { networking: status(all[0]), authentication: status(all[1]), offloading: status(all[2]) },
    alerts: alerts.map(cleanLine),
  };
}

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5 };

/** milliseconds returns a duration of Go, undefined if it is none. */
function milliseconds(duration = ''): number | undefined {
  if (!/^((\d+\.?\d*)(ns|us|µs|ms|s|m|h))+$/.test(duration)) return undefined;
  const parts = [...duration.matchAll(/(\d+\.?\d*)(ns|us|µs|ms|s|m|h)/g)];
  const sum = parts.reduce((total, [, number, unit]) => total + Number(number) * units[unit], 0);
  return Math.trunc(sum * 1000) / 1000;
}

function newTunnel(connection: KubeObject): Tunnel {
  const { value = '', latency, lost, failedNodes, mtu } = connection.status ?? {};
  const latencyMilliseconds = milliseconds(latency?.value);
  return {
    peer: labelOf(connection, label.peer),
    namespace: connection.metadata.namespace ?? '',
    name: connection.metadata.name,
    end: connection.spec?.type ?? '',
    state: value,
    ...(latencyMilliseconds !== undefined && { latencyMilliseconds }),
    ...(lost && { lost }),
    ...(failedNodes?.length && { failedNodes }),
    ...(mtu && { mtu }),
  };
}

function newNamespace(offloading: KubeObject): Namespace {
  const { remoteNamespaceName, offloadingPhase, remoteNamespacesConditions, misplacedPods } = offloading.status ?? {};
  return {
    name: offloading.metadata.namespace ?? '',
    ...(remoteNamespaceName && { remoteName: remoteNamespaceName }),
    strategy: offloading.spec?.podOffloadingStrategy ?? '',
    phase: offloadingPhase ?? '',
    providers: Object.keys(remoteNamespacesConditions ?? {}).sort().map(id => {
      const bad: any[] = remoteNamespacesConditions[id].filter((c: any) => c.type !== 'OffloadingRequired' && c.status !== 'True');
      return { id, ready: !bad.some(c => c.type === 'Ready'), alerts: bad.map(c => cleanLine(`${c.reason || c.type}: ${c.message ?? ''}`)) };
    }),
    ...(misplacedPods && { misplacedPods }),
  };
}

/** isOfUser reports whether a label names a user. Long names end in a hash, which is not compared: the slices of a consumer differ before it. */
function isOfUser(value: string, user: string): boolean {
  const escaped = user.replace(/[^A-Za-z0-9_.-]/g, '-');
  if (escaped.length > 63) return value.slice(0, -9) === escaped.slice(0, 54).replace(/^[-_.]+|[-.]+$/g, '');
  return value !== '' && value === escaped.replace(/^[-_.]+|[-_.]+$/g, '');
}

const isOfConsumer = (pod: KubeObject): boolean => labelOf(pod, label.managedBy) === 'shadowpod';

/** newDocument returns the document about facts. */
export function newDocument(facts: Facts): Document {
  const virtualNodes = listOf(facts, 'VirtualNode');
  const clusters = new Map(virtualNodes.map(n => [n.metadata.name, n.spec?.clusterID as string]));
  const tenants = new Map(listOf(facts, 'Namespace').map(n => [n.metadata.name, labelOf(n, label.peer)]));
  const peerOf = (o: KubeObject) => tenants.get(o.metadata.namespace ?? '') || labelOf(o, label.peer);
  const key = (o: KubeObject) => `${o.metadata.namespace}/${o.metadata.name}`;
  const pods = [...new Map(listOf(facts, 'Pod').map(pod => [key(pod), pod])).values()];
  const running = pods.filter(pod => !hasEnded(pod));
  const usedBy = (some: KubeObject[]): Resources => {
    const used: Resources = {};
    some.forEach(pod => add(used, requestsOf(pod)));
    return used;
  };
  const onNode = (node: string) => running.filter(pod => !isOfConsumer(pod) && pod.spec?.nodeName === node);

  const newSlice = (slice: KubeObject): Slice => {
    const provided = labelOf(slice, label.replicated) === 'true';
    const conditions: any[] = slice.status?.conditions ?? [];
    const bad = conditions.filter(c => c.status !== 'Accepted');
    const user = parseCertificate(slice.status?.authParams?.signedCRT)?.user;
    const nodes = virtualNodes.filter(n => n.metadata.namespace === slice.metadata.namespace && labelOf(n, label.slice) === slice.metadata.name);
    const used = provided
      ? running.filter(p => isOfConsumer(p) && user && isOfUser(labelOf(p, label.creator), user))
      : nodes.flatMap(n => onNode(n.metadata.name));
    return {
      peer: peerOf(slice),
      namespace: slice.metadata.namespace ?? '',
      name: slice.metadata.name,
      action: provided ? 'Providing' : 'Consuming',
      class: cleanLine(slice.spec?.class ?? ''),
      accepted: !bad.length && conditions.some(c => c.type === 'Resources'),
      alerts: bad.slice(0, maxEntries).map(c => cleanLine(c.message || `${c.type} is ${c.status}`)),
      asked: bound(slice.spec?.resources),
      granted: bound(slice.status?.resources),
      used: usedBy(used),
    };
  };

  const newVirtualNode = (vn: KubeObject): VirtualNode => {
    const conditions: any[] = vn.status?.conditions ?? [];
    const runs = conditions.length > 0 && conditions.every(c => ['Running', 'None'].includes(c.status));
    const own = onNode(vn.metadata.name);
    const node = find(facts, 'Node', vn.metadata.name);
    const known = !facts.unreadable?.Node && vn.spec?.createNode !== false;
    const slice = labelOf(vn, label.slice);
    return {
      name: vn.metadata.name,
      peer: vn.spec?.clusterID ?? '',
      ...(slice && { slice }),
      status: runs && (!known || isTrue(node, 'Ready')) ? 'Healthy' : 'Unhealthy',
      cordoned: known && node?.spec?.unschedulable === true,
      pods: own.length,
      capacity: bound(vn.spec?.resourceQuota?.hard),
      used: usedBy(own),
    };
  };

  const newPod = (pod: KubeObject): Pod => {
    const node = pod.spec?.nodeName;
    const ready = isTrue(pod, 'Ready');
    const reason = !ready && cleanLine(problemOf(pod).text);
    return {
      namespace: pod.metadata.namespace ?? '',
      name: pod.metadata.name,
      phase: pod.status?.phase ?? '',
      ready,
      ...(node && { cluster: clusters.get(node) ?? facts.clusterID, node }),
      ...(isOfConsumer(pod) && { consumer: cleanLine(labelOf(pod, label.origin)) }),
      ...(reason && { reason }),
    };
  };

  const issued = (kind: string) => ({ metadata, status }: KubeObject, peer: string) =>
    ({ object: refOf(kind, metadata), peer, issuer: facts.clusterID, data: status?.authParams?.signedCRT });
  const certificates = [
    ...listOf(facts, 'MutatingWebhookConfiguration').map(({ metadata, webhooks }) =>
      ({ object: refOf('MutatingWebhookConfiguration', metadata), peer: '', issuer: facts.clusterID, data: webhooks?.[0]?.clientConfig?.caBundle })), // all have the same
    ...listOf(facts, 'Identity').map(({ metadata, spec }) =>
      ({ object: refOf('Identity', metadata), peer: spec.clusterID, issuer: spec.clusterID, data: spec.authParams?.signedCRT })),
    ...listOf(facts, 'Tenant').map(t => issued('Tenant')(t, t.spec?.clusterID)),
    ...listOf(facts, 'ResourceSlice').filter(s => labelOf(s, label.replicated) === 'true').map(s => issued('ResourceSlice')(s, peerOf(s))),
  ].flatMap(({ data, ...one }) => {
    const { notBefore, notAfter } = parseCertificate(data) ?? {};
    return notBefore && notAfter ? [{ ...one, notBefore, notAfter }] : [];
  });
  const manager = listOf(facts, 'Deployment').find(d => labelOf(d, 'app.kubernetes.io/name') === 'controller-manager');
  return {
    format: 1,
    time: second(facts.now),
    cluster: { id: facts.clusterID, version: labelOf(manager, 'app.kubernetes.io/version'), kubernetes: facts.kubernetes ?? '' },
    peers: sortBy(listOf(facts, 'ForeignCluster').map(newPeer), 'id'),
    tunnels: sortBy(listOf(facts, 'Connection').map(newTunnel), 'peer', 'namespace', 'name'),
    slices: sortBy(listOf(facts, 'ResourceSlice').map(newSlice), 'peer', 'action', 'namespace', 'name'),
    virtualNodes: sortBy(virtualNodes.map(newVirtualNode), 'peer', 'name'),
    namespaces: sortBy(listOf(facts, 'NamespaceOffloading').map(newNamespace), 'name'),
    pods: sortBy(pods.map(newPod), 'namespace', 'name'),
    certificates: sortBy(certificates, 'peer', 'issuer', 'object'),
    unreadable: Object.fromEntries(Object.entries(facts.unreadable ?? {}).map(([kind, why]) => [kind, cleanLine(why)])),
  };
}
