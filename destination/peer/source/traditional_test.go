package source

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
)

// TestTraditional has a hub fetch late, early and never. What it fetches joins; where it cannot, the hole shows.
func TestTraditional(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{}
		s := scriptedSource(t, Options{Publish: PublishTraditional, NotifyMax: 4}, k)
		stop := running(t, s)
		defer stop()
		topic := s.at(changeTopic)
		fetch := func() told {
			body := get(t, s, topic)
			head, entries := read(t, body)
			return told{head, entries, body}
		}
		change := func(n int) {
			for range n {
				mustPut(t, s, "a", "1")
				synctest.Wait()
			}
		}
		check := func(what string, posts, entries int, from rsdoc.Micros) told {
			t.Helper()
			got := fetch()
			if n := len(k.on(topic)); n != posts || len(got.entries) != entries || got.head.From != from {
				t.Errorf("%s: %d posts, %d entries from %v; want %d, %d, %v", what, n, len(got.entries), got.head.From, posts, entries, from)
			}
			return got
		}
		synctest.Wait()
		change(1)
		one := check("at once", 1, 1, s.begin)
		change(1)
		check("fetched, so the next", 2, 1, one.head.Until)
		change(1)
		two := fetch() // before the next: that need not wait then
		change(2)
		ask(s, "HEAD", topic) // is not a fetch
		synctest.Wait()
		if n := len(k.on(topic)); n != 4 {
			t.Errorf("%d posts, want 4: the last one waits for a fetch", n)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		// One of the two went out after the fetch, and the other joined it when nobody had fetched for a while.
		three := check("joined", 5, 2, two.head.Until)
		change(1)
		<-time.After(time.Minute)
		change(4)
		<-time.After(time.Minute)
		synctest.Wait()
		four := fetch()
		if four.head.From == three.head.Until || len(four.entries) != 4 || four.entries[3].Datetime != journalOf(s)[9].at {
			t.Errorf("what does not fit together must show a hole: %+v", four.head)
		}
	})
}

// TestTraditionalNeverLies has a hub fetch at any time: what it reads never overlaps and is all that the journal has in
// its interval, so that whatever it has missed is a hole.
func TestTraditionalNeverLies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		most := rapid.IntRange(1, 10).Draw(r, "max")
		spoilt := &faults.Set{Notify: faults.Notify{Drop: rapid.SampledFrom([]int{0, 2, 3}).Draw(r, "drop")}}
		puts := rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 40).Draw(r, "pauses between changes")
		fetches := rapid.SliceOfN(rapid.IntRange(1, 6000), 1, 40).Draw(r, "pauses between fetches")
		var verdict string
		synctest.Test(t, func(t *testing.T) {
			s := scriptedSource(t, Options{Publish: PublishTraditional, NotifyMax: most, KeepChangeLists: -1, Faults: spoilt}, &script{})
			stop := running(t, s)
			defer stop()
			var work sync.WaitGroup
			work.Go(func() {
				for i, ms := range puts {
					<-time.After(time.Duration(ms) * time.Millisecond)
					mustPut(t, s, "a", fmt.Sprint(i))
				}
			})
			var bodies [][]byte
			work.Go(func() {
				for _, ms := range fetches {
					<-time.After(time.Duration(ms) * time.Millisecond)
					bodies = append(bodies, get(t, s, "/"+changeTopic))
				}
			})
			work.Wait()
			verdict = honest(t, s, bodies)
		})
		if verdict != "" {
			r.Fatalf("%s", verdict)
		}
	})
}

// honest compares what was fetched with the journal.
func honest(t *testing.T, s *Source, bodies [][]byte) string {
	last := rsdoc.NoTime
	for i, body := range bodies {
		if len(body) == 0 || i > 0 && bytes.Equal(body, bodies[i-1]) {
			continue
		}
		head, entries := read(t, body)
		if head.From < last {
			return fmt.Sprintf("from %v, but %v was reached before", head.From, last)
		}
		last = head.Until
		var want, got []rsdoc.Micros
		for _, c := range journalOf(s) {
			if c.at > head.From && c.at <= head.Until {
				want = append(want, c.at)
			}
		}
		for _, e := range entries {
			got = append(got, e.Datetime)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Sprintf("from %v until %v (-journal +notification):\n%s", head.From, head.Until, diff)
		}
	}
	return ""
}

// TestTraditionalFaults gives the hub the time to fetch each of a shuffled pair.
func TestTraditionalFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{}
		s := scriptedSource(t, Options{Publish: PublishTraditional, Faults: &faults.Set{Notify: faults.Notify{Shuffle: 2}}}, k)
		var got []int
		var mu sync.Mutex
		var bodies [][]byte
		k.answer = func(_ int, m fetch.Message) (*fetch.Answer, error) {
			if (post{body: m.Body}).topic() == s.at(changeTopic) {
				go func() {
					<-time.After(time.Second)
					mu.Lock()
					defer mu.Unlock()
					bodies = append(bodies, get(t, s, "/"+changeTopic))
				}()
			}
			return &fetch.Answer{Status: 202}, nil
		}
		stop := running(t, s)
		defer stop()
		for i := range 4 {
			mustPut(t, s, "a", fmt.Sprint(i+1))
			<-time.After(time.Second / 2)
			if i == 0 {
				<-time.After(time.Second)
			}
		}
		<-time.After(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, body := range bodies {
			_, entries := read(t, body)
			got = append(got, len(entries), int(entries[0].Datetime-s.begin)/1_000_000)
		}
		// Entries, and seconds since the start: the second, of 1.5 s, comes after the third, and nothing covers it up.
		if diff := cmp.Diff([]int{1, 0, 1, 2, 1, 1, 1, 2}, got); diff != "" {
			t.Errorf("fetched (-want +got):\n%s", diff)
		}
	})
}

// TestTraditionalDrop does not let the topic speak for a notification that a fault has swallowed.
func TestTraditionalDrop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scriptedSource(t, Options{Publish: PublishTraditional, Faults: &faults.Set{Notify: faults.Notify{Drop: 2}}}, &script{})
		stop := running(t, s)
		defer stop()
		for i := range 3 {
			mustPut(t, s, "a", fmt.Sprint(i))
			<-time.After(time.Minute)
		}
		synctest.Wait()
		if verdict := honest(t, s, [][]byte{get(t, s, "/"+changeTopic)}); verdict != "" {
			t.Error(verdict)
		}
	})
}
