package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/sync/plan"
)

// BenchmarkEntries measures how many entries of a feed are merged: read, compared with the state, made durable as files
// ("entries"); compared only, all being known ("known"); and edits of records folded ("edits").
func BenchmarkEntries(b *testing.B) {
	const n = 10_000
	entries := make([]post, n)
	edits := make([]fieldEdit, n)
	for i := range n {
		entries[i] = post{id: fmt.Sprintf("tag:bench,2024:%d", i), day: 1 + i%300, text: strings.Repeat("text ", 100)}
		edits[i] = fieldEdit{subject: fmt.Sprintf("paho.org/HealthC_ID/%d", i/10), author: "tel:+1", day: i,
			fields: map[string]string{"title": fmt.Sprint(i), "total_beds": fmt.Sprint(i)}}
	}
	run := func(b *testing.B, records string, body string, known bool) {
		var took time.Duration
		for b.Loop() {
			s := &site{pages: map[string]page{}}
			s.pusher = &pusher{}
			s.rig = newRigIn(b, b.TempDir(), source.Options{}, nil)
			s.interpose(s.answer)
			s.tune = func(t *Target) { t.Kind, t.URL, t.Records = KindFeed, s.srv.URL+feedPath, records }
			s.set(feedPath, page{typ: "application/atom+xml", body: body})
			if known {
				s.sync()
				s.set(feedPath, page{typ: "application/atom+xml", body: body + " "})
			}
			start := time.Now()
			s.sync()
			took += time.Since(start)
			s.srv.Close()
		}
		b.ReportMetric(float64(n)*float64(b.N)/took.Seconds(), "entries/s")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("entries", func(b *testing.B) { run(b, "", atom("", entries...), false) })
	b.Run("known", func(b *testing.B) { run(b, "", atom("", entries...), true) })
	b.Run("edits", func(b *testing.B) { run(b, plan.RecordsResourceFinder, recordFeed(edits...), false) })
}
