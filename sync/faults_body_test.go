package sync

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store/blob"
	"resyncd/sync/report"
)

// TestBodiesThatNothingProves: a body of which neither hash nor length is known, and whose end is only that of the
// connection, is believed if it comes twice the same (F55); one that is different each time is taken as it came last where
// the answer tells its length, and otherwise never (F52). None is asked for again and again.
func TestBodiesThatNothingProves(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	for name, tt := range map[string]struct {
		md     string
		answer func(n int64) string // to the n-th request
		reason string               // "": it is taken
		asked  int64
	}{
		"no end, always the same": {"", func(int64) string { return head + "\r\nsame" }, "", 2},
		"no end, never the same":  {"", func(n int64) string { return fmt.Sprint(head, "\r\nversion ", n) }, "two transfers differed", 2},
		"an end, never the same":  {"", func(n int64) string { return fmt.Sprint(head, "Content-Length: 9\r\n\r\nversion ", n) }, "", 1},
		"a hash, never the same": {
			fixity("version 9"), func(n int64) string { return fmt.Sprint(head, "Content-Length: 9\r\n\r\nversion ", n) }, "sha-256", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set("resourcelist", "/rl.xml")
			f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.entry("/odd", tt.md), f.res("/b", "b")))
			var asked atomic.Int64
			f.handle("/odd", func(w http.ResponseWriter, req *http.Request) { raw(tt.answer(asked.Add(1)))(w, req) })
			res := f.one(tt.reason == "")
			if asked.Load() != tt.asked {
				t.Errorf("asked %d times", asked.Load())
			}
			if tt.reason != "" {
				if l := f.owed("odd"); res.Owed != 1 || !strings.Contains(*l.Reason, tt.reason) {
					t.Errorf("%+v, %q", res, *l.Reason)
				}
				f.holds(map[string]string{"/b": "b"})
				return
			}
			_, body, _ := strings.Cut(tt.answer(asked.Load()), "\r\n\r\n")
			f.holds(map[string]string{"/b": "b", "/odd": body})
			f.quietWith(3)
		})
	}
}

// smallMirror is a disk that has only so many bytes free.
type smallMirror struct {
	blob.Mirror
	free uint64
}

func (m smallMirror) Free(context.Context) (bytes, files uint64, err error) {
	return m.free, 1 << 20, nil
}

// TestLargerThanTheDisk: what is listed as larger than the disk has room for is not begun (F76), and stops nothing else.
func TestLargerThanTheDisk(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.entry("/large", `length="1000000000"`), f.res("/b", "b")))
	var asked atomic.Int64
	f.handle("/large", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "small after all")
	})
	f.tune = func(t *Target) { t.Mirror = smallMirror{t.Mirror, 999_999_999} }
	res := f.one(false)
	if l := f.owed("large"); asked.Load() != 0 || res.Owed != 1 || !strings.Contains(*l.Reason, "1000000000 bytes are needed, the disk has 999999999 free") {
		t.Errorf("asked %d times: %+v, %q", asked.Load(), res, *l.Reason)
	}
	f.holds(map[string]string{"/b": "b"})
	f.tune = func(t *Target) { t.Mirror = smallMirror{t.Mirror, 1_000_000_000} }
	f.page("/rl.xml", list("resourcelist", `at="`+when(1)+`"`, f.entry("/large", `length="1000000000" type="x/y"`), f.res("/b", "b")))
	if f.one(false); asked.Load() == 0 {
		t.Error("not asked for although there is room")
	}
}

// buggyMirror has a bug in it: one stage is not made but panicked over.
type buggyMirror struct {
	blob.Mirror
	bug *atomic.Bool
}

func (m buggyMirror) NewStage(ctx context.Context) (blob.Stage, error) {
	if m.bug.Swap(false) {
		panic("a bug in the disk")
	}
	return m.Mirror.NewStage(ctx)
}

// TestPanicInAWorker: a bug that one resource meets costs that resource, which is owed with what happened (F5).
func TestPanicInAWorker(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	var bug atomic.Bool
	bug.Store(true)
	r.tune = func(t *Target) { t.Mirror = buggyMirror{t.Mirror, &bug} }
	res, err := r.run()
	if err != nil || res.Fetched != 11 || res.Owed != 1 || res.Failed != 1 || res.InStep {
		t.Fatalf("%+v, %v", res, err)
	}
	owed := r.listed(report.ListOwed)
	if len(owed) != 1 {
		t.Errorf("%d are listed as owed", len(owed))
	}
	for uri := range owed {
		if l := r.owed(strings.TrimPrefix(uri, r.src.URI(""))); !strings.Contains(*l.Reason, "a bug in the disk") {
			t.Errorf("owed because of %q", *l.Reason)
		}
	}
	r.must()
	r.tidy()
}

// TestHalfAnAnswer: where documents contradict each other the Source is asked, and none of them vouches for its answer. Half a
// body that looks whole is not believed then, unless it comes twice.
func TestHalfAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	from := `from="` + when(0) + `"`
	f.page("/cl.xml", list("changelist", from, f.changed("/a", "second", "updated", 9)))
	f.one(true)
	f.page("/cl.xml", list("changelist", from, f.changed("/a", "another", "updated", 9))) // rewritten, at the same instant
	var asked atomic.Int64
	f.handle("/a", func(w http.ResponseWriter, _ *http.Request) {
		body := "another"
		if asked.Add(1) == 1 {
			body = body[:3]
		}
		_, _ = io.WriteString(w, body)
	})
	f.opts.RetryFor = 0
	f.one(false)
	f.holds(map[string]string{"/a": "second"})
	f.one(true)
	f.holds(map[string]string{"/a": "another"})
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times", n)
	}
}
