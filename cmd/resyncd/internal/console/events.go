package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"resyncd/destination/gate"
)

// Bounds of the event stream.
const (
	listeners  = 64
	pace       = 500 * time.Millisecond // between two events
	heartbeat  = 15 * time.Second
	streamTime = 10 * time.Second // how long a listener may take for one event
)

// events tells a listener that pages have something new, until the client or the server ends.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	select {
	case c.hearing <- struct{}{}:
		defer func() { <-c.hearing }()
	default:
		w.Header().Set("Retry-After", "30")
		say(w, http.StatusServiceUnavailable, "too many listeners; the page asks by itself every 30 s")
		return
	}
	gate.Received(r.Context()) // there are but few of these, and they last
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // else some proxies wait for more
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := orEnding(r.Context())
	defer cancel()
	out := newDrip(w, streamTime)
	if _, err := io.WriteString(out, "retry: 3000\nevent: hello\ndata: {}\n\n"); err != nil {
		return
	}
	c.tell(ctx, out)
}

// tell writes an event for what Changes says, several that come close together as one.
func (c *console) tell(ctx context.Context, out io.Writer) {
	changes := c.Data.Changes(ctx)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	next := time.NewTimer(0) // when the next event may go
	defer next.Stop()
	news, free := false, false
	for n := int64(1); ; {
		select {
		case <-ctx.Done():
			return
		case _, open := <-changes:
			if !open {
				return
			}
			news = true
		case <-next.C:
			free = true
		case <-beat.C:
			if _, err := io.WriteString(out, ": still here\n\n"); err != nil {
				return
			}
		}
		if news && free {
			if _, err := fmt.Fprintf(out, "id: %d\nevent: change\ndata: {}\n\n", n); err != nil {
				return
			}
			n++
			news, free = false, false
			next.Reset(pace)
		}
	}
}

// drip is an answer that takes long: each piece has its own deadline instead of the server's for the whole.
type drip struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	time time.Duration
	gone bool // a piece could not be written: the client has gone
}

// newDrip makes one whose pieces may take up to d each. The deadline for reading the request is lifted, for net/http
// would end the request's context with it; a server without deadlines says so, which is as good.
func newDrip(w http.ResponseWriter, d time.Duration) *drip {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	return &drip{w: w, rc: rc, time: d}
}

// Write implements io.Writer; what was written is on its way when it returns.
func (d *drip) Write(p []byte) (int, error) {
	if err := d.rc.SetWriteDeadline(time.Now().Add(d.time)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	n, err := d.w.Write(p)
	if err != nil {
		d.gone = true
		return n, fmt.Errorf("write to the client: %w", err)
	}
	if err := d.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		d.gone = true
		return n, fmt.Errorf("write to the client: %w", err)
	}
	return n, nil
}

// endingKey is where ServeOn leaves, in the context of each request, the channel that closes when the server is to end.
type endingKey struct{}

// orEnding is ctx until the server is to end: what would run for ever must not hold that up.
func orEnding(ctx context.Context) (context.Context, context.CancelFunc) {
	ending, ok := ctx.Value(endingKey{}).(context.Context)
	if !ok {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ending, cancel)
	return ctx, func() { stop(); cancel() }
}
