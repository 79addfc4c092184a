package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/spill"
)

const batch = 500

// verdict is what comparing one resource came to.
type verdict struct {
	uri     string
	finding *Finding
	again   bool  // to be seen once more
	open    error // what kept it from being decided
}

// compareListed compares what the documents name with the mirror.
func (p *pass) compareListed(ctx context.Context) error {
	if err := p.shelf.Sort(); err != nil {
		return err
	}
	var uris []string
	by := map[string][]*said{}
	for {
		record, more, err := p.shelf.Next()
		if err != nil {
			return err
		}
		var d *said
		if more {
			behind := len(spill.AppendKey(nil, string(spill.Key(record))))
			if err := json.Unmarshal(record[behind:], &d); err != nil {
				return p.shelf.Unreadable(err)
			}
		}
		if !more || len(uris) == batch && by[d.URI] == nil {
			if err := p.compareBatch(ctx, uris, by); err != nil || !more {
				return err
			}
			uris = uris[:0]
			clear(by)
		}
		if by[d.URI] == nil {
			uris = append(uris, d.URI)
		}
		by[d.URI] = append(by[d.URI], d)
	}
}

func (p *pass) compareBatch(ctx context.Context, uris []string, by map[string][]*said) error {
	rows, err := p.rows(ctx, uris)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row != nil {
			p.listed.Add(row.ID)
		}
	}
	return p.each(ctx, len(uris), func(ctx context.Context, k int) (verdict, error) {
		return p.judge(ctx, uris[k], by[uris[k]], rows[k])
	})
}

// rows are the resources of these URIs, nil where the state knows none.
func (p *pass) rows(ctx context.Context, uris []string) ([]*store.Resource, error) {
	rows, err := p.Store.Lookup(ctx, p.src.ID, 0, uris)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, r := range rows {
		if r != nil {
			ids = append(ids, r.ID)
		}
	}
	full, err := p.Store.ByIDs(ctx, ids)
	by := make(map[int64]*store.Resource, len(full))
	for _, r := range full {
		by[r.ID] = r
	}
	for n, r := range rows {
		if r != nil {
			rows[n] = by[r.ID]
		}
	}
	return rows, err
}

// each judges n resources in parallel and tells of them in order.
func (p *pass) each(ctx context.Context, n int, judge func(ctx context.Context, k int) (verdict, error)) error {
	verdicts := make([]verdict, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(runtime.GOMAXPROCS(0), p.Concurrency, 2))
	for k := range n {
		g.Go(func() (err error) {
			verdicts[k], err = judge(gctx, k)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for k := range verdicts {
		v := &verdicts[k]
		switch {
		case v.again:
			p.again[p.hash(v.uri)] = struct{}{}
		case v.open != nil:
			p.incomplete("a resource could not be compared with the Source",
				"uri", fetch.RedactURL(v.uri), "err", v.open)
		}
		if v.finding != nil {
			if err := p.tell(*v.finding); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge compares a resource that documents name.
func (p *pass) judge(ctx context.Context, uri string, all []*said, row *store.Resource) (verdict, error) {
	own := slices.ContainsFunc(all, func(d *said) bool { return d.What == entry || d.What == edit }) || inline(row)
	if own && slices.ContainsFunc(all, func(d *said) bool { return d.What == link }) {
		return p.judgeLinked(ctx, uri, all, row)
	}
	if p.passedOver(uri) {
		return verdict{}, nil
	}
	e := p.expect(uri, all)
	if len(e.words) == 0 {
		return p.local(ctx, row)
	}
	f, err := look(ctx, p.Mirror, row, e.words)
	if err != nil {
		return verdict{}, err
	}
	fits := e.fits(f)
	p.count(f.there || !e.absent())
	switch {
	case fits == yes && !e.hidden:
		return verdict{}, nil
	case e.absent():
		return p.unwanted(ctx, row, f, &e)
	case e.unsure && !f.there && slices.ContainsFunc(e.words, func(w *said) bool { return w.Left }):
		return verdict{}, nil // no answer tells of links
	case e.inline && p.only == nil:
		return verdict{uri: uri, again: true}, nil
	case e.inline:
		return verdict{uri: uri, finding: differs(uri, row, f, e.expects())}, nil
	}
	return p.settle(ctx, uri, row, f, &e, fits)
}

// judgeLinked tells an entry from what another one links to under the same name.
func (p *pass) judgeLinked(ctx context.Context, uri string, all []*said, row *store.Resource) (verdict, error) {
	var links, rest []*said
	for _, d := range all {
		if d.What == link {
			links = append(links, d)
		} else {
			rest = append(rest, d)
		}
	}
	document, _, _ := strings.Cut(uri, "#")
	other := document + "#" + links[0].Rel // what an entry links to under its own name
	rows, err := p.rows(ctx, []string{other})
	if err != nil {
		return verdict{}, err
	}
	v, err := p.judge(ctx, other, links, rows[0])
	if err != nil || v.again || v.open != nil || v.finding != nil || len(rest) == 0 {
		return v, err
	}
	return p.judge(ctx, uri, rest, row)
}

func (p *pass) count(counts bool) {
	if p.only != nil || !counts {
		return
	}
	p.checked.Add(1)
	if p.Progress != nil {
		p.Progress(1)
	}
}

// passedOver: the second pass is about what the first one left open.
func (p *pass) passedOver(uri string) bool {
	if p.only == nil {
		return false
	}
	_, ok := p.only[p.hash(uri)]
	return !ok
}

func inline(row *store.Resource) bool {
	return row != nil && slices.ContainsFunc(row.Wants, func(w store.Want) bool { return w.Inline })
}

// settle asks the Source where documents do not decide or the mirror differs.
func (p *pass) settle(
	ctx context.Context, uri string, row *store.Resource, f *file, e *expected, fits answer,
) (verdict, error) {
	v := verdict{uri: uri}
	for again := range 2 {
		got, err := p.ask(ctx, uri, e, row, f)
		switch {
		case ctx.Err() != nil:
			return v, ctx.Err()
		case err != nil && fits == no && !e.unsure: // then the list counts
			v.finding = differs(uri, row, f, e.expects())
			return v, nil
		case err != nil, !got.there && f.there && fits != no && !e.unsure && !e.hidden:
			if v.open = err; err == nil {
				v.open = errors.New("it is listed and in the mirror, and the Source answers that it is gone")
			}
			return v, nil
		case !got.there && !f.there, got.there && f.is(got.sum):
			return v, nil
		case !got.there && (e.unsure || e.hidden):
			return p.unwanted(ctx, row, f, e)
		case !got.there, again == 1:
			want := e.expects()
			if got.there && f.there {
				want = text(got.sum)
			}
			v.finding = differs(uri, row, f, want)
			return v, nil
		}
		// The mirror may have caught up meanwhile, or the Source may have changed.
		rows, err := p.rows(ctx, []string{uri})
		if err != nil {
			return v, err
		}
		row = rows[0]
		if f, err = look(ctx, p.Mirror, row, e.words); err != nil || f.is(got.sum) {
			return v, err
		}
	}
	return v, nil
}

// unwanted judges a file of a resource that the Source does not have.
//
// The first pass leaves it to the second: it may have come while the lists were read.
func (p *pass) unwanted(ctx context.Context, row *store.Resource, f *file, e *expected) (verdict, error) {
	switch {
	case row == nil || !f.there:
		return verdict{}, nil
	case row.Have.State == store.HaveKept:
		if f.is(row.Have.SHA256) {
			return verdict{}, nil
		}
		return verdict{uri: row.URI, finding: differs(row.URI, row, f, text(row.Have.SHA256))}, nil
	case slices.ContainsFunc(row.Wants, func(w store.Want) bool { return w.Held }):
		return verdict{uri: row.URI, open: errors.New("its removal is held: see `resyncd approve`")}, nil
	case p.only == nil:
		return verdict{uri: row.URI, again: true}, nil
	case slices.ContainsFunc(row.Wants, func(w store.Want) bool { return w.Pushed && !w.Inline }):
		got, err := p.ask(ctx, row.URI, e, row, f) // its list may lag behind the notification
		if ctx.Err() != nil || err == nil && got.there && f.is(got.sum) {
			return verdict{}, ctx.Err()
		}
	}
	return verdict{
		uri:     row.URI,
		finding: &Finding{URI: &row.URI, Key: &row.Key, Problem: ProblemUnlisted, Found: f.found()},
	}, nil
}

// local compares a file without documents with what it was when fetched.
func (p *pass) local(ctx context.Context, row *store.Resource) (verdict, error) {
	if row == nil || row.Have.State == store.HaveNone || p.only != nil {
		return verdict{}, nil
	}
	p.count(true)
	f, err := Check(ctx, p.Mirror, row)
	return verdict{uri: row.URI, finding: f}, err
}

// compareMirrored compares the files of the mirror that no document spoke of.
func (p *pass) compareMirrored(ctx context.Context) error {
	for after := int64(0); ; {
		rs, err := p.Store.Scan(ctx, store.ScanQuery{
			SourceID: p.src.ID, Filter: store.FilterMirrored, After: after, Limit: batch,
		})
		if err != nil || len(rs) == 0 {
			return err
		}
		after = rs[len(rs)-1].ID
		rs = slices.DeleteFunc(rs, func(r *store.Resource) bool {
			return p.listed.Has(r.ID) || p.passedOver(r.URI)
		})
		err = p.each(ctx, len(rs), func(ctx context.Context, k int) (verdict, error) {
			r := rs[k]
			if !p.judged(r) {
				return p.local(ctx, r)
			}
			f, err := look(ctx, p.Mirror, r, nil)
			if err != nil {
				return verdict{}, err
			}
			p.count(true)
			return p.unwanted(ctx, r, f, &expected{})
		})
		if err != nil {
			return err
		}
	}
}

// judged tells whether every set of a resource was read whole, so that its silence means something.
func (p *pass) judged(r *store.Resource) bool {
	whole := func(w *store.Want) bool {
		return slices.ContainsFunc(p.sets, func(s set) bool {
			return s.id == w.SetID && (s.complete || s.entries && w.Inline)
		})
	}
	for n := range r.Wants {
		if w := &r.Wants[n]; !whole(w) || w.Refused != "" {
			return false
		}
	}
	return len(r.Wants) > 0 || len(p.Sets) == 0 && !slices.ContainsFunc(p.sets, func(s set) bool { return !s.complete })
}
