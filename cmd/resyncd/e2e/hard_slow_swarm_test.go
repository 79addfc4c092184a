package e2e_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// slowness is one way to hold a connection of the callback for long.
type slowness struct {
	name    string
	opening string // sent at once
	drip    string // and then this again and again, "" for nothing
	sips    bool   // reads its answer slowly
	idles   bool   // an honest peer between two requests, which may stay until there is no room
}

// slownesses are the ways there are, for somebody who knows a token that is in use.
func slownesses(token string) []slowness {
	post := "POST " + token + " HTTP/1.1\r\nHost: h\r\n"
	nobody := "POST " + token[:strings.LastIndexByte(token, '/')] + "/nobody HTTP/1.1\r\nHost: h\r\n"
	return []slowness{
		{name: "silent"},
		{name: "half a head", opening: "POST " + token},
		{name: "head by drops", opening: post + "X-Slow: ", drip: "x"},
		{name: "head by lines", opening: post, drip: "X-Slow: x\r\n"},
		{name: "body by drops", opening: post + "Content-Length: 100000\r\n\r\n", drip: "x"},
		{name: "half a body", opening: post + "Content-Length: 100000\r\n\r\n<urlset"},
		{name: "chunks by drops", opening: post + "Transfer-Encoding: chunked\r\n\r\n", drip: "1\r\nx\r\n"},
		{name: "body for nobody", opening: nobody + "Content-Length: 100000\r\n\r\n", drip: "x"},
		{name: "answer by drops", opening: nobody + "Content-Length: 0\r\nConnection: close\r\n\r\n", sips: true},
		{name: "idle", opening: nobody + "Content-Length: 0\r\n\r\n", idles: true},
	}
}

// dripEvery is the time between two drips.
const dripEvery = 500 * time.Millisecond

// swarm keeps up a number of slow connections: whoever is thrown out comes again.
type swarm struct {
	addr string
	all  sync.WaitGroup
	over context.CancelFunc // ends those that idle
	calm atomic.Bool        // nobody comes again

	mu      sync.Mutex
	open    map[string]int           // by name
	longest map[string]time.Duration // that one of them was held
	thrown  int                      // how many were thrown out, or answered
	failed  error                    // to connect
}

// besiege begins with n connections, of all kinds in turn.
func besiege(addr, token string, n int) *swarm {
	ctx, over := context.WithCancel(context.Background())
	s := &swarm{addr: addr, over: over, open: map[string]int{}, longest: map[string]time.Duration{}}
	kinds := slownesses(token)
	for i := range n {
		s.all.Go(func() {
			for !s.calm.Load() && s.once(ctx, &kinds[i%len(kinds)]) == nil {
			}
		})
	}
	return s
}

// once holds one connection for as long as the daemon lets it.
func (s *swarm) once(ctx context.Context, k *slowness) error {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = err
		return err
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(1) //nolint:forcetypeassert // of the network tcp; the kernel's least
	began := time.Now()
	s.count(k.name, 1)
	_, _ = io.WriteString(c, k.opening) // a connection that is refused is seen by reading
	for b := make([]byte, 1); ctx.Err() == nil; {
		_ = c.SetReadDeadline(time.Now().Add(dripEvery))
		_, err := c.Read(b)
		if timeout, ok := err.(net.Error); err != nil && (!ok || !timeout.Timeout()) { //nolint:errorlint // as net returns it
			break
		}
		switch {
		case err == nil && k.sips:
			<-time.After(10 * time.Millisecond)
		case err != nil:
			_, _ = io.WriteString(c, k.drip)
		}
	}
	s.count(k.name, -1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thrown++
	s.longest[k.name] = max(s.longest[k.name], time.Since(began))
	return nil
}

func (s *swarm) count(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[name] += n
}

// held counts the open connections: those that idle, and the slow ones.
func (s *swarm) held() (idle, slow int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.open {
		if name == "idle" {
			idle += n
		} else {
			slow += n
		}
	}
	return idle, slow
}

// stayed is how long the longest of each kind was held, but for those that idle.
func (s *swarm) stayed() (most time.Duration, each string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.longest)) {
		if name != "idle" {
			most = max(most, s.longest[name])
			fmt.Fprintf(&b, ", %s %.1f s", name, s.longest[name].Seconds())
		}
	}
	return most, strings.TrimPrefix(b.String(), ", ")
}

// quit lets go of whoever is left.
func (s *swarm) quit() {
	s.calm.Store(true)
	s.over()
	s.all.Wait()
}
