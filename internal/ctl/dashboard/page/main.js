// The page shows the document of liqoctl fleet, and follows its changes.
import { byId, clock, make, mark, setText, showTable, sign, span, usage } from "./parts.js";
import { PodList } from "./list.js";
import { milliseconds, showChart, showMap, tunnelKind, tunnelRate } from "./map.js";
import { follow } from "./stream.js";

let document_ = {}, pods = new Map(), chosen = "", now = 0, changed = new Set(), scheduled = false;
const list = new PodList(byId("list"), byId("row"));

// take takes a message, and draws what it changed in the next frame.
function take(message) {
  if (message.full) document_ = {}, pods = new Map();
  Object.assign(document_, message.sections);
  for (const pod of message.pods) keep(pod);
  for (const key of message.gone) pods.delete(key);
  for (const name of Object.keys(message.sections)) changed.add(name);
  if (message.full || message.pods.length || message.gone.length) changed.add("pods");
  now = new Date(message.time).getTime();
  if (message.problem) tell(false, message.problem);
  else tell(true, new Date(message.time).toLocaleTimeString());
  if (!scheduled) requestAnimationFrame(show);
  scheduled = true;
}

// tell shows whether the page is live, with the time or the reason. A screen reader hears of a change between live and not live only.
function tell(isLive, text) {
  const state = byId("state");
  state.className = isLive ? "good" : "bad";
  setText(state, isLive ? sign("good") + " Live" : sign("bad") + " Not live");
  setText(byId("why"), text);
}

// keep adds what the list shows of a pod.
function keep(pod) {
  pod.key = pod.namespace + "/" + pod.name;
  pod.isWaiting = !pod.ready && pod.phase !== "Succeeded" && pod.phase !== "Failed";
  pod.kind = pod.ready ? "good" : pod.phase === "Failed" ? "bad" : pod.isWaiting ? "warn" : "off";
  pod.state = sign(pod.kind) + " " + (pod.ready ? "Ready" : pod.phase);
  pod.place = (pod.cluster ?? "no node yet") + (pod.node && pod.node !== pod.cluster ? " / " + pod.node : "") + (pod.consumer ? " for " + pod.consumer : "");
  pod.words = [pod.key, pod.place, pod.phase, pod.state, pod.reason].join(" ").toLowerCase();
  pods.set(pod.key, pod);
}

function show() {
  scheduled = false;
  if (chosen && chosen !== document_.cluster.id && !document_.peers.some((peer) => peer.id === chosen)) { // it is gone
    chosen = "";
    changed.add("choice");
  }
  const has = (...names) => names.some((name) => changed.has(name));
  const draw = [
    [["cluster"], () => { byId("cluster").textContent = document_.cluster.id; document.title = "Liqo " + document_.cluster.id; }],
    [["peers", "tunnels", "cluster", "check", "pods", "choice"], () => showMap(document_, podCounts(), chosen, choose)],
    [["peers", "tunnels", "check", "pods"], showCounts],
    [["tunnels", "choice"], showTunnels],
    [["timeline"], showHour],
    [["check", "unreadable"], showFindings],
    [["pods", "choice"], showPods],
    [["slices"], showSlices],
    [["virtualNodes"], showNodes],
    [["namespaces"], showNamespaces],
    [["certificates"], showCertificates],
    [["events"], showEvents],
  ].filter(([names]) => has(...names));
  changed = new Set();
  for (const [, part] of draw) part();
}

// choose selects a cluster, or none if it is selected.
function choose(id) {
  chosen = chosen === id ? "" : id;
  changed.add("choice");
  show();
}

const clusterOf = (pod) => pod.consumer ?? pod.cluster ?? document_.cluster.id;

function podCounts() {
  const counts = new Map();
  for (const pod of pods.values()) counts.set(clusterOf(pod), (counts.get(clusterOf(pod)) ?? 0) + 1);
  return counts;
}

function showCounts() {
  const connected = document_.tunnels.filter((tunnel) => tunnel.state === "Connected").length;
  const waiting = [...pods.values()].filter((pod) => pod.isWaiting).length, { failed, warnings } = document_.check;
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  byId("counts").replaceChildren(...[
    mark(document_.peers.some((peer) => peer.phase === "Unhealthy") ? "bad" : "good", count(document_.peers.length, "peer")),
    mark(connected < document_.tunnels.length ? "bad" : "good", `${connected} of ${count(document_.tunnels.length, "tunnel")}`),
    mark(waiting ? "warn" : "good", `${count(pods.size, "pod")}, ${waiting} waiting`),
    mark(failed ? "bad" : warnings ? "warn" : "good", `${count(failed, "failed check")}, ${count(warnings, "warning")}`),
  ].map((text) => make("li", {}, text)));
}

function showTunnels() {
  const own = document_.tunnels.filter((tunnel) => !chosen || tunnel.peer === chosen || chosen === document_.cluster.id);
  showTable("tunnels", ["Peer", "State", "Latency", "Mbit/s in, out", "Loss", "MTU", "Failed nodes"], own.map((tunnel) => [
    tunnel.peer, mark(tunnelKind(tunnel), tunnel.state + (tunnel.lost ? `, loses ${tunnel.lost.toLowerCase()} packets` : "")),
    tunnel.latencyMilliseconds === undefined ? "" : milliseconds(tunnel.latencyMilliseconds), tunnelRate(tunnel).replace(/ Mbit.s in| out/g, ""),
    tunnel.lossPercent === undefined ? "" : `${tunnel.lossPercent} %`, tunnel.mtu ? String(tunnel.mtu) : "",
    tunnel.failedNodes ? mark("bad", tunnel.failedNodes.join(" ")) : "",
  ]), chosen ? `No tunnel to ${chosen}.` : "No tunnels.");
}

function showHour() {
  const { changes, samples } = document_.timeline;
  showChart(samples ?? []);
  byId("since").textContent = samples?.length ? "since " + new Date(samples[0].time).toLocaleTimeString() : "";
  byId("changes").replaceChildren(...(changes ?? []).toReversed().map((change) =>
    make("li", {}, clock(change.time), mark(change.bad ? "bad" : change.good ? "good" : "off", change.object + ": " + change.text))));
}

function showFindings() {
  const rows = Object.entries(document_.unreadable).map(([kind, reason]) => [mark("warn", "not read"), kind, reason, ""]);
  for (const group of document_.check.groups)
    for (const check of group.checks)
      for (const finding of check.findings ?? [])
        rows.push([mark(finding.severity === "failed" ? "bad" : "warn", group.name), finding.object, finding.message, `${finding.remedy ?? ""} (${finding.page})`]);
  showTable("findings", ["In", "Object", "What", "Remedy"], rows, "Every check passed.");
}

function showPods() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean), waiting = byId("waiting").checked;
  const found = [...pods.values()].filter((pod) =>
    (!waiting || pod.isWaiting) && (!chosen || clusterOf(pod) === chosen) && words.every((word) => pod.words.includes(word)));
  found.sort((a, b) => (a.key < b.key ? -1 : 1));
  setText(byId("found"), `${found.length} of ${pods.size}` + (chosen ? ` in ${chosen}` : ""));
  list.show(found);
}

function showSlices() {
  showTable("slices", ["Peer", "Slice", "Action", "State", "Asked", "Used of granted"], document_.slices.map((slice) => [
    slice.peer, slice.name, slice.action, slice.accepted ? mark("good", "accepted") : mark("bad", slice.alerts.join("; ") || "not judged"),
    Object.entries(slice.asked).map(([name, value]) => `${name} ${value}`).join(", "), usage(slice.used, slice.granted),
  ]), "No slices.");
}

function showNodes() {
  showTable("nodes", ["Node", "Peer", "State", "Pods", "Used"], document_.virtualNodes.map((node) => [
    node.name, node.peer, mark(node.status === "Healthy" ? (node.cordoned ? "warn" : "good") : "bad", node.status + (node.cordoned ? ", cordoned" : "")),
    String(node.pods), usage(node.used, node.capacity),
  ]), "No virtual nodes.");
}

function showNamespaces() {
  showTable("namespaces", ["Namespace", "Remote name", "Pods run", "State", "Providers"], document_.namespaces.map((namespace) => [
    namespace.name, namespace.remoteName, namespace.strategy, mark(namespace.phase === "Ready" ? "good" : "warn", namespace.phase || "Pending"),
    make("div", {}, ...namespace.providers.map((provider) =>
      make("div", {}, mark(provider.ready ? (provider.alerts.length ? "warn" : "good") : "bad", [provider.id, ...provider.alerts].join(": "))))),
  ]), "No namespace is offloaded.");
}

function showCertificates() {
  showTable("certificates", ["Peer", "Object", "Issued by", "Age", "Ends in"], document_.certificates.map((certificate) => {
    const begin = new Date(certificate.notBefore).getTime(), end = new Date(certificate.notAfter).getTime(), left = (end - now) / 1000;
    const late = left < (end - begin) / 6000;
    return [certificate.peer || "this cluster", certificate.object, certificate.issuer, span((now - begin) / 1000), mark(late ? "bad" : "good", left < 0 ? "ended" : span(left))];
  }), "No certificates.");
}

function showEvents() {
  showTable("events", ["Time", "Object", "Event"], document_.events.map((event) => [
    clock(event.time), event.object,
    mark(event.type === "Warning" ? "warn" : "off", `${event.reason}: ${event.message}` + (event.count > 1 ? ` (${event.count} times)` : "")),
  ]), "No events.");
}

byId("search").addEventListener("input", showPods);
byId("waiting").addEventListener("change", showPods);
follow(take, tell);
