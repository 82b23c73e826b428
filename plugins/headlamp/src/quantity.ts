// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Quantities of Kubernetes, exact, and written as Kubernetes writes them.
import { KubeObject } from './facts';

export type Resources = Record<string, string>;

/** Quantity is an amount in billionths of one. */
interface Quantity { nano: bigint; binary: boolean }

const decimal: [string, number][] = [['E', 18], ['P', 15], ['T', 12], ['G', 9], ['M', 6], ['k', 3], ['', 0], ['m', -3], ['u', -6], ['n', -9]];
const binary = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const one = 10n ** 9n;

function parse(text: string | number = 0): Quantity {
  const [, sign, whole, part = '', unit] = /^([-+]?)(\d*)(?:\.(\d*))?(.*)$/.exec(String(text).trim()) ?? [];
  const power = binary.indexOf(unit);
  const exponent = decimal.find(([u]) => u === unit)?.[1] ?? Number(unit?.slice(1));
  if (power < 0 && !Number.isInteger(exponent)) return { nano: 0n, binary: false };
  const factor = power > 0 ? one * 1024n ** BigInt(power) : 10n ** BigInt(9 + exponent);
  const scale = 10n ** BigInt(part.length);
  const nano = (BigInt(whole + part || 0) * factor + scale - 1n) / scale; // rounded up
  return { nano: sign === '-' ? -nano : nano, binary: power > 0 };
}

function format({ nano, binary: isBinary }: Quantity): string {
  if (nano === 0n) return '0';
  if (isBinary && nano % one === 0n) {
    let [power, amount] = [0, nano / one];
    for (; power < 6 && amount % 1024n === 0n; power++) amount /= 1024n;
    return amount + binary[power];
  }
  const [unit, exponent] = decimal.find(([, e]) => nano % 10n ** BigInt(9 + e) === 0n)!;
  return nano / 10n ** BigInt(9 + exponent) + unit;
}

const sumOf = (a: Quantity, b: Quantity): Quantity => ({ nano: a.nano + b.nano, binary: a.nano === 0n ? b.binary : a.binary });

/** amount returns a quantity as a number, for meters. */
export const amount = (text?: string | number): number => Number(parse(text).nano) / 1e9;

export const compare = (a?: string, b?: string): number => (parse(a).nano < parse(b).nano ? -1 : Number(parse(a).nano > parse(b).nano));

export function subtract(from?: string, what?: string): string {
  const { nano, binary } = parse(from);
  return format({ nano: nano - parse(what).nano, binary });
}

/** bound returns the first resources by name: a peer may have written them. */
export function bound(all: Resources | undefined): Resources {
  const names = Object.keys(all ?? {}).sort().slice(0, 64);
  return Object.fromEntries(names.map(name => [name, format(parse(all![name]))]));
}

/** add adds more to sum, in place. */
export function add(sum: Resources, more: Resources = {}) {
  for (const [name, quantity] of Object.entries(more)) sum[name] = format(sumOf(parse(sum[name]), parse(quantity)));
}

function raise(floor: Resources, other: Resources) {
  for (const [name, quantity] of Object.entries(other)) {
    if (!(name in floor) || compare(floor[name], quantity) < 0) floor[name] = quantity;
  }
}

/** requestsOf returns what the scheduler counts for a pod. A limit without a request is one. */
export function requestsOf(pod: KubeObject): Resources {
  const requests = (c: any): Resources => ({ ...c.resources?.limits, ...c.resources?.requests });
  const [sum, sidecars, most]: Resources[] = [{}, {}, {}];
  for (const container of pod.spec?.containers ?? []) add(sum, requests(container));
  for (const container of pod.spec?.initContainers ?? []) {
    const together = { ...sidecars };
    add(together, requests(container));
    raise(most, together);
    if (container.restartPolicy === 'Always') {
      add(sum, requests(container));
      add(sidecars, requests(container));
    }
  }
  raise(sum, most);
  Object.assign(sum, pod.spec?.resources?.requests);
  add(sum, pod.spec?.overhead);
  return { ...sum, pods: '1' };
}
