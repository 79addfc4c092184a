package source

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// BenchmarkPublish measures how many changes a second reach a hub over loopback, from Put to its answer.
func BenchmarkPublish(b *testing.B) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer hub.Close()
	client := fetch.New(fetch.Options{})
	defer client.Close()
	heard := make(chan int, 1<<16)
	s := newSource(b, Options{Hub: hub.URL, Client: client, notifyQueue: 1 << 20, Logger: hear(func(n notification) {
		if n.kind == rsdoc.KindChangeNotification {
			heard <- n.entries
		}
	})})
	stop := running(b, s)
	defer stop()
	body := make([]byte, 1024)
	changes, told, posts := 0, 0, 0
	begin := time.Now()
	for b.Loop() {
		if err := s.Put(fmt.Sprintf("r%d", changes%1000), body); err != nil {
			b.Fatal(err)
		}
		changes++
	}
	for ; told < changes; posts++ {
		told += <-heard
	}
	b.ReportMetric(float64(changes)/time.Since(begin).Seconds(), "changes/s")
	b.ReportMetric(float64(changes)/float64(posts), "changes/post")
}

// BenchmarkPut is the yardstick: a change with nobody to tell of it, and with one who is always behind.
func BenchmarkPut(b *testing.B) {
	body := make([]byte, 1024)
	put := func(b *testing.B, s *Source) {
		for i := 0; b.Loop(); i++ {
			if err := s.Put(fmt.Sprintf("r%d", i%1000), body); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("no hub", func(b *testing.B) { put(b, newSource(b, Options{})) })
	b.Run("hub down", func(b *testing.B) { put(b, scriptedSource(b, Options{}, &script{})) })
}
