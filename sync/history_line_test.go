package sync

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/feed"
	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/sync/report"
)

// TestHistoryOfRecord: every edit of a record can be read back, in the order in which they are merged and not in which
// they came (T-03), also of a subject that no resource stands for yet, and one whose body is unreadable hides no other.
func TestHistoryOfRecord(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src, err := st.EnsureSource(ctx, "clinics", "https://desk.example/feeds/delta")
	if err != nil {
		t.Fatal(err)
	}
	claim, release, err := st.Claim(ctx, src.ID, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()

	const subject = "paho.org/HealthC_ID/1"
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	row := func(e *feed.Edit, received int, evidence string) store.Edit {
		observed := store.NoTime
		if !e.Observed.IsZero() {
			observed = store.MicrosOf(e.Observed)
		}
		return store.Edit{
			SourceID: src.ID, URI: e.Subject, Digest: e.Digest(), Observed: observed, Author: e.Author, Body: e.Marshal(),
			Received: store.MicrosOf(day(received)), Evidence: evidence,
		}
	}
	late := row(&feed.Edit{
		Subject: subject, Author: "tel:+5550100", Observed: day(2), Type: "{x}row",
		Fields: []feed.Field{{Name: "phone"}, {Name: "services", Value: "WITCHCRAFT"}}, Odd: []string{"services: unknown value"},
	}, 10, store.EvidencePush)
	early := row(&feed.Edit{Subject: subject, Observed: day(1), Fields: []feed.Field{{Name: "phone", Value: "1"}}}, 11, "https://desk.example/feeds/delta")
	broken := row(&feed.Edit{Subject: subject, Observed: day(3)}, 12, "")
	broken.Body = []byte("{")
	other := row(&feed.Edit{Subject: "paho.org/HealthC_ID/2", Observed: day(1)}, 10, "")
	if err := st.Commit(ctx, &store.Commit{Claim: claim, Edits: []store.Edit{broken, late, other, early, late}}); err != nil {
		t.Fatal(err)
	}

	lines, err := report.History(ctx, st, src.ID, subject)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		if lines[i].Detail != nil { // the words are the decoder's
			lines[i].Detail = new("not readable")
		}
	}
	got, err := json.MarshalIndent(lines, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
 {
  "uri": "paho.org/HealthC_ID/1",
  "at": "2026-01-11T00:00:00Z",
  "what": "edit",
  "version": "2026-01-01T00:00:00Z",
  "detail": null,
  "evidence": "https://desk.example/feeds/delta",
  "observed": "2026-01-01T00:00:00Z",
  "received": "2026-01-11T00:00:00Z",
  "author": null,
  "type": "",
  "fields": {
   "phone": "1"
  },
  "odd": []
 },
 {
  "uri": "paho.org/HealthC_ID/1",
  "at": "2026-01-10T00:00:00Z",
  "what": "edit",
  "version": "2026-01-02T00:00:00Z",
  "detail": null,
  "evidence": "notification",
  "observed": "2026-01-02T00:00:00Z",
  "received": "2026-01-10T00:00:00Z",
  "author": "tel:+5550100",
  "type": "{x}row",
  "fields": {
   "phone": "",
   "services": "WITCHCRAFT"
  },
  "odd": [
   "services: unknown value"
  ]
 },
 {
  "uri": "paho.org/HealthC_ID/1",
  "at": "2026-01-12T00:00:00Z",
  "what": "edit",
  "version": "2026-01-03T00:00:00Z",
  "detail": "not readable",
  "evidence": null,
  "observed": "2026-01-03T00:00:00Z",
  "received": "2026-01-12T00:00:00Z",
  "author": null,
  "type": "",
  "fields": {},
  "odd": []
 }
]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestListingMeta: what a feed tells of an entry is shown, and only where it is what it should be.
func TestListingMeta(t *testing.T) {
	t.Parallel()
	for meta, want := range map[string]string{
		`{"title":"T","author":"A"}`: `{"title":"T","author":"A"}`, "": "", "{": "",
	} {
		r := store.Resource{URI: "tag:blog.example,2026:1", Have: store.Have{State: store.HavePresent}, Wants: []store.Want{
			{State: store.WantPresent, Length: -1, Version: store.Version{From: store.NoTime, Until: store.NoTime}, LastMod: store.NoTime, Inline: true, Meta: meta},
		}}
		line, err := json.Marshal(report.ListingOf(&r))
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Meta json.RawMessage }
		if err := json.Unmarshal(line, &got); err != nil || string(got.Meta) != want {
			t.Errorf("%q: %s, %v", meta, line, err)
		}
	}
}

// TestListingLinks: every line has its links, absent values are null, and what cannot be read is none.
func TestListingLinks(t *testing.T) {
	t.Parallel()
	for links, want := range map[string]string{
		"": "[]", "{": "[]",
		`[{"rel":"collection","href":"urn:books"},{"rel":"duplicate","href":"http://cdn.example/a","pri":1,"type":"text/plain",` +
			`"profile":"p","modified":"2026-01-02T03:00:00Z","hash":"md5:0","length":3,"path":"/p"}]`: `[{"rel":"collection","href":"urn:books","type":null,"profile":null,"modified":null},` +
			`{"rel":"duplicate","href":"http://cdn.example/a","type":"text/plain","profile":"p","modified":"2026-01-02T03:00:00Z"}]`,
	} {
		r := store.Resource{URI: "http://lib.example/a", Have: store.Have{State: store.HavePresent}, Wants: []store.Want{
			{State: store.WantPresent, Length: -1, Version: store.Version{From: store.NoTime, Until: store.NoTime}, LastMod: store.NoTime, Links: links},
		}}
		l := report.ListingOf(&r)
		line, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Links json.RawMessage }
		if err := json.Unmarshal(line, &got); err != nil || string(got.Links) != want {
			t.Errorf("%q: %s, %v", links, line, err)
		}
		if some := links != "" && links != "{"; l.Linked("Collection", "urn:books") != some || l.Linked("duplicate", "") != some ||
			l.Linked("collection", "urn:maps") || l.Linked("via", "") {
			t.Errorf("%q: wrong links found", links)
		}
	}
}

// TestHistoryOfDeleted: lines are in the order of time, and a deletion has what asked for it as its evidence.
func TestHistoryOfDeleted(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	f.one(true)
	changes := f.changed("/a", "a2", "updated", 10)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, changes))
	f.one(true)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, changes, f.deleted("/a", 20)))
	f.one(true)
	type line struct{ What, Version, Evidence string }
	var got []line
	f.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(t.Context(), target.Name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := report.History(t.Context(), e.Store, src.ID, f.uri("/a"))
		if err != nil {
			t.Fatal(err)
		}
		var last time.Time
		for _, l := range lines {
			if !l.At.IsZero() {
				at, err := time.Parse(time.RFC3339, l.At.String())
				if err != nil || at.Before(last) {
					t.Errorf("%s at %s stands after %s, %v", l.What, at, last, err)
				}
				last = at
			}
			got = append(got, line{l.What, l.Version.String(), *l.Evidence})
		}
	})
	rl, cl := f.uri("/rl.xml"), f.uri("/cl.xml")
	want := []line{
		{"fetched", when(0), rl}, {"wanted", when(10), cl}, {"fetched", when(10), cl}, {"wanted absent", when(20), cl},
		{"deleted", when(20), cl}, {"wanted absent", when(20), cl},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
