package wasihttp

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"unsafe"

	"plugin.local/{{ name }}/internal/abi"
)

const (
	// What is taken from a request's body at once.
	writeBytes = 4096
	// What is asked of a response's body at once; the host bounds what one function hands over.
	readBytes = 64 << 10
)

// outgoing is the body of a request while it is written.
type outgoing struct{ body, stream uint32 }

// openBody of a request that was not handed over yet.
func openBody(request uint32) (*outgoing, error) {
	into := abi.Room(sizeOfSmall)
	requestBody(request, into.Start())
	if into[0] != 0 {
		return nil, &Error{Code: "HTTP-request-body-size", Detail: "the request cannot have this body"}
	}
	body := into.Word(4)
	into = abi.Room(sizeOfSmall)
	outgoingStream(body, into.Start())
	if into[0] != 0 {
		dropOutgoingBody(body)
		return nil, &Error{Code: "internal-error", Detail: "the body cannot be written"}
	}
	return &outgoing{body, into.Word(4)}, nil
}

// errStopped: the host takes no more of the body, and its answer says why.
var errStopped = errors.New("the host takes no more")

// send all of from, in pieces, and end the body. Unless that succeeds, the body is incomplete and the host knows.
func (o *outgoing) send(ctx context.Context, from io.Reader) error {
	if err := o.copy(ctx, from); err != nil {
		o.abort()
		return err
	}
	dropOutput(o.stream)
	into := abi.Room(sizeOfAnswer)
	given := abi.Receive(func() { finishBody(o.body, 0, 0, into.Start()) })
	defer runtime.KeepAlive(given)
	if into[0] != 0 {
		return errorCode(into[8:])
	}
	return nil
}

func (o *outgoing) abort() {
	dropOutput(o.stream)
	dropOutgoingBody(o.body)
}

func (o *outgoing) copy(ctx context.Context, from io.Reader) error {
	buffer := make([]byte, writeBytes)
	into := abi.Room(sizeOfSmall)
	for {
		n, err := from.Read(buffer)
		for left := buffer[:n]; len(left) > 0; {
			permit, err := o.permit(ctx)
			if err != nil {
				return err
			}
			now := left[:min(uint64(len(left)), permit)]
			write(o.stream, unsafe.Pointer(unsafe.SliceData(now)), uint32(len(now)), into.Start())
			if into[0] != 0 {
				return stopped(into[4:])
			}
			left = left[len(now):]
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	flush(o.stream, into.Start())
	if into[0] != 0 {
		return stopped(into[4:])
	}
	// Until it is flushed there is no permit.
	_, err := o.permit(ctx)
	return err
}

// permit waits until the stream takes something, and says how much.
func (o *outgoing) permit(ctx context.Context) (uint64, error) {
	into := abi.Room(sizeOfPermit)
	for {
		checkWrite(o.stream, into.Start())
		if into[0] != 0 {
			return 0, stopped(into[8:])
		}
		if permit := into.Long(8); permit > 0 {
			return permit, nil
		}
		if err := wait(ctx, subscribeOutput(o.stream)); err != nil {
			return 0, err
		}
	}
}

func stopped(r abi.Record) error {
	if err := streamError(r); err != nil {
		return errors.Join(errStopped, err)
	}
	return errStopped
}

// incoming is the body of a response. The last error stays: io.EOF, or why there is no more.
type incoming struct {
	ctx          context.Context
	mu           sync.Mutex
	body, stream uint32
	last         error
}

var errClosed = errors.New("wasi:http: read on a closed response body")

func openResponseBody(ctx context.Context, response uint32) (*incoming, error) {
	into := abi.Room(sizeOfSmall)
	consume(response, into.Start())
	if into[0] != 0 {
		return nil, &Error{Code: "internal-error", Detail: "the response has no body"}
	}
	body := into.Word(4)
	into = abi.Room(sizeOfSmall)
	incomingStream(body, into.Start())
	if into[0] != 0 {
		dropIncomingBody(body)
		return nil, &Error{Code: "internal-error", Detail: "the body cannot be read"}
	}
	return &incoming{ctx: ctx, body: body, stream: into.Word(4)}, nil
}

func (b *incoming) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.last == nil && len(into) > 0 {
		if err := ended(b.ctx); err != nil {
			b.end(err)
			break
		}
		n, err := b.now(into[:min(len(into), readBytes)])
		if err != nil {
			b.end(err)
			break
		}
		if n > 0 {
			return n, nil
		}
		if err := wait(b.ctx, subscribeInput(b.stream)); err != nil {
			b.end(err)
		}
	}
	return 0, b.last
}

// now reads what is there, which may be nothing.
func (b *incoming) now(into []byte) (int, error) {
	answer := abi.Room(sizeOfSmall)
	abi.ReceiveInto(into, func() { read(b.stream, uint64(len(into)), answer.Start()) })
	if answer[0] == 0 {
		return int(answer.Word(8)), nil
	}
	if err := streamError(answer[4:]); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// end lets go of the handles: at the end of the body, or when it is closed before.
func (b *incoming) end(why error) {
	if b.last == nil {
		dropInput(b.stream)
		dropIncomingBody(b.body)
	}
	b.last = why
}

func (b *incoming) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(errClosed)
	return nil
}
