// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Facts by the API access of Headlamp: lists that follow the cluster, with the rights of its user. Nothing is written.
import { makeCustomResourceClass } from '@kinvolk/headlamp-plugin/lib/Crd';
import React from 'react';
import { Facts, label, listOf } from './facts';

interface Query { labelSelector?: string; fieldSelector?: string; namespace?: string | string[] }

const newClass = (group: string, version: string, kind: string, isNamespaced = true) => {
  const name = kind.toLowerCase();
  const pluralName = name.replace(/y$/, 'ie') + 's';
  return makeCustomResourceClass({ apiInfo: [{ group, version }], kind, pluralName, singularName: name, isNamespaced });
};
const ours = (group: string, as: string, isNamespaced = true, query: Query = {}) => ({ as, api: newClass(group + '.liqo.io', 'v1beta1', as, isNamespaced), query });
const core = (as: string, query: Query = {}, group = '') => ({ as, api: newClass(group, 'v1', as, !['Node', 'Namespace', 'MutatingWebhookConfiguration'].includes(as)), query });

/** sources are the lists, as narrow as they can be. Several may give objects of one kind. */
const sources = {
  peers: ours('core', 'ForeignCluster', false),
  connections: ours('networking', 'Connection'),
  slices: ours('authentication', 'ResourceSlice'),
  identities: ours('authentication', 'Identity'),
  tenants: ours('authentication', 'Tenant'),
  virtualNodes: ours('offloading', 'VirtualNode'),
  offloadings: ours('offloading', 'NamespaceOffloading'),
  maps: ours('offloading', 'NamespaceMap'),
  nodes: core('Node', { labelSelector: `${label.nodeType}=virtual-node` }),
  tenantNamespaces: core('Namespace', { labelSelector: 'liqo.io/tenant-namespace=true' }),
  identity: core('ConfigMap', { labelSelector: 'app.kubernetes.io/name=clusterid-configmap' }),
  manager: core('Deployment', { labelSelector: 'app.kubernetes.io/name=controller-manager,app.kubernetes.io/part-of=liqo' }, 'apps'),
  webhook: core('MutatingWebhookConfiguration', { fieldSelector: 'metadata.name=liqo-webhook' }, 'admissionregistration.k8s.io'),
  offloadedPods: core('Pod', { labelSelector: label.shadowPod + '=true' }),
  consumerPods: core('Pod', { labelSelector: label.managedBy + '=shadowpod' }),
  kubelets: core('Pod', { labelSelector: 'offloading.liqo.io/component=virtual-kubelet' }),
  pods: core('Pod'),
  claims: core('PersistentVolumeClaim'),
  events: core('Event'),
};
type Source = keyof typeof sources;

/** detailed are the kinds with a page of details. */
export const detailed = [
  sources.peers, sources.slices, sources.virtualNodes, sources.offloadings,
  ours('networking', 'Configuration'), ours('networking', 'GatewayServer'), ours('networking', 'GatewayClient'),
].map(source => source.api);

const peering: Source[] = ['peers', 'connections', 'tenants', 'virtualNodes', 'offloadings', 'nodes', 'identity', 'offloadedPods'];
/** What the document of the fleet is made of, without events, which Headlamp shows itself. */
export const ofFleet: Source[] = [...peering, 'slices', 'identities', 'tenantNamespaces', 'manager', 'webhook', 'consumerPods'];
/** What an explanation is made of, with the objects of one namespace. */
export const ofExplanation: Source[] = [...peering, 'maps', 'kubelets', 'claims', 'events'];

/** useIsOffloaded reports whether a namespace is offloaded: one narrow list, for pages of clusters without Liqo, too. */
export function useIsOffloaded(namespace: string): boolean {
  const [items] = sources.offloadings.api.useList({ namespace });
  return !!items?.length;
}

/**
 * useFacts returns the facts of sources, undefined while they are loaded. The sources of a component must not change. Pods, claims and
 * events are those of the namespaces.
 */
export function useFacts(names: Source[], namespaces: string[]): Facts | undefined {
  const key = namespaces.join();
  // An empty list of namespaces would mean all of them.
  const within = React.useMemo<Query>(() => (key ? { namespace: key.split(',') } : { fieldSelector: 'metadata.name=none' }), [key]);
  const results = [...names, 'pods' as Source].map(name => {
    const { as, api, query } = sources[name];
    const [items, error] = api.useList({ ...query, ...(['pods', 'claims', 'events'].includes(name) && within) });
    return { as, items, error };
  });
  // eslint-disable-next-line react-hooks/exhaustive-deps
  return React.useMemo(() => newFacts(results), [...results.map(r => r.items), ...results.map(r => r.error)]);
}

function newFacts(results: { as: string; items: any[] | null; error: { message: string } | null }[]): Facts | undefined {
  if (results.some(r => !r.items && !r.error)) return undefined;
  const facts: Facts = { now: new Date().toISOString(), clusterID: '', unreadable: {}, objects: {} };
  for (const { as, items, error } of results) {
    facts.objects[as] = [...listOf(facts, as), ...(items ?? []).map(item => item.jsonData)];
    if (error) {
      facts.unreadable![as] = error.message;
    }
  }
  facts.clusterID = listOf(facts, 'ConfigMap')[0]?.data?.CLUSTER_ID ?? '';
  return facts;
}
