package sync

import (
	"errors"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/parsed"
)

// TestGraceIsWaitedOut: a hole waits for the notification that may fill it, and no document is asked for until then; when it
// comes, none ever is (F36).
func TestGraceIsWaitedOut(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	h := p.hand(t)
	h.o.ReorderGrace = time.Hour
	p.put("first.txt", "1")
	first, early := p.taken()
	p.put("second.txt", "2")
	second, late := p.taken()
	p.forgetAsked()
	take := func(iv rsdoc.Interval, changes []source.Change) {
		t.Helper()
		p.deliver(iv, p.document(iv, changes), true)
		if err := errors.Join(h.Do(t.Context(), WorkNotify), h.Do(t.Context(), WorkGap)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(h.Do(t.Context(), WorkNotify), h.Do(t.Context(), WorkGap)); err != nil { // what the last Follower left
		t.Fatal(err)
	}
	h.mu.Lock()
	h.asked, h.dues = nil, nil
	h.mu.Unlock()
	take(late, second)
	gaps := p.listed()
	if n := len(gaps); n == 0 || gaps[n-1].State != store.GapWaiting || h.soon(WorkGap) > 0 || h.soon(WorkPull) > 0 {
		t.Errorf("gaps %+v, asked for %v at %v", gaps, h.asked, h.dues)
	}
	take(early, first)
	p.eventually("both are here", func() bool { return p.same() && p.quiet() })
	if gaps = p.listed(); gaps[len(gaps)-1].ClosedBy != coverage.ByNotification {
		t.Errorf("gaps %+v", gaps)
	}
	if docs, _ := p.asked(); len(docs) > 0 {
		t.Errorf("asked for %q", docs)
	}
}

// TestTooManyEntries: of a notification only so many entries are taken; its interval proves nothing then, and a pull finds
// what it hid (F45).
func TestTooManyEntries(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	p.put("a.txt", "2")
	hidden, iv := p.taken()
	changes := make([]source.Change, parsed.NoticeMost+1)
	for i := range changes {
		changes[i] = source.Change{URI: "http://else.example/", Change: rsdoc.ChangeDeleted, Datetime: hidden[0].Datetime}
	}
	body := p.document(iv, changes)
	n, err := parsed.ReadNotice(body, rsdoc.KindChangeNotification, func(*rsdoc.Entry) error { return nil })
	if _, proves := n.Interval(); err != nil || n.N != parsed.NoticeMost || n.Err == nil || proves {
		t.Errorf("%d entries were taken, the interval counts: %t; %v, %v", n.N, proves, n.Err, err)
	}
	p.deliver(iv, body, true)
	for end := time.Now().Add(time.Minute); !p.same() && time.Now().Before(end); <-time.After(50 * time.Millisecond) {
	} // so much takes its time on a busy machine
	p.eventually("what it hid was pulled", p.same)
	p.eventually("quiet", p.quiet)
}
