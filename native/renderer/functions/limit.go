package functions

import (
	"text/template"
	"text/template/parse"
)

// Limit makes templates that call themselves with {{template}} subject to the depth of include.
//
// The library lets {{template}} go 100,000 deep, which is 130 MB of stack. Such a call becomes one of include, which
// does the same and counts. Calls that lead to no cycle stay as they are. The set must have its functions from Bind.
func Limit(set *template.Template) {
	calls := map[string][]string{}
	for _, one := range set.Templates() {
		if one.Tree != nil {
			walk(one.Tree.Root, func(call *parse.TemplateNode) { calls[one.Name()] = append(calls[one.Name()], call.Name) })
		}
	}
	for caller, names := range calls {
		for _, name := range names {
			if reaches(calls, name, caller, map[string]bool{}) {
				replaceCalls(set.Lookup(caller).Tree.Root)
				break
			}
		}
	}
}

func reaches(calls map[string][]string, from, target string, seen map[string]bool) bool {
	if from == target {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for _, next := range calls[from] {
		if reaches(calls, next, target, seen) {
			return true
		}
	}
	return false
}

// lists returns the lists of nodes within a node.
func lists(node parse.Node) []*parse.ListNode {
	switch node := node.(type) {
	case *parse.ListNode:
		return []*parse.ListNode{node}
	case *parse.IfNode:
		return []*parse.ListNode{node.List, node.ElseList}
	case *parse.RangeNode:
		return []*parse.ListNode{node.List, node.ElseList}
	case *parse.WithNode:
		return []*parse.ListNode{node.List, node.ElseList}
	default:
		return nil
	}
}

func walk(list *parse.ListNode, visit func(*parse.TemplateNode)) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		if call, isCall := node.(*parse.TemplateNode); isCall {
			visit(call)
		}
		for _, inner := range lists(node) {
			walk(inner, visit)
		}
	}
}

func replaceCalls(list *parse.ListNode) {
	if list == nil {
		return
	}
	for index, node := range list.Nodes {
		if call, isCall := node.(*parse.TemplateNode); isCall {
			list.Nodes[index] = asInclude(call)
		}
		for _, inner := range lists(node) {
			replaceCalls(inner)
		}
	}
}

// asInclude is {{include "name" (pipeline)}} in place of {{template "name" pipeline}}.
func asInclude(call *parse.TemplateNode) *parse.ActionNode {
	var data parse.Node = &parse.NilNode{NodeType: parse.NodeNil, Pos: call.Pos}
	if call.Pipe != nil {
		data = call.Pipe
	}
	name := &parse.StringNode{NodeType: parse.NodeString, Pos: call.Pos, Quoted: call.Name, Text: call.Name}
	include := parse.NewIdentifier("include").SetPos(call.Pos)
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: call.Pos, Args: []parse.Node{include, name, data}}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: call.Pos, Line: call.Line, Cmds: []*parse.CommandNode{command}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: call.Pos, Line: call.Line, Pipe: pipe}
}
