package inspect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/spill"
)

// set is one set of the Source in one pass.
type set struct {
	offer *destination.SetOffer
	id    int64 // in the state, 0 if it is not there
	scope *destination.Scope
	// complete: everything was listed, so what is not is absent. entries: the same for entries of a feed.
	complete, entries bool
	// unread: of some entries nobody can tell what they say, or even of what, so none is the last word on a resource.
	unread bool
	// from, to are the earliest and the latest snapshot of its lists; unknown if one of them does not say.
	from, to store.Micros
	// reach is how far the Change Lists go back without a hole; NoTime where there are none.
	reach store.Micros
	// made estimates when undated lists were made, only to know which changes they may lack.
	made  store.Micros
	spans []rsdoc.Interval
}

func (i *inspection) newSet(o *destination.SetOffer) (set, error) {
	s := set{offer: o, id: i.ids[o.ID], from: store.NoTime, to: store.NoTime, reach: store.NoTime, made: store.NoTime}
	if o.Err != nil {
		return s, i.unusable(o.ID, o.Err)
	}
	if i.Dumps {
		o.ResourceList, o.ChangeList = cmp.Or(o.ResourceList, o.ResourceDump), cmp.Or(o.ChangeList, o.ChangeDump)
	}
	prefixes := i.Scope
	if u, err := url.Parse(i.URL); err == nil && (i.Feed || o.Topic != nil) {
		// The self link may name another port or scheme.
		prefixes = append(slices.Clip(prefixes), u.Scheme+"://"+u.Host+"/")
	}
	var err error
	s.scope, err = destination.NewScope(o.ID, prefixes)
	return s, err
}

func (i *inspection) unusable(set string, err error) error {
	return fmt.Errorf("audit %s: no document of set %s could be used: %w", i.Name, fetch.RedactURL(set), err)
}

// pass is one reading of all documents, compared with the mirror.
type pass struct {
	*inspection
	sets   []set
	shelf  *spill.Sorter // what is said, by URI
	only   doubted
	again  doubted
	listed *spill.Bitmap // the resources that were spoken of
}

// read puts what the documents of a set say on the shelf.
func (p *pass) read(ctx context.Context, n int) error {
	s := &p.sets[n]
	if s.offer.Topic != nil {
		return p.readTopic(ctx, n)
	}
	lists, changes := refs(s.offer, s.offer.ResourceList, rsdoc.KindResourceList),
		refs(s.offer, s.offer.ChangeList, rsdoc.KindChangeList)
	if len(lists)+len(changes) == 0 {
		return p.unusable(s.offer.ID, errors.New(
			"it offers neither a Resource List nor a Change List, and no dump that `dumps` lets be read"))
	}
	v := &listVisitor{p: p, s: s, n: n}
	s.complete = len(lists) > 0
	for _, ref := range lists {
		tour, err := p.reader().Walk(ctx, ref, ref.Kind, v)
		if err != nil {
			return err
		}
		if !tour.Complete {
			s.complete = false
			p.incomplete("a Resource List could not be read whole; nothing is concluded from what it lacks",
				"list", fetch.RedactURL(ref.URL))
		}
	}
	if v.unknown {
		s.from = store.NoTime
	}
	// After the lists: what changed while they were read is in the Change Lists then.
	for _, ref := range changes {
		if err := p.readChanges(ctx, v, ref); err != nil {
			return err
		}
	}
	if a := s.offer.ChangeListArchive; a != nil && s.from.Known() && s.reached() > s.from {
		if err := p.readChanges(ctx, v, *a); err != nil {
			return err
		}
	}
	if len(changes) > 0 && !v.broken {
		s.reach = s.reached()
	}
	if v.read == 0 {
		return p.unusable(s.offer.ID, v.failure)
	}
	return nil
}

// refs are all documents of a kind in a set: a Capability List may name several.
func refs(o *destination.SetOffer, first *destination.Ref, kind rsdoc.Kind) (out []destination.Ref) {
	if first != nil {
		out = append(out, *first)
	}
	for _, also := range o.Also {
		if also.Kind == kind {
			out = append(out, also)
		}
	}
	return out
}

func (p *pass) readChanges(ctx context.Context, v *listVisitor, ref destination.Ref) error {
	v.changes = true
	tour, err := p.reader().Walk(ctx, ref, ref.Kind, v)
	if err == nil && !tour.Complete {
		v.broken = true
		p.incomplete("a Change List could not be read whole; what it tells is unknown",
			"list", fetch.RedactURL(ref.URL))
	}
	return err
}

// reached is how far the chain of Change Lists goes back from the newest.
func (s *set) reached() store.Micros {
	reach := rsdoc.Micros(math.MaxInt64) // a list that does not say what it covers covers nothing
	spans := slices.Clone(s.spans)
	slices.SortFunc(spans, func(a, b rsdoc.Interval) int { return cmp.Compare(b.Until, a.Until) })
	for n, iv := range spans {
		if n == 0 || iv.Until >= reach-second {
			reach = min(reach, iv.From)
		}
	}
	return store.Micros(reach)
}

// listVisitor takes up Resource Lists, then Change Lists, of a set.
type listVisitor struct {
	p       *pass
	s       *set
	n       int
	changes bool
	unknown bool // some list does not say when it was made
	broken  bool // the Change Lists were not read without a fault
	read    int
	failure error

	at   store.Micros // of the list at hand
	now  store.Micros // by the Source's clock; NoTime
	span rsdoc.Interval
}

// Enter implements destination.Visitor.
func (v *listVisitor) Enter(_ context.Context, p *destination.Part) (bool, error) {
	if v.changes && p.Until.Known() && v.s.from.Known() && store.Micros(p.Until) < v.s.from {
		return false, nil // older than all that is listed
	}
	return true, nil
}

// List implements destination.Visitor. No list is asked for conditionally.
func (v *listVisitor) List(_ context.Context, p *destination.Part, l *destination.List) error {
	v.begin(p, l.Head)
	if err := l.Each(v.entry); err != nil {
		return err
	}
	v.read++
	if l.Skipped > 0 {
		v.s.unread = true
		v.p.incomplete("entries of a list cannot be read; what they tell is unknown",
			"list", fetch.RedactURL(p.URL), "entries", l.Skipped, "first", l.Fault)
		v.s.complete, v.broken = v.s.complete && v.changes, v.broken || v.changes
	}
	if v.changes && v.span.From.Known() {
		if !v.span.Until.Known() || v.now.Known() && store.Micros(v.span.Until) > v.now {
			v.span.Until = math.MaxInt64
		}
		v.s.spans = append(v.s.spans, v.span)
	}
	return nil
}

func (v *listVisitor) begin(p *destination.Part, h *rsdoc.Head) {
	v.now = store.Micros(p.Date)
	v.span = rsdoc.Interval{From: h.From, Until: h.Until}
	if p.Package != nil && !h.From.Known() {
		v.span = rsdoc.Interval{From: p.From, Until: p.Until}
	}
	if v.changes {
		return
	}
	v.at = store.Micros(h.At)
	if !v.at.Known() {
		v.at = store.Micros(p.At)
	}
	v.at = v.past(v.at)
	switch {
	case !v.at.Known():
		v.unknown = true
		made := v.now - 5*60*second
		if lm, err := http.ParseTime(p.LastModified); err == nil && v.past(store.MicrosOf(lm)).Known() {
			made = store.MicrosOf(lm)
		}
		if v.now.Known() && (!v.s.made.Known() || made < v.s.made) {
			v.s.made = made
		}
	case !v.s.from.Known() || v.at < v.s.from:
		v.s.from = v.at
	}
	v.s.to = max(v.s.to, v.at)
}

// past is an instant as far as it can be true: not after the Source's own now.
func (v *listVisitor) past(m store.Micros) store.Micros {
	if v.now.Known() && m > v.now+second {
		return store.NoTime
	}
	return m
}

// selects tells whether an entry is of a resource that is mirrored by its links.
func (i *inspection) selects(e *rsdoc.Entry) bool {
	leads := func(rel string, to ...string) bool {
		return slices.ContainsFunc(e.Links, func(l rsdoc.Link) bool {
			return strings.EqualFold(l.Rel, rel) && (len(to) == 0 || slices.Contains(to, l.Href))
		})
	}
	switch describes := leads(rsdoc.RelDescribes); {
	case i.Metadata == "only" && !describes, i.Metadata == "without" && describes:
		return false
	}
	return len(i.Collections) == 0 || leads(rsdoc.RelCollection, i.Collections...)
}

func (v *listVisitor) entry(e *rsdoc.Entry) error {
	left := e.Change != rsdoc.ChangeDeleted && !v.p.selects(e)
	if left && (!v.changes || e.Fault != "") {
		return nil
	}
	d := &said{URI: e.Loc, Set: v.n, Length: e.Length, At: v.at, LastMod: store.Micros(e.LastMod)}
	if len(e.Digests) > 0 {
		d.Digest = e.Digests[0].String() // the strongest
	}
	if v.changes {
		d.What, d.Left, d.At = changed, left, v.past(store.Micros(e.Datetime))
		d.Absent = left || e.Change == rsdoc.ChangeDeleted
		if !v.span.From.Known() && e.Datetime.Known() {
			v.span.From = e.Datetime // all that a list without `from` tells of its reach
		}
	}
	if e.Fault != "" { // but its URI nothing of it can be believed
		d = &said{URI: e.Loc, Set: v.n, What: d.What, Length: -1, At: store.NoTime, LastMod: store.NoTime}
	}
	return v.p.keep(d)
}

// Failed implements destination.Visitor.
func (v *listVisitor) Failed(_ context.Context, p *destination.Part, err error) error {
	if v.failure == nil {
		v.failure = err
	}
	v.p.Log.Warn("a list could not be read", "list", fetch.RedactURL(p.URL), "err", err)
	return nil
}

// keep puts a statement on the shelf if this pass is about it.
func (p *pass) keep(d *said) error {
	if d.What != link && p.passedOver(d.URI) {
		return nil
	}
	text, err := json.Marshal(d)
	if err == nil {
		err = p.shelf.Add(append(spill.AppendKey(nil, d.URI), text...))
	}
	if err != nil {
		return fmt.Errorf("keep what the lists say for the audit (TMPDIR chooses another disk): %w", err)
	}
	return nil
}

// pagesMost bounds the older documents of a feed that are read.
const pagesMost = 10_000

// readTopic puts a feed and its archives on the shelf, newest document first, or a topic that is one resource.
func (p *pass) readTopic(ctx context.Context, n int) error {
	s := &p.sets[n]
	a := &s.offer.Topic.Answer
	switch {
	case a.URL == "":
		return p.unusable(s.offer.ID, errors.New("its topic does not answer"))
	case a.Format == feed.None:
		return p.readDocument(ctx, n)
	}
	seen := map[string]bool{a.URL: true, a.Final: true, s.offer.ID: true}
	archive := "" // comes after the pages of the feed as it is now
	for page := 0; ; page++ {
		head, err := p.readPage(ctx, n, page, a)
		if err != nil {
			return err
		}
		if page == 0 {
			s.entries = head.Complete && head.Skipped == 0 && head.Next == "" && head.PrevArchive == ""
		}
		older := head.Next
		if archive = cmp.Or(head.PrevArchive, archive); older == "" || seen[older] {
			older, archive = archive, ""
		}
		if older == "" || seen[older] {
			return nil
		}
		if seen[older] = true; page == pagesMost {
			p.incomplete("the history of a feed has too many documents; the older ones were not read",
				"feed", fetch.RedactURL(s.offer.ID))
			return nil
		}
		if a, err = p.reader().Page(ctx, older); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			p.incomplete("an older document of a feed could not be read",
				"feed", fetch.RedactURL(s.offer.ID), "err", err)
			return nil
		}
	}
}

// readPage takes one document of a feed. Of one that cannot be read the head is empty.
func (p *pass) readPage(ctx context.Context, n, page int, a *destination.TopicAnswer) (*feed.Head, error) {
	base, err := url.Parse(a.Final)
	if err != nil {
		return nil, fmt.Errorf("read feed %s: answered from an address that is no URL: %w", fetch.RedactURL(a.URL), err)
	}
	options := feed.Options{Base: base, ContentType: a.ContentType}
	head, err := feed.Read(bytes.NewReader(a.Body), options, func(e *feed.Entry) error {
		return p.entry(n, page, e)
	})
	switch {
	case err != nil && page == 0:
		return nil, p.unusable(p.sets[n].offer.ID, err)
	case err != nil:
		p.incomplete("an older document of a feed could not be read", "page", fetch.RedactURL(a.URL), "err", err)
		return &feed.Head{}, nil
	case head.Skipped > 0:
		p.incomplete("entries of a feed cannot be read; what they tell is unknown",
			"page", fetch.RedactURL(a.URL), "entries", head.Skipped)
	}
	return head, ctx.Err()
}

// entry takes one entry of a feed, and what it links to.
func (p *pass) entry(n, page int, e *feed.Entry) error {
	d := said{Set: n, Length: -1, At: store.MicrosOf(e.Updated), LastMod: store.NoTime, Page: page}
	linked := d
	switch d.URI, d.What, d.Absent = e.Key, entry, e.Deleted; {
	case e.Edit != nil && p.Records:
		d.URI, d.What, d.Absent, d.Edit = e.Edit.Subject, edit, false, e.Edit.Marshal()
		return p.keep(&d)
	case e.Deleted:
		return p.keep(&d)
	}
	d.Digest, d.Length = *text(sha256.Sum256(e.XML)), int64(len(e.XML))
	err := p.keep(&d)
	for _, l := range e.Links {
		if rel := strings.ToLower(l.Rel); err == nil && l.Href != "" && slices.Contains(p.Follow, rel) {
			linked.URI, linked.What, linked.Rel = l.Href, link, rel
			err = p.keep(&linked)
		}
	}
	return err
}

// readDocument takes a topic that is no feed: one resource, by whichever name the mirror has it.
func (p *pass) readDocument(ctx context.Context, n int) error {
	s := &p.sets[n]
	a := &s.offer.Topic.Answer
	uri, elsewhere := s.offer.Topic.URL, a.URL != s.offer.Topic.URL && a.Final != s.offer.Topic.URL
	for after := int64(0); s.id != 0; {
		rs, err := p.Store.Scan(ctx, store.ScanQuery{
			SourceID: p.src.ID, SetID: s.id, Filter: store.FilterMirrored, After: after, Limit: batch,
		})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			break
		}
		after = rs[len(rs)-1].ID
		for _, r := range rs {
			if inline(r) { // a page of maintenance, or of an error with status 200
				return p.unusable(s.offer.ID,
					fmt.Errorf("it answered with a document of type %q in place of its feed", a.ContentType))
			}
			elsewhere = elsewhere && r.URI != uri
		}
	}
	if elsewhere {
		uri = a.URL
	}
	if a.Empty {
		return nil
	}
	return p.keep(&said{URI: uri, Set: n, What: link, Length: -1, At: store.NoTime, LastMod: store.NoTime})
}
