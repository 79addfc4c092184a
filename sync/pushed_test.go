package sync

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// lie has a notification say one thing, and waits until it is taken up.
func (p *pusher) lie(c source.Change) {
	p.t.Helper()
	now := rsdoc.MicrosOf(time.Now())
	iv := rsdoc.Interval{From: now - 1e6, Until: now}
	p.deliver(iv, p.document(iv, []source.Change{c}), true)
	p.emptied()
}

func (p *pusher) owed() int64 {
	p.t.Helper()
	counts, err := p.store.Counts(context.Background(), p.theSet().ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return counts.Owed
}

func (p *pusher) trashed() []store.Trashed {
	p.t.Helper()
	out, err := p.store.Trash(context.Background(), p.theSet().SourceID, store.NoTime, "", 100)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// hastens makes the engine's clock one that can be put forward: what waits by the clock need not be waited for.
func (p *pusher) hastens() (forward func(time.Duration)) {
	var ahead atomic.Int64
	p.stop()
	p.engine = func(e *Engine) { e.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }
	p.follow()
	p.pull(false)
	return func(d time.Duration) { ahead.Add(int64(d)) }
}

// TestLieOfTheNearFuture: a push may be dated a little ahead, for clocks differ; what truly happens until then is taken up
// all the same, whether a push tells of it or only a list.
func TestLieOfTheNearFuture(t *testing.T) {
	t.Parallel()
	for name, pushed := range map[string]bool{"pushed": true, "listed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSettled(t, source.Options{}, many(3))
			one := []byte("1")
			p.lie(source.Change{URI: p.src.URI("a.txt"), Change: rsdoc.ChangeUpdated, SHA256: sha256.Sum256(one), Length: int64(len(one)),
				Datetime: rsdoc.MicrosOf(time.Now().Add(4 * time.Minute))})
			p.put("a.txt", "2")
			if pushed {
				p.push()
			} else {
				p.taken()
				p.put("later.txt", "so that the list goes on")
				p.taken()
				p.pull(false)
			}
			p.eventually("the change is here", p.same)
		})
	}
}

// TestLieAfterALoss: a deletion was lost, and then the hub says that the resource was changed: the list that tells of the
// deletion counts, although its time is the earlier one.
func TestLieAfterALoss(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.src.Delete("a.txt")
	p.taken()
	p.lie(source.Change{URI: p.src.URI("a.txt"), Change: rsdoc.ChangeUpdated, Length: 7, Datetime: rsdoc.MicrosOf(time.Now())})
	p.pull(false)
	p.eventually("the deletion is carried out", func() bool { return p.same() && p.owed() == 0 })
}

// TestDeniedPush: what is pushed and the Source does not serve is taken back after some seconds, without a document that
// tells anything new.
func TestDeniedPush(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	forward := p.hastens()
	p.src.Delete("d1/r001.txt")
	p.taken()
	p.pull(false)
	now := rsdoc.MicrosOf(time.Now())
	p.lie(source.Change{URI: p.src.URI("a.txt"), Change: rsdoc.ChangeUpdated, Length: 1, Datetime: now})             // with a hash of nothing
	p.lie(source.Change{URI: p.src.URI("d0/r000.txt"), Change: rsdoc.ChangeUpdated, Length: 1 << 62, Datetime: now}) // no disk has room for it
	p.lie(source.Change{URI: p.src.URI("nosuch.txt"), Change: rsdoc.ChangeCreated, Length: 1, Datetime: now})
	p.lie(source.Change{URI: p.src.URI("d1/r001.txt"), Change: rsdoc.ChangeUpdated, Length: 1, Datetime: now})
	if n := p.owed(); n != 4 {
		t.Errorf("%d owed before the Source was asked often enough, want 4", n)
	}
	forward(denyAfter)
	p.eventually("nothing is owed", func() bool { return p.owed() == 0 })
	if !p.same() {
		t.Errorf("the mirror is not the Source\n%s", p.rows())
	}
}

// TestTruePushBeforeItIsServed: a push that was taken back, because what serves the resource lags behind, comes true with the
// list that tells of it.
func TestTruePushBeforeItIsServed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	forward := p.hastens()
	for path, change := range map[string]rsdoc.Change{"/a.txt": rsdoc.ChangeUpdated, "/b.txt": rsdoc.ChangeCreated} {
		p.lie(source.Change{URI: f.uri(path), Change: change, SHA256: sha256.Sum256([]byte("two")), Length: 3, Datetime: minute(t, 5)})
	}
	p.eventually("both were asked for", func() bool {
		_, asks := f.asked()
		return slices.Contains(asks, "/a.txt") && slices.Contains(asks, "/b.txt")
	})
	forward(denyAfter)
	p.eventually("nothing is owed", func() bool { return p.owed() == 0 })
	f.holds(map[string]string{"/a.txt": "one"})
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/b.txt", "two", "created", 5), f.changed("/a.txt", "two", "updated", 5)))
	p.pull(false)
	p.eventually("nothing is owed", func() bool { return p.owed() == 0 })
	f.holds(map[string]string{"/a.txt": "two", "/b.txt": "two"})
}

// TestDeniedDeletionOfWhatWasMadeAgain: a resource was deleted, as a list told, and made again, as only a push did. A deletion
// that the hub invents, and the Source denies, takes no file away for what the list said (P5).
func TestDeniedDeletionOfWhatWasMadeAgain(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.src.Delete("a.txt")
	p.taken()
	p.put("b.txt", "so that the list goes on")
	p.taken()
	p.pull(false)
	thaw := p.freeze(t)
	defer thaw()
	p.put("a.txt", "again")
	p.push()
	p.eventually("it is here again", p.same)
	before := len(p.trashed())
	p.lie(source.Change{URI: p.src.URI("a.txt"), Change: rsdoc.ChangeDeleted, Datetime: rsdoc.MicrosOf(time.Now())})
	p.eventually("nothing is owed", func() bool { return p.owed() == 0 && p.f.Idle() })
	if now := p.trashed(); len(now) > before || !p.same() {
		t.Errorf("files went: %+v\n%s", now[before:], p.rows())
	}
}

// TestLieBeforeTheNews: the deletion of a resource that is not known yet hides it no longer than until a list tells of it.
func TestLieBeforeTheNews(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.put("new.txt", "1")
	p.taken()
	p.lie(source.Change{URI: p.src.URI("new.txt"), Change: rsdoc.ChangeDeleted, Datetime: rsdoc.MicrosOf(time.Now())})
	p.pull(false)
	p.eventually("it is here", func() bool { return p.same() && p.owed() == 0 })
}
