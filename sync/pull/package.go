package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/rspack"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/parsed"
	"resyncd/sync/transfer"
)

// A package is staged in a spool that outlives a kill, and used from there. What is known of it stands in the row of
// its URL: the validators before its first byte, the length once it is whole, or why it cannot be used.

const kindPackage = "package"

// faultFor is how long a package that could not be used is left alone.
const faultFor store.Micros = 24 * 3600 * 1e6

// spoolFor is how long a spool that nothing needs is kept.
const spoolFor = 72 * time.Hour

// staged is a package that is opened.
type staged struct {
	ref  *destination.Ref
	meta destination.Meta
	pack *transfer.Package
	zip  *rspack.Package
	read bool // no more offers are made of it
}

// said is how a dump describes a package.
func said(ref *destination.Ref) string {
	return fmt.Sprint(ref.Length, ref.LastMod, ref.At, ref.From, ref.Until)
}

// knows reports whether what is remembered of a package is about the one that a dump describes. Some give a length only
// once a package was asked for.
func (l listLinks) knows(ref *destination.Ref) bool {
	unsaid := *ref
	unsaid.Length = -1
	return l.Said == said(ref) || ref.Length == l.Held && l.Said == said(&unsaid)
}

// read reports a package that was brought whole.
func (l listLinks) read(ref *destination.Ref) bool {
	return l.Fault == "" && l.Held > 0 && l.knows(ref)
}

// same reports a package that surely is what was read, so that nobody need be asked.
func same(ref *destination.Ref, doc *store.Document) bool {
	return ref.Length >= 0 && linksOf(*doc).read(ref)
}

func spoolName(what, url string) string {
	sum := sha256.Sum256([]byte(what + url))
	return hex.EncodeToString(sum[:])
}

// stage brings a package, unless it answers 304 to the validators of ask. fault is why it cannot be used.
func (p *Puller) stage(
	ctx context.Context, ref *destination.Ref, ask destination.Meta,
) (s *staged, fault, err error) {
	doc, err := p.Document(ctx, ref.URL)
	if err != nil {
		return nil, nil, err
	}
	if p.isFaulty(ref, &doc) {
		return nil, errors.New(linksOf(doc).Fault), nil
	}
	if doc.URL == "" {
		doc = p.NewDocument(ref.URL, kindPackage)
		doc.SetID = p.Set.ID
	}
	if s, fault, err = p.open(ctx, ref, ask, &doc); fault == nil || err != nil {
		return s, nil, err
	}
	return nil, fault, p.faulty(ctx, ref, fault)
}

var errRoom = errors.New("no room")

// faulty has a package left alone for a while, unless what is wrong may be over soon.
func (p *Puller) faulty(ctx context.Context, ref *destination.Ref, fault error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.Log.Warn("a package cannot be used; its resources are asked for one by one",
		"package", fetch.RedactURL(ref.URL), "err", fault)
	p.tell(transfer.PackageProgress{URL: ref.URL, Number: p.nth.number, Of: p.nth.of, Total: ref.Length,
		State: transfer.PackageFailed})
	if passing(fault) || errors.Is(fault, errRoom) || blob.Systemic(fault) || errors.Is(fault, blob.ErrExists) {
		return nil
	}
	doc := p.NewDocument(ref.URL, kindPackage)
	doc.SetID, doc.Body = p.Set.ID, listLinks{Said: said(ref), Fault: fault.Error()}.body()
	return p.noteDocument(ctx, doc)
}

// isFaulty reports a package that is left alone.
func (p *Puller) isFaulty(ref *destination.Ref, doc *store.Document) bool {
	known := linksOf(*doc)
	return known.Fault != "" && known.Said == said(ref) && p.LocalNow()-doc.Read < faultFor && !p.Full
}

func passing(err error) bool {
	switch fetch.KindOf(err) {
	case fetch.Transient, fetch.Throttled, fetch.Stalled:
		return true
	}
	return false
}

// noteDocument writes one row. It is Repeatable, because a power cut only costs a request.
func (p *Puller) noteDocument(ctx context.Context, doc store.Document) error {
	return p.Store.Commit(ctx,
		&store.Commit{Claim: p.Claim, Repeatable: true, Documents: []store.Document{doc}})
}

// open opens the spool of a package, downloaded as far as needed. A spool that an earlier process left may be spoilt.
func (p *Puller) open(
	ctx context.Context, ref *destination.Ref, ask destination.Meta, doc *store.Document,
) (s *staged, fault, err error) {
	spool, err := p.Target.Mirror.Spool(ctx, spoolName("", ref.URL))
	if err != nil {
		return nil, err, nil
	}
	p.nth.number++
	told := transfer.PackageProgress{URL: ref.URL, Number: p.nth.number, Of: p.nth.of, Bytes: spool.Size(),
		Total: ref.Length, State: transfer.PackageComing}
	p.tell(told)
	defer func() {
		if s == nil || s.pack == nil {
			told.State = transfer.PackageOver
			p.tell(told)
		}
		switch {
		case s != nil && s.pack != nil:
		case ctx.Err() != nil || passing(fault):
			_ = spool.Close()
		default:
			_ = spool.Discard()
		}
	}()
	s = &staged{ref: ref, meta: destination.Meta{ETag: doc.ETag, LastModified: doc.LastModified,
		Date: rsdoc.Micros(doc.Read + p.Offset)}}
	left := spool.Size() > 0
	whole := linksOf(*doc).read(ref) && spool.Size() == linksOf(*doc).Held
	for {
		if !whole {
			fault, err = p.download(ctx, s, &watched{spool, told, p.tell}, ask, doc)
		}
		if fault != nil || err != nil || s.meta.NotModified {
			break
		}
		if s.zip, fault = rspack.Open(spool, spool.Size(), rspack.Limits{}); fault == nil || !left {
			break
		}
		if fault = spool.Reset(); fault != nil {
			break
		}
		left, whole = false, false
	}
	if fault != nil || err != nil {
		return nil, fault, err
	}
	if !s.meta.NotModified {
		s.pack = transfer.NewPackage(ref.URL, spool, s.zip, p.Log)
		told.Bytes, told.Total = spool.Size(), spool.Size()
		told.Members = int64(max(s.zip.Len()-1, 0)) // but for the manifest
		p.tell(told)
		s.pack.Tell = func(used int64, over bool) {
			now := told
			if now.Used, now.State = used, transfer.PackageInUse; over {
				now.State = transfer.PackageOver
			}
			p.tell(now)
		}
	}
	return s, nil, nil
}

// download writes what is missing of a package into its spool, within half of the room: its members need as much.
func (p *Puller) download(
	ctx context.Context, s *staged, spool *watched, ask destination.Meta, doc *store.Document,
) (fault, err error) {
	room, ref := p.Target.MaxDump, s.ref
	if free, _, err := p.Target.Mirror.Free(ctx); err == nil {
		if half := int64(min(free/2, 1<<62)) + spool.Size()/2; room == 0 || half < room {
			room = half
		}
	}
	if ref.Length > room || room <= 0 {
		return fmt.Errorf("%w: %s has %d bytes, and may have %d: `max_dump`, or half of what the disk has free",
			errRoom, fetch.RedactURL(ref.URL), ref.Length, room), nil
	}
	opt := fetch.DownloadOptions{Resume: true, DeclaredLength: -1, Held: spool.Size()}
	if linksOf(*doc).knows(ref) {
		opt.HeldETag = doc.ETag
	}
	opt.Begins = func(i fetch.Info) error {
		spool.told.Total = max(spool.told.Total, i.Length)
		doc.ETag, doc.LastModified, doc.Complete, doc.Read = i.ETag, i.LastModified, false, p.LocalNow()
		doc.Body = listLinks{Said: said(ref)}.body()
		err = p.noteDocument(ctx, *doc)
		return err
	}
	req := fetch.Request{URL: ref.URL, Policy: p.Means.Policy, MaxBytes: room}
	if spool.Size() == 0 {
		req.ETag, req.LastModified = ask.ETag, ask.LastModified
	}
	resume := p.Await()
	res, fault := p.Means.Client.Download(ctx, req, spool, opt)
	resume()
	if fault != nil || err != nil {
		return fault, err
	}
	s.meta = destination.Meta{ETag: res.ETag, LastModified: res.LastModified, NotModified: res.NotModified,
		Date: rsdoc.MicrosOf(res.Date)}
	if res.NotModified {
		s.meta.ETag, s.meta.LastModified = ask.ETag, ask.LastModified
		return nil, nil
	}
	doc.ETag, doc.LastModified = parsed.Lasting(res.ETag, res.LastModified, store.Micros(s.meta.Date))
	doc.Body = listLinks{Said: said(ref), Held: spool.Size()}.body()
	return nil, p.noteDocument(ctx, *doc)
}

// nth is the place of a package among those of a pull.
type nth struct{ number, of int }

// tell says how a package comes along.
func (p *Puller) tell(how transfer.PackageProgress) {
	p.Observe.Package(how)
	p.Progress(transfer.Progress{Package: &how})
}

// watched is a spool whose growth is told.
type watched struct {
	blob.Spool
	told transfer.PackageProgress
	tell func(transfer.PackageProgress)
}

const toldEvery = 256 << 10 // bytes

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Spool.Write(b)
	if size := w.Size(); size < w.told.Bytes || size-w.told.Bytes >= toldEvery {
		w.told.Bytes = size
		w.tell(w.told)
	}
	return n, err
}

// Manifest implements destination.Packages. A manifest of a Resource Dump is kept until the baseline is complete, so
// that a kill costs no package that was used up.
func (p *Puller) Manifest(ctx context.Context, part *destination.Part) (body io.ReadCloser, fault, err error) {
	if p.Dry {
		return nil, errors.New("a dry run reads no packages"), nil
	}
	ask, used := part.Meta, false
	var kept blob.Spool
	if part.Kind != rsdoc.KindChangeDumpManifest {
		if kept, fault = p.Target.Mirror.Spool(ctx, spoolName(keptManifest, part.URL)); fault != nil {
			return nil, fault, nil
		}
		defer func() {
			if body == nil {
				_ = kept.Close()
			}
		}()
		doc, err := p.Document(ctx, part.URL)
		if err != nil {
			return nil, nil, err
		}
		if used = ask.ETag+ask.LastModified == "" && kept.Size() > 0 && linksOf(doc).read(part.Package); used {
			ask.ETag, ask.LastModified = doc.ETag, doc.LastModified
		}
	}
	s, fault, err := p.stage(ctx, part.Package, ask)
	if fault != nil || err != nil {
		return nil, fault, err
	}
	part.Meta = s.meta
	switch {
	case s.meta.NotModified && used:
		part.NotModified = false
	case s.meta.NotModified:
		return nil, nil, nil
	default:
		if err := p.use(ctx, s); err != nil {
			return nil, nil, err
		}
		body, fault = s.pack.Manifest()
		if kept == nil || fault != nil {
			return body, fault, nil
		}
		fault = kept.Reset()
		if fault == nil {
			_, fault = io.Copy(kept, body)
		}
		if _ = body.Close(); fault != nil {
			body = nil
			return nil, fault, nil
		}
	}
	return keptBody{io.NewSectionReader(kept, 0, kept.Size()), kept}, nil, nil
}

const keptManifest = "manifest of "

type keptBody struct {
	io.Reader
	io.Closer
}

// forgetManifest drops what was kept of a package, if anything was.
func (p *Puller) forgetManifest(ctx context.Context, url string) {
	if p.Dry {
		return
	}
	if kept, err := p.Target.Mirror.Spool(ctx, spoolName(keptManifest, url)); err == nil {
		_ = kept.Discard() // or it is dropped for its age
	}
}

// use makes offers of a package from now on. The one before has to be used up, so that there are never more than two.
func (p *Puller) use(ctx context.Context, s *staged) error {
	if err := p.awaitUse(ctx); err != nil {
		s.pack.Keep()
		s.pack.Seal()
		return err
	}
	p.inUse = s
	p.Out.Packages++
	s.pack.Tell(0, false)
	return nil
}

// awaitUse waits until no package is in use: all rows that it was offered to are recorded.
func (p *Puller) awaitUse(ctx context.Context) error {
	s := p.inUse
	err := p.usedUp(ctx)
	if s == nil || err != nil {
		return err
	}
	p.leave(nil)
	defer p.Await()()
	select {
	case <-s.pack.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives up the package in use, if there is one, for a later run if this one ends.
func (p *Puller) leave(err error) {
	s := p.inUse
	if s == nil {
		return
	}
	if p.inUse = nil; err != nil {
		s.pack.Keep()
	}
	s.pack.Seal()
}

// usedUp plans what waits of the package in use, if there is one.
func (p *Puller) usedUp(ctx context.Context) error {
	if p.inUse == nil || p.inUse.read {
		return nil
	}
	p.inUse.read = true
	return p.Plan.PlanAll(ctx)
}

// walk reads documents, and ends the offers of their packages.
func (p *Puller) walk(
	ctx context.Context, past bool, ref destination.Ref, v destination.Visitor,
) (destination.Tour, error) {
	tour, err := p.readerPast(past).Walk(ctx, ref, ref.Kind, v)
	if err == nil {
		return tour, p.usedUp(ctx)
	}
	if s := p.inUse; s != nil && !s.read {
		p.Plan.Batch = p.Plan.Batch[:0]
		p.leave(err)
	}
	return tour, err
}

// clock is the Source's time at which a document was read. A package may have been read long ago.
func (p *Puller) clock(part *destination.Part) store.Micros {
	if part.Inside() && part.Date.Known() {
		return store.Micros(part.Date)
	}
	return p.answered(part.Date)
}

// told is what a manifest says of a member.
func (p *Puller) told(head *rsdoc.Head, e *rsdoc.Entry) *transfer.Offer {
	at := store.Micros(e.Datetime)
	if head.Kind != rsdoc.KindChangeDumpManifest {
		at = store.Micros(head.At)
	}
	return &transfer.Offer{Length: e.Length, LastMod: store.Micros(e.LastMod), Digests: p.Target.ContentOf(e).Digests,
		Version: store.Version{From: at, Until: at}}
}

// offer is what the package in use has for an entry of its manifest; nil for nothing.
func (p *Puller) offer(part *destination.Part, head *rsdoc.Head, e *rsdoc.Entry) *transfer.Offer {
	s := p.inUse
	if s == nil || s.read || !part.Inside() || part.URL != s.ref.URL || e.Fault != "" {
		return nil
	}
	o := p.told(head, e)
	o.Package = s.pack
	o.Member, _ = s.zip.Find(e.Path)
	for i := range e.Links {
		l := &e.Links[i]
		if l.Rel == rsdoc.RelPatch && transfer.IsPatch(l.Type) && o.Patch == (rspack.Member{}) {
			o.Patch, _ = s.zip.Find(l.Path)
		}
	}
	if o.Member == o.Patch {
		return nil // neither is there: it costs a GET
	}
	return o
}
