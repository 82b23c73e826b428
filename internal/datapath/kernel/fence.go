// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/names"
)

// fenceTable holds the fence of the tunnel. Apply leaves it alone.
const fenceTable = "liqo_fence"

// Fence is a dead man's switch: the kernel drops all packets into and out of the tunnel, inside and outside, unless the fence was opened a moment
// ago. So the tunnel of a process that hangs, is stopped or died soon passes nothing, even if the device continues.
type Fence struct {
	conn *nftables.Conn
	set  *nftables.Set
}

// NewFence makes the fence of the namespace, which is closed.
func (k *Kernel) NewFence() (*Fence, error) {
	var options []nftables.ConnOption
	if k.ns.IsOpen() {
		options = append(options, nftables.WithNetNSFd(int(k.ns)))
	}
	conn, err := nftables.New(options...)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket for the fence: %w", err)
	}
	table := &nftables.Table{Name: fenceTable, Family: nftables.TableFamilyINet}
	conn.AddTable(table)
	conn.DelTable(table) // of an earlier process
	conn.AddTable(table)
	f := &Fence{conn, &nftables.Set{Table: table, Name: "open", KeyType: nftables.TypeMark, HasTimeout: true}}
	if err := conn.AddSet(f.set, nil); err != nil {
		return nil, fmt.Errorf("making the fence: %w", err)
	}
	device := make([]byte, unix.IFNAMSIZ)
	copy(device, names.TunnelDevice)
	for _, c := range []struct {
		name string
		hook *nftables.ChainHook
		by   []expr.MetaKey
	}{
		{"input", nftables.ChainHookInput, []expr.MetaKey{expr.MetaKeyIIFNAME}},
		{"forward", nftables.ChainHookForward, []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME}},
		{"output", nftables.ChainHookOutput, []expr.MetaKey{expr.MetaKeyOIFNAME, expr.MetaKeyMARK}},
	} {
		chain := conn.AddChain(&nftables.Chain{Table: table, Name: c.name, Hooknum: c.hook, Priority: nftables.ChainPriorityFirst, Type: nftables.ChainTypeFilter})
		for _, key := range c.by {
			value := device
			if key == expr.MetaKeyMARK { // of outer packets
				value = binaryutil.NativeEndian.PutUint32(names.TunnelMark)
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value},
				&expr.Immediate{Register: 1, Data: fenceKey()},
				&expr.Lookup{SourceRegister: 1, SetName: f.set.Name, SetID: f.set.ID, Invert: true},
				&expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, fmt.Errorf("making the fence: %w", err)
	}
	return f, nil
}

func fenceKey() []byte { return binaryutil.NativeEndian.PutUint32(1) }

// Open opens the fence for a time, and closes the fence if the time is 0.
func (f *Fence) Open(open time.Duration) error {
	f.conn.FlushSet(f.set)
	if open >= time.Millisecond {
		if err := f.conn.SetAddElements(f.set, []nftables.SetElement{{Key: fenceKey(), Timeout: open}}); err != nil {
			return fmt.Errorf("opening the fence: %w", err)
		}
	}
	if err := f.conn.Flush(); err != nil {
		return fmt.Errorf("changing the fence: %w", err)
	}
	return nil
}
