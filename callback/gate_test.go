package callback

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/store"
)

// TestCaps: over the cap the longest idle connection goes, then the slowest sender, never one that waits for its answer.
func TestCaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		s, p := inBubble(t, nil, func(o *ServerOptions) { o.maxConns = 4 })
		idle1, idle2 := p.dial(""), p.dial("")
		for _, c := range []net.Conn{idle1, idle2} {
			if resp := exchange(t, c, good("x")); resp.StatusCode != 200 {
				t.Fatal(resp.Status)
			}
			<-time.After(time.Second)
		}
		slow := p.dial("")
		_, _ = io.WriteString(slow, "POST")
		synctest.Wait()
		s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
		busy := p.dial("")
		answers := make(chan int, 4)
		wait := func(c net.Conn) {
			go func() { answers <- exchange(t, c, good("y")).StatusCode }()
			synctest.Wait()
		}
		wait(busy)
		open := func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return !errors.Is(err, io.EOF)
		}
		var more []net.Conn
		for n, want := range [][3]bool{{false, true, true}, {false, false, true}, {false, false, false}} {
			c := p.dial("")
			synctest.Wait()
			if got := [3]bool{open(idle1), open(idle2), open(slow)}; got != want {
				t.Errorf("after %d more: idle, idle, slow are open: %v", n+1, got)
			}
			wait(c)
			more = append(more, c)
		}
		last := p.dial("") // all four wait for their answers
		synctest.Wait()
		if open(last) {
			t.Error("there is no room for a fifth")
		}
		close(let)
		for range 4 {
			if status := <-answers; status != 200 {
				t.Error(status)
			}
		}
		for _, c := range slices.Concat(more, []net.Conn{idle1, idle2, slow, busy, last}) {
			_ = c.Close()
		}
	})
}

// TestCapPerAddress: one address cannot take all connections, unless a proxy may stand there.
func TestCapPerAddress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		addrs []string
		stay  int // of them
	}{
		"one address":          {[]string{"203.0.113.1:1", "203.0.113.1:2", "203.0.113.1:3", "203.0.113.1:4"}, 2},
		"mapped":               {[]string{"203.0.113.1:1", "[::ffff:203.0.113.1]:2", "203.0.113.1:3"}, 2},
		"several":              {[]string{"203.0.113.1:1", "203.0.113.2:2", "203.0.113.1:3", "203.0.113.2:4"}, 4},
		"one /64":              {[]string{"[2001:db8::1]:1", "[2001:db8::2]:2", "[2001:db8::3]:3"}, 2},
		"several /64":          {[]string{"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:2", "[2001:db8:0:3::1]:3"}, 3},
		"loopback":             {[]string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "[::1]:4", "[::1]:5", "[::1]:6"}, 6},
		"private":              {[]string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "[fd00::1]:4", "[fd00::1]:5", "[fd00::1]:6"}, 6},
		"unix socket":          {[]string{"", "", ""}, 3},
		"others are not moved": {[]string{"192.0.2.1:1", "203.0.113.1:1", "203.0.113.1:2", "203.0.113.1:3"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, p := inBubble(t, nil, func(o *ServerOptions) {
					o.maxConnsPerIP = 2
				})
				var conns []net.Conn
				for _, addr := range tc.addrs {
					c := p.dial(addr)
					defer c.Close()
					conns = append(conns, c)
					synctest.Wait()
				}
				stay := 0
				for n, c := range conns {
					_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
						stay++
					} else if n == len(conns)-1 || name == "others are not moved" && n == 0 {
						t.Errorf("connection %d was closed", n)
					}
				}
				if stay != tc.stay {
					t.Errorf("%d of %d stay", stay, len(conns))
				}
			})
		})
	}
}

// TestAcceptFails: to be out of descriptors passes (F11), other failures end Serve.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, nil), newPipes()
		served := make(chan error)
		go func() { served <- Serve(t.Context(), ServerOptions{Listener: p, Handler: s}) }()
		idler := p.dial("")
		exchange(t, idler, good("x"))
		began := time.Now()
		for range 20 {
			p.fails <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		if took := time.Since(began); took < 5*time.Second || took > 20*time.Second {
			t.Errorf("20 failures in %v", took)
		}
		_ = idler.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := idler.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // exactly
			t.Errorf("the idle one could have been spared: %v", err)
		}
		c := p.dial("")
		if resp := exchange(t, c, good("y")); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		p.fails <- errors.New("broken")
		if err := <-served; err == nil || !strings.Contains(err.Error(), "broken") {
			t.Error(err)
		}
		_ = c.Close()
		_ = idler.Close()
	})
}
