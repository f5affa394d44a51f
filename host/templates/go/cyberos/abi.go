package cyberos

import (
	"errors"
	"unsafe"

	"plugin.local/{{ name }}/internal/abi"
)

// What the world exports, in the layout of the contract's records.

// Memory that `plugin build` gives to the adapter between the two WASI interfaces, which needs it before this runtime has
// started. It is found by the text that it begins with.
var adapterArea = struct {
	text [35]byte
	rest [192<<10 - 35]byte
}{text: [35]byte{
	'c', 'y', 'b', 'e', 'r', 'o', 's', ':', ' ', 'm', 'e', 'm', 'o', 'r', 'y', ' ', 'o', 'f', ' ',
	't', 'h', 'e', ' ', 'W', 'A', 'S', 'I', ' ', 'a', 'd', 'a', 'p', 't', 'e', 'r',
}}

//go:wasmexport cyberos_adapter_area
func area() unsafe.Pointer { return unsafe.Pointer(&adapterArea) }

const toolSize = 88

//go:wasmexport cyberos:plugin/tools@1.0.0#list-tools
func listTools() unsafe.Pointer {
	list := abi.Keep(uint32(len(tools) * toolSize))
	for n, tool := range tools {
		r := list[n*toolSize : (n+1)*toolSize]
		r.PutText(0, tool.Name)
		r.PutText(8, tool.Title)
		r.PutText(16, tool.Description)
		r.PutText(24, tool.Input)
		r.PutOption(32, tool.Output)
		a := tool.Annotations
		for n, flag := range []bool{a.ReadOnly, a.Destructive, a.Idempotent, a.OpenWorld, a.Write, a.ExternalEffect} {
			r.PutBit(44+n, flag)
		}
		scopes := abi.Keep(uint32(len(tool.Scopes) * 8))
		for n, scope := range tool.Scopes {
			scopes[n*8:].PutText(0, scope)
		}
		r.PutList(52, scopes, len(tool.Scopes))
		r[60] = byte(tool.TaskSupport)
		r.PutBit(61, tool.IdempotentTask)
		r.PutOption(64, tool.Icons)
		r.PutOption(76, tool.Meta)
	}
	answer := abi.Keep(8)
	answer.PutList(0, list, len(tools))
	return answer.Start()
}

//go:wasmexport cyberos:plugin/tools@1.0.0#call-tool
func callTool(name unsafe.Pointer, nameLength uint32, arguments unsafe.Pointer, argumentsLength uint32) unsafe.Pointer {
	abi.Work()
	result, err := call(string(abi.View(name, nameLength)), abi.View(arguments, argumentsLength))
	r := abi.Keep(40)
	if err != nil {
		r[0] = 1
		r[4] = 3
		var failure *Failure
		if errors.As(err, &failure) {
			r[4] = failure.kind
		}
		r.PutText(8, err.Error())
		return r.Start()
	}
	if result.Text != "" {
		content := abi.Keep(32)
		content.PutText(4, result.Text)
		r.PutList(4, content, 1)
	}
	r.PutOption(12, result.Structured)
	r.PutBit(24, result.Failed)
	return r.Start()
}
