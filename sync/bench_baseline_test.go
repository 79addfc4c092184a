package sync

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	"resyncd/sync/transfer"
)

// The baseline benchmarks do the same work in one run, so that their ratio holds on any machine: so many resources of
// 4 KiB from a Source in the same process. The yardstick is a bare client: GET, SHA-256, temporary name, rename; no list,
// no state, nothing durable (performance.md).
const benchResources = 5000

// BenchmarkBaseline is the whole of a first catch-up: list, state, checks, and every file safe against power loss.
func BenchmarkBaseline(b *testing.B) {
	src, base := benchSource(b)
	b.ResetTimer()
	for range b.N {
		root := b.TempDir()
		res := benchCatchUp(b, root, base)
		if !res.InStep || res.Fetched != int64(src.Len()) {
			b.Fatalf("%+v", res)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchResources), "µs/resource")
}

// BenchmarkNothingNew is a catch-up that finds everything as it was, from opening the state on.
func BenchmarkNothingNew(b *testing.B) {
	_, base := benchSource(b)
	root := b.TempDir()
	benchCatchUp(b, root, base)
	b.ResetTimer()
	for range b.N {
		if res := benchCatchUp(b, root, base); res.Kind != "none" || res.Requests != 3 {
			b.Fatalf("%+v", res)
		}
	}
}

// BenchmarkYardstick is what both are to be compared with.
func BenchmarkYardstick(b *testing.B) {
	src, _ := benchSource(b)
	var uris []string
	for uri := range src.Resources() {
		uris = append(uris, uri)
	}
	b.ResetTimer()
	for range b.N {
		yardstick(b, b.TempDir(), uris)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchResources), "µs/resource")
}

func benchSource(b *testing.B) (*source.Source, string) {
	b.Helper()
	var src *source.Source
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { src.Handler().ServeHTTP(w, r) }))
	b.Cleanup(srv.Close)
	src, err := source.New(context.Background(), source.Options{
		Base: srv.URL, Synthetic: &source.Synthetic{Resources: benchResources, Seed: 1, Size: 4096},
	})
	if err != nil {
		b.Fatal(err)
	}
	return src, srv.URL
}

func benchCatchUp(b *testing.B, root, base string) Result {
	b.Helper()
	ctx := context.Background()
	id, err := dir.Create(filepath.Join(root, "mirror"))
	if err != nil {
		b.Fatal(err)
	}
	m, err := dir.Open(filepath.Join(root, "mirror"), id, dir.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	st, err := sqlite.Open(ctx, filepath.Join(root, "state.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	client := fetch.New(fetch.Options{})
	defer client.Close()
	host, err := url.Parse(base)
	if err != nil {
		b.Fatal(err)
	}
	e := &Engine{Store: st, Log: slog.New(slog.DiscardHandler), Holder: "bench", Now: time.Now}
	results, err := e.Run(ctx, Target{
		Name: "bench", URL: base + "/", DeleteGuard: 0.2,
		Means: transfer.Means{
			Delete: transfer.DeleteTrash, TrashFor: time.Hour, Concurrency: 16, Client: client,
			Policy: &fetch.Policy{Trusted: []string{host.Host}},
		},
		Mirror: m, RootID: id,
	}, RunOptions{From: store.NoTime})
	if err != nil || len(results) != 1 {
		b.Fatal(results, err)
	}
	return results[0]
}

func yardstick(b *testing.B, root string, uris []string) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, MaxConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	jobs := make(chan int)
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			buf := make([]byte, 64<<10)
			tmp := filepath.Join(root, fmt.Sprintf("tmp%d", w))
			for i := range jobs {
				if err := plainGet(client, uris[i], tmp, filepath.Join(root, fmt.Sprintf("%06d", i)), buf); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range uris {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
}

func plainGet(client *http.Client, uri, tmp, path string, buf []byte) error {
	r, err := client.Get(uri)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err = io.CopyBuffer(io.MultiWriter(f, h), r.Body, buf); err != nil {
		return err
	}
	h.Sum(nil)
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
