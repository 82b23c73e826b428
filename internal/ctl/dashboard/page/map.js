// The map of clusters, and the chart of the last hour.
import { byId, draw, setText, sign } from "./parts.js";

const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

export const milliseconds = (time) => (time < 10 ? time.toPrecision(2) : Math.round(time)) + " ms";

// lossy is the loss in percent from which a tunnel that works deserves a look: that of the alert LiqoPeerPacketLoss.
const lossy = 5;

export const tunnelKind = (tunnel) =>
  tunnel.state === "Error" || tunnel.lost ? "bad" : tunnel.state !== "Connected" || tunnel.lossPercent > lossy ? "warn" : "good";

// tunnelRate returns what passes a tunnel now, "" if that is not measured.
export function tunnelRate({ receivedBitsPerSecond: received, sentBitsPerSecond: sent }) {
  const mbit = (bits) => (bits / 1e6).toFixed(1);
  return received === undefined || sent === undefined ? "" : `${mbit(received)} Mbit/s in, ${mbit(sent)} out`;
}

// tunnelOf returns the kind and the text of the worst tunnel of a peer, and what else is known of it.
export function tunnelOf(peer, tunnels) {
  const own = tunnels.filter((tunnel) => tunnel.peer === peer.id);
  const bad = own.find((tunnel) => tunnel.state === "Error") ?? own.find((tunnel) => tunnelKind(tunnel) !== "good") ?? own[0];
  if (!bad) return { kind: "off", text: "no tunnel", rate: "", more: "" };
  const latency = bad.latencyMilliseconds === undefined || bad.state !== "Connected" ? "" : ` ${milliseconds(bad.latencyMilliseconds)}`;
  const nodes = bad.failedNodes ? `, not from ${bad.failedNodes.join(" ")}` : "", size = bad.mtu ? `, packets of at most ${bad.mtu} bytes` : "";
  const lost = bad.lost ? `, loses ${bad.lost.toLowerCase()} packets` : bad.lossPercent > 0 ? `, loses ${bad.lossPercent} %` : "", rate = tunnelRate(bad);
  return { kind: tunnelKind(bad), rate, text: bad.state + latency + lost, more: (rate && ", " + rate) + nodes + size };
}

const worseKind = (a, b) => ["bad", "warn", "off", "good"].find((kind) => kind === a || kind === b);

// shown has the elements of each cluster on the map, by its ID.
const shown = new Map();

// showMap draws the local cluster among its peers; choose is called with the ID of a selected cluster. The elements of a cluster stay while it
// is there, so that the focus and a click that began stay.
export function showMap({ cluster, peers, tunnels, check }, counts, chosen, choose) {
  const rings = peers.length > 24 ? 2 : 1, isDetailed = peers.length <= 8; // the table of tunnels has all
  const [width, height, margin, space] = isDetailed ? [640, 420, 95, 68] : [1000, 480, 70, 40];
  const broken = check.groups.some((group) => !group.name.startsWith("peer ") && group.checks.some((one) => one.status === "failed"));
  const clusters = peers.map((peer, i) => {
    const angle = (2 * Math.PI * i) / peers.length - Math.PI / 2, ring = rings === 2 && i % 2 ? 0.66 : 1;
    const tunnel = tunnelOf(peer, tunnels), kind = worseKind(peer.phase === "Unhealthy" ? "bad" : peer.phase === "Pending" ? "off" : "good", tunnel.kind);
    return { id: peer.id, x: width / 2 + (width / 2 - margin) * ring * Math.cos(angle), y: height / 2 + (height / 2 - space) * ring * Math.sin(angle), kind, tunnel, text: `${peer.role}, ${peer.phase}, tunnel ${tunnel.text}${tunnel.more}` };
  });
  clusters.push({ id: cluster.id, x: width / 2, y: height / 2, kind: broken ? "bad" : "good", fault: broken ? "checks failed" : "", text: "this cluster" + (broken ? ", checks failed" : "") });

  const gone = new Set(shown.keys()), map = byId("map"), lines = [], nodes = [];
  set(map, { viewBox: `0 0 ${width} ${height}`, class: rings === 1 ? "large" : "" });
  for (const { id } of clusters) gone.delete(id);
  for (const id of gone) {
    const focused = shown.get(id).node.contains(document.activeElement);
    for (const element of Object.values(shown.get(id))) element.remove();
    shown.delete(id);
    if (focused) shown.get(cluster.id)?.node.focus({ preventScroll: true });
  }
  for (const one of clusters) {
    const { x, y, tunnel } = one, label = `${one.id}: ${one.text}, ${counts.get(one.id) ?? 0} pods`;
    if (!shown.has(one.id)) shown.set(one.id, newElements(one.id, choose));
    const { line, node, title, circle, name, state, detail, rate } = shown.get(one.id);
    if (tunnel) lines.push(line);
    nodes.push(node);
    set(line, { class: tunnel?.kind, x1: width / 2, y1: height / 2, x2: x, y2: y });
    set(node, { class: one.kind, "aria-label": label, "aria-pressed": one.id === chosen });
    set(circle, { cx: x, cy: y, r: tunnel ? 9 : 16 });
    set(state, { x, y: y + 4.5 });
    // The texts are away from the lines: above the upper clusters, below the others.
    const texts = [name, detail, rate].slice(0, !isDetailed || !tunnel ? 1 : tunnel.rate ? 3 : 2), above = y < height / 2 - 1;
    texts.forEach((text, i) => set(text, { x, y: above ? y - (tunnel ? 15 : 22) - 14 * (texts.length - 1 - i) : y + 24 + 14 * i }));
    if (!tunnel) set(name, { x, y: y - 22 }), set(detail, { x, y: y + 32 });
    setText(title, label);
    setText(name, short(one.id, tunnel && rings === 2 ? 10 : 18));
    setText(state, sign(one.kind));
    setText(detail, tunnel && isDetailed ? short(tunnel.text, 34) : one.fault ?? "");
    setText(rate, tunnel && isDetailed ? tunnel.rate : "");
  }
  // A moved element loses the focus: clusters are sorted, so only new ones are inserted.
  [...lines, ...nodes].forEach((element, i) => { if (map.children[i] !== element) map.insertBefore(element, map.children[i] ?? null); });
}

function newElements(id, choose) {
  const title = draw("title"), circle = draw("circle"), name = draw("text"), state = draw("text", { class: "small" }), detail = draw("text", { class: "small" }), rate = draw("text", { class: "small" });
  const node = draw("g", { role: "button", tabindex: 0, "data-cluster": id }, title, circle, name, state, detail, rate);
  node.addEventListener("click", () => choose(id));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(id); }
  });
  return { line: draw("line"), node, title, circle, name, state, detail, rate };
}

function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && element.getAttribute(key) !== String(value)) element.setAttribute(key, value);
}

// showChart draws the samples of the last hour.
export function showChart(samples) {
  const end = new Date(samples.at(-1)?.time ?? 0).getTime(), start = end - 3600e3;
  const most = Math.max(1, ...samples.map((s) => Math.max(s.waiting, s.tunnels - s.connected)));
  const path = (value) => samples.map((s, i) => {
    const x = 5 + 590 * (new Date(s.time).getTime() - start) / 3600e3, y = 75 - 65 * value(s) / most;
    return i ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("") + "h2";
  const last = samples.at(-1), down = last && last.tunnels - last.connected;
  byId("chart").setAttribute("aria-label", "Waiting pods and missing tunnels of the last hour" +
    (last ? `; now ${last.waiting} of ${last.pods} pods wait and ${down} of ${last.tunnels} tunnels are down; the most of the hour is ${most}` : ""));
  byId("chart").replaceChildren(
    draw("path", { class: "axis", d: "M5 75H595" }),
    draw("path", { class: "waiting", d: samples.length ? path((s) => s.waiting) : "M0 0" }),
    draw("path", { class: "missing", d: samples.length ? path((s) => s.tunnels - s.connected) : "M0 0" }),
    draw("text", { x: 5, y: 89, "font-size": 10 }, "-60 min"), draw("text", { x: 595, y: 89, "text-anchor": "end" }, "now"), draw("text", { x: 5, y: 10 }, String(most)));
}
