// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Why a pod or a namespace works or not: the chain of "liqoctl explain -o json" with the links
// that this cluster shows. What needs the provider, or the gateways, is in liqoctl only.
import { cleanLine, conditionOf, Facts, find, hasEnded, isTrue, KubeObject, label, labelOf, listOf, problemOf, refOf } from './facts';
import { conditionText, misbehaviourOf, troubleOf, unready } from './fleet';
import guides from './guides.json';
import { add, compare, requestsOf, Resources, subtract } from './quantity';

export interface Finding { severity: 'failed' | 'warning'; object: string; message: string; remedy: string; page: string }

export interface Link { cluster: string; name: string; status: 'passed' | 'warning' | 'failed' | 'skipped'; note?: string; findings?: Finding[] }

export interface Explanation { object: string; stopped: boolean; chains: { name: string; links: Link[] }[] }

interface Guide { remedy: string; page: string }

const troubleshooting = 'docs/troubleshooting.md#';
const page = {
  pending: troubleshooting + 'a-pod-is-pending',
  misplaced: troubleshooting + 'misplaced',
  terminating: troubleshooting + 'a-pod-on-a-virtual-node-stays-terminating',
  node: troubleshooting + 'the-node-is-not-there-or-not-ready',
  notAllowed: troubleshooting + 'failedscheduling-virtual-nodeliqoionot-allowed',
  authentication: troubleshooting + 'nothing-is-replicated',
  network: troubleshooting + 'a-connection-is-not-connected',
  deletion: troubleshooting + 'deletion-does-not-end',
};
const minute = 60_000;

function failure(object: string, message: string, remedy: string, page: string): Finding {
  return { severity: 'failed', object, message: cleanLine(message), remedy, page };
}
const warning = (finding: Finding): Finding => ({ ...finding, severity: 'warning' });
const weigh = (all: Finding[], stops: boolean) => (stops ? all : all.map(warning));
const guideOf = (all: Record<string, Guide>, reason: string): Guide | undefined => all[reason];

/** Scene is a cluster with the object to explain. */
class Scene {
  readonly now = Date.parse(this.facts.now);
  readonly offloading = find(this.facts, 'NamespaceOffloading', 'offloading', this.namespace);
  readonly strategy: string = this.offloading?.spec?.podOffloadingStrategy ?? '';
  readonly remoteName: string = this.offloading?.status?.remoteNamespaceName ?? '';

  constructor(readonly facts: Facts, readonly namespace: string) {}

  unreadable = (kind: string) => this.facts.unreadable?.[kind];
  age = (time?: string | null) => this.now - Date.parse(time ?? '');
  virtualNode = (name: string) => find(this.facts, 'VirtualNode', name);
  node = (name: string) => find(this.facts, 'Node', name);

  isVirtual(name: string, pod: KubeObject): boolean {
    const node = this.node(name);
    return node ? labelOf(node, label.nodeType) === 'virtual-node' : !!this.virtualNode(name) || labelOf(pod, label.shadowPod) === 'true';
  }

  providerOf(node: string): string {
    return this.virtualNode(node)?.spec?.clusterID ?? labelOf(this.node(node), label.peer);
  }

  /** remoteCondition returns a condition of the remote namespace in a provider. */
  remoteCondition(provider: string, type: string): any {
    const all = this.offloading?.status?.remoteNamespacesConditions?.[provider] ?? [];
    return all.find((c: any) => c.type === type);
  }

  /** latestEvent returns the last event about an object with one of the reasons. */
  latestEvent(kind: string, about: KubeObject, reasons: string[], host?: string) {
    const time = (e: KubeObject) => Date.parse(e.series?.lastObservedTime ?? (e.lastTimestamp || e.eventTime || ''));
    const isAbout = ({ involvedObject: of, reason, source }: KubeObject) =>
      of?.kind === kind && of.name === about.metadata.name && (!of.uid || of.uid === about.metadata.uid) &&
      (!host || !source?.host || source.host === host) && reasons.includes(reason);
    return listOf(this.facts, 'Event').filter(isAbout).sort((a, b) => time(a) - time(b)).pop();
  }
}

/** Chain appends links until one fails. */
class Chain {
  readonly links: Link[] = [];
  stopped = false;

  /** If the object works, what is wrong on its way is a warning: lenient. */
  constructor(
    readonly scene: Scene,
    public name: string,
    readonly lenient = false
  ) {}

  add(name: string, note: string, rule: () => Finding[], needs: string[] = []) {
    const { scene } = this;
    const missing = needs.filter(kind => scene.unreadable(kind));
    const link: Link = { cluster: scene.facts.clusterID, name, status: 'skipped', ...(note && !missing.length && { note: cleanLine(note) }) };
    if (!this.stopped) {
      const found = missing.length ? [unchecked(missing.join(', '), scene.unreadable(missing[0])!)] : rule();
      const findings = weigh(found, !this.lenient);
      this.stopped = findings.some(f => f.severity === 'failed');
      link.status = this.stopped ? 'failed' : findings.length ? 'warning' : 'passed';
      if (findings.length) link.findings = findings;
    }
    this.links.push(link);
  }
}

function unchecked(object: string, why: string): Finding {
  const [remedy, anchor] = why.includes('forbidden')
    ? ['ask for the right to list it', 'is-forbidden-or-you-are-not-allowed-to']
    : ['see why the cluster does not answer, and try again', 'a-command-does-not-reach-a-cluster'];
  return warning(failure(object, 'not checked: ' + why, remedy, troubleshooting + anchor));
}

function newExplanation(object: string, ...chains: Chain[]): Explanation {
  return { object, stopped: chains.some(c => c.stopped), chains: chains.map(({ name, links }) => ({ name, links })) };
}

/** stopOf returns the finding that stops an object, undefined if nothing does. */
export function stopOf(e: Explanation): Finding | undefined {
  const all = e.chains.flatMap(c => c.links).flatMap(l => l.findings ?? []);
  return all.find(f => f.severity === 'failed');
}

function works(pod: KubeObject): boolean {
  const { phase } = pod.status ?? {};
  const isReady = phase === 'Running' && !pod.metadata.deletionTimestamp && isTrue(pod, 'Ready');
  return phase === 'Succeeded' || isReady;
}

const ownerOf = (pod: KubeObject) => pod.metadata.ownerReferences?.find(o => o.controller);

/** explainPod returns why a pod runs where it does, or does not run. */
export function explainPod(facts: Facts, pod: KubeObject): Explanation {
  const s = new Scene(facts, pod.metadata.namespace ?? '');
  const ref = refOf('Pod', pod.metadata);
  const ending = pod.metadata.deletionTimestamp;
  const isEnding = !!ending && s.age(ending) <= minute;
  const chain = new Chain(s, ref, works(pod) || isEnding);
  chain.add('the pod exists, and has not failed', '', () => findEnd(s, pod, ref, isEnding));
  const node = pod.spec?.nodeName;
  if (!node) {
    addScheduling(chain, pod, ref);
  } else if (s.isVirtual(node, pod)) {
    chain.name = `${ref} on the virtual node ${node}`;
    addOffloading(chain, pod, ref, isEnding);
  } else {
    chain.name = `${ref} on the node ${node}`;
    chain.add('the scheduler chose a node of this cluster', whyHere(s, pod), () => findMisplaced(s, pod, ref), ['NamespaceOffloading']);
    chain.add('the containers run', '', () => findUnready(s, pod, ref, isEnding));
  }
  return newExplanation(ref, chain);
}

function findEnd(s: Scene, pod: KubeObject, ref: string, isEnding: boolean): Finding[] {
  const { phase, reason, message } = pod.status ?? {};
  if (phase === 'Failed') {
    const why = [reason, message].filter(Boolean).join(': ') || problemOf(pod).text;
    const anchor = reason === 'OffloadingAborted' ? troubleshooting + 'offloadingaborted' : page.pending;
    const remedy = 'its owner makes another; see kubectl logs and kubectl describe pod';
    return [failure(ref, 'it has failed: ' + (why || 'no reason is given'), remedy, anchor)];
  }
  if (isEnding) return [warning(failure(ref, 'it is being deleted', 'wait', page.terminating))];
  if (pod.metadata.deletionTimestamp) {
    const late = spanOf(s.age(pod.metadata.deletionTimestamp));
    return [failure(ref, `its deletion should have ended ${late} ago`, 'see the node and its finalizers', page.terminating)];
  }
  return [];
}

/** spanOf writes a duration as Go does. */
function spanOf(milliseconds: number): string {
  const all = Math.round(milliseconds / 1000);
  const [h, m, s] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  return (h ? `${h}h` : '') + (h || m ? `${m}m` : '') + `${s}s`;
}

function whyHere(s: Scene, pod: KubeObject): string {
  if (!s.offloading) return 'the namespace is not offloaded';
  const made = Date.parse(pod.metadata.creationTimestamp ?? '');
  if (s.strategy === 'Local') return 'the strategy Local keeps pods here';
  if (pod.metadata.ownerReferences?.some(o => o.kind === 'DaemonSet')) return 'pods of DaemonSets are not steered';
  if (made < Date.parse(s.offloading.metadata.creationTimestamp ?? '')) return 'the pod is older than the offloading';
  return s.strategy === 'Remote' ? 'the strategy is Remote' : 'the strategy LocalAndRemote permits both';
}

function findMisplaced(s: Scene, pod: KubeObject, ref: string): Finding[] {
  const owner = ownerOf(pod);
  const decided = pod.spec?.runtimeClassName === 'liqo' || owner?.kind === 'DaemonSet';
  const over = hasEnded(pod) || pod.metadata.deletionTimestamp;
  if (s.strategy !== 'Remote' || decided || over || s.unreadable('Node')) return [];
  const remedy = owner ? `delete it: ${owner.kind} ${owner.name} makes another` : 'delete it, and make it again';
  return [warning(failure(ref, 'the strategy of the offloading forbids this node', remedy, page.misplaced))];
}

const startReasons = ['', 'ContainerCreating', 'PodInitializing', 'ContainersNotReady', 'ContainersNotInitialized', 'not ready'];
const noImage = 'ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull ImageInspectError RegistryUnavailable SignatureValidationFailed'.split(' ');

function findUnready(s: Scene, pod: KubeObject, ref: string, isEnding: boolean): Finding[] {
  if (works(pod)) return [];
  if (isEnding) return [warning(failure(ref, 'it is being deleted', 'wait', page.pending))];
  const { reason, text } = problemOf(pod);
  const scheduled = conditionOf(pod, 'PodScheduled');
  const began = [pod.metadata.creationTimestamp, pod.status?.startTime, scheduled?.status === 'True' && scheduled.lastTransitionTime];
  const isStarting = began.some(time => time && s.age(time) < minute);
  const look = `see kubectl describe pod and kubectl logs -n ${pod.metadata.namespace} ${pod.metadata.name}`;
  const isMade = !['ContainerCreating', 'PodInitializing'].includes(reason);
  let found = failure(ref, isMade ? text || 'no status was reported' : 'the containers are being made', look, page.pending);
  if (noImage.includes(reason)) found = failure(ref, text, 'give the image another name, or the pod an imagePullSecret', troubleshooting + 'remoteimagefailed');
  return weigh([found], !isStarting || !startReasons.includes(reason));
}

function strategyNote(s: Scene): string {
  if (!s.offloading) return 'only here: it is not offloaded';
  return s.strategy === 'Local' ? 'only here: the strategy is Local' : 'the strategy is ' + s.strategy;
}

function findSelection(s: Scene, stops: boolean): Finding[] {
  const phase = s.offloading?.status?.offloadingPhase;
  if (!s.offloading || phase !== 'NoClusterSelected' || s.strategy === 'Local') return [];
  const ref = refOf('NamespaceOffloading', s.offloading.metadata);
  const remedy = 'run liqoctl offload namespace with another --selector, or label the virtual node';
  return weigh([failure(ref, 'its clusterSelector matches no virtual node', remedy, troubleshooting + 'clusternotselected')], stops);
}

function addScheduling(chain: Chain, pod: KubeObject, ref: string) {
  const s = chain.scene;
  const selected = () => findSelection(s, s.strategy === 'Remote');
  chain.add('the namespace says where it may run', strategyNote(s), selected, ['NamespaceOffloading']);
  chain.add('its volumes are there', '', () => findVolumes(s, pod), ['PersistentVolumeClaim']);
  chain.add('a node takes it', '', () => findPlace(s, pod, ref));
}

function findVolumes(s: Scene, pod: KubeObject): Finding[] {
  const claims: string[] = (pod.spec?.volumes ?? []).map((v: any) => v.persistentVolumeClaim?.claimName).filter(Boolean);
  return claims.flatMap(name => {
    const ref = refOf('PersistentVolumeClaim', { namespace: s.namespace, name });
    const claim = find(s.facts, 'PersistentVolumeClaim', name, s.namespace);
    if (!claim) return [failure(ref, 'it does not exist', 'create it', page.pending)];
    if (claim.status?.phase === 'Lost') return [failure(ref, 'its volume is lost', 'restore the data', troubleshooting + 'volumelost')];
    const reasons = ['ProvisioningFailed', 'RemoteClaimFailed', 'ProvisioningSucceeded'];
    const event = s.latestEvent('PersistentVolumeClaim', claim, reasons);
    if (claim.status?.phase !== 'Pending' || event?.type !== 'Warning') return [];
    return [failure(ref, `${event.reason}: ${event.message}`, 'see kubectl describe pvc', troubleshooting + 'provisioningfailed')];
  });
}

function findPlace(s: Scene, pod: KubeObject, ref: string): Finding[] {
  const gate = pod.spec?.schedulingGates?.[0]?.name;
  if (gate) return [failure(ref, `the scheduling gate ${gate} holds it back`, 'see the controller of that gate', page.pending)];
  const scheduled = conditionOf(pod, 'PodScheduled');
  if (scheduled?.status !== 'False') {
    if (s.age(pod.metadata.creationTimestamp) < minute / 2) return [warning(failure(ref, 'the scheduler has not looked at it yet', 'wait', page.pending))];
    const scheduler = pod.spec?.schedulerName || 'default-scheduler';
    return [failure(ref, `the scheduler "${scheduler}" has not looked at it`, 'see the pods of that scheduler', page.pending)];
  }
  let objections: Finding[] = [];
  let remedy = 'free resources, or add nodes';
  let anchor = troubleshooting + 'failedscheduling-insufficient-resources';
  if (s.strategy === 'Local') {
    remedy = 'free resources here, or offload with another --pod-offloading-strategy';
    anchor = page.notAllowed;
  } else if (!s.offloading && !s.unreadable('NamespaceOffloading')) {
    remedy = `free resources here, or run: liqoctl offload namespace ${s.namespace}`;
    anchor = page.notAllowed;
  } else if (s.offloading && !s.unreadable('Node')) {
    objections = findNodeObjections(s, pod);
  }
  return [...objections, failure(ref, scheduled.message || scheduled.reason || '', remedy, anchor)];
}

/** findNodeObjections returns why each virtual node that may be used does not take a pod. */
function findNodeObjections(s: Scene, pod: KubeObject): Finding[] {
  const isVirtual = (n: KubeObject) => labelOf(n, label.nodeType) === 'virtual-node';
  const nodes = listOf(s.facts, 'Node').filter(isVirtual);
  const terms = s.offloading?.spec?.clusterSelector?.nodeSelectorTerms;
  if (!nodes.length) return [failure('Node', 'this cluster has no virtual node', 'run: liqoctl create resourceslice', page.node)];
  return nodes.filter(n => !terms?.length || matchesTerms(n, terms)).flatMap(n => objectionOf(s, pod, n) ?? []);
}

function matchesTerms(node: KubeObject, terms: any[]): boolean {
  const operators: Record<string, (value: string | undefined, values: string[]) => boolean> = {
    In: (value, values) => value !== undefined && values.includes(value),
    NotIn: (value, values) => value === undefined || !values.includes(value),
    Exists: value => value !== undefined,
    DoesNotExist: value => value === undefined,
    Gt: (value, [bound]) => Number(value) > Number(bound),
    Lt: (value, [bound]) => Number(value) < Number(bound),
  };
  const byLabel = (e: any) => operators[e.operator](node.metadata.labels?.[e.key], e.values ?? []);
  const byName = (e: any) => operators[e.operator](node.metadata.name, e.values ?? []);
  return terms.some(({ matchExpressions: labels = [], matchFields: fields = [] }) => (labels.length || fields.length) && labels.every(byLabel) && fields.every(byName));
}

function objectionOf(s: Scene, pod: KubeObject, node: KubeObject): Finding | undefined {
  const { name, labels = {} } = node.metadata;
  const object = (message: string, remedy: string, anchor: string) => failure(refOf('Node', node.metadata), message, remedy, anchor);
  const terms = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  const selected = Object.entries(pod.spec?.nodeSelector ?? {}).every(([k, v]) => labels[k] === v);
  if (!selected || (terms && !matchesTerms(node, terms))) {
    const message = 'the node selector or affinity of the pod, with the clusterSelector of the offloading, does not match its labels';
    return object(message, 'change the selector: liqoctl offload namespace --selector, or label the node', 'docs/offload-namespaces.md#choose-providers');
  }
  if (!isTrue(node, 'Ready')) return object('it is not Ready' + whyNotReady(node), explainNode(name), page.node);
  if (node.spec?.unschedulable) return object('it is cordoned', 'run: kubectl uncordon ' + name, page.node);
  const taint = (node.spec?.taints ?? []).find((t: any) => t.effect !== 'PreferNoSchedule' && !tolerates(pod, t));
  if (taint?.key === 'virtual-node.liqo.io/withdrawn') {
    return object('its provider withdrew the ResourceSlice', explainNode(name), troubleshooting + 'resourceslicewithdrawn');
  }
  if (taint) return object('the pod does not tolerate its taint ' + taint.key, 'add a toleration, or make the pod anew', page.notAllowed);
  const short = s.unreadable('Pod') ? [] : findShortages(s, pod, node);
  if (short.length) {
    const remedy = 'ask for more: liqoctl create resourceslice, or end other pods';
    return object('too little is free: ' + short.join('; '), remedy, troubleshooting + 'failedscheduling-insufficient-resources');
  }
}

const explainNode = (name: string) => 'run: liqoctl explain node ' + name;

function whyNotReady(node: KubeObject): string {
  const ready = conditionOf(node, 'Ready');
  return ready ? `: ${ready.reason ?? ''}: ${ready.message ?? ''}` : '';
}

function tolerates({ spec }: KubeObject, { key, effect, value = '' }: any): boolean {
  const isOf = (t: any) => (!t.effect || t.effect === effect) && (!t.key || t.key === key);
  return (spec?.tolerations ?? []).some((t: any) => isOf(t) && ((t.operator || 'Equal') !== 'Equal' || (t.value ?? '') === value));
}

function findShortages(s: Scene, pod: KubeObject, node: KubeObject): string[] {
  const used: Resources = {};
  for (const other of listOf(s.facts, 'Pod')) {
    if (other.spec?.nodeName === node.metadata.name && !hasEnded(other)) add(used, requestsOf(other));
  }
  const budget: Resources = node.status?.allocatable ?? {};
  const need = requestsOf(pod);
  return Object.keys(need).sort()
    .filter(r => compare(need[r], '0') > 0 && (r in budget || r !== 'pods'))
    .map(r => ({ r, free: subtract(budget[r], used[r]) }))
    .filter(({ r, free }) => compare(free, need[r]) < 0)
    .map(({ r, free }) => `${r}: ${free} free, ${need[r]} requested`);
}

/** addOffloading adds the links of a pod on a virtual node. */
function addOffloading(chain: Chain, pod: KubeObject, ref: string, isEnding: boolean) {
  const s = chain.scene;
  const node: string = pod.spec?.nodeName;
  const provider = s.providerOf(node);
  const isThere = (pod.status?.containerStatuses ?? []).length > 0;
  const isMeant = (pod.spec?.tolerations ?? []).some((t: any) => t.key === 'virtual-node.liqo.io/not-allowed');
  if (ownerOf(pod)?.kind === 'DaemonSet' && !isMeant) {
    const message = 'virtual nodes do not run pods of a DaemonSet that tolerates every taint';
    const remedy = 'restart the rollout of the DaemonSet, which is kept off virtual nodes then';
    chain.add('virtual nodes take such pods', '', () => [failure(ref, message, remedy, 'docs/pods.md#daemonsets')]);
  }
  addPeering(chain, provider);
  chain.add('the namespace is offloaded to the provider', s.remoteName, () => findRemoteNamespace(s, provider), ['NamespaceOffloading']);
  const shown = s.node(node);
  addNetwork(chain, provider, !!shown && !isTrue(shown, 'Ready'));
  addVirtualNode(chain, node, !isThere);
  chain.add('the provider accepts the pod', '', () => findRefusal(s, pod, ref, isThere));
  const there = `${ref} (in ${provider || 'the provider'})`;
  chain.add('a node of the provider takes the pod', '', () => {
    const scheduled = conditionOf(pod, 'PodScheduled');
    if (scheduled?.status !== 'False') return [];
    const remedy = 'add or free nodes in the provider, or change what the pod requests and selects';
    return [failure(there, scheduled.message || scheduled.reason || '', remedy, troubleshooting + 'remoteunschedulable')];
  });
  chain.add('the containers run, and are ready', '', () => findUnready(s, pod, there, isEnding));
  if (labelOf(pod, label.unavailable) === 'true') {
    const message = 'its virtual node was not ready, so that it counts as not ready';
    chain.add('the virtual node vouches for it', '', () => [failure(ref, message, explainNode(node), page.node)]);
  }
}

function addPeering(chain: Chain, provider: string) {
  const { facts } = chain.scene;
  const rule = (): Finding[] => {
    if (!provider) {
      const message = 'not checked: the provider of the node is not known';
      const anchor = troubleshooting + 'is-forbidden-or-you-are-not-allowed-to';
      return [warning(failure('ForeignCluster', message, 'ask for the right to read it', anchor))];
    }
    const peer = listOf(facts, 'ForeignCluster').find(p => p.spec?.clusterID === provider);
    const ref = refOf('ForeignCluster', { name: peer?.metadata.name ?? provider });
    if (!peer) return [failure(ref, 'there is no peering with this cluster', 'run: liqoctl peer', 'docs/peering.md')];
    const otherwise = { remedy: 'see the events of the tenant namespace', page: page.authentication };
    const all = unready(peer.status?.modules?.authentication)
      .filter((c: any) => c.type !== 'AuthVersionStatus' || c.status === 'Error')
      .map(c => conditionFailure(ref, c, otherwise));
    const trouble = troubleOf(peer);
    if (trouble && !all.length) all.push(failure(ref, trouble, otherwise.remedy, otherwise.page));
    const misbehaviour = misbehaviourOf(peer);
    if (misbehaviour) all.push(warning(conditionFailure(ref, misbehaviour, guides.peer.AnswerTooLarge)));
    return all;
  };
  chain.add('the peering works', '', rule, ['ForeignCluster', 'Tenant']);
}

function conditionFailure(ref: string, c: any, otherwise: Guide): Finding {
  const { remedy, page } = guideOf(guides.peer, c.reason) ?? otherwise;
  const found = failure(ref, conditionText(c), remedy, page);
  return weigh([found], !['Pending', 'SomeNotReady'].includes(c.status))[0];
}

/** addNetwork adds the link of the network, which does not stop what works without it. */
function addNetwork(chain: Chain, provider: string, stops: boolean) {
  const { facts } = chain.scene;
  const peer = listOf(facts, 'ForeignCluster').find(p => p.spec?.clusterID === provider);
  const tunnel = listOf(facts, 'Connection').find(c => labelOf(c, label.peer) === provider);
  const otherwise = { remedy: 'run: liqoctl check --peer ' + provider, page: page.network };
  const ref = refOf('ForeignCluster', { name: peer?.metadata.name });
  const rule = () => weigh(unready(peer?.status?.modules?.networking).map(c => conditionFailure(ref, c, otherwise)), stops);
  chain.add('the network is connected', tunnel?.status?.latency?.value ?? '', rule, ['ForeignCluster', 'Connection']);
}

/** addVirtualNode adds the link of a virtual node, which must take new pods if news is true. */
function addVirtualNode(chain: Chain, name: string, news: boolean) {
  const s = chain.scene;
  chain.add(`the virtual node ${name} is ready`, '', () => findVirtualNode(s, name, news), ['VirtualNode', 'Node']);
}

function findVirtualNode(s: Scene, name: string, news: boolean): Finding[] {
  const vn = s.virtualNode(name);
  const node = s.node(name);
  const ref = 'Node ' + name;
  if (!vn) return [failure('VirtualNode ' + name, 'it does not exist', 'run: liqoctl create virtualnode', page.node)];
  const misbehaves = conditionOf(node, 'PeerMisbehaves');
  const { remedy: ask, page: limits } = guideOf(guides.peer, misbehaves?.reason) ?? guides.peer.AnswerTooLarge;
  const sends = misbehaves?.status === 'True' ? [failure(ref, `${misbehaves.reason}: ${misbehaves.message}`, ask, limits)] : [];
  if (isTrue(node, 'Ready') && !node?.spec?.unschedulable) {
    const withdrawn = conditionOf(node, 'ResourceSliceWithdrawn');
    const remedy = 'see the ResourceSlice, and the Tenant in the provider';
    const anchor = troubleshooting + 'resourceslicewithdrawn';
    const keeps = withdrawn?.status === 'True' ? [failure(ref, withdrawn.message ?? '', remedy, anchor)] : [];
    return [...weigh(keeps, news), ...sends.map(warning)];
  }
  const isKubelet = ({ metadata }: KubeObject) => metadata.labels?.[label.virtualNode] === name && metadata.namespace === vn.metadata.namespace;
  const kubelet = listOf(s.facts, 'Pod').find(p => isKubelet(p) && !['', 'ContainerCreating'].includes(problemOf(p).reason));
  if (kubelet) {
    const { namespace, name } = kubelet.metadata;
    const remedy = `see its log: kubectl logs -n ${namespace} ${name}`;
    return [failure(refOf('Pod', kubelet.metadata), 'the virtual kubelet does not run: ' + problemOf(kubelet).text, remedy, page.node)];
  }
  const virtual = refOf('VirtualNode', vn.metadata);
  const conditions: any[] = vn.status?.conditions ?? [];
  const bad = conditions.filter(c => !['Running', 'None'].includes(c.status)).map(c => `${c.type} is ${c.status}: ${c.message || c.reason || ''}`);
  const all = bad.map(text => failure(virtual, text, 'see its events and the pod of its virtual kubelet', page.node));
  if (!conditions.length) all.push(failure(virtual, 'no virtual kubelet was made', 'see the events of the VirtualNode', page.node));
  if (all.length || vn.spec?.createNode === false) return all;
  if (!node) return [failure(ref, 'the Node of the VirtualNode is missing', 'see the pod of its virtual kubelet', page.node)];
  if (!isTrue(node, 'Ready')) return [failure(ref, 'the virtual node is not Ready' + whyNotReady(node), 'see the conditions of the Node', page.node), ...sends];
  return [warning(failure(ref, 'the virtual node is cordoned', 'run: kubectl uncordon ' + name, page.node)), ...sends];
}

function findRefusal(s: Scene, pod: KubeObject, ref: string, isThere: boolean): Finding[] {
  const refuse = (reason = '', message = '') => {
    const known = guides.refusals.find(r => message.includes(r.text));
    const guide = known ?? guideOf(guides.reflection, reason) ?? guides.reflection.OffloadingRefused;
    const text = [reason, message].filter(Boolean).join(': ');
    return [failure(ref, text, guide.remedy, guide.page)];
  };
  const accepted = conditionOf(pod, 'offloading.liqo.io/Accepted');
  if (accepted?.status === 'False') return refuse(accepted.reason, accepted.message);
  if (works(pod) || isThere) return [];
  const reasons = ['SuccessfulReflection', ...Object.keys(guides.reflection)];
  const event = s.latestEvent('Pod', pod, reasons, pod.spec?.nodeName);
  return event && event.reason !== 'SuccessfulReflection' ? refuse(event.reason, event.message) : [];
}

function findRemoteNamespace(s: Scene, provider: string): Finding[] {
  const { offloading, namespace } = s;
  if (!offloading) {
    const anchor = troubleshooting + 'offloadingbackoff';
    return [failure('Namespace ' + namespace, 'it is not offloaded', 'run: liqoctl offload namespace ' + namespace, anchor)];
  }
  const phase = offloading.status?.offloadingPhase ?? '';
  const ref = refOf('NamespaceOffloading', offloading.metadata);
  const ready = s.remoteCondition(provider, 'Ready');
  const required = s.remoteCondition(provider, 'OffloadingRequired');
  if (!provider) {
    const anchor = troubleshooting + 'a-namespace-is-somefailed-allfailed-or-stays-inprogress';
    const found = warning(failure(ref, 'its phase is ' + phase, 'run: liqoctl explain namespace ' + namespace, anchor));
    return phase === 'Ready' ? [] : [found];
  }
  if (ready?.status === 'True') return [];
  if (!required && !ready) {
    const remedy = 'see the NamespaceMap and the log of liqo-controller-manager';
    return [failure(ref, `it has no condition about ${provider} yet`, remedy, troubleshooting + 'creating')];
  }
  if (required && required.status !== 'True') {
    const message = `its clusterSelector does not match a virtual node of ${provider}`;
    return [failure(ref, message, 'run liqoctl offload namespace with another --selector', troubleshooting + 'clusternotselected')];
  }
  if (!ready) return [];
  const isOurs = (m: KubeObject) => labelOf(m, label.replicated) !== 'true' && !m.metadata.deletionTimestamp;
  const map = listOf(s.facts, 'NamespaceMap').find(m => isOurs(m) && (labelOf(m, label.destination) || m.metadata.name) === provider);
  const reason = map?.status?.currentMapping?.[namespace]?.reason || ready.reason || '';
  const isRetried = ready.reason === 'CreationLoopBackOff';
  const log = 'see the log of liqo-crd-replicator, and the events of the NamespaceMap in the provider';
  const { remedy, page } = guideOf(guides.mapping, reason) ?? {
    remedy: isRetried ? "see the message, which is the provider's" : log,
    page: troubleshooting + (isRetried ? 'creationloopbackoff' : 'creating'),
  };
  return [failure(map ? refOf('NamespaceMap', map.metadata) : ref, `${cleanLine(reason)}: ${ready.message ?? ''}`, remedy, page)];
}

/** explainNamespace returns why a namespace is offloaded or not, to each provider. */
export function explainNamespace(facts: Facts, name: string): Explanation {
  const s = new Scene(facts, name);
  const ref = 'Namespace ' + name;
  const { offloading } = s;
  const chain = new Chain(s, ref);
  const needs = ['NamespaceOffloading'];
  chain.add('the namespace stays', '', () => findTermination(s, ref));
  const missing = failure(ref, 'it has no NamespaceOffloading', 'run: liqoctl offload namespace ' + name, 'docs/offload-namespaces.md');
  chain.add('it is offloaded', '', () => (offloading ? [] : [missing]), needs);
  chain.add('the offloading is valid, and was processed', strategyNote(s), () => findUnprocessed(s, offloading!), needs);
  chain.add('a virtual node is selected', '', () => findSelection(s, true));
  chain.add('its pods can be created, and fit the strategy', '', () => findUncreated(s));
  const providers = Object.keys(offloading?.status?.remoteNamespacesConditions ?? {})
    .sort()
    .filter(id => s.remoteCondition(id, 'OffloadingRequired')?.status === 'True');
  return newExplanation(ref, chain, ...providers.map(id => explainMapping(s, id)));
}

function explainMapping(s: Scene, provider: string): Chain {
  const chain = new Chain(s, `Namespace ${s.namespace} in ${provider}`);
  addPeering(chain, provider);
  chain.add('the remote namespace is made', s.remoteName, () => findRemoteNamespace(s, provider));
  for (const { metadata, spec } of listOf(s.facts, 'VirtualNode')) {
    if (spec?.clusterID === provider && spec.createNode !== false) addVirtualNode(chain, metadata.name, true);
  }
  chain.add('its protection applies there', '', () => findProtection(s, provider));
  return chain;
}

function findTermination(s: Scene, ref: string): Finding[] {
  const namespace = find(s.facts, 'Namespace', s.namespace);
  if (!namespace && s.unreadable('Namespace')) return [unchecked('Namespace', s.unreadable('Namespace')!)];
  if (!namespace) {
    const anchor = troubleshooting + 'a-namespace-is-somefailed-allfailed-or-stays-inprogress';
    return [failure(ref, 'it does not exist', 'create it; remote namespaces are made again by Liqo', anchor)];
  }
  if (!namespace.metadata.deletionTimestamp) return [];
  const conditions: any[] = namespace.status?.conditions ?? [];
  const why = conditions.filter(c => c.status === 'True').map(c => c.message);
  const remedy = 'see its conditions and the finalizers of what is in it';
  return [failure(ref, ['it is being deleted', why.join('; ')].filter(Boolean).join(': '), remedy, page.deletion)];
}

function findUnprocessed(s: Scene, offloading: KubeObject): Finding[] {
  const ref = refOf('NamespaceOffloading', offloading.metadata);
  if (offloading.metadata.deletionTimestamp) return [failure(ref, 'it is being deleted, and waits for the remote namespaces', 'see its events', page.deletion)];
  if ((offloading.status?.observedGeneration ?? 0) >= (offloading.metadata.generation ?? 0)) return [];
  const reasons = ['Invalid', 'InvalidAnnotation'];
  const event = s.latestEvent('NamespaceOffloading', offloading, reasons);
  if (event?.reason === 'Invalid') {
    const remedy = 'run: kubectl edit namespaceoffloading -n ' + s.namespace;
    return [failure(ref, 'Invalid: ' + event.message, remedy, troubleshooting + 'invalid')];
  }
  const message = 'its present generation was not processed';
  return [failure(ref, message, 'see the pods and the log of liqo-controller-manager', troubleshooting + 'begin-here')];
}

function findUncreated(s: Scene): Finding[] {
  const all: Finding[] = [];
  const event = listOf(s.facts, 'Event').find(e => e.reason === 'FailedCreate' && s.age(e.lastTimestamp ?? e.eventTime) <= 10 * minute);
  if (event) {
    const { kind, name } = event.involvedObject;
    const anchor = troubleshooting + 'pods-cannot-be-created-in-an-offloaded-namespace';
    all.push(failure(refOf(kind, { namespace: s.namespace, name }), event.message ?? '', 'see the message', anchor));
  }
  const misplaced = s.offloading?.status?.misplacedPods;
  if (misplaced) {
    const message = `${misplaced} pods do not fit the strategy`;
    const remedy = 'see the events Misplaced: kubectl events -n ' + s.namespace;
    all.push(warning(failure(refOf('NamespaceOffloading', s.offloading!.metadata), message, remedy, page.misplaced)));
  }
  return all;
}

function findProtection(s: Scene, provider: string): Finding[] {
  return ['NetworkPoliciesEnforced', 'PodSecuritySatisfied']
    .map(type => s.remoteCondition(provider, type))
    .filter(c => c?.status === 'False')
    .map(c => {
      const { remedy, page } = guideOf(guides.protection, c.reason) ?? {
        remedy: 'see the message',
        page: 'docs/offload-namespaces.md#protection-that-does-not-apply-in-the-provider',
      };
      return warning(failure(refOf('NamespaceOffloading', s.offloading!.metadata), `${c.reason}: ${c.message}`, remedy, page));
    });
}
