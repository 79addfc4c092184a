package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store"
)

// released brings a database from the release before to version, with rows in what is new in it.
func released(t *testing.T, path string, version int, rows string) string {
	t.Helper()
	schema, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, script := range []string{schema.Scripts[version-1], fmt.Sprintf("PRAGMA user_version = %d", version), rows} {
		if _, err := db.Exec(script); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// firstRelease makes a database as the first release left it, with a row in each of its tables.
func firstRelease(t *testing.T) string {
	t.Helper()
	return released(t, filepath.Join(t.TempDir(), "state.db"), 1, fmt.Sprintf("PRAGMA application_id = %d;", applicationID)+`
		PRAGMA journal_mode = WAL;
		INSERT INTO source (id, name, url, root_id, epoch, holder, created, next_resource) VALUES (3, 'old', 'https://a.example/', 'root', 7, 'me', 5, 3);
		INSERT INTO sets (id, source_id, capability_list, floor, generation, resources, bytes) VALUES (4, 3, 'list', 10, 2, 1, 4096);
		INSERT INTO resource VALUES ((3 << 40) + 1, 3, 'u1', 'a/u1', NULL, 1, 4096, NULL, 0, NULL, NULL), ((3 << 40) + 2, 3, 'u2', '', NULL, 0, 0, NULL, 1, 99, NULL);
		-- said: ordinal -3, document 9, length 4096, lastmod 5, settled, type "t", links "", digest md5
		INSERT INTO want VALUES (4, (3 << 40) + 1, 1, 20, 20, 2, 0, NULL, x'051280400b010174000100000102030405060708090a0b0c0d0e0f'),
			(4, (3 << 40) + 2, 2, NULL, 30, 0, 1, 'scope', x'');
		INSERT INTO folder VALUES (3, 'a');
		INSERT INTO document (id, source_id, set_id, url, kind, body) VALUES (9, 3, 4, 'd', 'k', x'01');
		INSERT INTO trash VALUES (3, 't', 'u0', 'a/u0', zeroblob(32), 5, 'r', 6);
		INSERT INTO gap VALUES (1, 4, 1, 2, 'closed', 1, 'baseline', 3, 4);
		INSERT INTO run VALUES (1, 4, 'baseline', 1, 2, 3, 4, 5, 6, 7, 8, '');
		INSERT INTO event VALUES (3, 'u1', 1, 5, 'wanted', 20, 20, 0, 9, 'x');`)
}

// secondRelease makes one as the release left it that brought push: that of the first, and a row in what is new in it.
func secondRelease(t *testing.T) string {
	t.Helper()
	return released(t, firstRelease(t), 2, `
		INSERT INTO source (id, name, url) VALUES (5, 'new', 'https://b.example/');
		INSERT INTO resource VALUES ((3 << 40) + 3, 3, 'u3', '', NULL, 0, 0, NULL, 0, NULL, NULL);
		-- said: ordinal 1, document -7, length 5, no lastmod, pushed; listed: what TestUpgradeOfSecond wants
		INSERT INTO want VALUES (4, (3 << 40) + 3, 1, 40, 40, 0, 0, NULL,
			x'020d0a00000000000328080301000d080573636f70650e100107010174025b5d0100000102030405060708090a0b0c0d0e0f', 1);
		INSERT INTO inbox (id, subscription_id, source_id, set_id, kind, signed, digest, type, verdict, kept, body) VALUES
			(1, 0, 3, 4, 'change', 1, zeroblob(32), 't', 'next', 0, x'0102'), (2, 0, 3, 4, 'change', 1, zeroblob(32), 't', 'gap', 1, x'010203'),
			(3, 0, 5, 9, 'change', 1, zeroblob(32), 't', 'next', 0, x'01'), (4, 0, 3, 4, 'change', 1, zeroblob(32), 't', 'next', 0, x'');
		UPDATE inbox_size SET deliveries = 3, bytes = 3;`)
}

// asFirstRelease reads all tables of the first release, with its columns.
func asFirstRelease(t *testing.T, path string) map[string][]string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out := map[string][]string{}
	for table, columns := range map[string]string{
		"source": sourceColumns, "sets": strings.TrimSuffix(setColumns, ", estimated, flawed"), "resource": "id, source_id, uri, key, name, have, length, file, action, due, failure",
		"want": "set_id, resource_id, state, v_from, v_until, generation, held, refused, hex(said)", "folder": "*",
		"document": documentColumns, "trash": trashColumns, "gap": "*", "run": "*", "event": "*", "tidy": "*",
	} {
		rows, err := db.Query("SELECT " + columns + " FROM " + table + " ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		names, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(names))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			line := ""
			for i := range values {
				line += fmt.Sprint(*values[i].(*any), "|")
			}
			out[table] = append(out[table], line)
		}
		if err := rows.Err(); err != nil || len(out[table]) == 0 {
			t.Fatalf("%s: %v, %v", table, out[table], err)
		}
	}
	return out
}

// checkOld checks what the records of the first release say.
func checkOld(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	src, err := s.Source(ctx, "old")
	if err != nil || src.ID != 3 || src.RootID != "root" {
		t.Fatalf("%+v, %v", src, err)
	}
	want := store.Want{SetID: 4, State: store.WantPresent, Version: store.Version{From: 20, Until: 20, Ordinal: -3, Document: 9}, Length: 4096,
		LastMod: 5, Settled: true, Type: "t", Digests: "md5:000102030405060708090a0b0c0d0e0f", Generation: 2}
	found, err := s.Lookup(ctx, 3, 4, []string{"u1", "u2"})
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	if diff := cmp.Diff([]store.Want{want}, found[0].Wants); diff != "" {
		t.Error(diff)
	}
	if w := found[1].Wants[0]; w.State != store.WantAbsent || !w.Held || w.Refused != "scope" || w.Pushed || w.Listed != nil {
		t.Errorf("%+v", w)
	}
	if counts, err := s.Counts(ctx, 4); err != nil || counts != (store.Counts{Held: 1, Refused: 1}) {
		t.Errorf("%+v, %v", counts, err)
	}
	if events, err := s.History(ctx, 3, "u1"); err != nil || len(events) != 1 || events[0].Document != "d" {
		t.Errorf("%+v, %v", events, err)
	}
	for _, filter := range []store.Filter{store.FilterAll, store.FilterHeld, store.FilterRefused} {
		if rs, err := s.Scan(ctx, store.ScanQuery{SourceID: 3, SetID: 4, Filter: filter, Limit: 9}); err != nil || len(rs) == 0 {
			t.Errorf("filter %d: %v, %v", filter, rs, err)
		}
	}
	nothingPushed(t, s)
	noFeeds(t, s)
	noChronicle(t, s)
}

func noFeeds(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Content(t.Context(), 3<<40+1); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	one, err := s.Edits(t.Context(), 3, "u1")
	many, err2 := s.EditsOf(t.Context(), 3, []string{"u1", "u2"})
	if err := errors.Join(err, err2); err != nil || len(one) != 0 || len(many) != 2 || len(many[0])+len(many[1]) != 0 {
		t.Errorf("%v, %v, %v", one, many, err)
	}
}

func nothingPushed(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	subs, err := s.Subscriptions(ctx, 0, true)
	waiting, err2 := s.Deliveries(ctx, store.InboxQuery{SourceID: 3, Limit: 9})
	shares, err3 := s.InboxShares(ctx)
	pushed, err4 := s.Scan(ctx, store.ScanQuery{SourceID: 3, SetID: 4, Filter: store.FilterPushed, Limit: 9})
	if err := errors.Join(err, err2, err3, err4); err != nil || len(subs)+len(waiting)+len(pushed) > 0 || len(shares) > 0 {
		t.Errorf("%v, %v, %v, %v, %v", subs, waiting, shares, pushed, err)
	}
	_, err = s.Subscription(ctx, 1)
	_, err2 = s.SubscriptionByToken(ctx, "t")
	_, err3 = s.Request(ctx, 1, 0)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	}
}

// TestUpgrade: a database of the first release can be read as it is, and keeps every row when it is brought up to date.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	path := firstRelease(t)
	before := asFirstRelease(t, path)
	asItWas := folder(t, filepath.Dir(path))
	r, err := Open(t.Context(), path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	checkOld(t, r)
	for name, err := range writes(t.Context(), r) {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := Snapshot(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	if now := folder(t, filepath.Dir(path)); !maps.Equal(asItWas, now) {
		t.Errorf("reading changed it: %v, then %v", asItWas, now)
	}

	for _, path := range []string{copied, path} {
		s := open(t, path)
		checkOld(t, s)
		claim, _, err := s.Claim(t.Context(), 3, "new")
		if err != nil {
			t.Fatal(err)
		}
		sub := store.Subscription{SourceID: 3, SetID: 4, Token: "t"}
		d := &store.Delivery{SourceID: 3, SetID: 4, Body: []byte("x")}
		if err := errors.Join(s.AddSubscription(t.Context(), &sub), s.Deliver(t.Context(), []*store.Delivery{d}, nil)); err != nil {
			t.Error(err)
		}
		c := store.Commit{Claim: claim, Inbox: []store.InboxChange{{ID: d.ID}}, DropGaps: []int64{77}}
		if err := s.Commit(t.Context(), &c); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	after := asFirstRelease(t, path)
	before["source"], after["source"] = nil, nil // the claim changed it
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if r, err = Open(t.Context(), path, Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if subs, err := r.Subscriptions(t.Context(), 3, false); err != nil || len(subs) != 1 || r.db.Version() < 2 {
		t.Errorf("schema %d: %v, %v", r.db.Version(), subs, err)
	}
}

// TestUpgradeOfSecond: so does one of the second release, with what waits in its inbox counted by Source.
func TestUpgradeOfSecond(t *testing.T) {
	t.Parallel()
	path := secondRelease(t)
	listed := store.Want{SetID: 4, State: store.WantAsk, Version: store.Version{From: store.NoTime, Until: 6, Ordinal: 7, Document: 8},
		Digests: "md5:000102030405060708090a0b0c0d0e0f", Length: -1, LastMod: 3, Type: "t", Links: "[]", Generation: 4, Held: true, Refused: "scope", Settled: true}
	pushed := store.Want{SetID: 4, State: store.WantPresent, Version: store.Version{From: 40, Until: 40, Ordinal: 1, Document: -7}, Length: 5,
		LastMod: store.NoTime, Pushed: true, Listed: &listed}
	check := func(s *Store) {
		t.Helper()
		r, err := s.Resource(t.Context(), 3, "u3")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]store.Want{pushed}, r.Wants); diff != "" {
			t.Error(diff)
		}
		shares, err := s.InboxShares(t.Context())
		if err != nil || !maps.Equal(shares, map[int64]store.InboxSize{3: {Deliveries: 2, Bytes: 2}, 5: {Deliveries: 1, Bytes: 1}}) {
			t.Errorf("%+v, %v", shares, err)
		}
		noFeeds(t, s)
	}
	s := openedTwice(t, path, check)
	defer s.Close()
	claim, _, err := s.Claim(t.Context(), 3, "new")
	if err != nil {
		t.Fatal(err)
	}
	pushed.Inline, listed.Meta = true, "{}"
	c := store.Commit{Claim: claim, Inbox: []store.InboxChange{{ID: 1}, {ID: 2}, {ID: 4, Keep: true}}, Edits: []store.Edit{{URI: "u1"}},
		Resources: []store.ResourceChange{{URI: "u3", Want: &pushed, Content: []byte("x")}}}
	if err := s.Commit(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Content(t.Context(), 3<<40+3); err != nil || string(got) != "x" {
		t.Error(got, err)
	}
	shares, err := s.InboxShares(t.Context())
	if err != nil || !maps.Equal(shares, map[int64]store.InboxSize{5: {Deliveries: 1, Bytes: 1}}) {
		t.Error(shares, err)
	}
}

// writes calls every method that a database opened for reading must refuse.
func writes(ctx context.Context, s *Store) map[string]error {
	r := store.Request{}
	_, changed := s.ChangeSubscription(ctx, 1, func(*store.Subscription) error { return nil })
	_, took := s.TakeRequests(ctx, 1)
	_, dropped := s.DropRequest(ctx, 1)
	_, tidied := s.Tidy(ctx)
	return map[string]error{
		"add a subscription": s.AddSubscription(ctx, &store.Subscription{SourceID: 3}), "change one": changed,
		"tally": s.TallySubscription(ctx, 1, store.Tally{}), "deliver": s.Deliver(ctx, nil, nil),
		"deliver one": s.Deliver(ctx, []*store.Delivery{{}}, nil), "add a request": s.AddRequest(ctx, &r), "take requests": took,
		"answer": s.AnswerRequest(ctx, 1, nil, nil, 1), "end": s.EndRequest(ctx, 1, 0, ""), "drop": dropped, "tidy": tidied,
		"add points": s.AddPoints(ctx, []store.Point{{SourceID: 3, At: 1, Changes: 1}}),
		"commit":     s.Commit(ctx, &store.Commit{Claim: store.Claim{SourceID: 3}}),
	}
}

// openedTwice checks an older database opened for reading, which leaves it as it is, and then the one that it becomes.
func openedTwice(t *testing.T, path string, check func(*Store)) *Store {
	t.Helper()
	r, err := Open(t.Context(), path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	check(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	check(s)
	return s
}
