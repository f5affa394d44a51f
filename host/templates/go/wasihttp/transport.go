// Package wasihttp is net/http over wasi:http: http.Client{Transport: wasihttp.Transport{}}.
//
// What may be asked is the operator's choice, by URL: scheme, host and port of a request must be those of an upstream in
// the grants. The host adds the credential, follows redirects within the grant, and writes Host, Content-Length,
// Accept-Encoding and the trace context. What it refuses is an *Error.
package wasihttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"plugin.local/{{ name }}/internal/abi"
)

// Transport is an http.RoundTripper. Requests of several goroutines are under way at the same time.
type Transport struct{}

// RoundTrip sends one request. Its context's end and deadline are heeded, also while the response's body is read.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close()
	}
	ctx := request.Context()
	if err := ended(ctx); err != nil {
		return nil, err
	}
	handed, err := build(request)
	if err != nil {
		return nil, err
	}
	var body *outgoing
	if request.Body != nil && request.Body != http.NoBody {
		if body, err = openBody(handed); err != nil {
			dropRequest(handed)
			return nil, err
		}
	}
	future, err := begin(ctx, handed)
	if err != nil {
		if body != nil {
			body.abort()
		}
		return nil, err
	}
	defer dropFuture(future)
	if body != nil {
		// When the host takes no more of it, there is an answer.
		if err := body.send(ctx, request.Body); err != nil && !errors.Is(err, errStopped) {
			return nil, err
		}
	}
	response, err := answer(ctx, future)
	if err != nil {
		return nil, err
	}
	// The body has handles of its own.
	defer dropResponse(response)
	return received(request, response)
}

var methods = map[string]uint32{
	"GET": 0, "HEAD": 1, "POST": 2, "PUT": 3, "DELETE": 4, "CONNECT": 5, "OPTIONS": 6, "TRACE": 7, "PATCH": 8,
}

var schemes = map[string]uint32{"http": 0, "https": 1}

const (
	otherMethod   = 9
	anotherScheme = 2
)

// build an outgoing-request, which is the caller's to hand over or to drop.
func build(request *http.Request) (uint32, error) {
	url := request.URL
	if url == nil || url.Host == "" {
		return 0, &Error{Code: "HTTP-request-URI-invalid", Detail: "the URL has no host"}
	}
	if request.Host != "" && request.Host != url.Host {
		return 0, &Error{Code: "forbidden", Detail: "the header Host is always that of the URL"}
	}
	if len(request.Trailer) > 0 {
		return 0, &Error{Code: "HTTP-request-trailer-section-size", Detail: "trailers are not sent"}
	}
	fields, err := fieldsOf(request)
	if err != nil {
		return 0, err
	}
	handed := newRequest(fields)
	method, known := methods[request.Method]
	other := ""
	if !known && request.Method != "" {
		method, other = otherMethod, request.Method
	}
	scheme, known := schemes[url.Scheme]
	otherScheme := ""
	if !known {
		scheme, otherScheme = anotherScheme, url.Scheme
	}
	switch {
	case setMethod(handed, method, other) != 0:
		err = &Error{Code: "HTTP-request-method-invalid", Detail: request.Method}
	case setScheme(handed, 1, scheme, otherScheme) != 0:
		err = &Error{Code: "HTTP-request-URI-invalid", Detail: "scheme " + strconv.Quote(url.Scheme)}
	case setAuthority(handed, 1, url.Host) != 0:
		err = &Error{Code: "HTTP-request-URI-invalid", Detail: "host " + strconv.Quote(url.Host)}
	case setPath(handed, 1, url.RequestURI()) != 0:
		err = &Error{Code: "HTTP-request-URI-invalid", Detail: "path " + strconv.Quote(url.RequestURI())}
	}
	if err != nil {
		dropRequest(handed)
		return 0, err
	}
	return handed, nil
}

// Left out, as net/http's own transport does: it writes these by itself, or they are about the connection.
var left = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true,
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true,
}

func fieldsOf(request *http.Request) (uint32, error) {
	fields := newFields()
	add := func(name, value string) error {
		into := abi.Room(sizeOfSmall)
		appendField(fields, name, value, into.Start())
		if into[0] == 0 {
			return nil
		}
		dropFields(fields)
		return &Error{Code: headerErrors[into[1]], Detail: "header " + strconv.Quote(name)}
	}
	for name, values := range request.Header {
		if left[http.CanonicalHeaderKey(name)] {
			continue
		}
		for _, value := range values {
			if err := add(name, value); err != nil {
				return 0, err
			}
		}
	}
	// The host holds the body to it.
	if request.ContentLength > 0 && request.Body != nil {
		if err := add("Content-Length", strconv.FormatInt(request.ContentLength, 10)); err != nil {
			return 0, err
		}
	}
	return fields, nil
}

// begin hands the request over; it is gone in any case.
func begin(ctx context.Context, request uint32) (uint32, error) {
	var some, options uint32
	if deadline, has := ctx.Deadline(); has {
		some, options = 1, newOptions()
		nanoseconds := uint64(max(time.Until(deadline), time.Millisecond))
		setConnectTimeout(options, 1, nanoseconds)
		setFirstByteTimeout(options, 1, nanoseconds)
		setBetweenBytesTimeout(options, 1, nanoseconds)
	}
	into := abi.Room(sizeOfAnswer)
	given := abi.Receive(func() { handle(request, some, options, into.Start()) })
	defer runtime.KeepAlive(given)
	if into[0] != 0 {
		return 0, errorCode(into[8:])
	}
	return into.Word(8), nil
}

func answer(ctx context.Context, future uint32) (uint32, error) {
	if err := wait(ctx, subscribeFuture(future)); err != nil {
		return 0, err
	}
	into := abi.Room(sizeOfFuture)
	given := abi.Receive(func() { getFuture(future, into.Start()) })
	defer runtime.KeepAlive(given)
	switch {
	case into[0] == 0 || into[8] != 0:
		return 0, &Error{Code: "internal-error", Detail: "the host has an answer and does not give it"}
	case into[16] != 0:
		return 0, errorCode(into[24:])
	}
	return into.Word(24), nil
}

func received(request *http.Request, response uint32) (*http.Response, error) {
	status := int(responseStatus(response))
	header := headersOf(response)
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		length = -1
	}
	body, err := openResponseBody(request.Context(), response)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status:     fmt.Sprintf("%03d %s", status, http.StatusText(status)),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          body,
		ContentLength: length,
		Request:       request,
	}, nil
}

func headersOf(response uint32) http.Header {
	fields := responseHeaders(response)
	defer dropFields(fields)
	into := abi.Room(sizeOfSmall)
	given := abi.Receive(func() { entries(fields, into.Start()) })
	header := http.Header{}
	for list := into.List(0, 16); len(list) > 0; list = list[16:] {
		header.Add(list.Text(0), list.Text(8))
	}
	runtime.KeepAlive(given)
	return header
}
