// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"testing"
)

// TestEachReasonHasGuide reads the reasons of the conditions of ForeignClusters in the code that writes them.
func TestEachReasonHasGuide(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../peering/status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	argument := map[string]int{"newCondition": 2, "notReady": 0, "credentialsAre": 1, "countCondition": 1} // which one is the reason
	// Reasons of other objects are tested by their findings, arguments of the functions above where these are called.
	variable := map[string]bool{
		"reason": false, `prefix + "NotReady"`: false, `prefix + "SomeNotReady"`: false, "string(gap)": false, "ready.Reason": false, "v.answer.Reason": false, "c.Reason": false,
	}
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name, ok := call.Fun.(*ast.Ident)
		if !ok || isOfHealthy(call) {
			return true
		}
		i, ok := argument[name.Name]
		if !ok {
			return true
		}
		literal, ok := call.Args[i].(*ast.BasicLit)
		if text := types.ExprString(call.Args[i]); !ok {
			if _, known := variable[text]; !known {
				t.Errorf("the reason %s is no literal, by which its guide could be found", text)
			}
			variable[text] = true
			return true
		}
		reason, _ := strconv.Unquote(literal.Value)
		reasons := []string{reason}
		if name.Name == "countCondition" {
			reasons = []string{reason + "NotReady", reason + "SomeNotReady"}
		}
		for _, reason := range reasons {
			seen++
			if remedy, page := Advise(reason + ": x"); remedy == "" || page == "" {
				t.Errorf("the reason %s has no guide", reason)
			}
		}
		return true
	})
	for text, used := range variable {
		if !used {
			t.Errorf("no condition has the reason %s", text)
		}
	}
	if seen < 15 {
		t.Errorf("only %d reasons found", seen)
	}
}

// isOfHealthy reports whether a call makes a condition of something that works.
func isOfHealthy(call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if s, ok := a.(*ast.SelectorExpr); ok && (s.Sel.Name == "ConditionReady" || s.Sel.Name == "ConditionEstablished") {
			return true
		}
	}
	return false
}
