package sync

import (
	"context"
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
