package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"resyncd/sync/keymap"
	"resyncd/sync/plan"
	"resyncd/sync/report"

	"github.com/google/go-cmp/cmp"
)

// fieldEdit is one edit of a record in a test.
type fieldEdit struct {
	subject, author string
	day             int
	fields          map[string]string
}

func (c fieldEdit) entry() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<entry><author><uri>%s</uri></author><report:subject>%s</report:subject><report:observed>%s</report:observed>
<report:content type="{http://schemas.google.com/report/2010}row"><report:row>`, c.author, c.subject, on(c.day).Format(time.RFC3339))
	for name, value := range c.fields {
		fmt.Fprintf(&b, `<gs:field name=%q>%s</gs:field>`, name, value)
	}
	return b.String() + `</report:row></report:content></entry>`
}

func recordFeed(changes ...fieldEdit) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:report="http://schemas.google.com/report/2010" xmlns:gs="http://schemas.google.com/spreadsheets/2006">`)
	for _, c := range changes {
		b.WriteString(c.entry())
	}
	return b.String() + "</feed>"
}

// TestRecords: lost, late, shuffled and repeated edits end in the same records as the edits in order (T-03).
func TestRecords(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var edits []fieldEdit
	model := map[string]map[string]string{} // in order
	for day := 1; day <= 60; day++ {
		c := fieldEdit{subject: fmt.Sprintf("paho.org/HealthC_ID/%d", rnd.IntN(4)), author: fmt.Sprintf("tel:+5090000%d", rnd.IntN(3)), day: day,
			fields: map[string]string{}}
		if model[c.subject] == nil {
			model[c.subject] = map[string]string{}
		}
		for _, f := range []string{"title", "available_beds", "services", "comments"} {
			switch rnd.IntN(3) {
			case 0:
				c.fields[f] = fmt.Sprint(day)
				model[c.subject][f] = c.fields[f]
			case 1:
				if rnd.IntN(2) == 0 {
					c.fields[f], model[c.subject][f] = "", ""
				}
			}
		}
		edits = append(edits, c)
	}
	s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
	s.set(feedPath, page{typ: "application/atom+xml", body: recordFeed(edits[:5]...)})
	s.follow(t)
	s.pull(false)
	lost := map[int]bool{}
	for _, i := range rnd.Perm(len(edits)) {
		if rnd.IntN(5) == 0 {
			lost[i] = true
			continue
		}
		for range 1 + rnd.IntN(2) {
			s.deliver(noInterval, []byte(recordFeed(edits[i], edits[rnd.IntN(i+1)])), true)
		}
	}
	s.set(feedPath, page{typ: "application/atom+xml", body: recordFeed(edits...)})
	s.pull(false)
	s.eventually("all edits", func() bool { return cmp.Equal(model, s.records()) && s.quiet() })
	subject := "paho.org/HealthC_ID/1"
	n := 0
	for _, c := range edits {
		if c.subject == subject {
			n++
		}
	}
	history, err := s.store.Edits(context.Background(), s.theSet().SourceID, subject)
	if err != nil || len(history) != n {
		t.Errorf("the history has %d edits of %d: %v", len(history), n, err)
	}
	if got := s.record(subject).Edits; got != n {
		t.Errorf("edits: %d, want %d", got, n)
	}
	// Its file lost, a record is made anew from its edits, without the Source.
	s.stop()
	s.set(feedPath, page{status: 500})
	if err := os.Remove(filepath.Join(s.root, s.recordKey(subject))); err != nil {
		t.Fatal(err)
	}
	s.with(func(e *Engine, target Target) {
		if rep, err := e.Verify(t.Context(), target, s.opts, true, func(Finding) error { return nil }); err != nil || rep.Repaired != 1 {
			t.Errorf("%+v, %v", rep, err)
		}
	})
	if diff := cmp.Diff(model, s.records()); diff != "" {
		t.Error(diff)
	}
}

type recordFile struct {
	Subject  string `json:"subject"`
	Observed string `json:"observed"`
	Edits    int    `json:"edits"`
	Fields   map[string]struct {
		Value, Observed, Author string
	} `json:"fields"`
}

func (s *site) recordKey(subject string) string {
	key, err := keymap.RecordKey(s.srv.URL+feedPath, subject)
	if err != nil {
		s.t.Fatal(err)
	}
	return filepath.FromSlash(key)
}

func (s *site) record(subject string) (f recordFile) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.root, s.recordKey(subject)))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(b, &f); err != nil || f.Subject != subject {
		s.t.Fatalf("%v: %s", err, b)
	}
	return f
}

// records are the values of all fields in the mirror, by subject.
func (s *site) records() map[string]map[string]string {
	s.t.Helper()
	out := map[string]map[string]string{}
	for key := range s.files() {
		b, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(key)))
		if err != nil {
			continue
		}
		var f recordFile
		if err := json.Unmarshal(b, &f); err != nil {
			s.t.Fatalf("%s: %v", key, err)
		}
		out[f.Subject] = map[string]string{}
		for name, field := range f.Fields {
			out[f.Subject][name] = field.Value
		}
	}
	return out
}

// TestRecordSample: the sample of the documentation works as printed.
func TestRecordSample(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("RESYNCD_SPEC_EXAMPLES")
	if dir == "" {
		t.Skip("RESYNCD_SPEC_EXAMPLES is not set")
	}
	sample, err := os.ReadFile(filepath.Join(dir, "resource-finder-sample.xml"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
	s.set(feedPath, page{typ: "text/xml", body: string(sample)})
	s.sync()
	got := s.record("paho.org/HealthC_ID/1234567")
	if got.Observed != "2010-06-29T15:27:39Z" || got.Edits != 1 || len(got.Fields) != 23 ||
		got.Fields["district"].Value != "Léogâne" || got.Fields["services"].Author != "tel:+50912345678" {
		t.Errorf("%+v", got)
	}
	if res := s.sync(); res.Kind != "none" || res.Odd != 0 {
		t.Errorf("%+v", res)
	}
}

// TestFollowedLinks: what entries link to is mirrored if the configuration asks for it, within the scope.
func TestFollowedLinks(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Follow = []string{"enclosure", "alternate"} })
	link := func(rel, href string) string {
		return fmt.Sprintf(`<link rel=%q href=%q length="999999" type="text/html"/>`, rel, href)
	}
	own := s.srv.URL + "/posts/1"
	s.set("/posts/1", page{typ: "text/html", body: "<p>one</p>"})
	s.set("/a.mp3", page{typ: "audio/mpeg", body: "sound"})
	s.feed(post{id: own, day: 1, text: "one", extra: link("alternate", own) + link("enclosure", "/a.mp3") + link("related", "/no") +
		link("enclosure", "http://elsewhere.example/b.mp3") + link("enclosure", "ftp://127.0.0.1/c")})
	res := s.sync()
	if res.Fetched != 3 || res.Refused != 2 {
		t.Errorf("%+v", res)
	}
	files := s.files()
	for uri, text := range map[string]string{own + "#alternate": "<p>one</p>", s.srv.URL + "/a.mp3": "sound"} {
		key, err := keymap.NaturalKey(uri)
		if err != nil || files[key] != sumOf(text) {
			t.Errorf("%s: %v, files %v", uri, err, files)
		}
	}
	if got := s.sync(); got.Fetched != 0 || got.Requests != 1 {
		t.Errorf("again: %+v", got)
	}
	var refused []string
	s.with(func(e *Engine, _ Target) {
		err := report.List(t.Context(), e.Store, 1, report.ListRefused, func(l report.Listing) error { refused = append(refused, l.URI); return nil })
		if err != nil || len(refused) != 2 {
			t.Errorf("%v, %v", refused, err)
		}
	})
}

// TestFollowedLinksAgain: what an entry links to is asked again when the entry changes, though its date does not, or it has none.
func TestFollowedLinksAgain(t *testing.T) {
	t.Parallel()
	for _, day := range []int{0, 5} {
		s := newSite(t, func(target *Target) { target.Follow = []string{"enclosure"} })
		for _, text := range []string{"one", "two", "three"} {
			s.set("/a.txt", page{typ: "text/plain", body: text})
			s.feed(post{id: "tag:test,2024:p1", day: day, text: text, extra: `<link rel="enclosure" href="/a.txt"/>`})
			s.sync()
			if got := s.files()[s.key("/a.txt")]; got != sumOf(text) {
				t.Errorf("day %d: what the entry links to is not %q", day, text)
			}
		}
		if res := s.sync(); res.Requests != 1 || res.Fetched != 0 {
			t.Errorf("day %d, nothing new: %+v", day, res)
		}
	}
}
