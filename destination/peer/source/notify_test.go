package source

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// TestIntervals lets several writers work while a hub is slow, refuses for a while, breaks down and loses answers. What it
// has in the end is the journal, change by change, in intervals that join without hole or overlap; a repetition
// has the bytes of the first.
func TestIntervals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		o := Options{
			NotifyMax:       rapid.IntRange(1, 20).Draw(r, "max"),
			NotifyEvery:     rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second}).Draw(r, "every"),
			notifyQueue:     10_000,
			ChangeListSize:  rapid.IntRange(1, 30).Draw(r, "list"),
			KeepChangeLists: -1,
		}
		plan := rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "ok", "503", "429", "down", "lost"}), 1, 30).Draw(r, "hub")
		latency := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 5).Draw(r, "latency")
		pauses := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 40), 0, 25), 1, 4).Draw(r, "writers")
		var verdict string
		synctest.Test(t, func(t *testing.T) { verdict = intervals(t, o, plan, latency, pauses) })
		if verdict != "" {
			r.Fatalf("%s", verdict)
		}
	})
}

func intervals(t *testing.T, o Options, plan []string, latency []int, pauses [][]int) string {
	var mu sync.Mutex
	var taken []post
	k := &script{answer: func(n int, m fetch.Message) (*fetch.Answer, error) {
		<-time.After(time.Duration(latency[n%len(latency)]) * time.Millisecond)
		what := "ok"
		if n < len(plan) {
			what = plan[n]
		}
		if what == "ok" || what == "lost" {
			mu.Lock()
			taken = append(taken, post{m.Header, bytes.Clone(m.Body)})
			mu.Unlock()
		}
		switch what {
		case "503":
			return &fetch.Answer{Status: 503}, nil
		case "429":
			return &fetch.Answer{Status: 429, RetryAfter: 3 * time.Second}, nil
		case "down", "lost":
			return nil, errors.New("connection reset")
		}
		return &fetch.Answer{Status: 202}, nil
	}}
	s := scriptedSource(t, o, k)
	stop := running(t, s)
	defer stop()
	var writers sync.WaitGroup
	for w, pause := range pauses {
		writers.Go(func() {
			for i, ms := range pause {
				<-time.After(time.Duration(ms) * time.Millisecond)
				name := fmt.Sprintf("w%d", w)
				if i%5 == 4 {
					s.Delete(name)
				} else if err := s.Put(name, fmt.Append(nil, w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	<-time.After(time.Hour)
	synctest.Wait()
	topic := s.at(changeTopic)
	var got []event
	reached, before := s.begin, []byte(nil)
	for _, p := range taken {
		if p.topic() != topic || bytes.Equal(p.body, before) {
			continue // of the framework, or a repetition
		}
		before = p.body
		told := asTold(t, []post{p})[0]
		head := told.head
		if head.Kind != rsdoc.KindChangeNotification || head.From != reached || head.Until <= head.From {
			return fmt.Sprintf("a %s from %v until %v, after %v", head.Kind, head.From, head.Until, reached)
		}
		if n := len(told.entries); n == 0 || n > o.NotifyMax {
			return fmt.Sprintf("%d entries", n)
		}
		for _, e := range told.entries {
			if e.Datetime <= reached || e.Datetime > head.Until {
				return fmt.Sprintf("entry of %v in %v to %v, after %v", e.Datetime, head.From, head.Until, reached)
			}
			reached = e.Datetime
			c := event{kind: e.Change, at: e.Datetime, record: &record{name: strings.TrimPrefix(e.Loc, testBase+"/")}}
			if e.Change != rsdoc.ChangeDeleted {
				c.live = true
				c.sum, c.length, c.modified = sha256Of(t, e), e.Length, int64(e.LastMod)/1e6
			}
			got = append(got, c)
		}
		reached = head.Until
	}
	return cmp.Diff(journalOf(s), got, cmp.AllowUnexported(event{}, record{}), cmpopts.IgnoreFields(record{}, "content"))
}

// TestRetries follows the pauses before a hub that is down, asks for time, refuses and comes back.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		k := &script{}
		k.answer = func(_ int, m fetch.Message) (*fetch.Answer, error) {
			if !strings.Contains(string(m.Body), "change-notification") {
				return &fetch.Answer{Status: 202}, nil
			}
			at = append(at, time.Since(begin))
			switch n := len(at); {
			case n <= 8:
				return nil, errors.New("connection refused")
			case n == 9:
				return &fetch.Answer{Status: 429, RetryAfter: 10 * time.Minute}, nil
			case n <= 12:
				return &fetch.Answer{Status: 403, Body: []byte("no such topic")}, nil
			}
			return &fetch.Answer{Status: 200}, nil
		}
		var heard []notification
		s := scriptedSource(t, Options{Logger: hear(func(n notification) {
			if n.kind == rsdoc.KindChangeNotification {
				heard = append(heard, n)
			}
		})}, k)
		stop := running(t, s)
		defer stop()
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} { // a goes out alone, b and c wait together
			mustPut(t, s, name, "1")
			synctest.Wait()
		}
		<-time.After(time.Hour)
		synctest.Wait()
		mustPut(t, s, "d", "1")
		synctest.Wait()
		if len(at) != 14 || at[13] != time.Since(begin) {
			t.Fatalf("%d posts at %v; the last one should be now", len(at), at)
		}
		for i, low := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 600, 60, 60, 60} {
			pause := at[i+1] - at[i]
			if low *= time.Second; pause < low || pause > low*6/5 {
				t.Errorf("pause %d: %v, want %v and a fifth at most", i+1, pause, low)
			}
		}
		if len(heard) != 3 || !errors.Is(heard[0].err, errRefused) || heard[1].err != nil ||
			heard[0].entries != 1 || heard[1].entries != 2 || heard[1].from != heard[0].until {
			t.Errorf("heard %+v", heard)
		}
		if len(heard) > 0 && (strings.Contains(fmt.Sprint(heard[0].err), "no such topic") == false) {
			t.Errorf("no word of the hub's: %v", heard[0].err)
		}
	})
}

// TestOverflow lets more wait than may: the newest are told, the oldest are a visible hole, and no Put has waited.
func TestOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := make(chan struct{})
		k := &script{answer: func(_ int, m fetch.Message) (*fetch.Answer, error) {
			<-up
			return &fetch.Answer{Status: 204}, nil
		}}
		var heard []notification
		s := scriptedSource(t, Options{NotifyMax: 3, notifyQueue: 2, Logger: hear(func(n notification) {
			if n.kind == rsdoc.KindChangeNotification {
				heard = append(heard, n)
			}
		})}, k)
		stop := running(t, s)
		defer stop()
		begin := time.Now()
		for i := range 20 {
			mustPut(t, s, "a", fmt.Sprint(i))
			synctest.Wait()
		}
		if time.Since(begin) > 0 {
			t.Error("a Put has waited for the hub")
		}
		close(up)
		synctest.Wait()
		// The first is under way with one change; of nineteen that wait, the newest full chunk and the one after it stay.
		slices.SortFunc(heard, func(a, b notification) int {
			return strings.Compare(strings.TrimSuffix(a.from, "Z"), strings.TrimSuffix(b.from, "Z"))
		})
		var got []string
		for i, n := range heard {
			if i > 0 && n.from != heard[i-1].until {
				t.Errorf("hole between what was heard: %+v", heard)
			}
			got = append(got, fmt.Sprint(n.entries, " ", n.err))
		}
		lost := "3 " + errBehind.Error()
		if diff := cmp.Diff([]string{"1 <nil>", lost, lost, lost, lost, lost, "3 <nil>", "1 <nil>"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		all := asTold(t, k.on(s.at(changeTopic)))
		if len(all) != 3 || all[1].head.From == all[0].head.Until || all[2].head.From != all[1].head.Until {
			t.Errorf("told %+v", all)
		}
		if last := all[2].entries[0]; sha256Of(t, last) != sumOf("19") {
			t.Errorf("the newest change is not there: %+v", last)
		}
	})
}

// TestRestart begins a new honest interval: it does not reach into the time in which nobody looked.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{}
		for range 2 {
			s := scriptedSource(t, Options{}, k)
			stop := running(t, s)
			<-time.After(time.Second)
			mustPut(t, s, "a", "1")
			synctest.Wait()
			stop()
			mustPut(t, s, "b", "1") // nobody tells of it any more, here or after the restart
			<-time.After(time.Minute)
		}
		all := asTold(t, k.on(testBase+"/"+changeTopic))
		if len(all) != 2 || len(all[0].entries) != 1 || len(all[1].entries) != 1 {
			t.Fatalf("told %+v", all)
		}
		gap := time.Duration(all[1].head.From-all[0].head.Until) * time.Microsecond
		if gap < 59*time.Second || gap > 61*time.Second {
			t.Errorf("a gap of %v: %v, %v", gap, all[0].head, all[1].head)
		}
	})
}

// TestGather waits NotifyEvery for more, and no longer than until a notification is full.
func TestGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{}
		s := scriptedSource(t, Options{NotifyEvery: time.Minute, NotifyMax: 3}, k)
		stop := running(t, s)
		defer stop()
		topic := s.at(changeTopic)
		synctest.Wait()
		mustPut(t, s, "a", "1")
		mustPut(t, s, "b", "1")
		<-time.After(59 * time.Second)
		if n := len(k.on(topic)); n != 0 {
			t.Errorf("%d posts before the time", n)
		}
		<-time.After(2 * time.Second)
		if all := asTold(t, k.on(topic)); len(all) != 1 || len(all[0].entries) != 2 {
			t.Errorf("after a minute %+v", all)
		}
		for i := range 7 {
			mustPut(t, s, "a", fmt.Sprint(i))
		}
		synctest.Wait()
		var got []int
		for _, n := range asTold(t, k.on(topic)) {
			got = append(got, len(n.entries))
		}
		if diff := cmp.Diff([]int{2, 3, 3}, got); diff != "" {
			t.Errorf("full ones have waited (-want +got):\n%s", diff)
		}
	})
}
