package sqlite

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// TestPlans: no statement walks over a large table or sorts what an index could give in order.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.everything(t)
	queries := f.s.db.Queries()
	if len(queries) < 40 {
		t.Fatalf("only %d statements were seen", len(queries))
	}
	for _, q := range queries {
		var id, up, unused int64
		r := f.s.db.Read(t.Context(), q)
		steps := dbfile.All(r, func(step *string) []any { return []any{&id, &up, &unused, step} },
			"EXPLAIN QUERY PLAN "+q, make([]any, strings.Count(q, "?")+3)...) // some may be left out
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if slow(q, step) {
				t.Errorf("%s\n\t%s", q, strings.Join(steps, "\n\t"))
				break
			}
		}
	}
}

// slow tells a step that would read or sort a large table.
func slow(q, step string) bool {
	for _, partial := range []string{"want_absent", "want_held", "want_refused", "want_pushed", "resource_work", "resource_failed", "resource_due"} {
		if strings.Contains(step, partial) && !strings.Contains(step, "SCAN") {
			return false
		}
	}
	switch { // short walks
	case strings.HasSuffix(step, "INDEX request_waiting"): // holds only what waits
		return false
	case step == "SCAN request": // the oldest ones, of a day
		return !strings.HasPrefix(q, "DELETE FROM request WHERE id IN (SELECT id FROM request ORDER BY id LIMIT")
	case step == "SCAN subscription": // all of them, when asked for all
		return !strings.HasSuffix(q, "FROM subscription WHERE (?1 OR state <> 'gone') ORDER BY id")
	case step == "SCAN mark": // the oldest ones, of a day, or all of them, once
		return !strings.HasPrefix(q, "DELETE FROM mark WHERE id IN (SELECT id FROM mark ORDER BY id LIMIT") && q != "SELECT packed FROM mark ORDER BY id"
	case step == "SCAN inbox_share": // as many as there are Sources
		return false
	}
	if strings.HasPrefix(step, "SEARCH w USING PRIMARY KEY (set_id=?)") || strings.HasPrefix(step, "SEARCH want USING PRIMARY KEY (set_id=?)") {
		// A whole set: only to recount or to forget it.
		return !strings.HasPrefix(q, "UPDATE sets SET (resources") && !strings.HasPrefix(q, "DELETE FROM want WHERE (set_id")
	}
	if table, scan := strings.CutPrefix(step, "SCAN "); scan {
		if strings.HasSuffix(table, "-ROW VALUES CLAUSE") {
			return false
		}
		table, _, _ = strings.Cut(table, " ")
		// Small ones: Sources and sets are as many as are configured; j, v and ids are arguments.
		return !slices.Contains([]string{"source", "sets", "t", "c", "j", "v", "tidy", "CONSTANT", "json_each", "(subquery-1)", "(subquery-2)", "(subquery-3)", "(subquery-5)"}, table)
	}
	return strings.Contains(step, "TEMP B-TREE") && !strings.Contains(q, "FROM gap") && !strings.Contains(q, "FROM sets") && !strings.Contains(q, "UPDATE document") ||
		strings.Contains(step, "AUTOMATIC")
}

// everything calls each method once, so that each statement is prepared.
func (f *filled) everything(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s, src, set := f.s, f.claim.SourceID, f.set.ID
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f.commitNew(t)
	f.mirror(t)
	want := store.Want{SetID: set, State: store.WantAbsent, Held: true}
	one := store.ResourceChange{URI: "u", Key: "a/b", Want: &want, Have: &store.Have{}, Work: &store.Work{}}
	c := store.Commit{
		Claim: f.claim, Resources: []store.ResourceChange{one, {URI: benchURI(0), Key: "x", Work: &store.Work{}}},
		Sets: []store.SetChange{{ID: set, State: &store.SetState{}, Resources: 1}}, Gaps: []*store.Gap{{SetID: set}},
		Documents: []store.Document{{URL: "d"}}, Trash: []store.Trashed{{ID: "t"}}, DropTrash: []string{"x"},
		Events: []store.Event{{URI: "u"}}, Runs: []store.Run{{SetID: set}}, Source: &store.SourceChange{},
		DropTombstones: &store.DropTombstones{SetID: set},
	}
	ok(s.Commit(ctx, &c))
	one.ID = c.Resources[0].ID
	runs, err := s.Runs(ctx, set, 5)
	ok(err)
	doc, err := s.EnsureDocument(ctx, f.claim, set, "d2", "k")
	ok(err)
	ok(s.Commit(ctx, &store.Commit{
		Claim: f.claim, Resources: []store.ResourceChange{one, {ID: one.ID, Have: &store.Have{}}, {ID: one.ID, Want: &want}},
		Gaps: c.Gaps, Runs: runs, Documents: []store.Document{{ID: doc}},
		DropTombstones: &store.DropTombstones{SetID: set, At: 5},
	}))
	_, err = s.Sources(ctx)
	ok(err)
	_, err = s.EnsureSource(ctx, "bench", "elsewhere")
	ok(err)
	ok(s.SetPaused(ctx, src, false))
	_, err = s.Sets(ctx, src)
	ok(err)
	_, err = s.Counts(ctx, set)
	ok(err)
	ok(s.Commit(ctx, &store.Commit{Claim: f.claim, Sets: []store.SetChange{{ID: set, Resources: -1 << 40}}})) // counts anew
	_, err = s.Resource(ctx, src, benchURI(1))
	ok(err)
	_, err = s.Lookup(ctx, src, set, []string{benchURI(1), benchURI(2), "none"})
	ok(err)
	uris := make([]string, 150)
	for i := range uris {
		uris[i] = benchURI(-i * i)
	}
	_, err = s.Lookup(ctx, src, set, uris)
	ok(err)
	_, err = s.Sample(ctx, src, 1)
	ok(err)
	_, err = s.NextDue(ctx, src)
	ok(err)
	_, err = s.Names(ctx, src, uris)
	ok(err)
	_, err = s.ByKeys(ctx, src, []string{benchURI(0)[8:]})
	ok(err)
	for _, filter := range []store.Filter{store.FilterAll, store.FilterOwed, store.FilterHeld, store.FilterRefused, store.FilterMirrored, store.FilterPushed, store.FilterAbsent} {
		for _, id := range []int64{0, set} {
			if id == 0 && filter == store.FilterPushed {
				continue
			}
			_, err = s.Scan(ctx, store.ScanQuery{SourceID: src, SetID: id, Filter: filter, Limit: 10})
			ok(err)
		}
	}
	for _, err := range s.Unlisted(ctx, set, 1, 1) {
		ok(err)
	}
	_, err = s.Document(ctx, src, "d")
	ok(err)
	_, err = s.DocumentByID(ctx, doc)
	ok(err)
	_, err = s.Gaps(ctx, set)
	ok(err)
	_, err = s.Trash(ctx, src, 5, "", 5)
	ok(err)
	_, _ = s.TrashedOf(ctx, src, "u")
	_, err = s.History(ctx, src, "u")
	ok(err)
	f.everythingPushed(t, ok)
	f.everythingFed(t, ok)
	f.everythingTold(t, ok)
	_, err = s.Tidy(ctx)
	ok(err)
	_, err = s.EnsureSource(ctx, "second", "u")
	ok(err)
	second, err := s.Source(ctx, "second")
	ok(err)
	claim, _, err := s.Claim(ctx, second.ID, "x")
	ok(err)
	_, err = s.EnsureSet(ctx, claim, "l")
	ok(err)
	ok(s.ForgetSource(ctx, claim))
}

// everythingFed is everything of contents and edits.
func (f *filled) everythingFed(t *testing.T, ok func(error)) {
	t.Helper()
	ctx, s, src := t.Context(), f.s, f.claim.SourceID
	c := store.Commit{Claim: f.claim, Resources: []store.ResourceChange{{URI: "inline", Content: []byte("x")}, {URI: "other", DropContent: true}}}
	uris := make([]string, chunkSize+1)
	for i := range uris {
		uris[i] = benchURI(i)
		c.Edits = append(c.Edits, store.Edit{URI: uris[i]})
	}
	ok(s.Commit(ctx, &c))
	_, err := s.Content(ctx, c.Resources[0].ID)
	ok(err)
	_, err = s.Edits(ctx, src, uris[0])
	ok(err)
	_, err = s.EditsOf(ctx, src, uris)
	ok(err)
	_, err = s.InboxShares(ctx)
	ok(err)
}

// everythingTold is everything of the chronicle.
func (f *filled) everythingTold(t *testing.T, ok func(error)) {
	t.Helper()
	ctx, s, src, set := t.Context(), f.s, f.claim.SourceID, f.set.ID
	var points []store.Point
	for i := range rowsAtOnce + 1 {
		points = append(points, store.Point{SourceID: src, At: store.Micros(i) * 60e6, Changes: 1})
	}
	ok(s.AddPoints(ctx, points))
	for _, id := range []int64{0, src} {
		_, err := s.Points(ctx, id, store.Minute, 0, 1<<60)
		ok(err)
	}
	c := store.Commit{Claim: f.claim}
	for _, kind := range []store.SpanKind{store.SpanNotification, store.SpanChangeList, store.SpanBaseline} {
		span := store.Span{SetID: set, Kind: kind, From: 1, Until: 2}
		if kind == store.SpanBaseline {
			span.From = store.NoTime
		}
		c.Spans = append(c.Spans, span, span)
	}
	c.Spans[1].Until, c.Spans[3].Until = 3, 3
	ok(s.Commit(ctx, &c))
	_, err := s.Spans(ctx, set, 0, 5, 5)
	ok(err)
	_, err = s.SubscriptionEvents(ctx, src, 5)
	ok(err)
	for _, text := range []string{benchURI(1)[20:], "\xff"} {
		_, _, err = s.Find(ctx, src, text, 5)
		ok(err)
	}
}

// everythingPushed is everything of subscriptions, the inbox and requests.
func (f *filled) everythingPushed(t *testing.T, ok func(error)) {
	t.Helper()
	ctx, s, src, set := t.Context(), f.s, f.claim.SourceID, f.set.ID
	pushed := store.Want{SetID: set, State: store.WantPresent, Pushed: true, Listed: &store.Want{Generation: 1, Version: store.Version{Until: 9}}}
	ok(s.Commit(ctx, &store.Commit{Claim: f.claim, Resources: []store.ResourceChange{{URI: benchURI(1), Want: &pushed}}}))
	sub := store.Subscription{SourceID: src, SetID: set, Token: "t"}
	ok(s.AddSubscription(ctx, &sub))
	_, err := s.ChangeSubscription(ctx, sub.ID, func(s *store.Subscription) error { s.State = store.SubGone; return nil })
	ok(err)
	_, err = s.Subscription(ctx, sub.ID)
	ok(err)
	_, err = s.SubscriptionByToken(ctx, "t")
	ok(err)
	for _, id := range []int64{0, src} {
		_, err = s.Subscriptions(ctx, id, true)
		ok(err)
	}
	ok(s.TallySubscription(ctx, sub.ID, store.Tally{PushMisses: 1}))
	var ds []*store.Delivery
	for i := range 3 {
		ds = append(ds, &store.Delivery{SourceID: src, SetID: set, SubscriptionID: sub.ID, Signed: true, Received: store.Micros(i) * repeatWindow})
	}
	ok(s.Deliver(ctx, ds, nil))
	ok(s.Commit(ctx, &store.Commit{Claim: f.claim, Inbox: []store.InboxChange{{ID: ds[0].ID, Keep: true}, {ID: ds[1].ID}}, DropGaps: []int64{1}}))
	_, err = s.Deliveries(ctx, store.InboxQuery{SourceID: src, Limit: 5})
	ok(err)
	_, err = s.InboxShares(ctx)
	ok(err)
	var r store.Request
	ok(s.AddRequest(ctx, &r))
	_, err = s.DropRequest(ctx, r.ID)
	ok(err)
	ok(s.AddRequest(ctx, &r))
	_, err = s.TakeRequests(ctx, 1)
	ok(err)
	ok(s.AnswerRequest(ctx, r.ID, []string{"l"}, nil, 1))
	ok(s.EndRequest(ctx, r.ID, 0, ""))
	_, err = s.Request(ctx, r.ID, 0)
	ok(err)
}
