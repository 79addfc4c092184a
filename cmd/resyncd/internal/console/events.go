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

const (
	listeners  = 64
	pace       = 500 * time.Millisecond // between two events
	heartbeat  = 15 * time.Second
	streamTime = 10 * time.Second // how long a listener may take for one event
)

// events tells a listener that pages have something new.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	select {
	case c.hearing <- struct{}{}:
		defer func() { <-c.hearing }()
	default:
		w.Header().Set("Retry-After", "30")
		say(w, http.StatusServiceUnavailable, "too many listeners; the page asks by itself every 30 s")
		return
	}
	gate.Received(r.Context()) // few, and they last
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := orEnding(r.Context())
	defer cancel()
	out := newDrip(w, streamTime)
	changed := c.Data.Changed() // before the listener looks at the page, or it would miss what changes meanwhile
	if _, err := io.WriteString(out, "retry: 3000\nevent: hello\ndata: {}\n\n"); err != nil {
		return
	}
	c.tell(ctx, out, changed)
}

// tell joins events that come close together.
func (c *console) tell(ctx context.Context, out io.Writer, changed <-chan struct{}) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for n := int64(1); ; {
		text := ": still here\n\n"
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = c.Data.Changed()
			text = fmt.Sprintf("id: %d\nevent: change\ndata: {}\n\n", n)
			n++
		case <-beat.C:
		}
		if _, err := io.WriteString(out, text); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pace): // what changes meanwhile is told as one
		}
	}
}

// drip is an answer whose pieces have a deadline each, instead of one for the whole.
type drip struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	time time.Duration
	gone bool // the client has gone
}

// newDrip lifts the deadline for reading the request: net/http would end its context with it.
func newDrip(w http.ResponseWriter, d time.Duration) *drip {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	return &drip{w: w, rc: rc, time: d}
}

// Write implements io.Writer.
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

// endingKey is, in the context of each request, the channel that closes when the server is to end.
type endingKey struct{}

// orEnding ends ctx with the server.
func orEnding(ctx context.Context) (context.Context, context.CancelFunc) {
	ending, ok := ctx.Value(endingKey{}).(context.Context)
	if !ok {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ending, cancel)
	return ctx, func() { stop(); cancel() }
}
