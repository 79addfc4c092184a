package hubdb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

// TestState holds a DB to the contract of hubstate.State, sentence by sentence.
func TestState(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*bench){
		"Subscribe": testSubscribe, "Commit": testCommit, "Bounds": testBounds, "Looks": testLooks,
		"End": testEnd, "Pages": testPages, "Concurrency": testConcurrency,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{TB: t, ctx: t.Context(), path: fresh(t)}
			b.st = openDB(t, b.path)
			t.Cleanup(func() { b.ok(b.st.Close()) })
			run(b)
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) { testModel(t, rt) })
	})
}

// fresh is where a new database may be.
func fresh(t testing.TB) string {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "hub.db")
}

type bench struct {
	testing.TB
	ctx  context.Context
	path string
	st   *DB
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) same(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// reopen closes and opens: what was committed is there.
func (b *bench) reopen() {
	b.Helper()
	b.ok(b.st.Close())
	b.st = openDB(b, b.path)
}

func (b *bench) subscribe(topic, callback string, verified, expires store.Micros) hubstate.Subscription {
	b.Helper()
	s, t, err := b.st.Subscribe(b.ctx, hubstate.Subscription{Topic: topic, Callback: callback, Secret: "s", Verified: verified, Expires: expires})
	b.ok(err)
	if s.TopicID != t.ID || s.Topic != t.URL || t.URL != topic {
		b.Fatalf("subscription %+v of topic %+v", s, t)
	}
	return s
}

func note(topic, body string) *hubstate.Notification {
	return &hubstate.Notification{Topic: topic, Received: 7, Type: "application/xml", Link: "<l>", Digest: sha256.Sum256([]byte(body)), Body: []byte(body)}
}

func (b *bench) commit(c hubstate.Commit) {
	b.Helper()
	b.ok(b.st.Commit(b.ctx, &c))
}

func (b *bench) publish(topic string, bodies ...string) {
	b.Helper()
	var c hubstate.Commit
	for _, body := range bodies {
		c.Notifications = append(c.Notifications, note(topic, body))
	}
	b.commit(c)
}

// bodies is what a topic keeps.
func (b *bench) bodies(topicID, after int64) []string {
	b.Helper()
	notes, err := b.st.Notifications(b.ctx, topicID, after, 1000, 1<<40)
	b.ok(err)
	out := []string{}
	for _, n := range notes {
		out = append(out, fmt.Sprintf("%d:%s", n.Number, n.Body))
	}
	return out
}

func (b *bench) topic(url string) hubstate.Topic {
	b.Helper()
	all, err := b.st.Topics(b.ctx)
	b.ok(err)
	for _, t := range all {
		if t.URL == url {
			return t
		}
	}
	return hubstate.Topic{}
}

func testSubscribe(b *bench) {
	one := b.subscribe("t", "c1", 10, 100)
	b.same("new subscription", hubstate.Subscription{ID: one.ID, TopicID: one.TopicID, Topic: "t", Callback: "c1", Secret: "s",
		Verified: 10, Expires: 100, Next: store.NoTime}, one)
	b.publish("t", "a", "b")
	two := b.subscribe("t", "c2", 20, 200)
	if two.Cursor != 2 || two.TopicID != one.TopicID {
		b.Fatalf("a new one begins behind the newest notification: %+v", two)
	}
	b.commit(hubstate.Commit{Progress: []hubstate.Subscription{{ID: one.ID, Cursor: 1, Attempts: 3, Next: 90, Delivered: 1, Dropped: 2}}})
	again, _, err := b.st.Subscribe(b.ctx, hubstate.Subscription{Topic: "t", Callback: "c1", Verified: 50, Expires: 300})
	b.ok(err)
	want := hubstate.Subscription{ID: one.ID, TopicID: one.TopicID, Topic: "t", Callback: "c1", Verified: 50, Expires: 300,
		Cursor: 1, Attempts: 3, Next: 90, Delivered: 1, Dropped: 2}
	b.same("renewed in time, without a secret", want, again)
	late, _, err := b.st.Subscribe(b.ctx, hubstate.Subscription{Topic: "t", Callback: "c1", Secret: "x", Old: true, VerifyToken: "v",
		Verified: 300, Expires: 400})
	b.ok(err)
	want.Secret, want.Verified, want.Expires, want.Cursor, want.Attempts, want.Next = "x", 300, 400, 2, 0, store.NoTime
	want.Old, want.VerifyToken = true, "v"
	b.same("renewed too late", want, late)
	b.reopen()
	all, err := b.st.Subscriptions(b.ctx)
	b.ok(err)
	b.same("all", []hubstate.Subscription{want, two}, all)
}

func testCommit(b *bench) {
	one, other := b.subscribe("t", "c", 10, 100), b.subscribe("other", "c", 10, 100)
	c := hubstate.Commit{Notifications: []*hubstate.Notification{note("t", "a"), note("none", "x"), note("other", "o"), note("t", "")}}
	readable := 0
	c.Readable = func() {
		readable++
		b.same("numbers when it can be read", int64(2), c.Notifications[3].Number)
	}
	b.ok(b.st.Commit(b.ctx, &c))
	var numbers []int64
	for _, n := range c.Notifications {
		numbers = append(numbers, n.Number)
	}
	b.same("numbers", []int64{1, 0, 1, 2}, numbers)
	b.same("times told that it can be read", 1, readable)
	b.reopen()
	got, err := b.st.Notifications(b.ctx, one.TopicID, 0, 10, 1<<20)
	b.ok(err)
	c.Notifications[3].Body = nil // empty is empty
	b.same("kept", []hubstate.Notification{*c.Notifications[0], *c.Notifications[3]}, got)
	b.same("topic", hubstate.Topic{ID: one.TopicID, URL: "t", Last: 2, Digest: sha256.Sum256(nil), Pinged: store.NoTime}, b.topic("t"))

	// What everybody is done with goes; a cursor does not go back; strangers are passed over.
	b.commit(hubstate.Commit{Progress: []hubstate.Subscription{
		{ID: one.ID, Cursor: 1, Next: store.NoTime, Delivered: 1}, {ID: 999, Cursor: 5}}})
	b.same("after the first", []string{"2:"}, b.bodies(one.TopicID, 0))
	b.commit(hubstate.Commit{Progress: []hubstate.Subscription{{ID: one.ID, Cursor: 0, Next: 50, Attempts: 2}}})
	all, err := b.st.Subscriptions(b.ctx)
	b.ok(err)
	if s := all[0]; s.Cursor != 1 || s.Attempts != 2 || s.Next != 50 || s.Delivered != 1 {
		b.Fatalf("after a step back: %+v", s)
	}
	b.same("the other topic", []string{"1:o"}, b.bodies(other.TopicID, 0))
	second := b.subscribe("t", "c2", 10, 100)
	b.publish("t", "d")
	b.commit(hubstate.Commit{Progress: []hubstate.Subscription{{ID: second.ID, Cursor: 3}}})
	b.same("the slowest decides", []string{"2:", "3:d"}, b.bodies(one.TopicID, 0))
}

func testBounds(b *bench) {
	s := b.subscribe("t", "c", 10, 100)
	for i := range 10 {
		b.commit(hubstate.Commit{Notifications: []*hubstate.Notification{note("t", fmt.Sprint(i))}, Keep: 3})
	}
	b.same("the newest three", []string{"8:7", "9:8", "10:9"}, b.bodies(s.TopicID, 0))
	if t := b.topic("t"); t.Floor != 7 || t.Last != 10 {
		b.Fatalf("%+v", t)
	}
	b.commit(hubstate.Commit{Notifications: []*hubstate.Notification{note("t", "0123456789")}, KeepBytes: 11})
	b.same("the newest bytes", []string{"10:9", "11:0123456789"}, b.bodies(s.TopicID, 0))
	b.commit(hubstate.Commit{Notifications: []*hubstate.Notification{note("t", "01234567890123456789")}, KeepBytes: 11})
	b.same("the newest stays, however large", []string{"12:01234567890123456789"}, b.bodies(s.TopicID, 0))
	b.commit(hubstate.Commit{Notifications: []*hubstate.Notification{note("t", "a"), note("t", "b")}, KeepBytes: 11})
	b.same("and goes next", []string{"13:a", "14:b"}, b.bodies(s.TopicID, 0))
}

func testLooks(b *bench) {
	b.subscribe("t", "c", 10, 100)
	b.commit(hubstate.Commit{Pings: []hubstate.Topic{{URL: "t", Pinged: 50}, {URL: "none", Pinged: 50}}})
	if t := b.topic("t"); t.Pinged != 50 {
		b.Fatalf("%+v", t)
	}
	b.commit(hubstate.Commit{Pings: []hubstate.Topic{{URL: "t", Pinged: 40}}})
	if t := b.topic("t"); t.Pinged != 51 {
		b.Fatalf("a ping of a clock that went back: %+v", t)
	}
	digest := sha256.Sum256([]byte("a"))
	b.commit(hubstate.Commit{Notifications: []*hubstate.Notification{note("t", "a")},
		Looks: []hubstate.Topic{{URL: "t", ETag: "e", LastModified: "l", Digest: digest, Pinged: 50}}})
	if t := b.topic("t"); t.Pinged != 51 || t.ETag != "e" || t.LastModified != "l" || t.Digest != digest {
		b.Fatalf("a look that began before the last ping: %+v", t)
	}
	b.publish("t", "fat")
	b.commit(hubstate.Commit{Looks: []hubstate.Topic{{URL: "t", ETag: "e", Digest: digest, Pinged: 51}}})
	b.reopen()
	if t := b.topic("t"); t.Pinged.Known() || t.ETag != "" || t.LastModified != "" || t.Digest != sha256.Sum256([]byte("fat")) {
		b.Fatalf("a look at older content: %+v", t)
	}
}

func testEnd(b *bench) {
	one, two, other := b.subscribe("t", "c1", 10, 100), b.subscribe("t", "c2", 10, 100), b.subscribe("o", "c", 10, 100)
	b.publish("t", "a", "b")
	b.publish("o", "x")
	b.commit(hubstate.Commit{Progress: []hubstate.Subscription{{ID: two.ID, Cursor: 1}}})
	b.ok(b.st.End(b.ctx))
	b.ok(b.st.End(b.ctx, one.ID, 999))
	b.same("what the other one waits for", []string{"2:b"}, b.bodies(two.TopicID, 0))
	b.ok(b.st.End(b.ctx, two.ID, two.ID))
	b.same("nobody is left", []string{}, b.bodies(two.TopicID, 0))
	if t := b.topic("t"); t.ID != 0 {
		b.Fatalf("topic without subscriptions: %+v", t)
	}
	again := b.subscribe("t", "c1", 10, 100)
	if again.TopicID == one.TopicID || again.ID == one.ID || again.Cursor != 0 {
		b.Fatalf("ids are given once: %+v", again)
	}
	b.reopen()
	all, err := b.st.Subscriptions(b.ctx)
	b.ok(err)
	b.same("left", []hubstate.Subscription{other, again}, all)
}

func testPages(b *bench) {
	s := b.subscribe("t", "c", 10, 100)
	b.publish("t", "11", "22", "33", "44")
	for _, c := range []struct {
		after    int64
		limit    int
		maxBytes int64
		want     int
	}{{0, 10, 100, 4}, {1, 10, 100, 3}, {0, 2, 100, 2}, {0, 10, 1, 1}, {0, 10, 4, 2}, {0, 10, 5, 3}, {4, 10, 100, 0}} {
		got, err := b.st.Notifications(b.ctx, s.TopicID, c.after, c.limit, c.maxBytes)
		b.ok(err)
		if len(got) != c.want || c.want > 0 && got[0].Number != c.after+1 {
			b.Errorf("%+v: %d notifications", c, len(got))
		}
	}
}

func testConcurrency(b *bench) {
	const writers, each = 8, 20
	s := b.subscribe("t", "c", 10, 100)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				n := note("t", fmt.Sprintf("%d-%d", w, i))
				if err := b.st.Commit(b.ctx, &hubstate.Commit{Notifications: []*hubstate.Notification{n}}); err != nil || n.Number == 0 {
					b.Errorf("commit: %v, number %d", err, n.Number)
				}
				if _, err := b.st.Notifications(b.ctx, s.TopicID, n.Number-1, 1, 1); err != nil {
					b.Errorf("read: %v", err)
				}
			}
		})
	}
	wg.Wait()
	got, err := b.st.Notifications(b.ctx, s.TopicID, 0, 1000, 1<<30)
	b.ok(err)
	next := map[byte]int{}
	for i, n := range got {
		if w := n.Body[0]; n.Number != int64(i+1) || !bytes.Equal(n.Body, fmt.Appendf(nil, "%c-%d", w, next[w])) {
			b.Fatalf("%d is %d: %s", i, n.Number, n.Body)
		}
		next[got[i].Body[0]]++
	}
	if len(got) != writers*each {
		b.Fatalf("%d of %d notifications", len(got), writers*each)
	}
}

// testModel: whatever is published, done and ended, each subscription finds all that it is not done with, in order,
// unless a bound took it, and nothing else is kept.
func testModel(t *testing.T, rt *rapid.T) {
	b := &bench{TB: t, ctx: t.Context(), path: fresh(t)}
	b.st = openDB(b, b.path)
	defer func() { b.ok(b.st.Close()) }()
	type sub struct {
		id, topic, cursor int64
		callback          string
	}
	var (
		subs  []sub
		last  int64
		floor int64
		names = rapid.SampledFrom([]string{"a", "b", "c"})
	)
	const keep = 6
	for range rapid.IntRange(1, 30).Draw(rt, "steps") {
		switch rapid.IntRange(0, 4).Draw(rt, "step") {
		case 0:
			name := names.Draw(rt, "callback")
			got := b.subscribe("t", name, 10, 100)
			known := false
			for _, s := range subs {
				known = known || s.callback == name
			}
			if known {
				continue
			}
			if len(subs) == 0 {
				last, floor = 0, 0
			}
			subs = append(subs, sub{id: got.ID, topic: got.TopicID, cursor: last, callback: name})
		case 1, 2:
			n := note("t", "x")
			b.commit(hubstate.Commit{Notifications: []*hubstate.Notification{n}, Keep: keep})
			if len(subs) > 0 {
				last++
				floor = max(floor, last-keep)
			}
		case 3:
			if len(subs) > 0 {
				s := &subs[rapid.IntRange(0, len(subs)-1).Draw(rt, "who")]
				s.cursor = rapid.Int64Range(s.cursor, last).Draw(rt, "cursor")
				b.commit(hubstate.Commit{Progress: []hubstate.Subscription{{ID: s.id, Cursor: s.cursor}}, Keep: keep})
			}
		case 4:
			if len(subs) > 0 {
				i := rapid.IntRange(0, len(subs)-1).Draw(rt, "who")
				b.ok(b.st.End(b.ctx, subs[i].id))
				subs = append(subs[:i:i], subs[i+1:]...)
			}
		}
		if len(subs) == 0 {
			continue
		}
		slowest := last
		for _, s := range subs {
			slowest = min(slowest, s.cursor)
		}
		for _, s := range subs {
			want := []string{}
			for n := max(s.cursor, floor) + 1; n <= last; n++ {
				want = append(want, fmt.Sprintf("%d:x", n))
			}
			b.same("waiting", want, b.bodies(s.topic, s.cursor))
		}
		if got, want := int64(len(b.bodies(subs[0].topic, 0))), last-max(slowest, floor); got != want {
			b.Fatalf("%d are kept, %d wait", got, want)
		}
	}
}
