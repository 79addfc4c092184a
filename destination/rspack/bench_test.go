package rspack

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// onDisk is a package of so many members, in a file so that its bytes are not counted as memory.
func onDisk(t testing.TB, members, length int, method uint16) (*os.File, int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "package.zip"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	buf := bufio.NewWriterSize(f, 1<<20)
	w := zip.NewWriter(buf)
	data, random := make([]byte, length), rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = "0123456789abcdef"[random.IntN(16)]
	}
	for i := range members {
		m, err := w.CreateHeader(&zip.FileHeader{Name: numbered(i), Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := buf.Flush(); err != nil {
		t.Fatal(err)
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	return f, at
}

func numbered(i int) string {
	return fmt.Sprintf("resources/collection-%03d/document-%06d.html", i/1000, i)
}

// held is what is in use after all garbage is gone, and all that was ever allocated.
func held() (inUse, ever int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.TotalAlloc)
}

// TestMemory is not parallel: others would be counted.
func TestMemory(t *testing.T) {
	const members = 20_000
	f, size := onDisk(t, members, 64, zip.Store)
	before, everBefore := held()
	p, err := Open(f, size, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_, everOpen := held()
	for i := range members {
		if m, err := p.Find("/" + numbered(i)); err != nil || m.Length != 64 {
			t.Fatal(m, err)
		}
	}
	for i := range members / 100 {
		m, err := p.Find(numbered(i * 100))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.Read(m, io.Discard); n != 64 || err != nil {
			t.Fatal(n, err)
		}
	}
	after, _ := held()
	runtime.KeepAlive(p)
	t.Logf("%d KiB are held, opening allocated %d KiB in all", (after-before)>>10, (everOpen-everBefore)>>10)
	if got := after - before; got > 60*members {
		t.Errorf("%d bytes a member are held", got/members)
	}
	if got := everOpen - everBefore; got > 60*members+1<<20 {
		t.Errorf("opening allocated %d bytes", got)
	}
}

func BenchmarkOpen(b *testing.B) {
	f, size := onDisk(b, 100_000, 16, zip.Store)
	before, _ := held()
	var p *Package
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if p, err = Open(f, size, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	after, _ := held()
	b.ReportMetric(float64(after-before)/1024, "KiB-held")
	runtime.KeepAlive(p)
}

func BenchmarkRead(b *testing.B) {
	const members, readers = 20_000, 20
	for name, method := range map[string]uint16{"stored": zip.Store, "deflated": zip.Deflate} {
		b.Run(name, func(b *testing.B) {
			f, size := onDisk(b, members, 4096, method)
			p, err := Open(f, size, Limits{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(members * 4096)
			b.ReportAllocs()
			for b.Loop() {
				var next atomic.Int64
				var all sync.WaitGroup
				for range readers {
					all.Go(func() {
						var out bytes.Buffer
						for i := next.Add(1) - 1; i < members; i = next.Add(1) - 1 {
							out.Reset()
							m, err := p.Find(numbered(int(i)))
							if err == nil {
								_, err = p.Read(m, &out)
							}
							if err != nil || out.Len() != 4096 {
								b.Error(out.Len(), err)
								return
							}
						}
					})
				}
				all.Wait()
			}
		})
	}
}
