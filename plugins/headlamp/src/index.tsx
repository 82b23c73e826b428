// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Liqo in Headlamp: a page with the map of peers, and sections on the pages of our kinds, pods and namespaces.
import { registerDetailsViewSection, registerRoute, registerSidebarEntry } from '@kinvolk/headlamp-plugin/lib';
import { ConditionsTable, DetailsGrid, Link, Loader, NameValueTable, SectionBox } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import React from 'react';
import { useParams } from 'react-router-dom';
import { KubeObject, label, labelOf, listOf } from './facts';
import { conditionText, Document, newDocument, unready } from './fleet';
import { detailed, ofExplanation, ofFleet, useFacts, useIsOffloaded } from './read';
import { Alerts, Lists, Mark, PeerMap, resourcesText, State, Usage, Why, worstTunnel } from './views';
import { explainNamespace, explainPod } from './why';

const groups: Record<string, string> = { ForeignCluster: 'core', Connection: 'networking', ResourceSlice: 'authentication' };

/** linkTo returns a link to the page of an object. */
function linkTo(kind: string, name: string, namespace?: string) {
  const crd = groups[kind] && `${kind.toLowerCase()}s.${groups[kind]}.liqo.io`;
  const params = crd ? { crd, crName: name, namespace: namespace ?? '-' } : { name, namespace };
  return <Link routeName={crd ? 'customresource' : kind.toLowerCase()} params={params}>{name}</Link>;
}

/** useDocument returns the document of the fleet, undefined while it is loaded. The pods follow the list of offloaded namespaces. */
function useDocument(): Document | undefined {
  const [namespaces, setNamespaces] = React.useState<string[]>([]);
  const facts = useFacts(ofFleet, namespaces);
  const offloaded = facts && listOf(facts, 'NamespaceOffloading').map(o => o.metadata.namespace!).sort();
  const key = offloaded?.join();
  React.useEffect(() => setNamespaces(now => offloaded ?? now), [key]); // eslint-disable-line react-hooks/exhaustive-deps
  return React.useMemo(() => facts && newDocument(facts), [facts]);
}

function FleetPage() {
  const document = useDocument();
  const [chosen, choose] = React.useState('');
  if (!document) return <Loader title="Reading the peerings" />;
  const peer = document.peers.find(p => p.id === chosen)?.id;
  return (
    <>
      <SectionBox title="Liqo: peers">
        {document.peers.length > 0 && <PeerMap document={document} chosen={chosen} choose={id => choose(id === chosen ? '' : id)} />}
        {!document.peers.length && <p>There is no peering. Is Liqo installed in this cluster, and may you list ForeignClusters?</p>}
        <p role="status">{peer ? `Only what concerns ${peer} is below.` : 'Choose a peer to see only what concerns it.'}</p>
      </SectionBox>
      <Lists document={document} peer={peer} link={linkTo} />
    </>
  );
}

/** rowsOf returns what the fleet has about an object of ours, as names and values. */
function rowsOf(object: KubeObject, peer: string, d: Document): [string, React.ReactNode][] {
  const { name, namespace } = object.metadata;
  const slice = d.slices.find(s => s.name === name && s.namespace === namespace);
  const node = d.virtualNodes.find(n => n.name === name);
  const cidrs = (config: any) => [...(config?.cidr?.pod ?? []), ...(config?.cidr?.external ?? [])].join(', ');
  const gateway = ({ addresses = [], port, ports = [], protocol = 'UDP' }: any = {}): [string, React.ReactNode][] => {
    const { kind, text } = worstTunnel(peer, d.tunnels);
    const endpoint = `${addresses.join(', ') || 'not known yet'} ${protocol} ${[port, ...ports].filter(Boolean).join(', ')}`;
    return [['Endpoint', endpoint], ['Tunnel', <Mark key="tunnel" kind={kind}>{text}</Mark>]];
  };
  switch (object.kind) {
    case 'ForeignCluster':
      return Object.entries(d.peers.find(p => p.id === peer)?.modules ?? {}).map(([module, state]) => {
        const alerts = unready(object.status?.modules?.[module]).map(conditionText);
        return [module, [<State key="state" state={state} />, <Alerts key="alerts" alerts={alerts} />]];
      });
    case 'ResourceSlice':
      return slice ? [
        ['Action', slice.action], ['Accepted', slice.accepted ? 'yes' : <Alerts key="alerts" alerts={slice.alerts} />],
        ['Asked', resourcesText(slice.asked)], ['Used of granted', <Usage key="usage" used={slice.used} granted={slice.granted} />],
      ] : [];
    case 'VirtualNode':
      return node ? [
        ['State', <State key="state" state={node.status} />], ['New pods', node.cordoned ? 'cordoned' : 'yes'],
        ['Pods', node.pods], ['Used of capacity', <Usage key="usage" used={node.used} granted={node.capacity} />],
      ] : [];
    case 'Configuration':
      return [
        ['Networks of this cluster', cidrs(object.spec?.local)], ['Networks of the peer', cidrs(object.spec?.remote)],
        ['The peer as seen here', cidrs(object.status?.remote)],
      ];
    case 'GatewayServer':
      return gateway(object.status?.endpoint);
  }
  return gateway(object.spec?.endpoint?.addresses?.length ? object.spec.endpoint : object.status?.endpoint);
}

function Details({ object }: { object: KubeObject }) {
  const document = useDocument();
  if (!document) return <Loader title="Reading the peerings" />;
  const peer: string = object.spec?.clusterID ?? labelOf(object, label.peer);
  const rows: [string, React.ReactNode][] = [['Peer', linkTo('ForeignCluster', peer)], ...rowsOf(object, peer, document)];
  return (
    <>
      <SectionBox title="Liqo"><NameValueTable rows={rows.map(([name, value]) => ({ name, value }))} /></SectionBox>
      {object.kind === 'ForeignCluster' && <Lists document={{ ...document, peers: [], unreadable: {} }} peer={peer} link={linkTo} />}
    </>
  );
}

interface ExplainedProps { object: KubeObject; namespace: string }

function Explained({ object, namespace }: ExplainedProps) {
  const facts = useFacts(ofExplanation, [namespace]);
  if (!facts) return <Loader title="Asking why" />;
  if (object.kind === 'Pod') return <Why explanation={explainPod(facts, object)} command={`liqoctl explain pod ${object.metadata.name} -n ${namespace}`} />;
  const objects = { ...facts.objects, Namespace: [object.kind === 'Namespace' ? object : { metadata: { name: namespace } }] };
  return <Why explanation={explainNamespace({ ...facts, objects }, namespace)} command={`liqoctl explain namespace ${namespace}`} />;
}

/** IfOffloaded explains offloaded namespaces, their pods, and pods on virtual nodes. */
function IfOffloaded({ object, namespace }: ExplainedProps) {
  const isOffloaded = useIsOffloaded(namespace) || labelOf(object, label.shadowPod) === 'true';
  return isOffloaded ? <Explained object={object} namespace={namespace} /> : null;
}

/** Page replaces Headlamp's page of a custom resource, which has no sections of plugins. */
function Page({ kind }: { kind: (typeof detailed)[number] }) {
  const { namespace, crName } = useParams<{ namespace: string; crName: string }>();
  const conditions = (object: any) => <SectionBox title="Conditions"><ConditionsTable resource={object} showLastUpdate={false} /></SectionBox>;
  const sections = (item: any) => (item?.jsonData.status?.conditions ? [{ id: 'liqo.conditions', section: conditions(item.jsonData) }] : []);
  return <DetailsGrid resourceType={kind} name={crName} namespace={namespace === '-' ? undefined : namespace} backLink="" withEvents extraSections={sections} />;
}

registerSidebarEntry({ parent: null, name: 'liqo', label: 'Liqo', url: '/liqo', icon: 'mdi:lan-connect' });
registerRoute({ path: '/liqo', sidebar: 'liqo', name: 'Liqo', exact: true, component: () => <FleetPage /> });
for (const kind of detailed) {
  const crd = `${kind.apiName}.${kind.apiVersion[0].split('/')[0]}`;
  registerRoute({ path: `/customresources/${crd}/:namespace/:crName`, sidebar: 'liqo', name: kind.kind, exact: true, component: () => <Page kind={kind} /> });
}
registerDetailsViewSection(({ resource }) => {
  const object: KubeObject | undefined = resource?.jsonData;
  if (!object) return null;
  const isOurs = object.apiVersion?.includes('.liqo.io/');
  const isExplained = isOurs ? object.kind === 'NamespaceOffloading' : ['Pod', 'Namespace'].includes(object.kind);
  if (isExplained) return <IfOffloaded object={object} namespace={object.metadata.namespace ?? object.metadata.name} />;
  return isOurs && detailed.some(kind => kind.kind === object.kind) ? <Details object={object} /> : null;
});
