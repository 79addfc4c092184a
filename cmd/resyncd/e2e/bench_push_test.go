package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/daemon"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/source"
	syncengine "resyncd/sync"
)

// wired is a Source, a hub and a daemon in this process, connected over loopback as the commands are.
type wired struct {
	src      *source.Source
	mirror   string // the folder
	mirrored chan syncengine.Mirrored
	fetched  chan int64
}

// wire starts them, with further Sources beside, and waits until the channel is active and the baseline is there.
func wire(b *testing.B, beside ...string) *wired {
	b.Helper()
	return wireBy(b, source.Options{}, beside...)
}

// wireBy is wire with a Source of those options.
func wireBy(b *testing.B, publish source.Options, beside ...string) *wired {
	b.Helper()
	dir := b.TempDir()
	bed := newBed(b)
	at, url := bed.listen()
	relayAt, relayURL := bed.listen()
	publish.Base, publish.Hub = url, relayURL+"/"
	src := bed.source(publish)
	if err := src.Put("first", []byte("first")); err != nil {
		b.Fatal(err)
	}
	bed.hub(dir, relayAt, hub.Options{Base: relayURL + "/"})
	bed.run(src.Run, func(ctx context.Context) error { return src.Serve(ctx, at) })
	cfg := config.Default()
	cfg.DataDir, cfg.Mirror = dir, filepath.Join(dir, "mirror")
	cfg.Network.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Callback.Listen, cfg.Callback.BaseURL, cfg.Console.Listen = freePort, "http://"+freePort+"/cb", ""
	follow, err := cfg.Adhoc("bench", url+"/")
	if err != nil {
		b.Fatal(err)
	}
	cfg.Sources = []config.Source{follow}
	for i, beside := range beside {
		other, err := cfg.Adhoc(fmt.Sprintf("other%d", i), beside)
		if err != nil {
			b.Fatal(err)
		}
		cfg.Sources = append(cfg.Sources, other)
	}
	o := daemon.Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Now: time.Now, Announce: func(string, string) error { return nil }}
	w := &wired{src: src, mirror: cfg.Mirror, mirrored: make(chan syncengine.Mirrored, 1<<16), fetched: make(chan int64, 1<<16)}
	o.Observe.Mirrored = func(m syncengine.Mirrored) { w.mirrored <- m }
	o.Observe.Settled = func(s syncengine.Settled) {
		if s.Result == "fetched" {
			w.fetched <- 1
		}
	}
	d := daemon.New(o)
	bed.run(func(ctx context.Context) error { return d.Run(ctx, nil) })
	for i := 0; ; i++ { // until a push comes through
		if err := src.Put("first", fmt.Append(nil, i)); err != nil {
			b.Fatal(err)
		}
		select {
		case <-w.mirrored:
			w.drain(3 * time.Second) // the gap before the first one is looked into
			return w
		case <-time.After(200 * time.Millisecond):
		}
		if i > 100 {
			b.Fatal("no push comes through")
		}
	}
}

func listening(b *testing.B) net.Listener {
	b.Helper()
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", freePort)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// drain lets what is under way come in until nothing does for a while.
func (w *wired) drain(quiet time.Duration) {
	for {
		select {
		case <-w.mirrored:
		case <-w.fetched:
		case <-time.After(quiet):
			return
		}
	}
}

// BenchmarkFairness is BenchmarkPush alone, and beside 50 Sources that accept connections and never answer, or drip.
func BenchmarkFairness(b *testing.B) {
	b.Run("alone", func(b *testing.B) { pushes(b, wire(b)) })
	b.Run("beside-50", func(b *testing.B) {
		var dead []string
		for i := range 50 {
			l := listening(b)
			b.Cleanup(func() { _ = l.Close() })
			dead = append(dead, "http://"+l.Addr().String()+"/")
			go hang(l, i%2 == 0)
		}
		pushes(b, wire(b, dead...))
	})
}

// hang takes connections and holds them, with a byte of a header now and then if it drips, until l is closed.
func hang(l net.Listener, drips bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa") {
				if drips {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
				}
				<-time.After(time.Second)
			}
		}()
	}
}

// BenchmarkPush is a push on an idle machine, one change at a time: change is from the change at the Source to the file at
// its final path, recorded and durable, through hub and callback; post is the part of it from the hub's POST on.
func BenchmarkPush(b *testing.B) { pushes(b, wire(b)) }

func pushes(b *testing.B, w *wired) {
	b.Helper()
	var change, post []time.Duration
	for i := 0; b.Loop(); i++ {
		body := kibibyte()
		begun := time.Now()
		if err := w.src.Put(fmt.Sprintf("r%d", i%1000), body); err != nil {
			b.Fatal(err)
		}
		m := <-w.mirrored
		for m.Changes == 0 {
			m = <-w.mirrored
		}
		change, post = append(change, time.Since(begun)), append(post, m.Took)
	}
	reportTimes(b, "change", change)
	reportTimes(b, "post", post)
}

// kibibyte is a new body; the Source keeps it.
func kibibyte() []byte {
	body := make([]byte, 1024)
	_, _ = rand.Read(body) // never fails
	return body
}

func reportTimes(b *testing.B, what string, ds []time.Duration) {
	b.Helper()
	slices.Sort(ds)
	b.ReportMetric(float64(ds[len(ds)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(ds[len(ds)*99/100].Microseconds()), what+"-p99-µs")
}

// BenchmarkPushBurst is how many changes of 1 KiB a second go from the Source through hub, callback and engine to durable
// files, 5,000 at a time, with the Source's own bundling: what changes while a POST is under way goes into the next one.
func BenchmarkPushBurst(b *testing.B) { bursts(b, wire(b), 5000) }

// BenchmarkPushSingles is BenchmarkPushBurst with a notification for each change, as hubs send them that bundle nothing.
func BenchmarkPushSingles(b *testing.B) {
	const burst = 100 // as many as the Source lets wait
	bursts(b, wireBy(b, source.Options{NotifyMax: 1}), burst)
}

func bursts(b *testing.B, w *wired, burst int) {
	b.Helper()
	for b.Loop() {
		for i := range burst {
			if err := w.src.Put(fmt.Sprintf("d%d/r%d", i%10, i), kibibyte()); err != nil {
				b.Fatal(err)
			}
		}
		for left := int64(burst); left > 0; { // by push, or by a list that a Framework Notification named: what counts is the file
			left -= <-w.fetched
		}
	}
	b.ReportMetric(float64(b.N*burst)/b.Elapsed().Seconds(), "changes/s")
}
