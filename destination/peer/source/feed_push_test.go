package source

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/websub"
)

// TestFeedPush tells a hub of both feeds over a network, in the three ways.
func TestFeedPush(t *testing.T) {
	t.Parallel()
	for _, publish := range []Publish{PublishResourceSync, PublishTraditional, PublishOff} {
		t.Run(string(publish), func(t *testing.T) {
			t.Parallel()
			hub := newRealHub(t, 202)
			client := fetch.New(fetch.Options{})
			defer client.Close()
			old := recordsFile(t, sampleEdit("old", "1970-01-01T00:00:00Z", beds("1")))
			s := newSource(t, Options{Hub: hub.URL + "/", Publish: publish, Client: client, Records: old})
			stop := running(t, s)
			defer stop()
			mustPut(t, s, "a", "1")
			s.records.publish([]*feed.Edit{editAt(t, "new", time.Unix(1, 0), "2")})
			if publish == PublishOff {
				stop()
				head, _ := readFeed(t, get(t, s, s.FeedURL()))
				links := ask(s, "GET", s.FeedURL()).Header.Get("Link")
				if len(hub.posts) > 0 || len(head.Hubs) > 0 || links != "<"+s.FeedURL()+`>; rel="self"` {
					t.Errorf("%d posts, hubs %v, Link %s", len(hub.posts), head.Hubs, links)
				}
				return
			}
			told := map[string]post{}
			for range 4 {
				p := <-hub.posts
				told[p.topic()] = p
				// What was told of is served (P-05).
				if _, entries := readFeed(t, get(t, s, s.FeedURL())); p.topic() == s.FeedURL() && len(entries) != 1 {
					t.Errorf("told before it was served")
				}
			}
			for _, topic := range []string{s.FeedURL(), s.recordFeed.url()} {
				p := told[topic]
				if publish == PublishTraditional {
					form, err := url.ParseQuery(string(p.body))
					want := url.Values{"hub.mode": {"publish"}, "hub.url": {topic}, "hub.topic": {topic}}
					if diff := cmp.Diff(want, form); diff != "" || err != nil || p.header.Get("Content-Type") != websub.FormType {
						t.Errorf("%s: ping %v, %s", topic, p.header, diff)
					}
					continue
				}
				if p.header.Get("Content-Type") != "application/atom+xml" ||
					p.header.Get("Link") != fmt.Sprintf(`<%s/>; rel="hub", <%s>; rel="self"`, hub.URL, topic) {
					t.Errorf("%s: header %v", topic, p.header)
				}
				head, entries := readFeed(t, p.body)
				if head.ID != topic || head.Self != topic || !slices.Equal(head.Hubs, []string{hub.URL + "/"}) || len(entries) != 1 {
					t.Fatalf("%s: %+v, %d entries\n%s", topic, head, len(entries), p.body)
				}
				if e := entries[0]; topic == s.FeedURL() && e.Key != s.URI("a") || topic == s.recordFeed.url() && e.Edit.Subject != "new" {
					t.Errorf("%s: %+v", topic, e)
				}
			}
		})
	}
}

// TestFeedPushTellsAll pushes through a hub that is slow and fails for a while: every change once, in order, in documents
// no longer than allowed.
func TestFeedPushTellsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{answer: func(n int, m fetch.Message) (*fetch.Answer, error) {
			<-time.After(30 * time.Millisecond)
			if n%7 == 3 {
				return &fetch.Answer{Status: 503, RetryAfter: time.Second}, nil
			}
			return &fetch.Answer{Status: 202}, nil
		}}
		var heard int
		s := scriptedSource(t, Options{NotifyMax: 7, ChangeListSize: 5, KeepChangeLists: -1, Logger: hear(func(n notification) {
			if n.kind == changeFeedKind && n.err == nil {
				heard += n.entries
			}
		})}, k)
		stop := running(t, s)
		defer stop()
		for i := range 60 {
			mustPut(t, s, fmt.Sprint("r", i%9), fmt.Sprint(i))
			if i%4 == 3 {
				s.Delete(fmt.Sprint("r", i%9))
			}
			<-time.After(time.Duration(i%5) * 10 * time.Millisecond)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		var got []happening
		last := ""
		for _, p := range k.on(s.FeedURL()) {
			_, entries := readFeed(t, p.body)
			if len(entries) > 7 {
				t.Errorf("%d entries in one push", len(entries))
			}
			if string(p.body) == last {
				continue // again after a failure
			}
			last = string(p.body)
			for _, e := range slices.Backward(entries) {
				got = append(got, happeningOf(e))
			}
		}
		want := happened(s)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("told (-journal +pushes):\n%s", diff)
		}
		if heard != len(want) {
			t.Errorf("heard of %d changes, want %d", heard, len(want))
		}
	})
}

// TestFeedGivesWay tells of a change before the feed of changes does.
func TestFeedGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{}
		s := scriptedSource(t, Options{}, k)
		stop := running(t, s)
		defer stop()
		told := func(changes, feeds int) {
			t.Helper()
			synctest.Wait()
			if c, f := len(k.on(s.at(changeTopic))), len(k.on(s.FeedURL())); c != changes || f != feeds {
				t.Errorf("%d notifications and %d feeds, want %d and %d", c, f, changes, feeds)
			}
		}
		mustPut(t, s, "a", "1")
		told(1, 0)
		<-time.After(feedLag)
		told(1, 1)
	})
}

// TestFeedPing has changes come together in one ping while the hub has not fetched the feed, but not for ever.
func TestFeedPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &script{}
		s := scriptedSource(t, Options{Publish: PublishTraditional}, k)
		stop := running(t, s)
		defer stop()
		pings := func(want int, what string) {
			t.Helper()
			<-time.After(feedLag)
			synctest.Wait()
			if n := len(k.on(s.FeedURL())); n != want {
				t.Errorf("%d pings, want %d: %s", n, want, what)
			}
		}
		change := func() { mustPut(t, s, "a", fmt.Sprint(s.journal.total())) }
		change()
		pings(1, "the first")
		for range 5 {
			change()
		}
		ask(s, "HEAD", s.FeedURL())
		pings(1, "not fetched yet")
		get(t, s, s.FeedURL())
		pings(2, "fetched")
		change()
		pings(2, "not fetched yet")
		<-time.After(2 * fetchPatience)
		pings(3, "patience has an end")
	})
}

// TestFeedPushFaults has the faults of notifications hit the pushes of feeds as well.
func TestFeedPushFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"notify-drop=2":    "1 3",
		"notify-double=2":  "1 2 2 3 4 4",
		"notify-shuffle=2": "1 3 2 4",
		"notify-forge=4":   "1 2 3 -4",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, err := faults.Parse(fault)
				if err != nil {
					t.Fatal(err)
				}
				k := &script{}
				s := scriptedSource(t, Options{Faults: f}, k)
				stop := running(t, s)
				defer stop()
				for i := range 4 {
					mustPut(t, s, fmt.Sprint(i+1), "x")
					<-time.After(feedLag)
					synctest.Wait()
				}
				<-time.After(time.Minute)
				synctest.Wait()
				got := ""
				for _, p := range k.on(s.FeedURL()) {
					_, entries := readFeed(t, p.body)
					e := entries[0]
					sign := ""
					if e.Deleted {
						sign = "-"
					}
					got += sign + e.Key[len(testBase)+1:] + " "
				}
				if got != want+" " {
					t.Errorf("arrived %s, want %s", got, want)
				}
			})
		})
	}
}
