package sync

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
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

// TestDeniedDeletionByAnErrorPage: a resource that only a push told of was changed since by nobody. That its Source answers every
// request with an error page of status 200 denies a pushed deletion, and puts nothing into the mirror (P2).
func TestDeniedDeletionByAnErrorPage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/b.txt", "bee")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	f.page("/a.txt", "first")
	iv := rsdoc.Interval{From: minute(t, 5), Until: minute(t, 6)}
	p.deliver(iv, p.document(iv, []source.Change{
		{URI: f.uri("/a.txt"), Change: rsdoc.ChangeCreated, Datetime: iv.Until, Length: 5, SHA256: sha256.Sum256([]byte("first"))},
	}), true)
	both := map[string]string{"/a.txt": "first", "/b.txt": "bee"}
	p.emptied()
	p.eventually("it is here", func() bool { return p.owed() == 0 && p.f.Idle() })
	f.holds(both)
	asked := make(chan struct{}, 100)
	f.handle("/a.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>Sorry</title>")
		asked <- struct{}{}
	})
	p.told(f, "/a.txt", rsdoc.ChangeDeleted, minute(t, 10), minute(t, 11))
	<-asked
	p.eventually("nothing is owed", func() bool { return p.owed() == 0 && p.f.Idle() })
	f.holds(both)
	// What the Source lists in the end counts, be it the deletion.
	f.handle("/a.txt", nil)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`,
		f.changed("/a.txt", "first", "created", 6), f.deleted("/a.txt", 11), f.changed("/b.txt", "bees", "updated", 30)))
	f.page("/b.txt", "bees")
	p.pull(false)
	p.eventually("at rest", func() bool { return p.owed() == 0 && p.f.Idle() })
	f.holds(map[string]string{"/b.txt": "bees"})
}
