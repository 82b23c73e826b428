// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"crypto/sha256"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// firstRegister is the first 4-byte register. Concatenations use consecutive registers.
const firstRegister = unix.NFT_REG32_00

// compiledRule is a rule as kernel expressions.
type compiledRule struct {
	text  string
	parts []encodedExpr
	sets  []anonymousSet
}

// encodedExpr is an expression: of the nftables library, or raw bytes where the library lacks an encoding.
type encodedExpr struct {
	of  expr.Any
	raw []byte
}

func (p encodedExpr) encode(family byte) ([]byte, error) {
	if p.of == nil {
		return p.raw, nil
	}
	return expr.Marshal(family, p.of)
}

// anonymousSet is the set of one lookup in one rule.
type anonymousSet struct {
	form     setForm
	elements map[interval]string
	lookup   *expr.Lookup
	host     bool // keys are in host byte order
}

// contentHash returns a hash over the compiled rule, not only over the text: a rule compiled differently by a newer version is a different rule.
func (c compiledRule) contentHash(family byte) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", family, c.text)
	for _, p := range c.parts {
		b, err := p.encode(family)
		if err != nil {
			return "", err
		}
		h.Write(b)
	}
	return string(h.Sum(nil)[:hashSize]), nil
}

// Attributes in the user data of a rule; nft skips unknown ones.
const (
	hashSize     = 16
	memoryHash   = 0xa1
	memoryText   = 0xa2
	memoryHead   = 2
	memoryLength = unix.NFT_USERDATA_MAXLEN
)

// encodeUserData returns the user data of a rule: the hash and the text, truncated to the available space.
func encodeUserData(hash, text string) []byte {
	text = text[:min(len(text), memoryLength-2*memoryHead-hashSize)]
	out := append([]byte{memoryHash, hashSize}, hash...)
	out = append(out, memoryText, byte(len(text)))
	return append(out, text...)
}

func decodeUserData(userdata []byte) kernelRule {
	var r kernelRule
	for len(userdata) >= memoryHead {
		end := min(memoryHead+int(userdata[1]), len(userdata))
		switch value := string(userdata[memoryHead:end]); userdata[0] {
		case memoryHash:
			r.hash = value
		case memoryText:
			r.text = value
		}
		userdata = userdata[end:]
	}
	return r
}

// compiler compiles the rules of one table.
type compiler struct {
	family datapath.Family
	sets   map[string]datapath.Set
	out    compiledRule
}

// compileRule compiles a rule of a table.
func compileRule(t datapath.Table, rule []datapath.Statement) (compiledRule, error) {
	c := &compiler{family: t.Family, sets: map[string]datapath.Set{}, out: compiledRule{text: datapath.RuleText(t.Family, rule)}}
	for _, s := range t.Sets {
		c.sets[s.Name] = s
	}
	for _, s := range rule {
		if err := c.compileStatement(s); err != nil {
			return compiledRule{}, fmt.Errorf("rule %q: %w", c.out.text, err)
		}
	}
	return c.out, nil
}

func (c *compiler) addExprs(all ...expr.Any) {
	for _, e := range all {
		c.out.parts = append(c.out.parts, encodedExpr{of: e})
	}
}

func (c *compiler) compileStatement(s datapath.Statement) error {
	switch s := s.(type) {
	case datapath.Lookup:
		return c.compileLookup(s)
	case datapath.Cmp:
		return c.compileCmp(s)
	case datapath.Word:
		return c.compileWord(s)
	case datapath.Number:
		return c.compileNumber(s)
	case datapath.SYN:
		c.matchSYN()
	case datapath.SetNumber:
		c.addExprs(&expr.Immediate{Register: firstRegister, Data: nativeUint32(s.Number)})
		return c.setMark(s.Field)
	case datapath.Copy:
		if err := c.loadField(s.From, firstRegister); err != nil {
			return err
		}
		return c.setMark(s.To)
	case datapath.SetMapped:
		return c.setMapped(s)
	case datapath.SetPrefix:
		return c.setPrefix(s)
	case datapath.Counter:
		c.addExprs(&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: s.Name})
	case datapath.AnonymousCounter:
		c.addExprs(&expr.Counter{})
	case datapath.Verdict:
		return c.compileVerdict(s)
	case datapath.Reject:
		c.compileReject()
	case datapath.Notrack:
		c.addExprs(&expr.Notrack{})
	case datapath.TranslateSource:
		return c.translateSource(s)
	case datapath.TranslateDestination:
		return c.translateDestination(s)
	case datapath.Masquerade:
		c.addExprs(&expr.Masq{})
	case datapath.ClampMSS:
		c.compileClampMSS(s)
	default:
		return fmt.Errorf("type %T cannot be encoded for the kernel", s)
	}
	return nil
}
