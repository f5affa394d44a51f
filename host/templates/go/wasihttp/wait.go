package wasihttp

import (
	"context"
	"runtime"
	"sync"
	"time"

	"plugin.local/{{ name }}/internal/abi"
)

// How long the host is left alone with all that is waited for before other goroutines, timers and contexts get a turn:
// they share one thread with this.
const turn = 10 * time.Millisecond

var (
	waiting   = map[uint32]struct{}{}
	waitingMu sync.Mutex
)

// wait until the pollable is ready or the context has ended. The pollable goes.
func wait(ctx context.Context, pollable uint32) error {
	waitingMu.Lock()
	waiting[pollable] = struct{}{}
	waitingMu.Unlock()
	defer func() {
		waitingMu.Lock()
		delete(waiting, pollable)
		dropPollable(pollable)
		waitingMu.Unlock()
	}()
	for ready(pollable) == 0 {
		if err := ended(ctx); err != nil {
			return err
		}
		runtime.Gosched()
		if ready(pollable) == 0 {
			waitForAny()
		}
	}
	return nil
}

// waitForAny lets all goroutines wait at once: the first for which something is ready gets on.
func waitForAny() {
	waitingMu.Lock()
	defer waitingMu.Unlock()
	clock := subscribeDuration(uint64(turn))
	defer dropPollable(clock)
	handles := []uint32{clock}
	for pollable := range waiting {
		handles = append(handles, pollable)
	}
	list, which := words(handles), abi.Room(uint32(len(handles)*4))
	into := abi.Room(sizeOfSmall)
	abi.ReceiveInto(which, func() { poll(list.Start(), uint32(len(handles)), into.Start()) })
	runtime.KeepAlive(list)
}

func words(handles []uint32) abi.Record {
	list := abi.Room(uint32(len(handles) * 4))
	for n, handle := range handles {
		list.PutWord(n*4, handle)
	}
	return list
}

// ended is why the context is over, or nil. A deadline counts before its timer had a turn.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if deadline, has := ctx.Deadline(); has && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
