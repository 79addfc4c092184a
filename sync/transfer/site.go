package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
)

// Site is one Source and its mirror.
type Site struct {
	*Workset
	Store    store.Store
	SourceID int64
	Claim    store.Claim
	Log      *slog.Logger
	Now      func() time.Time
	Mirror   blob.Mirror // nil only in a dry run without a mirror
	Means    Means
	Observe  Observer
	Progress func(Progress)
	Hint     func(setID int64)                                      // asks for a newer list of a set
	Rule     func(set int64) func(uri string) (refused string)      // what refuses the URIs of a set
	Content  func(context.Context, *store.Resource) ([]byte, error) // the bytes at hand of an inline resource
	Look     bool                                                   // the disk may hold files that no row knows
	Unclean  atomic.Bool                                            // the state says that a run is under way
}

// Means are the limits of requests, and what becomes of deleted files.
type Means struct {
	Client      *fetch.Client
	Policy      *fetch.Policy
	Concurrency int    // requests to one host at once
	MaxResource int64  // bytes, 0 unlimited
	Duplicates  string // fallback, prefer; anything else is off
	Patches     bool
	MaxDump     int64  // bytes of a package, 0 for what the disk allows
	Batch       string // URL of an on-demand dump endpoint, "" for none
	BatchSize   int    // URIs in one request to it
	Delete      DeleteMode
	TrashFor    time.Duration
}

// LocalNow is our own clock.
func (s *Site) LocalNow() store.Micros { return store.MicrosOf(s.Now()) }

// Begun records that a run is under way, and must come before each change of a file: the next run looks at the disk if
// this one is cut (F1, F2).
func (s *Site) Begun(ctx context.Context, with *store.SourceChange) error {
	if s.Unclean.Load() {
		return nil
	}
	if with == nil {
		with = &store.SourceChange{}
	}
	with.Unclean = new(true)
	if err := s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: with}); err != nil {
		return fmt.Errorf("record that a run is under way: %w", err)
	}
	s.Unclean.Store(true)
	return nil
}

// DeleteMode is what happens to files that the Source deleted.
type DeleteMode string

// The delete modes of the configuration.
const (
	DeleteTrash DeleteMode = "trash"
	DeleteKeep  DeleteMode = "keep"
	DeleteNow   DeleteMode = "now"
)

// Progress is a step of a run.
type Progress struct {
	Listed, Done, Failed, Deleted int64 // increments
	Bytes                         int64
	Package                       *PackageProgress `json:",omitempty"` // one that came along
}

// Observer gets reports on the work for a Source. Its functions must be quick and safe for concurrent use.
type Observer struct {
	Settled func(Settled)        // an outcome is recorded
	Removed func(n int64)        // files
	Halted  func(err error)      // why the mirror stops taking files (F6), nil when that is over
	Held    func(setID, n int64) // files that wait for the operator
	Gap     func(store.Gap)      // found, changed or ended; a false alarm has no ClosedBy
	Skipped func(n int64)        // unreadable entries that were left out (F46)
	Rotten  func(n int64)        // damaged mirror files (F13), which are fetched anew
	Package func(PackageProgress)
}

// PackageProgress is how a package of a dump comes along.
type PackageProgress struct {
	URL           string `json:"-"`
	Number, Of    int    // its place in its pull; Of is 0 where nobody knows how many come
	Bytes, Total  int64  // at hand; -1 unknown
	Used, Members int64  // known once all bytes are at hand
	State         PackageState
}

// PackageState is a point in the life of a package.
type PackageState string

// The states of packages. One is over when it was used up, or was cut and may be gone on with later; one that failed is
// told of before or after that.
const (
	PackageComing PackageState = "coming"
	PackageInUse  PackageState = "in use"
	PackageOver   PackageState = "over"
	PackageFailed PackageState = "failed"
)

// Settled is how the work on one resource ended.
type Settled struct {
	Result string // fetched, unchanged, gone, refused or failed
	Class  string // of a failure (store.Work.Class)
	Placed int64  // length of the placed file
	// Transport brought that file: document, package, patch, duplicate or source.
	Transport string
	// Bytes that came, and the time until they were checked or failed; 0 without a request.
	Bytes int64
	Took  time.Duration
}

// A resource is doubtful when its file may be newer than its row, because the disk or the state failed. It is compared
// with the disk before it counts as done (F6, F10).

// Doubt marks a row as doubtful.
func (w *Workset) Doubt(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubtful[id] = struct{}{}
}

func (w *Workset) trust(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.doubtful, id)
}

func (w *Workset) doubts(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.doubtful[id]
	return ok
}

// AnyDoubt tells whether any row is doubtful.
func (w *Workset) AnyDoubt() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.doubtful) > 0
}

// Doubted tells whether a resource is doubtful and owed: the disk may have lost its file.
func (s *Site) Doubted(r *store.Resource) bool {
	return r.Work.Action != store.ActionNone && s.doubts(r.ID)
}

func (s *Site) suspects(r *store.Resource) bool {
	return r.Work.Action != store.ActionNone && s.Look || s.Doubted(r)
}

// Differs compares a file with its row by lstat. An error counts as a difference.
func (s *Site) Differs(ctx context.Context, r *store.Resource) bool {
	if r.Key == "" {
		return false
	}
	h := &r.Have
	info, err := s.Mirror.Stat(ctx, r.Key)
	switch {
	case blob.Missing(err):
		return h.State != store.HaveNone
	case err != nil:
		return true
	case h.State == store.HaveNone:
		return info.Kind == blob.KindFile
	}
	return info.Length != h.Length || info.ModTime != h.ModTime
}

// MayHold tells whether the mirror may have the wanted bytes already, as its own file tells.
func (s *Site) MayHold(ctx context.Context, r *store.Resource, w *store.Want) bool {
	if r.Have.State != store.HaveNone {
		return merge.Satisfied(w, &r.Have) != merge.No
	}
	if !s.Look || r.Key == "" || w.Digests == "" {
		return false
	}
	info, err := s.Mirror.Stat(ctx, r.Key)
	return err == nil && info.Kind == blob.KindFile && (w.Length < 0 || info.Length == w.Length)
}

// Found is the file of a suspect resource, nil if it is as its row says. A wanted one without a row adopts its file.
func (s *Site) Found(ctx context.Context, r *store.Resource, wanted bool) (*store.Have, error) {
	if s.Mirror == nil || !s.suspects(r) {
		return nil, nil
	}
	if r.Have.State != store.HaveNone {
		return s.Actual(ctx, r)
	}
	if wanted || r.Key == "" || r.Work.Action != store.ActionFetch {
		return nil, nil
	}
	return s.Intruder(ctx, r)
}

// Intruder is the file of a resource that should have none, or nil.
func (s *Site) Intruder(ctx context.Context, r *store.Resource) (*store.Have, error) {
	info, err := s.Mirror.Stat(ctx, r.Key)
	if blob.Missing(err) || err == nil && info.Kind != blob.KindFile {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sum, n, _, err := HashFile(ctx, s.Mirror, r.Key, nil)
	if errors.Is(err, blob.ErrIO) {
		sum, n, err = [32]byte{}, info.Length, nil
	}
	if err != nil {
		return nil, err
	}
	return new(s.Unknown(sum, n, info.ModTime)), nil
}

// Actual hashes the file of a row, and is nil if the row is right.
func (s *Site) Actual(ctx context.Context, r *store.Resource) (*store.Have, error) {
	h := &r.Have
	info, err := s.Mirror.Stat(ctx, r.Key)
	var now store.Have
	if err == nil {
		var sum [32]byte
		var n int64
		switch sum, n, _, err = HashFile(ctx, s.Mirror, r.Key, nil); {
		case errors.Is(err, blob.ErrIO): // one unreadable file must not hold up others (F10)
			now, err = s.Unknown([32]byte{}, info.Length, info.ModTime), nil
			now.State = h.State
		case err != nil:
		case sum != h.SHA256:
			now = s.Unknown(sum, n, info.ModTime)
			now.State = h.State
		case info.ModTime == h.ModTime:
			return nil, nil
		default:
			now = *h
			now.ModTime = info.ModTime
		}
	}
	if err != nil && !blob.Missing(err) && !errors.Is(err, blob.ErrNotRegular) {
		return nil, err // running out of descriptors is no missing file (F11)
	}
	return &now, nil
}

// Unknown is a file that no row explains, older than any want.
func (s *Site) Unknown(sum [32]byte, length, modified int64) store.Have {
	return store.Have{
		State: store.HavePresent, SHA256: sum, Length: length, ModTime: modified, Fetched: s.LocalNow(),
		Version: store.Version{From: store.NoTime, Until: store.NoTime},
	}
}

// examinePage is how many resources are read at a time.
const examinePage = 1000

// Examine looks at the resources of a query in parallel, and hands over findings page by page.
func Examine[T any](
	ctx context.Context, st store.Resources, q store.ScanQuery, look func(context.Context, *store.Resource) (*T, error),
	page func(looked int, found []*T) error,
) error {
	q.Limit = examinePage
	rs, err := st.Scan(ctx, q)
	for err == nil && len(rs) > 0 {
		q.After = rs[len(rs)-1].ID
		var next []*store.Resource
		found := make([]*T, len(rs))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(1 + max(runtime.GOMAXPROCS(0), 2))
		g.Go(func() (err error) { // it takes as long as the looks
			next, err = st.Scan(gctx, q)
			return err
		})
		for i, r := range rs {
			g.Go(func() (err error) {
				found[i], err = look(gctx, r)
				return err
			})
		}
		if err = g.Wait(); err == nil {
			err = page(len(rs), slices.DeleteFunc(found, func(f *T) bool { return f == nil }))
		}
		rs = next
	}
	return err
}

// HashFile returns SHA-256 and length of a mirror file, and the sum of other if given.
func HashFile(
	ctx context.Context, m blob.Mirror, key string, other hash.Hash,
) (sum [32]byte, n int64, also []byte, err error) {
	f, info, err := m.Open(ctx, key)
	if err != nil {
		return sum, 0, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	own := sha256.New()
	w := io.Writer(own)
	if other != nil {
		w = io.MultiWriter(own, other)
	}
	// No larger than the file: clearing 128 KiB for each small one took most of the time.
	buf := make([]byte, min(max(info.Length, 512), 128<<10))
	for err == nil && ctx.Err() == nil {
		var k int
		k, err = f.Read(buf)
		n += int64(k)
		_, _ = w.Write(buf[:k]) // hashes never fail
	}
	if !errors.Is(err, io.EOF) {
		return sum, n, nil, errors.Join(err, ctx.Err())
	}
	own.Sum(sum[:0])
	if other != nil {
		also = other.Sum(nil)
	}
	return sum, n, also, nil
}
