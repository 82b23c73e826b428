// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// As much of X.509 as tells whose a certificate is, and until when.

/** Certificate is what the fleet shows of one. Times are as in JSON. */
export interface Certificate { user: string; notBefore: string; notAfter: string }

interface Part { tag: number; bytes: Uint8Array }

/** partsOf returns the elements of a DER sequence. */
function partsOf(bytes: Uint8Array): Part[] {
  const parts: Part[] = [];
  for (let at = 0; at + 1 < bytes.length;) {
    const tag = bytes[at++];
    let length = bytes[at++];
    if (length > 127) {
      const digits = length & 127;
      length = bytes.slice(at, at + digits).reduce((sum, byte) => sum * 256 + byte, 0);
      at += digits;
    }
    parts.push({ tag, bytes: bytes.slice(at, at + length) });
    at += length;
  }
  return parts;
}

const textOf = (part: Part): string => new TextDecoder().decode(part.bytes);

/** timeOf returns a UTCTime or a GeneralizedTime. */
function timeOf(part: Part): string {
  const digits = textOf(part);
  const century = part.tag === 0x18 ? '' : Number(digits.slice(0, 2)) < 50 ? '20' : '19';
  const [, day, ...clock] = /^(\d{8})(\d\d)(\d\d)(\d\d)Z$/.exec(century + digits) ?? [];
  if (!day) throw new Error('the time is not valid');
  return `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}T${clock.join(':')}Z`;
}

/** parseCertificate reads a PEM certificate in base64, undefined if it is none. */
export function parseCertificate(data: string | undefined): Certificate | undefined {
  try {
    const [, pem] = /-----BEGIN CERTIFICATE-----([^-]*)-----END/.exec(atob(data ?? '')) ?? [];
    const der = Uint8Array.from(atob(pem.replace(/\s/g, '')), c => c.charCodeAt(0));
    const [certificate] = partsOf(der);
    let fields = partsOf(partsOf(certificate.bytes)[0].bytes);
    if (fields[0].tag === 0xa0) {
      fields = fields.slice(1); // the version
    }
    const [, , , validity, subject] = fields;
    const [notBefore, notAfter] = partsOf(validity.bytes).map(timeOf);
    const names = partsOf(subject.bytes).map(set => partsOf(partsOf(set.bytes)[0].bytes));
    const common = names.find(([oid]) => oid.bytes.join('.') === '85.4.3');
    return { user: common ? textOf(common[1]) : '', notBefore, notAfter };
  } catch {
    return undefined;
  }
}
