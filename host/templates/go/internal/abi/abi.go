// Package abi is the canonical ABI of the component model, 32 bits, as far as the packages beside it need it.
package abi

import (
	"encoding/binary"
	"runtime/debug"
	"sync"
	"unsafe"
)

// Memory that the host is given, or gives. It is held in lists and not in slices or maps: a goroutine that waits for the
// collector in the middle of one of those would find it changed by another.
type memory struct {
	next  *memory
	words []uint64
}

var (
	// kept is what the host reads after an export has returned. An instance lives for one call, so it is never let go.
	kept *memory
	// given is what the host has given since it was last asked.
	given *memory
	// landing is where the next list goes, if it fits.
	landing []byte
)

func room(size uint32) *memory { return &memory{words: make([]uint64, size/8+1)} }

func (m *memory) start() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.words)) }

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if old == nil && landing != nil && uint64(size) <= uint64(len(landing)) {
		start := unsafe.Pointer(unsafe.SliceData(landing))
		landing = nil
		return start
	}
	more := room(size)
	more.next, given = given, more
	if old != nil {
		copy(unsafe.Slice((*byte)(more.start()), size), unsafe.Slice((*byte)(old), oldSize))
	}
	return more.start()
}

var asking sync.Mutex

// Receive asks the host for something that holds text or lists. While it writes them, nothing may be imported, and Go's
// collector asks for the time; so the collector rests. What was given lives as long as what this returns, or a slice of it.
func Receive(ask func()) any {
	asking.Lock()
	defer asking.Unlock()
	percent := debug.SetGCPercent(-1)
	ask()
	all := given
	given = nil
	debug.SetGCPercent(percent)
	return all
}

// ReceiveInto asks the host for one list that has at most the size of this memory, and lies there afterwards. The memory
// must be aligned to the list's elements.
func ReceiveInto(into []byte, ask func()) {
	asking.Lock()
	defer asking.Unlock()
	landing = into
	ask()
	landing = nil
}

var percent = 100

// Rest keeps the collector from starting until Work: when the host calls, it first writes the arguments.
func Rest() {
	if before := debug.SetGCPercent(-1); before >= 0 {
		percent = before
	}
}

// Work ends Rest.
func Work() { debug.SetGCPercent(percent) }

// Record has fields at fixed places. It is aligned to 8.
type Record []byte

// Room is a record for the host to fill in.
func Room(size uint32) Record {
	return unsafe.Slice((*byte)(room(size).start()), size)
}

// Keep is a record for the host to read when the export has returned.
func Keep(size uint32) Record {
	more := room(size)
	more.next, kept = kept, more
	return unsafe.Slice((*byte)(more.start()), size)
}

// Start is where the record begins, as the host is told.
func (r Record) Start() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(r)) }

// PutBit writes a bool.
func (r Record) PutBit(at int, value bool) {
	if value {
		r[at] = 1
	}
}

// PutWord writes a u32, or a handle.
func (r Record) PutWord(at int, value uint32) { binary.LittleEndian.PutUint32(r[at:], value) }

// PutList writes a list that lies elsewhere.
func (r Record) PutList(at int, list Record, length int) {
	r.PutWord(at, uint32(uintptr(list.Start())))
	r.PutWord(at+4, uint32(length))
}

// PutText writes a string.
func (r Record) PutText(at int, text string) {
	bytes := Keep(uint32(len(text)))
	copy(bytes, text)
	r.PutList(at, bytes, len(text))
}

// PutOption writes a string that is left out when it is empty.
func (r Record) PutOption(at int, text string) {
	if text != "" {
		r[at] = 1
		r.PutText(at+4, text)
	}
}

// Half reads a u16.
func (r Record) Half(at int) uint16 { return binary.LittleEndian.Uint16(r[at:]) }

// Word reads a u32, or a handle.
func (r Record) Word(at int) uint32 { return binary.LittleEndian.Uint32(r[at:]) }

// Long reads a u64.
func (r Record) Long(at int) uint64 { return binary.LittleEndian.Uint64(r[at:]) }

// Text reads a string.
func (r Record) Text(at int) string { return string(r.List(at, 1)) }

// List reads a list whose elements have this size. It is not copied.
func (r Record) List(at, size int) Record {
	return View(unsafe.Add(nil, r.Word(at)), r.Word(at+4)*uint32(size))
}

// View is memory that the host has filled.
func View(start unsafe.Pointer, length uint32) Record {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(start), length)
}
