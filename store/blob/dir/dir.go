// Package dir knows how a mirror lies in a local folder and how its bytes become durable there. It
// refuses to know what the files are, and it touches nothing outside its root.
//
// Below the root, keys are paths. `.resyncd` holds the marker `root`, `stage/` with a folder per
// running process and one of spools, `trash/` with one file per trashed one, and whatever the state store puts there.
// Every folder is reached name by name through os.Root without following links, so that a planted
// link, FIFO or hard link is replaced and never written through (F87).
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"resyncd/store/blob"
)

const (
	// openFlags go with every open of a file. O_NONBLOCK never waits for the other end of a FIFO.
	// os.Root adds O_NOFOLLOW and O_CLOEXEC.
	openFlags = syscall.O_NONBLOCK

	// staleAfter is how long a reader trusts an open folder before it checks its name again.
	staleAfter = time.Second

	// defaultFolders bounds the unused open folders; each costs one or two descriptors.
	defaultFolders = 64
)

// Options of Open.
type Options struct {
	// ReadOnly opens beside a running daemon: it creates nothing, sweeps nothing and refuses every
	// change (ErrReadOnly).
	ReadOnly bool
	// Unmarked opens a folder that is no mirror root (yet), for a dry run; only together with ReadOnly.
	Unmarked bool
	// Unsynced leaves changes to the system, which writes them back at any time. Without it a change without an error
	// survives a power cut (contract.md 2).
	Unsynced bool
	// folders is how many unused folders stay open, 64 if zero; tests make it smaller.
	folders int
}

// Mirror is a blob.Mirror in a local folder.
type Mirror struct {
	path    string
	id      string
	opt     Options
	folders *folders
	area    *stageArea // nil when read-only
	folds   bool
	sync    syncer

	// prune is read-locked from the making of a folder to the placing of a file in it, and locked while empty folders
	// are removed. Against other processes a lost folder is made again, a few times.
	prune sync.RWMutex

	active sync.WaitGroup
	mu     sync.Mutex
	closed bool

	spare  atomic.Pointer[stage] // for the next NewStage
	sealed atomic.Int64          // closed stages with an open descriptor
}

var _ blob.Mirror = (*Mirror)(nil)

// Open opens the mirror at path with the id that Create returned; blob.ErrUnmarked if the marker is
// missing or another's (F12). Unless read-only, it sweeps the stages of dead processes (F1). Only
// one process at a time should change a set's files (CONTRIBUTING.md 3.9).
func Open(path, id string, opt Options) (m *Mirror, err error) {
	defer failed(&err, "open mirror", path)
	open := openMarked
	if opt.Unmarked && opt.ReadOnly {
		open = func(path, _ string) (*folder, error) { return openTop(path) }
	}
	top, err := open(path, id)
	if err != nil {
		return nil, err
	}
	if opt.folders <= 0 {
		opt.folders = defaultFolders
	}
	m = &Mirror{path: path, id: id, opt: opt, folders: newFolders(top, opt.folders)}
	if !opt.Unmarked {
		m.folds, err = foldsCase(top)
	}
	if err == nil {
		err = m.sync.init(top, !opt.Unsynced)
	}
	if err == nil && !opt.ReadOnly {
		m.area, err = openStageArea(top)
	}
	if err != nil {
		m.folders.close()
		return nil, err
	}
	return m, nil
}

// openMarked opens a root and insists on its marker.
func openMarked(path, id string) (*folder, error) {
	if id == "" {
		return nil, errors.New("no id given: a root is opened by the id that Create or Inspect returned")
	}
	top, err := openTop(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (%w)", blob.ErrUnmarked, err)
	}
	if err != nil {
		return nil, err
	}
	found, err := readMarker(top)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = blob.ErrUnmarked
	case err == nil && found.ID != id:
		err = fmt.Errorf("%w (it carries %s, expected %s)", blob.ErrUnmarked, found.ID, id)
	}
	if err != nil {
		top.close()
		return nil, err
	}
	return top, nil
}

// foldsCase looks for the marker in another letter case, which needs no write.
func foldsCase(top *folder) (bool, error) {
	reserved, err := top.child(blob.Reserved)
	if err != nil {
		return false, err
	}
	defer reserved.close()
	as, err := reserved.root.Lstat(markerName)
	if err != nil {
		return false, err
	}
	other, err := reserved.root.Lstat("ROOT")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(as, other), err
}

// begin starts a call, unless the mirror is closed.
func (m *Mirror) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("mirror %s: %w", m.path, fs.ErrClosed)
	}
	m.active.Add(1)
	return nil
}

// beginWrite is begin for calls that change something.
func (m *Mirror) beginWrite(ctx context.Context) error {
	if m.opt.ReadOnly {
		return fmt.Errorf("%w: opened for reading only", blob.ErrReadOnly)
	}
	return m.begin(ctx)
}

// call runs a call that begin lets through, and says what failed.
func (m *Mirror) call(ctx context.Context, begin func(context.Context) error, what string, do func() error) error {
	err := begin(ctx)
	if err == nil {
		defer m.active.Done()
		err = do()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, m.explain(err))
	}
	return nil
}

// FoldsCase implements blob.Mirror.
func (m *Mirror) FoldsCase() bool { return m.folds }

// Check implements blob.Mirror: the path must still lead to the open folder, and its marker be readable.
func (m *Mirror) Check(ctx context.Context) error {
	return m.call(ctx, m.begin, "check mirror "+m.path, func() error {
		top, err := openMarked(m.path, m.id)
		if err != nil {
			return err
		}
		defer top.close()
		if !os.SameFile(top.info, m.folders.top.info) {
			return fmt.Errorf("%w (another folder lies there now)", blob.ErrUnmarked)
		}
		return nil
	})
}

// Room is the free space on the disk of a folder, which is not touched.
func Room(folder string) (bytes, inodes uint64, err error) {
	f, err := os.Open(folder)
	if err != nil {
		return 0, 0, err
	}
	bytes, inodes, err = freeSpace(f)
	return bytes, inodes, errors.Join(err, f.Close())
}

// Free implements blob.Mirror.
func (m *Mirror) Free(ctx context.Context) (bytes, inodes uint64, err error) {
	err = m.call(ctx, m.begin, "ask for free space of mirror "+m.path, func() error {
		h, err := m.folders.top.handle()
		if err == nil {
			bytes, inodes, err = freeSpace(h)
		}
		return err
	})
	return bytes, inodes, err
}

// Close implements blob.Mirror.
func (m *Mirror) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.active.Wait()
	var err error
	if m.area != nil {
		err = m.area.close()
	}
	m.folders.close()
	if err != nil {
		return fmt.Errorf("close mirror %s: %w", m.path, classify(err))
	}
	return nil
}

// classify adds the mirror's own error to the system's, so that the engine can tell a sick disk
// from a sick file. ENOENT stays: only the caller knows which file it is about (F11).
func classify(err error) error {
	var cause error
	switch {
	case err == nil || blob.Systemic(err) || errors.Is(err, blob.ErrKey): // it has its cause
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		cause = blob.ErrNoSpace
	case errors.Is(err, syscall.EROFS):
		cause = blob.ErrReadOnly
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		cause = blob.ErrBusy
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		cause = blob.ErrIO
	case errors.Is(err, syscall.ENAMETOOLONG):
		cause = blob.ErrKey
	default:
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// failed adds what was done with which path to an error, when a call returns.
func failed(err *error, what, path string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", what, path, classify(*err))
	}
}

// keyError adds operation and key, unless a folder lookup has named its folder.
func keyError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*blob.KeyError](err); ok {
		return &blob.KeyError{Op: op, Key: key, At: at.At, Err: at.Err}
	}
	return &blob.KeyError{Op: op, Key: key, Err: classify(err)}
}

// asNotFound turns the failure of a lookup into "no such file". A parent that is no folder means
// the same, but is named.
func asNotFound(err error) error {
	switch {
	case errors.Is(err, blob.ErrParentNotFolder):
		if at, ok := errors.AsType[*blob.KeyError](err); ok {
			return &blob.KeyError{At: at.At, Err: fmt.Errorf("%w: %w", blob.ErrNotFound, at.Err)}
		}
		return fmt.Errorf("%w: %w", blob.ErrNotFound, err)
	case errors.Is(err, fs.ErrNotExist):
		return blob.ErrNotFound
	default:
		return err
	}
}

// checkKey checks a key, and refuses what only this system takes for more than a name (drive letters, device names).
func checkKey(key string, check func(string) error) error {
	if err := check(key); err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.FromSlash(key)) {
		return fmt.Errorf("%w: not a local path on this system", blob.ErrKey)
	}
	return nil
}
