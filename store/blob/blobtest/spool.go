package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/store/blob"
)

// Kept checks that spools outlive the mirror that made them. open opens the same mirror each time.
func Kept(t *testing.T, open func(t testing.TB) blob.Mirror) {
	first := open(t)
	s := spooled(t, first, "ab", "half of ")
	waiting := spooled(t, first, "cd", "closed")
	if err := errors.Join(waiting.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := open(t)
	_, err := second.Spool(t.Context(), "ab")
	wantErr(t, "Spool of a user whose mirror is closed", err, blob.ErrExists)
	if _, err := io.WriteString(s, "a package"); err != nil { // which cannot be helped, and does no harm
		t.Errorf("Write once the mirror is closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close once the mirror is closed: %v", err)
	}
	s = spooled(t, second, "ab", "!")
	if got := spoolText(t, s); got != "half of a package!" {
		t.Errorf("kept %q", got)
	}
	wantSpools(t, second, "ab", "cd")
	if err := errors.Join(s.Discard(), second.Close()); err != nil {
		t.Fatal(err)
	}
	third := open(t)
	wantSpools(t, third, "cd")
	s = spooled(t, third, "cd", "")
	if got := spoolText(t, s); got != "closed" {
		t.Errorf("kept %q", got)
	}
	if err := errors.Join(third.Close(), s.Discard()); err != nil { // in this order
		t.Error(err)
	}
	wantSpools(t, open(t))
}

// spooled opens a spool and adds text to it.
func spooled(t testing.TB, m blob.Mirror, name, text string) blob.Spool {
	t.Helper()
	s, err := m.Spool(t.Context(), name)
	if err != nil {
		t.Fatalf("Spool %s: %v", name, err)
	}
	before := s.Size()
	if n, err := io.WriteString(s, text); err != nil || n != len(text) || s.Size() != before+int64(n) {
		t.Fatalf("Write = %d, %v; of %d bytes, to %d of them", n, err, len(text), s.Size())
	}
	return s
}

func spoolText(t testing.TB, s blob.Spool) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(s, 0, s.Size()))
	if err != nil || int64(len(b)) != s.Size() {
		t.Fatalf("read %d bytes of %d: %v", len(b), s.Size(), err)
	}
	return string(b)
}

func wantSpools(t testing.TB, m blob.Mirror, names ...string) {
	t.Helper()
	got, all := map[string]string{}, map[string]string{}
	if err := m.Spools(t.Context(), func(name string, _ time.Time) error {
		got[name] += "x"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all[name] = "x"
	}
	same(t, "spools", got, all)
}

func spoolEnds(t *testing.T, m blob.Mirror) {
	wantSpools(t, m)
	s := spooled(t, m, "0a", "first")
	spooled(t, m, "0b", "of the same mirror")
	_, err := m.Spool(t.Context(), "0a")
	wantErr(t, "Spool that is open", err, blob.ErrExists)
	if blob.Systemic(err) {
		t.Errorf("a spool in use is called systemic: %v", err)
	}
	if got := spoolText(t, s); got != "first" {
		t.Errorf("holds %q", got)
	}
	if n, err := s.ReadAt(make([]byte, 9), 2); n != 3 || err != io.EOF {
		t.Errorf("ReadAt over the end = %d, %v", n, err)
	}
	if n, err := s.ReadAt(make([]byte, 1), 5); n != 0 || err != io.EOF {
		t.Errorf("ReadAt at the end = %d, %v", n, err)
	}
	if err := s.Reset(); err != nil || s.Size() != 0 {
		t.Errorf("Reset: %v, %d bytes", err, s.Size())
	}
	io.WriteString(s, "sec")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := s.Discard(); err != nil {
		t.Errorf("Discard after Close: %v", err)
	}
	if n, err := io.WriteString(s, "late"); err == nil || n != 0 {
		t.Errorf("Write after Close = %d, %v", n, err)
	}
	if _, err := s.ReadAt(make([]byte, 1), 0); err == nil || err == io.EOF {
		t.Errorf("ReadAt after Close: %v", err)
	}
	s = spooled(t, m, "0a", "ond")
	if got := spoolText(t, s); got != "second" {
		t.Errorf("kept %q", got)
	}
	for range 2 {
		if err := s.Discard(); err != nil {
			t.Errorf("Discard: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close after Discard: %v", err)
	}
	wantSpools(t, m, "0b")
	if s = spooled(t, m, "0a", ""); s.Size() != 0 {
		t.Errorf("%d bytes after Discard", s.Size())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func spoolNames(t *testing.T, m blob.Mirror) {
	for _, name := range []string{"", "A", "g", ".", "..", "a/b", "/a", "a\x00", "a.", "lock", strings.Repeat("a", 65)} {
		_, err := m.Spool(t.Context(), name)
		wantErr(t, fmt.Sprintf("Spool %q", name), err, blob.ErrKey)
	}
	spooled(t, m, strings.Repeat("0123456789abcdef", 4), "as long as may be").Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Spool(ctx, "a")
	wantErr(t, "Spool", err, context.Canceled)
	wantErr(t, "Spools", m.Spools(ctx, func(string, time.Time) error { return nil }), context.Canceled)
	m.Close()
	if _, err := m.Spool(t.Context(), "a"); err == nil {
		t.Error("Spool after Close works")
	}
}

// spoolApart: nothing else of a mirror knows of spools.
func spoolApart(t *testing.T, m blob.Mirror) {
	put(t, m, "ab", "a mirror file")
	id := blob.NewTrashID(time.Now())
	if errs := m.Trash(t.Context(), []blob.TrashItem{{Key: "ab", ID: id}}); errs[0] != nil {
		t.Fatal(errs)
	}
	put(t, m, "ab", "another")
	waiting := staged(t, m, "not yet")
	s := spooled(t, m, "ab", "a spool")
	files, trash := map[string]string{"ab": "another"}, map[string]string{id: "a mirror file"}
	same(t, "files beside a spool", tree(t, m), files)
	same(t, "trash beside a spool", trashed(t, m), trash)
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	same(t, "files", tree(t, m), files)
	same(t, "trash", trashed(t, m), trash)
	if errs, err := m.Place(t.Context(), []blob.Placement{{Stage: waiting, Key: "k"}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	want(t, m, "k", "not yet")
}

// spoolsListed: with the time of their last change, and they may be discarded meanwhile.
func spoolsListed(t *testing.T, m blob.Mirror) {
	before := time.Now().Add(-2 * time.Second) // file systems have clocks of their own
	var names []string
	for i := range 600 {
		names = append(names, fmt.Sprintf("%04x", i))
		spooled(t, m, names[i], "x").Close()
	}
	used := spooled(t, m, names[7], "")
	stop, calls := errors.New("enough"), 0
	err := m.Spools(t.Context(), func(string, time.Time) error { calls++; return stop })
	if wantErr(t, "Spools", err, stop); calls != 1 {
		t.Errorf("%d calls", calls)
	}
	wantSpools(t, m, names...)
	if err := m.Spools(t.Context(), func(name string, changed time.Time) error {
		if changed.Before(before) || changed.After(time.Now().Add(time.Second)) {
			t.Errorf("%s was changed at %v", name, changed)
		}
		s, err := m.Spool(t.Context(), name)
		if name == names[7] {
			wantErr(t, "Spool in use", err, blob.ErrExists)
			return nil
		}
		if err == nil {
			err = s.Discard()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wantSpools(t, m, names[7])
	if err := used.Close(); err != nil {
		t.Error(err)
	}
	spooled(t, m, names[8], "x").Close()
	calls = 0
	if err := m.Spools(t.Context(), func(string, time.Time) error {
		calls++
		return errors.Join(spooled(t, m, names[7], "").Discard(), spooled(t, m, names[8], "").Discard())
	}); err != nil || calls != 1 {
		t.Errorf("%d calls for spools that the first one discarded: %v", calls, err)
	}
}

// spoolReaders read at any place while more is written.
func spoolReaders(t *testing.T, m blob.Mirror) {
	const block, blocks = 3000, 40
	s := spooled(t, m, "ab", "")
	var written atomic.Int64
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			got := make([]byte, block)
			for n := int64(0); n < blocks; n = written.Load() {
				for at := int64(r); at < n; at += 3 {
					if _, err := s.ReadAt(got, at*block); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(at)}, block)) {
						t.Errorf("block %d: %v, %x…", at, err, got[:8])
						return
					}
				}
			}
		})
	}
	for n := range blocks {
		if _, err := s.Write(bytes.Repeat([]byte{byte(n)}, block)); err != nil {
			t.Error(err)
		}
		written.Add(1)
	}
	readers.Wait()
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
}

// spoolOneUser: however opening and discarding meet, one user at a time has the bytes that the last one left.
func spoolOneUser(t *testing.T, m blob.Mirror) {
	var users, turns atomic.Int64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for n := range 150 {
				s, err := m.Spool(t.Context(), "ab")
				if errors.Is(err, blob.ErrExists) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if users.Add(1) != 1 {
					t.Error("two users of one spool")
				}
				turns.Add(1)
				text := spoolText(t, s)
				if _, err := io.WriteString(s, "x"); err != nil || strings.Trim(text, "x") != "" || s.Size() != int64(len(text)+1) {
					t.Errorf("%v: %d bytes after %q", err, s.Size(), text)
				}
				end := s.Close
				if n%2 == 0 {
					end = s.Discard
				}
				users.Add(-1)
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if turns.Load() == 0 {
		t.Error("nobody had it")
	}
}
