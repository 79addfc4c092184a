package sync

import (
	"context"
	"crypto/sha256"
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

// TestLieOverALostUpdate: the same of an update, with a hash that is not the Source's.
func TestLieOverALostUpdate(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.put("a.txt", "2")
	p.taken()
	p.lie(source.Change{URI: p.src.URI("a.txt"), Change: rsdoc.ChangeUpdated, Length: 1, Datetime: rsdoc.MicrosOf(time.Now())})
	p.pull(false)
	p.eventually("the update is here", func() bool { return p.same() && p.owed() == 0 })
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
