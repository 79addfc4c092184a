package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"resyncd/store/blob"
)

// TestParentSwapped: a folder that turns into a link again and again, between any two looks, never leads to where the link
// does.
func TestParentSwapped(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{Unsynced: true, folders: 1})
	at, real := filepath.Join(path, "dir"), filepath.Join(path, "real")
	put(t, m, "real/own", "x")
	put(t, m, "dir/own", "x")
	os.Symlink("real", at+".link")
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, at+".link", unix.RENAME_EXCHANGE)
			if errors.Is(err, unix.ENOENT) { // the mirror removed the folder, which was empty
				_ = os.Mkdir(at, 0o755)
				_ = os.Symlink("real", at+".link")
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	behind, err := os.Stat(real)
	if err != nil {
		t.Fatal(err)
	}
	for range 20000 {
		f, err := m.folders.top.child("dir")
		if err != nil {
			continue
		}
		if os.SameFile(f.info, behind) {
			t.Error("opened what the link leads to")
		}
		f.close()
	}
	for i := range 100 {
		m.folders.closeUnused() // every call has to find the folder
		s := staged(t, m, "x")
		m.Place(t.Context(), []blob.Placement{{Stage: s, Key: fmt.Sprintf("dir/k%d", i)}})
		s.Discard()
		m.Remove(t.Context(), []string{"dir/own"})
	}
	close(stop)
	swapper.Wait()
	entries, err := os.ReadDir(real)
	if err != nil || len(entries) != 1 {
		t.Errorf("behind the link: %v, %v", entries, err)
	}
}

// TestFileSwapped: a FIFO that takes the place of a file between any two looks, and often its inode number, is not read
// as a file.
func TestFileSwapped(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{Unsynced: true})
	at := filepath.Join(path, "file")
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.WriteFile(at, nil, 0o600)
			os.Remove(at)
			unix.Mkfifo(at, 0o600)
			os.Remove(at)
		}
	})
	for range 100000 {
		file, info, err := openRegular(m.folders.top.folder, "file")
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			t.Errorf("opened a %s", info.Mode())
		}
		file.Close()
	}
	close(stop)
	swapper.Wait()
}
