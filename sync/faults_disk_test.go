package sync

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/store/blob"
)

// TestPlanted puts a link, a hard link, a FIFO and a folder where files belong (F87): nothing is written through them.
func TestPlanted(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(12))
	r.fetch = quick
	r.must()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "not yours")
	plant := func(name string, how func(path string) error) {
		path := r.path(name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := how(path); err != nil {
			t.Fatal(err)
		}
	}
	plant("d0/r000.txt", func(p string) error { return os.Symlink(outside, p) })
	plant("d1/r001.txt", func(p string) error { return os.Link(outside, p) })
	plant("d2/r002.txt", func(p string) error { return syscall.Mkfifo(p, 0o644) })
	plant("d1/r004.txt", func(p string) error { return os.Symlink(outside, p) })
	for i := range 3 {
		r.put(fmt.Sprintf("d%d/r%03d.txt", i%3, i), "changed")
	}
	r.src.Delete("d1/r004.txt")
	r.must()
	if b, err := os.ReadFile(outside); err != nil || string(b) != "not yours" {
		t.Errorf("the file outside holds %q, %v", b, err)
	}
	// A folder with something in it is not removed for a file; the resource is owed and the others are not.
	if err := os.Remove(r.path("d0/r003.txt")); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(r.path("d0/r003.txt"), "mine")
	write(t, mine, "mine")
	r.put("d0/r003.txt", "changed again")
	r.put("d0/r000.txt", "changed again")
	if res, err := r.run(); err != nil || res.Owed != 1 || res.Fetched != 1 || !strings.Contains(*r.owed("d0/r003.txt").Reason, "folder") {
		t.Errorf("%+v, %v", res, err)
	}
	if err := os.RemoveAll(filepath.Dir(mine)); err != nil {
		t.Fatal(err)
	}
	r.must()
}

// TestFileAgainstFolder has a and a/b take turns and live together (F83).
func TestFileAgainstFolder(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, nil)
	for i, step := range []struct{ put, del string }{
		{put: "a"}, {put: "a/b"}, {del: "a"}, {put: "a"}, {del: "a/b"}, {put: "a/b/c"}, {del: "a"}, {put: "a/b"}, {put: "a"},
		{put: "x/y"}, {put: "x"}, {del: "x/y"}, {put: "x/y"}, {del: "x"}, {put: "x"}, {put: "CASE"}, {put: "case"},
	} {
		if step.put != "" {
			r.put(step.put, fmt.Sprintf("%s %d", step.put, i))
		} else {
			r.src.Delete(step.del)
		}
		if res, err := r.run(); err != nil || !res.InStep {
			t.Fatalf("step %d: %+v, %v", i, res, err)
		}
		r.equalByRows()
	}
}

// equalByRows is equal where keys are not natural: rows tell where the files are.
func (r *rig) equalByRows() {
	r.t.Helper()
	files := r.files()
	r.with(func(e *Engine, _ Target) {
		src, err := e.Store.Source(context.Background(), "test")
		if err != nil {
			r.t.Fatal(err)
		}
		for uri, sum := range r.src.Resources() {
			row, err := e.Store.Resource(context.Background(), src.ID, uri)
			if err != nil {
				r.t.Fatalf("%s: %v", uri, err)
			}
			if files[row.Key] != fmt.Sprintf("%x", sum) {
				r.t.Errorf("%s: %s holds %q", uri, row.Key, files[row.Key])
			}
			delete(files, row.Key)
		}
	})
	for key := range files {
		r.t.Errorf("extra: %s", key)
	}
}

// fullMirror is a disk that takes so many more files, or only so many more bytes of them (F6, F8).
type fullMirror struct {
	blob.Mirror
	files, stages *atomic.Int64
}

func (m fullMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	n := max(0, min(int64(len(group)), m.files.Load()))
	m.files.Add(-n)
	errs, err := m.Mirror.Place(ctx, group[:n])
	for i := n; i < int64(len(group)); i++ {
		err = &blob.KeyError{Op: "place", Key: group[i].Key, Err: blob.ErrNoSpace}
		errs = append(errs, err)
	}
	return errs, err
}

func (m fullMirror) NewStage(ctx context.Context) (blob.Stage, error) {
	s, err := m.Mirror.NewStage(ctx)
	if err == nil && m.stages.Add(-1) < 0 {
		return fullStage{s}, nil
	}
	return s, err
}

func (m fullMirror) Trash(_ context.Context, items []blob.TrashItem) []error {
	errs := make([]error, len(items))
	for i := range errs {
		errs[i] = &blob.KeyError{Op: "trash", Key: items[i].Key, Err: blob.ErrNoSpace}
	}
	return errs
}

type fullStage struct{ blob.Stage }

func (s fullStage) Write(p []byte) (int, error) {
	return 0, fmt.Errorf("write to a stage: %w", blob.ErrNoSpace)
}

// TestDiskFull keeps old versions, owes the rest, does not ask on and on, and the next run goes on where it ended.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for name, room := range map[string][2]int64{"names": {10, 1000}, "bytes": {1000, 10}, "removal": {1000, 1000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, ramDir(t), source.Options{}, many(200))
			r.must()
			for i := range 200 {
				r.put(fmt.Sprintf("d%d/r%03d.txt", i%3, i), fmt.Sprintf("changed %d", i))
			}
			r.src.Delete("d1/r199.txt")
			var files, stages atomic.Int64
			files.Store(room[0])
			stages.Store(room[1])
			r.tune = func(t *Target) { t.Mirror = fullMirror{t.Mirror, &files, &stages} }
			res, err := r.run()
			if err != nil || res.Fetched+res.Owed != 200 || res.InStep || !strings.Contains(res.Problem, "full") || res.Deleted != 0 {
				t.Fatalf("%+v, %v", res, err)
			}
			_, asked := r.asked()
			if name == "bytes" && (res.Fetched != 10 || len(asked) > 30) || name == "names" && res.Fetched != 10 || name == "removal" && res.Owed != 1 {
				t.Errorf("asked for %d: %+v", len(asked), res)
			}
			old := int64(0)
			for i := range 200 {
				b, err := os.ReadFile(r.path(fmt.Sprintf("d%d/r%03d.txt", i%3, i)))
				if err != nil || string(b) != fmt.Sprintf("body %d", i) && string(b) != fmt.Sprintf("changed %d", i) {
					t.Errorf("%d holds %q, %v", i, b, err)
				}
				if strings.HasPrefix(string(b), "body") {
					old++
				}
			}
			if old != 200-res.Fetched {
				t.Errorf("%d old versions, %d fetched", old, res.Fetched)
			}
			r.tune = nil
			r.must()
			r.tidy()
		})
	}
}

// brittleMirror is a disk that takes bytes and fails when a file of them is closed.
type brittleMirror struct{ blob.Mirror }

func (m brittleMirror) NewStage(ctx context.Context) (blob.Stage, error) {
	s, err := m.Mirror.NewStage(ctx)
	return brittleStage{s}, err
}

type brittleStage struct{ blob.Stage }

func (s brittleStage) Close() error { return fmt.Errorf("close a stage: %w", blob.ErrIO) }

// TestStageFailsAtItsClosing: the row must not name bytes that were never placed (P3), or the next run would leave the old.
func TestStageFailsAtItsClosing(t *testing.T) {
	t.Parallel()
	r := newRigIn(t, ramDir(t), source.Options{}, many(12))
	r.must()
	r.put("d0/r000.txt", "changed")
	r.tune = func(t *Target) { t.Mirror = brittleMirror{t.Mirror} }
	if res, err := r.run(); err != nil || res.Owed != 1 || res.Fetched != 0 || res.InStep {
		t.Errorf("%+v, %v", res, err)
	}
	r.tune = nil
	r.must()
}
