package wasihttp

import "unsafe"

// The functions of wasi.wit as core WebAssembly sees them. Source: "Flattening" and "Storing" in CanonicalABI.md of
// WebAssembly/component-model. A handle is a u32; what does not fit into one value is written to `into`, with a layout
// that follows from sizes and alignments:
//
//	result<resource>                                 0 case, 4 handle
//	result<_, header-error>                          0 case, 1 header-error
//	result<list<u8>, stream-error>                   0 case, 4 pointer, 8 length; or 4 stream-error, 8 its handle
//	result<_, stream-error>                          0 case, 4 stream-error, 8 its handle
//	result<u64, stream-error>                        0 case, 8 number; or 8 stream-error, 12 its handle
//	error-code                                       0 case, 8 payload; 32 bytes, aligned to 8 because of option<u64>
//	result<resource or _, error-code>                0 case, 8 handle or error-code
//	option<error-code>                               0 case, 8 error-code
//	option<result<result<resource, error-code>>>     0 case, 8 case, 16 case, 24 handle or error-code

const (
	sizeOfSmall     = 12
	sizeOfPermit    = 16
	sizeOfErrorCode = 32
	sizeOfAnswer    = 8 + sizeOfErrorCode
	sizeOfFuture    = 24 + sizeOfErrorCode
)

//go:wasmimport wasi:http/types@0.2.12 [constructor]fields
func newFields() uint32

//go:wasmimport wasi:http/types@0.2.12 [method]fields.append
func appendField(fields uint32, name, value string, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [method]fields.entries
func entries(fields uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]fields
func dropFields(fields uint32)

//go:wasmimport wasi:http/types@0.2.12 [constructor]outgoing-request
func newRequest(fields uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-method
func setMethod(request, method uint32, other string) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-scheme
func setScheme(request, some, scheme uint32, other string) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-authority
func setAuthority(request, some uint32, authority string) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.set-path-with-query
func setPath(request, some uint32, path string) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-request.body
func requestBody(request uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]outgoing-request
func dropRequest(request uint32)

//go:wasmimport wasi:http/types@0.2.12 [constructor]request-options
func newOptions() uint32

//go:wasmimport wasi:http/types@0.2.12 [method]request-options.set-connect-timeout
func setConnectTimeout(options, some uint32, nanoseconds uint64) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]request-options.set-first-byte-timeout
func setFirstByteTimeout(options, some uint32, nanoseconds uint64) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]request-options.set-between-bytes-timeout
func setBetweenBytesTimeout(options, some uint32, nanoseconds uint64) uint32

//go:wasmimport wasi:http/outgoing-handler@0.2.12 handle
func handle(request, some, options uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [method]future-incoming-response.subscribe
func subscribeFuture(future uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]future-incoming-response.get
func getFuture(future uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]future-incoming-response
func dropFuture(future uint32)

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-response.status
func responseStatus(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-response.headers
func responseHeaders(response uint32) uint32

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-response.consume
func consume(response uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]incoming-response
func dropResponse(response uint32)

//go:wasmimport wasi:http/types@0.2.12 [method]incoming-body.stream
func incomingStream(body uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]incoming-body
func dropIncomingBody(body uint32)

//go:wasmimport wasi:http/types@0.2.12 [method]outgoing-body.write
func outgoingStream(body uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [static]outgoing-body.finish
func finishBody(body, some, trailers uint32, into unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.12 [resource-drop]outgoing-body
func dropOutgoingBody(body uint32)

//go:wasmimport wasi:http/types@0.2.12 http-error-code
func httpErrorCode(err uint32, into unsafe.Pointer)

//go:wasmimport wasi:io/error@0.2.12 [method]error.to-debug-string
func debugString(err uint32, into unsafe.Pointer)

//go:wasmimport wasi:io/error@0.2.12 [resource-drop]error
func dropError(err uint32)

//go:wasmimport wasi:io/streams@0.2.12 [method]input-stream.read
func read(stream uint32, length uint64, into unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]input-stream.subscribe
func subscribeInput(stream uint32) uint32

//go:wasmimport wasi:io/streams@0.2.12 [resource-drop]input-stream
func dropInput(stream uint32)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.check-write
func checkWrite(stream uint32, into unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.write
func write(stream uint32, bytes unsafe.Pointer, length uint32, into unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.flush
func flush(stream uint32, into unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.subscribe
func subscribeOutput(stream uint32) uint32

//go:wasmimport wasi:io/streams@0.2.12 [resource-drop]output-stream
func dropOutput(stream uint32)

//go:wasmimport wasi:io/poll@0.2.12 [method]pollable.ready
func ready(pollable uint32) uint32

//go:wasmimport wasi:io/poll@0.2.12 poll
func poll(pollables unsafe.Pointer, length uint32, into unsafe.Pointer)

//go:wasmimport wasi:io/poll@0.2.12 [resource-drop]pollable
func dropPollable(pollable uint32)

//go:wasmimport wasi:clocks/monotonic-clock@0.2.12 subscribe-duration
func subscribeDuration(nanoseconds uint64) uint32
