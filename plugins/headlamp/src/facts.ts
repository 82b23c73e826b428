// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Facts are the objects of a cluster, as its API server has them, and what several rules ask of them.

/** KubeObject is an object of any kind; its kind is that of the list it is in. */
export interface KubeObject {
  metadata: {
    name: string; namespace?: string; uid?: string; generation?: number; labels?: Record<string, string>; creationTimestamp?: string | null;
    deletionTimestamp?: string; ownerReferences?: { kind: string; name: string; controller?: boolean }[];
  };
  spec?: any; status?: any; [field: string]: any;
}

/** Facts are what a user may read of a cluster. */
export interface Facts {
  now: string;
  clusterID: string;
  kubernetes?: string;
  /** The reasons why kinds cannot be listed, by kind. */
  unreadable?: Record<string, string>;
  objects: Record<string, KubeObject[] | undefined>;
}

export const label = {
  peer: 'liqo.io/remote-cluster-id',
  replicated: 'liqo.io/replicated',
  destination: 'liqo.io/remoteID',
  slice: 'liqo.io/resourceslice-name',
  creator: 'liqo.io/creator-user',
  managedBy: 'liqo.io/managed-by',
  nodeType: 'liqo.io/type',
  virtualNode: 'liqo.io/virtual-node',
  shadowPod: 'liqo.io/shadowPod',
  origin: 'offloading.liqo.io/origin',
  unavailable: 'liqo.io/remote-unavailable',
};

export const listOf = (facts: Facts, kind: string): KubeObject[] => facts.objects[kind] ?? [];

export const labelOf = (object: KubeObject | undefined, key: string): string => object?.metadata.labels?.[key] ?? '';

/** find returns an object by its name, and its namespace if one is given. */
export function find(facts: Facts, kind: string, name: string, namespace?: string) {
  return listOf(facts, kind).find(o => o.metadata.name === name && (!namespace || o.metadata.namespace === namespace));
}

/** refOf returns the name of an object in a message. */
export function refOf(kind: string, object: { name?: string; namespace?: string }): string {
  return object.namespace ? `${kind} ${object.namespace}/${object.name}` : `${kind} ${object.name ?? ''}`;
}

const limit = 1024;
// Characters that control a terminal, or change the direction of the text behind them.
// eslint-disable-next-line no-control-regex
const commands = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** cleanLine bounds a text that a peer may have written, and makes it one line. */
export function cleanLine(text: string): string {
  const line = text.replace(/[\n\t\r\u2028\u2029]/g, ' ').replace(commands, '');
  const bytes = new TextEncoder().encode(line);
  if (bytes.length <= limit) return line;
  return new TextDecoder().decode(bytes.slice(0, limit - 3)).replace(/\ufffd+$/, '') + '…';
}

/** isTrue reports whether a condition of a Node, a Pod or one of ours is True. */
export function isTrue(object: KubeObject | undefined, type: string): boolean {
  return conditionOf(object, type)?.status === 'True';
}

export function conditionOf(object: KubeObject | undefined, type: string): any {
  return object?.status?.conditions?.find((c: any) => c.type === type);
}

export const hasEnded = (pod: KubeObject): boolean => ['Succeeded', 'Failed'].includes(pod.status?.phase);

/** problemOf returns why a pod is not ready: the state of a container, else its conditions. */
export function problemOf(pod: KubeObject): { reason: string; text: string } {
  const problem = (reason: string, message = '', exit = '') => ({ reason, text: reason + exit + (message && ': ' + message) });
  const lastWords = (ended: any) => (ended.message ?? '').trim().split('\n').pop() || ended.reason || '';
  if (pod.status?.phase === 'Succeeded') return problem('');
  let starting = problem('');
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  for (const { state = {}, lastState } of [...initContainerStatuses, ...containerStatuses]) {
    const { waiting, terminated } = state;
    if (['ContainerCreating', 'PodInitializing'].includes(waiting?.reason)) {
      starting = starting.reason ? starting : problem(waiting.reason);
    } else if (waiting) {
      const last = lastState?.terminated;
      return problem(waiting.reason || 'waiting', last ? lastWords(last) : waiting.message, last ? `, exit code ${last.exitCode ?? 0}` : '');
    } else if (terminated?.exitCode) {
      return problem(`exit code ${terminated.exitCode}`, lastWords(terminated));
    }
  }
  for (const [type, unnamed] of [['PodScheduled', 'not scheduled'], ['Ready', 'not ready']]) {
    const condition = conditionOf(pod, type);
    if (condition?.status === 'False') return problem(condition.reason || unnamed, condition.message);
  }
  return starting;
}
