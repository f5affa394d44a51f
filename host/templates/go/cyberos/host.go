package cyberos

import (
	"fmt"
	"runtime"
	"unsafe"

	"plugin.local/{{ name }}/internal/abi"
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
func logWrite(level uint32, message string)

// Log writes to the operator's log. Never log secrets or personal data.
func Log(level Level, message string) {
	logWrite(uint32(level), message)
}

//go:wasmimport cyberos:plugin/progress@1.0.0 report
func progressReport(progress float64, hasTotal bool, total float64, hasMessage bool, message string)

// Report tells the caller how far the call is. A total of 0 is unknown.
func Report(progress, total float64, message string) {
	progressReport(progress, total > 0, total, message != "", message)
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
	r := abi.Room(48)
	given := abi.Receive(func() { contextGet(r.Start()) })
	call := Call{Tenant: r.Text(0), Subject: r.Text(8), TraceID: r.Text(16), RemainingMS: r.Long(24)}
	if r[32] == 1 {
		call.TaskID = r.Text(36)
	}
	runtime.KeepAlive(given)
	return call
}

//go:wasmimport cyberos:plugin/config@1.0.0 get
func configGet(name string, into unsafe.Pointer)

// Setting is a value that the operator gave this plugin.
func Setting(name string) (string, bool) {
	r := abi.Room(12)
	given := abi.Receive(func() { configGet(name, r.Start()) })
	if r[0] == 0 {
		return "", false
	}
	value := r.Text(4)
	runtime.KeepAlive(given)
	return value, true
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
func fetch(upstream, method, path string, headers unsafe.Pointer, headerCount uint32,
	hasBody bool, body unsafe.Pointer, bodyLength uint32, timeoutMS uint32, into unsafe.Pointer)

// Fetch asks an upstream that is named in the grants. The host adds the credential.
func Fetch(request Request) (Response, error) {
	if request.Method == "" {
		request.Method = "GET"
	}
	if request.TimeoutMS == 0 {
		request.TimeoutMS = 10_000
	}
	headers := abi.Keep(uint32(len(request.Headers) * 16))
	for n, header := range request.Headers {
		r := headers[n*16:]
		r.PutText(0, header.Name)
		r.PutText(8, header.Value)
	}
	r := abi.Room(24)
	given := abi.Receive(func() {
		fetch(request.Upstream, request.Method, request.Path, headers.Start(), uint32(len(request.Headers)),
			request.Body != nil, unsafe.Pointer(unsafe.SliceData(request.Body)), uint32(len(request.Body)),
			request.TimeoutMS, r.Start())
	})
	defer runtime.KeepAlive(given)
	if r[0] == 1 {
		return Response{}, fetchError(r)
	}
	response := Response{Status: r.Half(4), Body: r.List(16, 1)}
	list := r.List(8, 16)
	for at := 0; at < len(list); at += 16 {
		response.Headers = append(response.Headers, Header{list.Text(at), list.Text(at + 8)})
	}
	return response, nil
}

func fetchError(r abi.Record) error {
	switch r[4] {
	case 0:
		return fmt.Errorf("not granted: %s", r.Text(8))
	case 1:
		return fmt.Errorf("invalid request: %s", r.Text(8))
	}
	return fmt.Errorf("the upstream cannot be asked: %s",
		[]string{"its address is refused", "timeout", "the response is too large", "unreachable"}[r[4]-2])
}
