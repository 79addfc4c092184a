//go:build unix

package fetch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// drain is a sink that only counts.
type drain struct{ n int }

func (d *drain) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }
func (d *drain) Reset() error                { d.n = 0; return nil }

// parallel runs n jobs on 16 workers and returns how long that took.
func parallel(b *testing.B, n int, job func() error) time.Duration {
	b.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				if err := job(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// BenchmarkDownload measures Download against a bare net/http client in interleaved rounds, with the server in a process of
// its own (performance.md 6, goals 1, 3 and 13): x-bare is the ratio of their times, x-bare-cpu that of the processor time that
// this process spent, which no server and no waiting blurs.
func BenchmarkDownload(b *testing.B) {
	base := serveApart(b)
	for _, size := range []int{4 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			url := fmt.Sprintf("%s/%d?part=7", base, size)
			bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, MaxConnsPerHost: 16, DisableCompression: true}}
			defer bare.CloseIdleConnections()
			c := New(Options{Allow: loopback()})
			defer c.Close()
			policy := &Policy{Meter: new(Meter)}
			const round = 2000
			var plain, ours cost
			b.ReportAllocs()
			b.SetBytes(int64(2 * round * size))
			for b.Loop() {
				plain.of(func() {
					parallel(b, round, func() error { return bareGet(bare, url) })
				})
				ours.of(func() {
					parallel(b, round, func() error {
						_, err := c.Download(b.Context(), Request{URL: url, Policy: policy, InScope: anywhere}, &drain{},
							DownloadOptions{DeclaredLength: int64(size), Resume: true})
						return err
					})
				})
			}
			b.ReportMetric(float64(ours.wall)/float64(plain.wall), "x-bare")
			b.ReportMetric(float64(ours.cpu)/float64(plain.cpu), "x-bare-cpu")
			b.ReportMetric(float64(ours.cpu.Microseconds())/float64(b.N*round), "cpu-µs/download")
		})
	}
}

func anywhere(string) bool { return true }

// bareGet is what Download is measured against.
func bareGet(c *http.Client, url string) error {
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// BenchmarkSend measures Send against a bare net/http client in interleaved rounds, 16 posters, 1 KiB each: x-bare is the
// ratio of their times, server included.
func BenchmarkSend(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer srv.Close()
	bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, MaxConnsPerHost: 16, DisableCompression: true}}
	defer bare.CloseIdleConnections()
	c := New(Options{Allow: loopback()})
	defer c.Close()
	content := bytes.Repeat([]byte("x"), 1<<10)
	header := http.Header{"Content-Type": {"application/xml"}, "X-Hub-Signature": {"sha256=00"}}
	const round = 2000
	var plain, ours time.Duration
	b.ReportAllocs()
	b.SetBytes(2 * round << 10)
	for b.Loop() {
		plain += parallel(b, round, func() error {
			resp, err := bare.Post(srv.URL, "application/xml", bytes.NewReader(content))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
		ours += parallel(b, round, func() error {
			_, err := c.Send(b.Context(), Message{URL: srv.URL, Header: header, Body: content})
			return err
		})
	}
	b.ReportMetric(float64(ours)/float64(plain), "x-bare")
	b.ReportMetric(float64(b.N)*round/ours.Seconds(), "sends/s")
}
