package hub

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestIdleConnections: connections on which nothing is asked make room for who asks.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.hub.Serve(ctx, listener) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for range connections + 10 {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Skipf("this machine does not let us have so many connections: %v", err)
		}
		defer c.Close()
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	s := newSubscriber(t)
	resp, err := client.PostForm("http://"+listener.Addr().String()+"/", url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {aTopic}, "hub.callback": {s.URL + "/cb"},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Error(resp.Status)
	}
	r.event(eventVerified)
}
