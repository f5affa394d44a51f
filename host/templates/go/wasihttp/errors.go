package wasihttp

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"plugin.local/{{ name }}/internal/abi"
)

// Error is why there is no response, or no more of it. Find it with errors.As.
type Error struct {
	// Code is a case of error-code in wasi:http, as it is written there: HTTP-request-denied, destination-unavailable.
	// For a header that cannot be sent it is a case of header-error: forbidden, invalid-syntax.
	Code string
	// Detail is what the case carries: the text of internal-error, the limit of HTTP-response-body-size. Often empty.
	Detail string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return "wasi:http: " + e.Code
	}
	return "wasi:http: " + e.Code + ": " + e.Detail
}

// Timeout says whether time ran out, as os.IsTimeout and http.Client ask.
func (e *Error) Timeout() bool { return strings.HasSuffix(e.Code, "-timeout") }

// Is makes a timeout of the host's one of Go's, as package net does with its own.
func (e *Error) Is(target error) bool { return target == context.DeadlineExceeded && e.Timeout() }

type payload int

const (
	none payload = iota
	text
	number32
	number64
	dnsError
	tlsAlert
	fieldSize
	optionalFieldSize
)

// The cases of error-code in their order in wasi.wit.
var errorCodes = [...]struct {
	name    string
	carries payload
}{
	{"DNS-timeout", none},
	{"DNS-error", dnsError},
	{"destination-not-found", none},
	{"destination-unavailable", none},
	{"destination-IP-prohibited", none},
	{"destination-IP-unroutable", none},
	{"connection-refused", none},
	{"connection-terminated", none},
	{"connection-timeout", none},
	{"connection-read-timeout", none},
	{"connection-write-timeout", none},
	{"connection-limit-reached", none},
	{"TLS-protocol-error", none},
	{"TLS-certificate-error", none},
	{"TLS-alert-received", tlsAlert},
	{"HTTP-request-denied", none},
	{"HTTP-request-length-required", none},
	{"HTTP-request-body-size", number64},
	{"HTTP-request-method-invalid", none},
	{"HTTP-request-URI-invalid", none},
	{"HTTP-request-URI-too-long", none},
	{"HTTP-request-header-section-size", number32},
	{"HTTP-request-header-size", optionalFieldSize},
	{"HTTP-request-trailer-section-size", number32},
	{"HTTP-request-trailer-size", fieldSize},
	{"HTTP-response-incomplete", none},
	{"HTTP-response-header-section-size", number32},
	{"HTTP-response-header-size", fieldSize},
	{"HTTP-response-body-size", number64},
	{"HTTP-response-trailer-section-size", number32},
	{"HTTP-response-trailer-size", fieldSize},
	{"HTTP-response-transfer-coding", text},
	{"HTTP-response-content-coding", text},
	{"HTTP-response-timeout", none},
	{"HTTP-upgrade-failed", none},
	{"HTTP-protocol-error", none},
	{"loop-detected", none},
	{"configuration-error", none},
	{"internal-error", text},
}

var headerErrors = [...]string{"invalid-syntax", "forbidden", "immutable"}

// errorCode reads an error-code: its case, and at 8 what the case carries.
func errorCode(r abi.Record) *Error {
	if int(r[0]) >= len(errorCodes) {
		return &Error{Code: "internal-error", Detail: fmt.Sprintf("the host's error-code %d is not known here", r[0])}
	}
	code := errorCodes[r[0]]
	return &Error{Code: code.name, Detail: code.carries.read(r[8:])}
}

// read is the payload in words. Where each field lies follows from sizes and alignments, as everywhere.
func (p payload) read(r abi.Record) string {
	switch p {
	case text:
		return optionalText(r)
	case number32:
		return optionalWord(r)
	case number64:
		if r[0] == 1 {
			return strconv.FormatUint(r.Long(8), 10)
		}
	case dnsError:
		detail := optionalText(r)
		if r[12] == 1 {
			detail = strings.TrimSpace(fmt.Sprintf("%s (%d)", detail, r.Half(14)))
		}
		return detail
	case tlsAlert:
		detail := optionalText(r[4:])
		if r[0] == 1 {
			detail = strings.TrimSpace(fmt.Sprintf("%s (%d)", detail, r[1]))
		}
		return detail
	case fieldSize:
		return strings.TrimSpace(optionalText(r) + " " + optionalWord(r[12:]))
	case optionalFieldSize:
		if r[0] == 1 {
			return fieldSize.read(r[4:])
		}
	}
	return ""
}

func optionalText(r abi.Record) string {
	if r[0] == 1 {
		return r.Text(4)
	}
	return ""
}

func optionalWord(r abi.Record) string {
	if r[0] == 1 {
		return strconv.FormatUint(uint64(r.Word(4)), 10)
	}
	return ""
}

// streamError reads what a failed operation left: nil when the stream is closed. The handle goes.
func streamError(r abi.Record) error {
	if r[0] == 1 {
		return nil
	}
	err := r.Word(4)
	defer dropError(err)
	answer := abi.Room(sizeOfAnswer)
	given := abi.Receive(func() { httpErrorCode(err, answer.Start()) })
	defer runtime.KeepAlive(given)
	if answer[0] == 1 {
		return errorCode(answer[8:])
	}
	said := abi.Room(sizeOfSmall)
	words := abi.Receive(func() { debugString(err, said.Start()) })
	defer runtime.KeepAlive(words)
	return &Error{Code: "internal-error", Detail: said.Text(0)}
}
