package cyberos

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"
)

// What the host offers. A function that is not called is not imported. Context, Report and Log are always granted; Setting
// and Fetch need an entry in grants.toml. More is in wit/host.wit.

// Level of a message, as MCP names them.
type Level uint8

const (
	Debug Level = iota
	Info
	Notice
	Warning
	Error
	Critical
	Alert
	Emergency
)

//go:wasmimport cyberos:plugin/log@1.0.0 write
func logWrite(level uint32, text unsafe.Pointer, length uint32)

// Log writes to the operator's log. Never log secrets or personal data.
func Log(level Level, message string) {
	text, length := start(message)
	logWrite(uint32(level), text, length)
	runtime.KeepAlive(message)
}

//go:wasmimport cyberos:plugin/progress@1.0.0 report
func progressReport(progress float64, hasTotal uint32, total float64, hasMessage uint32, text unsafe.Pointer, length uint32)

// Report tells the caller how far the call is. A total of 0 is unknown.
func Report(progress, total float64, message string) {
	text, length := start(message)
	progressReport(progress, flag(total > 0), total, flag(message != ""), text, length)
	runtime.KeepAlive(message)
}

// Call says who calls, and how long the call may take.
type Call struct {
	Tenant, Subject, TraceID string
	RemainingMS              uint64
	// TaskID is empty unless the call runs as a task.
	TaskID string
}

//go:wasmimport cyberos:plugin/call-context@1.0.0 get
func contextGet(into unsafe.Pointer)

// Context of this call.
func Context() Call {
	into, bytes := block(48)
	contextGet(into)
	r := record(bytes)
	call := Call{Tenant: r.textAt(0), Subject: r.textAt(8), TraceID: r.textAt(16)}
	call.RemainingMS = binary.LittleEndian.Uint64(r[24:])
	if r[32] == 1 {
		call.TaskID = r.textAt(36)
	}
	return call
}

//go:wasmimport cyberos:plugin/config@1.0.0 get
func configGet(name unsafe.Pointer, length uint32, into unsafe.Pointer)

// Setting is a value that the operator gave this plugin.
func Setting(name string) (string, bool) {
	text, length := start(name)
	into, bytes := block(12)
	configGet(text, length, into)
	runtime.KeepAlive(name)
	r := record(bytes)
	if r[0] == 0 {
		return "", false
	}
	return r.textAt(4), true
}

// Header of a request or a response.
type Header struct{ Name, Value string }

// Request to a granted upstream. Method is GET and TimeoutMS 10 000 unless given.
type Request struct {
	Upstream, Method, Path string
	Headers                []Header
	Body                   []byte
	TimeoutMS              uint32
}

// Response of an upstream.
type Response struct {
	Status  uint16
	Headers []Header
	Body    []byte
}

//go:wasmimport cyberos:plugin/http-fetch@1.0.0 fetch
func fetch(upstream unsafe.Pointer, upstreamLength uint32, method unsafe.Pointer, methodLength uint32,
	path unsafe.Pointer, pathLength uint32, headers unsafe.Pointer, headerCount uint32,
	hasBody uint32, body unsafe.Pointer, bodyLength uint32, timeoutMS uint32, into unsafe.Pointer)

// Fetch asks an upstream that is named in the grants. The host adds the credential.
func Fetch(request Request) (Response, error) {
	if request.Method == "" {
		request.Method = "GET"
	}
	if request.TimeoutMS == 0 {
		request.TimeoutMS = 10_000
	}
	upstream, upstreamLength := start(request.Upstream)
	method, methodLength := start(request.Method)
	path, pathLength := start(request.Path)
	headers, fields := block(uint32(len(request.Headers) * 16))
	for n, header := range request.Headers {
		r := record(fields[n*16:])
		r.text(0, header.Name)
		r.text(8, header.Value)
	}
	into, bytes := block(24)
	fetch(upstream, upstreamLength, method, methodLength, path, pathLength, headers, uint32(len(request.Headers)),
		flag(request.Body != nil), unsafe.Pointer(unsafe.SliceData(request.Body)), uint32(len(request.Body)),
		request.TimeoutMS, into)
	runtime.KeepAlive(request)
	r := record(bytes)
	if r[0] == 1 {
		return Response{}, fetchError(r)
	}
	response := Response{Status: binary.LittleEndian.Uint16(r[4:]), Body: r.bytesAt(16)}
	list := record(view(unsafe.Pointer(uintptr(r.word(8))), r.word(12)*16))
	for at := 0; at < len(list); at += 16 {
		response.Headers = append(response.Headers, Header{list.textAt(at), list.textAt(at + 8)})
	}
	return response, nil
}

func fetchError(r record) error {
	switch r[4] {
	case 0:
		return fmt.Errorf("not granted: %s", r.textAt(8))
	case 1:
		return fmt.Errorf("invalid request: %s", r.textAt(8))
	}
	return fmt.Errorf("the upstream cannot be asked: %s",
		[]string{"its address is refused", "timeout", "the response is too large", "unreachable"}[r[4]-2])
}

func flag(value bool) uint32 {
	if value {
		return 1
	}
	return 0
}
