package transfer

import (
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"resyncd/destination/fetch"
	"resyncd/destination/rspack"
	"resyncd/store"
	"resyncd/store/blob"
)

// Offer says that a row's bytes are at hand in a package, as the package's manifest describes them.
type Offer struct {
	Package *Package
	Member  rspack.Member // zero: there is only a patch
	// Patch makes the bytes of the version before; zero: there is none.
	Patch   rspack.Member
	Digests string
	Length  int64 // -1 unknown
	LastMod store.Micros
	Version store.Version
}

// Fits tells that the bytes are surely those of a want, or that its digest will tell. What nothing compares may be
// another version.
func (o *Offer) Fits(w *store.Want) bool {
	if w.State != store.WantPresent || w.Length >= 0 && o.Length >= 0 && w.Length != o.Length {
		return false
	}
	if agree, known := store.DigestsAgree(w.Digests, o.Digests); known || w.Digests != "" {
		return agree || !known
	}
	dated := w.LastMod.Known() && o.LastMod.Known()
	if dated && w.LastMod != o.LastMod {
		return false
	}
	told := o.Version
	if told.Document == 0 && told.From.Known() { // the manifest is not what the want was learnt from
		told.Ordinal, told.Document = w.Version.Ordinal, w.Version.Document
	}
	return w.Version == told || dated && w.Length >= 0 && w.Length == o.Length
}

// Package is an opened package. It is discarded once it is sealed and work on all rows that it is offered to has ended.
type Package struct {
	url    string
	spool  blob.Spool
	zip    *rspack.Package
	log    *slog.Logger
	users  atomic.Int64 // offers, and who makes them
	spoilt atomic.Int64 // members that could not be used
	used   atomic.Int64 // members that brought what was wanted
	kept   atomic.Bool  // the spool outlives the package
	done   chan struct{}
	// Tell is told how many members were used, and in the end that the package is over; nil for nobody.
	Tell func(used int64, over bool)
}

// NewPackage takes over a spool with an opened package.
func NewPackage(url string, spool blob.Spool, z *rspack.Package, log *slog.Logger) *Package {
	p := &Package{url: url, spool: spool, zip: z, log: log, done: make(chan struct{})}
	p.users.Store(1)
	return p
}

// Manifest says what the package has.
func (p *Package) Manifest() (io.ReadCloser, error) {
	m, err := p.zip.Manifest()
	if err != nil {
		return nil, err
	}
	return p.zip.Reader(m)
}

// Seal says, once, that no more offers are made.
func (p *Package) Seal() { p.release() }

// Keep has the spool stay for a later run, because this one ends.
func (p *Package) Keep() { p.kept.Store(true) }

// Done is closed once the package is discarded.
func (p *Package) Done() <-chan struct{} { return p.done }

func (p *Package) release() {
	if p.users.Add(-1) > 0 {
		return
	}
	url := fetch.RedactURL(p.url)
	if n := p.spoilt.Load(); n > 0 {
		p.log.Warn("members of a package could not be used; their resources were asked for one by one",
			"package", url, "members", n)
	}
	end := p.spool.Discard
	if p.kept.Load() {
		end = p.spool.Close
	}
	if err := end(); err != nil {
		p.log.Warn("a used package could not be removed; a later run removes it", "package", url, "err", err)
	}
	if p.Tell != nil {
		p.Tell(p.used.Load(), true)
	}
	close(p.done)
}

// brought counts a member.
func (p *Package) brought() {
	if n := p.used.Add(1); p.Tell != nil {
		p.Tell(n, false)
	}
}

// offers are the packages' part of a workset, guarded by its lock.
type offers struct {
	rows map[int64]*Offer
	held bool
	// pushed are named, and not held: a slow pull must not hold up a push.
	pushed []int64
	used   []*Package // by offers that ended; unlock ends their use
}

// unlock ends the use of packages after the lock, which is never held over a call of the disk.
func (w *Workset) unlock() {
	used := w.offers.used
	w.offers.used = nil
	w.mu.Unlock()
	for _, p := range used {
		p.release()
	}
}

// forget ends a flight, and with it the offer of its row.
func (w *Workset) forget(id int64) {
	delete(w.flight, id)
	w.withdraw(id)
}

func (w *Workset) withdraw(id int64) {
	if o := w.offers.rows[id]; o != nil {
		delete(w.offers.rows, id)
		w.offers.used = append(w.offers.used, o.Package)
	}
}

// HandOffered hands over written rows with their offers, also while the workset is held. The caller holds Rows since
// before the write, and awaited room before. A row in flight is only offered: until the work on it ends, its bytes are
// at hand.
func (w *Workset) HandOffered(rs []*store.Resource, offered []*Offer) {
	w.mu.Lock()
	defer w.unlock()
	if !w.open {
		return
	}
	w.ready = append(w.ready, w.begin(slices.Clone(rs))...)
	for i, r := range rs {
		w.withdraw(r.ID)
		offered[i].Package.users.Add(1)
		w.offers.rows[r.ID] = offered[i]
	}
	w.Poke()
}

// useOffer gives the offer of a row to its worker, who releases the package. The offer stays until the work on the row
// ends: a kill before its bytes are durable must not have cost the package.
func (w *Workset) useOffer(id int64) *Offer {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.offers.rows[id]
	if o != nil {
		o.Package.users.Add(1)
	}
	return o
}

// Hold keeps rows from workers until Release, but for urgent and pushed ones and those that are handed over with an
// offer.
func (w *Workset) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offers.held = true
	w.named = w.urge(w.named)
}

// urge takes rows out for which a notification waits, while the others are held.
func (w *Workset) urge(ids []int64) []int64 {
	if !w.offers.held {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		pushed := w.Notes.rows[id] != nil && len(w.offers.pushed) < namedMost
		if pushed {
			w.offers.pushed = append(w.offers.pushed, id)
		}
		return pushed
	})
}

// Release ends a Hold.
func (w *Workset) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named, w.offers.pushed, w.offers.held = append(w.named, w.offers.pushed...), nil, false
	w.Poke()
}

func (w *Workset) isHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offers.held
}

func (w *Workset) isOffered(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offers.rows[id] != nil
}
