package cyberos

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// The canonical ABI of the component model, 32 bits: where the fields of the contract's records lie in memory.
// An instance lives for one call, so that what is handed to the host is simply kept.

var kept [][]uint64

// block is memory of at least size bytes, aligned to 8.
func block(size uint32) (unsafe.Pointer, []byte) {
	words := make([]uint64, size/8+1)
	kept = append(kept, words)
	start := unsafe.Pointer(&words[0])
	return start, unsafe.Slice((*byte)(start), len(words)*8)
}

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	start, bytes := block(size)
	if old != nil {
		copy(bytes, unsafe.Slice((*byte)(old), oldSize))
	}
	return start
}

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

// record writes fields at fixed places.
type record []byte

func (r record) bit(at int, value bool) {
	if value {
		r[at] = 1
	}
}

func (r record) pointer(at int, start unsafe.Pointer, length int) {
	binary.LittleEndian.PutUint32(r[at:], uint32(uintptr(start)))
	binary.LittleEndian.PutUint32(r[at+4:], uint32(length))
}

func (r record) text(at int, text string) {
	start, bytes := block(uint32(len(text)))
	copy(bytes, text)
	r.pointer(at, start, len(text))
}

// option is a text that is left out when it is empty.
func (r record) option(at int, text string) {
	if text != "" {
		r[at] = 1
		r.text(at+4, text)
	}
}

func (r record) word(at int) uint32 { return binary.LittleEndian.Uint32(r[at:]) }

func (r record) textAt(at int) string { return string(r.bytesAt(at)) }

func (r record) bytesAt(at int) []byte {
	return view(unsafe.Pointer(uintptr(r.word(at))), r.word(at+4))
}

// view is memory that the host has filled.
func view(start unsafe.Pointer, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(start), length)
}

const toolSize = 88

//go:wasmexport cyberos:plugin/tools@1.0.0#list-tools
func listTools() unsafe.Pointer {
	list, bytes := block(uint32(len(tools) * toolSize))
	for n, tool := range tools {
		r := record(bytes[n*toolSize : (n+1)*toolSize])
		r.text(0, tool.Name)
		r.text(8, tool.Title)
		r.text(16, tool.Description)
		r.text(24, tool.Input)
		r.option(32, tool.Output)
		a := tool.Annotations
		for n, flag := range []bool{a.ReadOnly, a.Destructive, a.Idempotent, a.OpenWorld, a.Write, a.ExternalEffect} {
			r.bit(44+n, flag)
		}
		scopes, names := block(uint32(len(tool.Scopes) * 8))
		for n, scope := range tool.Scopes {
			record(names[n*8:]).text(0, scope)
		}
		r.pointer(52, scopes, len(tool.Scopes))
		r[60] = byte(tool.TaskSupport)
		r.bit(61, tool.IdempotentTask)
		r.option(64, tool.Icons)
		r.option(76, tool.Meta)
	}
	answer, fields := block(8)
	record(fields).pointer(0, list, len(tools))
	return answer
}

//go:wasmexport cyberos:plugin/tools@1.0.0#call-tool
func callTool(name unsafe.Pointer, nameLength uint32, arguments unsafe.Pointer, argumentsLength uint32) unsafe.Pointer {
	result, err := call(string(view(name, nameLength)), view(arguments, argumentsLength))
	answer, fields := block(40)
	r := record(fields)
	if err != nil {
		r[0] = 1
		r[4] = 3
		var failure *Failure
		if errors.As(err, &failure) {
			r[4] = failure.kind
		}
		r.text(8, err.Error())
		return answer
	}
	if result.Text != "" {
		content, block := block(32)
		record(block).text(4, result.Text)
		r.pointer(4, content, 1)
	}
	r.option(12, result.Structured)
	r.bit(24, result.Failed)
	return answer
}

func start(text string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(text)), uint32(len(text))
}
