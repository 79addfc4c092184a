package pull

import (
	"cmp"
	"context"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
)

// A dump brings the bytes of many wants at once. Where there is a list, it says what is wanted, and packages are
// chosen by what they save (useDumps). Where there is none, a dump is read as an index of its manifests.

const (
	dumpsAuto   = "auto"
	dumpsAlways = "always"
)

// UsesDumps reports whether packages may be read at all.
func (t *Target) UsesDumps() bool { return t.Dumps == dumpsAuto || t.Dumps == dumpsAlways }

// FollowDumps has a set without lists followed by its dumps, and hides dumps that may not be read.
func (t *Target) FollowDumps(o *destination.SetOffer) {
	if !t.UsesDumps() {
		o.ResourceDump, o.ChangeDump, o.ChangeDumpArchive = nil, nil, nil
	}
	o.ResourceList, o.ChangeList = cmp.Or(o.ResourceList, o.ResourceDump), cmp.Or(o.ChangeList, o.ChangeDump)
}

// HasDumps reports whether packages may bring rows of the set.
func (p *Puller) HasDumps() bool {
	return !p.Dry && cmp.Or(p.Offer.ResourceDump, p.Offer.ChangeDump) != nil
}

// DropSpools removes packages and manifests that no pull comes back to: all, once nothing is owed or amiss.
func (s *Source) DropSpools(ctx context.Context) error {
	m := s.Target.Mirror
	if m == nil {
		return nil
	}
	due, err := s.Store.NextDue(ctx, s.SourceID)
	if err != nil {
		return err
	}
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	needed := s.Target.UsesDumps() &&
		(due.Known() || slices.ContainsFunc(sets, func(set store.Set) bool { return set.Problem != "" }))
	return m.Spools(ctx, func(name string, changed time.Time) error {
		pulled := len(name) == len(spoolName("", "")) // others are answers to batches, which no run goes on with
		if needed && pulled && s.Now().Sub(changed) < spoolFor {
			return nil
		}
		if old, err := m.Spool(ctx, name); err == nil { // ErrExists: it is in use
			_ = old.Discard()
		}
		return nil
	})
}

// choosePart returns the row of a part. Of a package the manifest inside is read where all of it is wanted anyway, or
// where that was read before; else its `contents`.
func (p *Puller) choosePart(ctx context.Context, part *destination.Part, all bool) (store.Document, error) {
	all = all && p.Target.Selection.Digest() == ""
	if part.Package != nil && !part.Inside() {
		doc, err := p.Document(ctx, part.Package.URL)
		read := doc.Complete && same(part.Package, &doc)
		if err != nil || read || all && !p.Dry && !p.isFaulty(part.Package, &doc) {
			part.URL = part.Package.URL
			return doc, err
		}
	}
	return p.Document(ctx, part.URL)
}

// useDumps has packages bring what is owed where that saves requests, and then lets all other rows go.
func (p *Puller) useDumps(ctx context.Context) error {
	defer p.Release()
	if !p.HasDumps() {
		return nil
	}
	u, err := p.owing(ctx)
	if err != nil {
		return err
	}
	dumps := []*destination.Ref{p.Offer.ChangeDump, p.Offer.ResourceDump}
	if u.listed > 0 {
		dumps[0], dumps[1] = dumps[1], dumps[0]
	}
	for i, dump := range dumps {
		if dump == nil {
			continue
		}
		if i > 0 && dumps[0] != nil {
			if u, err = p.owing(ctx); err != nil {
				return err
			}
		}
		if err := p.useDump(ctx, dump, u); err != nil {
			return err
		}
	}
	p.Release() // beside what is left of the last package
	return p.awaitUse(ctx)
}

// owing is what no transport has tried yet. What failed before is left to its own time.
type owing struct {
	owed, listed int64 // rows; those of a baseline
	right        int64 // resources that are as wanted
	oldest       store.Micros
	begun        map[string]bool // spools
}

func (p *Puller) owing(ctx context.Context) (u owing, err error) {
	if err := p.awaitUse(ctx); err != nil {
		return u, err
	}
	u.oldest, u.begun = store.NoTime, map[string]bool{}
	err = p.Target.Mirror.Spools(ctx, func(name string, _ time.Time) error {
		u.begun[name] = true
		return nil
	})
	if err != nil {
		return u, err
	}
	set, err := p.Store.EnsureSet(ctx, p.Claim, p.Set.CapabilityList)
	if err != nil {
		return u, err
	}
	u.right = set.Resources
	for r, err := range p.Owed(store.ActionFetch).All(ctx) {
		if err != nil {
			return u, err
		}
		w := r.WantFor(p.Set.ID)
		if w != nil && merge.Counted(w, &r.Have).Resources > 0 {
			u.right--
		}
		switch w = p.untried(r); {
		case w == nil:
		case p.MayHold(ctx, r, w):
			u.right++
		default:
			u.owed++
			if w.Generation > 0 {
				u.listed++
			}
			u.oldest = store.Earliest(u.oldest, w.Version.From)
		}
	}
	return u, nil
}

func (p *Puller) untried(r *store.Resource) *store.Want {
	w := r.WantFor(p.Set.ID)
	if w == nil || w.State != store.WantPresent || w.Inline || r.Work.Action != store.ActionFetch ||
		r.Work.Attempts > 0 || p.Busy(r.ID) {
		return nil
	}
	return w
}

// dumpChoice is what was decided about a dump, and remembered, so that it is told once.
type dumpChoice struct {
	Use bool
	Why string
}

func (p *Puller) useDump(ctx context.Context, dump *destination.Ref, u owing) error {
	if u.owed == 0 || u.owed <= leastOwed && p.Target.Dumps != dumpsAlways {
		return nil
	}
	d, err := p.Reader.Dump(ctx, *dump)
	if err != nil {
		return err
	}
	if d.Problem != nil {
		p.Log.Warn("a dump could not be read; resources are asked for one by one",
			"dump", fetch.RedactURL(dump.URL), "err", d.Problem)
	}
	changes := dump.Kind == rsdoc.KindChangeDump
	use, why, err := p.choose(ctx, d, changes, u)
	if err != nil {
		return err
	}
	p.nth = nth{of: len(use)}
	choice := dumpChoice{Use: len(use) > 0, Why: why}
	var before dumpChoice
	key := "choice of " + dump.URL
	if _, err := p.RecallJSON(ctx, key, &before); err != nil {
		return err
	}
	if before != choice {
		p.rememberJSON(key, choice)
		p.Log.Info("packages of a dump were considered", "dump", fetch.RedactURL(dump.URL), "used", len(use),
			"owed", u.owed, "why", why)
	}
	for i := range use {
		if err := p.bring(ctx, &use[i], manifestOf(changes)); err != nil {
			return err
		}
	}
	return nil
}

// leastOwed is what a dump and one package cost.
const leastOwed = 2

// mostlyOwed is the share of all that is wanted from which any package is worth its request.
const mostlyOwed = 0.9

// choose selects the packages that are worth it (contract.md 6), and says why.
func (p *Puller) choose(
	ctx context.Context, d *destination.Dump, changes bool, u owing,
) (use []destination.Ref, why string, err error) {
	always := p.Target.Dumps == dumpsAlways
	before := p.Holes.before.ProvenPosition()
	share := float64(u.owed) / float64(u.owed+u.right)
	var cost int64
	var can []destination.Ref
	for _, ref := range d.Packages {
		doc, err := p.Document(ctx, ref.URL)
		if err != nil {
			return nil, "", err
		}
		contents, at := ref.Link(rsdoc.RelContents), store.Micros(max(ref.At, d.Head.At))
		begun := linksOf(doc).knows(&ref) && u.begun[spoolName("", ref.URL)]
		switch {
		case p.isFaulty(&ref, &doc):
			continue
		case changes && ref.Until.Known() && u.oldest.Known() && store.Micros(ref.Until) < u.oldest:
			continue // all of it is known
		case !changes && u.listed == 0 && at.Known() && at < u.oldest:
			continue // all that is owed is newer
		case begun || contents != "":
		case linksOf(doc).read(&ref):
			continue // it was read, and what it had wrong is owed
		case changes && !always && !(before.Known() && ref.From.Known() && store.Micros(ref.From) >= before):
			continue
		case !changes && !always && share < mostlyOwed:
			continue
		}
		if cost++; contents != "" && u.right > 0 {
			cost++
		}
		can = append(can, ref)
	}
	if !always && cost >= u.owed {
		return nil, "its packages would cost more requests than the resources", nil
	}
	for i := range can {
		worth := u.right == 0 || can[i].Link(rsdoc.RelContents) == ""
		if !worth {
			worth, err = p.worth(ctx, &can[i], changes, always)
		}
		if err != nil {
			return nil, "", err
		}
		if worth {
			use = append(use, can[i])
		}
	}
	if len(use) == 0 {
		return nil, "no package has enough of what is owed", nil
	}
	return use, "they save requests", nil
}

func manifestOf(changes bool) rsdoc.Kind {
	if changes {
		return rsdoc.KindChangeDumpManifest
	}
	return rsdoc.KindResourceDumpManifest
}

// worth counts what is owed of what the `contents` of a package lists.
func (p *Puller) worth(ctx context.Context, ref *destination.Ref, changes, always bool) (bool, error) {
	v := &owedIn{p: p}
	contents := destination.Ref{URL: ref.Link(rsdoc.RelContents)}
	if _, err := p.Reader.Walk(ctx, contents, manifestOf(changes), v); err != nil {
		return false, err
	}
	switch {
	case v.failed:
		return always, nil // without its contents nothing tells
	case always || changes:
		return v.owed > 0 && (always || v.owed > 1), nil
	}
	return v.owed > 1 && 2*v.owed >= v.listed, nil
}

// owedIn is a visitor of one manifest that counts what is owed.
type owedIn struct {
	p            *Puller
	batch        []plan.Entry
	listed, owed int64
	failed       bool
}

// Enter implements destination.Visitor.
func (*owedIn) Enter(context.Context, *destination.Part) (bool, error) { return true, nil }

// Failed implements destination.Visitor.
func (v *owedIn) Failed(_ context.Context, part *destination.Part, err error) error {
	v.p.Log.Warn("the contents of a package cannot be read", "contents", fetch.RedactURL(part.URL), "err", err)
	v.failed = true
	return nil
}

// List implements destination.Visitor.
func (v *owedIn) List(ctx context.Context, _ *destination.Part, l *destination.List) error {
	v.listed, v.owed, v.batch = 0, 0, v.batch[:0]
	err := l.Each(func(e *rsdoc.Entry) error {
		if e.Fault == "" && e.Change != rsdoc.ChangeDeleted {
			v.batch = append(v.batch, plan.Entry{URI: e.Loc, Offer: v.p.told(l.Head, e)})
		}
		if len(v.batch) < SweepPage {
			return nil
		}
		return v.look(ctx)
	})
	return cmp.Or(err, v.look(ctx))
}

func (v *owedIn) look(ctx context.Context) error {
	uris := make([]string, len(v.batch))
	for i := range v.batch {
		uris[i] = v.batch[i].URI
	}
	rows, err := v.p.Store.Lookup(ctx, v.p.SourceID, v.p.Set.ID, uris)
	for i, r := range rows {
		v.listed++
		if r == nil {
			continue
		}
		if w := v.p.untried(r); w != nil && !v.p.MayHold(ctx, r, w) && v.batch[i].Offer.Fits(w) {
			v.owed++
		}
	}
	v.batch = v.batch[:0]
	return err
}

// bring stages a package and offers what it has. A fault of it costs GETs.
func (p *Puller) bring(ctx context.Context, ref *destination.Ref, kind rsdoc.Kind) error {
	s, fault, err := p.stage(ctx, ref, destination.Meta{})
	if err != nil || fault != nil {
		return err
	}
	if err := p.use(ctx, s); err != nil {
		return err
	}
	body, fault := s.pack.Manifest()
	if fault == nil {
		defer func() { _ = body.Close() }()
		part := &destination.Part{Ref: *ref, Package: ref}
		fault = destination.ReadList(body, ref.URL, kind, func(l *destination.List) error {
			return l.Each(func(e *rsdoc.Entry) error {
				o := p.offer(part, l.Head, e)
				if o == nil || err != nil {
					return nil
				}
				err = p.Plan.Add(ctx, plan.Entry{URI: e.Loc, Offer: o, Offered: true})
				return nil
			})
		})
	}
	if err = cmp.Or(err, p.usedUp(ctx)); err != nil || fault == nil {
		return err
	}
	return p.faulty(ctx, ref, fault)
}
