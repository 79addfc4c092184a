package sync

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination"
	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/pull"
)

// A document that hangs: it is drawn up before it hangs, or only when it goes on, or half of it has come.
const (
	drawnUpLater = iota
	drawnUpBefore
	halfSent
	waysToHang
)

// isDocument tells the paths of documents from those of resources.
func isDocument(path string) bool {
	return path == "/" || path == "/robots.txt" || strings.HasPrefix(path, "/.resourcesync/") || strings.HasPrefix(path, "/.well-known/")
}

// hang has one document of the Source hang from now on, the first that is chosen after so many others. hung is closed when it
// was asked for; nothing hangs any more after release.
func (r *rig) hang(way, others int, chosen func(path string) bool) (hung <-chan struct{}, release func()) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	left := others
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		mine := chosen(req.URL.Path) && left == 0
		if chosen(req.URL.Path) {
			left--
		}
		mu.Unlock()
		if !mine {
			return false
		}
		rec := httptest.NewRecorder()
		draw := func() { r.src.Handler().ServeHTTP(rec, req) }
		send := func(b []byte) {
			maps.Copy(w.Header(), rec.Header())
			w.WriteHeader(rec.Code)
			_, _ = w.Write(b)
		}
		if way != drawnUpLater {
			draw()
		}
		half := 0
		if way == halfSent && rec.Body.Len() > 0 {
			half = rec.Body.Len() / 2
			send(rec.Body.Bytes()[:half])
			_ = http.NewResponseController(w).Flush()
		}
		close(asked)
		select {
		case <-goOn:
		case <-req.Context().Done():
			return true
		}
		if way == drawnUpLater {
			draw()
		}
		if half > 0 {
			_, _ = w.Write(rec.Body.Bytes()[half:])
		} else {
			send(rec.Body.Bytes())
		}
		return true
	})
	return asked, sync.OnceFunc(func() {
		close(goOn)
		r.interpose(nil)
	})
}

// beginPull asks for a pull. The function that it returns tells whether that has ended.
func (p *pusher) beginPull(full bool) (ended func() bool) {
	done, over := make(chan error, 1), false
	p.f.RequestPull(PullRequest{Full: full, Done: func(err error) { done <- err }})
	p.later(WorkPull, p.eng.Now())
	return func() bool {
		p.t.Helper()
		select {
		case err := <-done:
			if over = true; err != nil && p.failed == nil {
				p.t.Fatal(err)
			}
		default:
		}
		return over
	}
}

// slowPull pulls, and has other things done while a document of the Source hangs, the one after so many others, if that is
// ever asked for. over tells that the Follower has ended.
func (p *pusher) slowPull(from *rig, full bool, way, others int, over func() bool, meanwhile func()) {
	p.t.Helper()
	hung, release := from.hang(way, others, isDocument)
	defer release()
	ended := p.beginPull(full)
	p.eventually("the pull waits, or ends", func() bool {
		select {
		case <-hung:
			return true
		default:
			return ended() || over()
		}
	})
	meanwhile()
	release()
	p.eventually("the pull ends", func() bool { return ended() || over() })
}

// TestPushesPassAHangingDocument: while a pull waits for a document that hangs, whichever that is and however, what is pushed
// is mirrored; and the pull that goes on after that loses nothing of it (P11, P3).
func TestPushesPassAHangingDocument(t *testing.T) {
	t.Parallel()
	for name, chosen := range map[string]func(path string) bool{
		"discovery":     isDocument,
		"resource list": func(path string) bool { return strings.Contains(path, "resourcelist") },
		"change list":   func(path string) bool { return strings.Contains(path, "changelist") },
	} {
		for way, how := range []string{"drawn up later", "drawn up before", "half sent"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				p := newSettled(t, source.Options{}, many(3))
				p.put("pulled.txt", "told by a list, and pushed late")
				hung, release := p.hang(way, 0, chosen)
				defer release()
				ended := p.beginPull(true)
				<-hung
				p.push()
				p.put("a.txt", "2")
				p.push()
				p.src.Delete("d0/r000.txt")
				p.put("new.txt", "1")
				p.push()
				p.eventually("what was pushed is mirrored", func() bool { return p.same() && p.quiet() })
				release()
				p.eventually("the pull ends", ended)
				p.put("a.txt", "3")
				p.push()
				p.eventually("and stays so", func() bool { return p.same() && p.quiet() })
				if set := p.theSet(); len(set.Joint) != 1 || len(p.listed()) > 0 {
					t.Errorf("joint coverage %v, gaps %+v", set.Joint, p.listed())
				}
			})
		}
	}
}

// TestHolesOfPushesInAPull: of the holes that a pull watches, one that a late notification closes in the midst of the pull
// stays closed by that; one that comes up then is closed by what the pull reads after it.
func TestHolesOfPushesInAPull(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	lost := func(name string) message {
		p.put(name, "1")
		changes, iv := p.taken()
		return message{iv, p.document(iv, changes)}
	}
	late := lost("late.txt")
	hung, release := p.hang(drawnUpLater, 0, func(path string) bool { return strings.Contains(path, "changelist") })
	defer release()
	p.put("first.txt", "1")
	p.push()
	<-hung // the hole before it is asked about
	if gaps := p.listed(); len(gaps) != 1 || gaps[0].State != store.GapPulling {
		t.Fatalf("gaps %+v", gaps)
	}
	p.deliver(late.iv, late.body, true)
	lost("lost.txt")
	p.put("second.txt", "1")
	p.push()
	p.eventually("one is closed, one is open", func() bool {
		gaps := p.listed()
		return len(gaps) == 2 && gaps[0].State == store.GapClosed && gaps[1].State.Open()
	})
	release()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	if gaps := p.listed(); len(gaps) != 2 || gaps[0].ClosedBy != coverage.ByNotification || gaps[1].ClosedBy != coverage.ByChangeList {
		t.Errorf("gaps %+v", gaps)
	}
}

// TestPushOfAListedRow: a resource that a baseline has written and that is pushed before the baseline has come to its end is
// no less listed for that, or the documents would be taken to say that it is gone (P5).
func TestPushOfAListedRow(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	h := p.hand(t)
	p.put("new.txt", "1")
	listed, _ := p.taken()
	b := p.listing(h, store.Micros(listed[0].Datetime))
	p.put("new.txt", "2")
	p.push()
	h.turn.reading, h.turn.between = b.Puller, true
	if err := h.notify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.theSet().Joint, b.Puller.Cover.Joint); diff != "" {
		t.Errorf("coverage of the set and of its pull (-set +pull):\n%s", diff)
	}
	if err := b.Sweep(t.Context(), b.At); err != nil {
		t.Fatal(err)
	}
	if w := p.want("new.txt"); !w.Pushed || w.Listed == nil || w.Listed.State != store.WantPresent {
		t.Errorf("want %+v, listed %+v", w, w.Listed)
	}
}

// TestPushedDeletionHeeded: a deletion is pushed, and while its file waits to go a full list does not name the resource either.
// What older documents said of it must not count again should a push that is untrue call it created.
func TestPushedDeletionHeeded(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, many(3))
	h := p.hand(t)
	p.src.Delete("d0/r000.txt")
	p.push()
	if err := h.notify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := p.want("d0/r000.txt"); !w.Pushed || w.State != store.WantAbsent || w.Listed == nil || w.Listed.State != store.WantPresent {
		t.Fatalf("want %+v, listed %+v", w, w.Listed)
	}
	p.put("new.txt", "1")
	listed, _ := p.taken()
	b := p.listing(h, store.Micros(listed[0].Datetime))
	if err := b.Sweep(t.Context(), b.At); err != nil {
		t.Fatal(err)
	}
	if w := p.want("d0/r000.txt"); !w.Pushed || w.State != store.WantAbsent || w.Listed == nil || w.Listed.State != store.WantAbsent {
		t.Errorf("want %+v, listed %+v", w, w.Listed)
	}
}

// listing reads a baseline that names what the Source has, up to its end.
func (p *pusher) listing(h *byHand, at store.Micros) *pull.Baseline {
	p.t.Helper()
	ctx := context.Background()
	set := p.theSet()
	reads, err := h.s.NewPuller(&set, &destination.SetOffer{ID: set.CapabilityList})
	if err != nil {
		p.t.Fatal(err)
	}
	b := &pull.Baseline{Puller: reads, At: at, Listed: 1}
	reads.Plan.Reading.At = at
	if err := b.Open(ctx); err != nil {
		p.t.Fatal(err)
	}
	c := merge.Candidate{State: store.WantPresent, Length: -1, LastMod: store.NoTime, Version: store.Version{From: at, Until: at, Ordinal: 1, Document: 1}}
	for uri := range p.src.Resources() {
		if err := reads.Plan.Add(ctx, plan.Entry{URI: uri, Cand: c, Baseline: true}); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := reads.Plan.Flush(ctx); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// want is what the set wants of a resource.
func (p *pusher) want(name string) *store.Want {
	p.t.Helper()
	set := p.theSet()
	r, err := p.store.Resource(context.Background(), set.SourceID, p.src.URI(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return r.WantFor(set.ID)
}

// TestResetKeepsTheTurn: a baseline that begins a new history overrides newer wants, so no push may come in its midst.
func TestResetKeepsTheTurn(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, nil)
	h := p.hand(t)
	h.turn.slice = t.Context()
	h.Heard()
	release := h.turn.keep()
	h.await()()
	if release(); h.begun {
		t.Error("the turn was given away")
	}
	h.turn.slice = nil
	if h.await()(); h.begun {
		t.Error("a slice that reads no documents gave its turn away")
	}
	h.turn.slice = t.Context()
	resume := h.await()
	p.eventually("the turn is given away", func() bool { return len(h.turn.heard) == 0 })
	if resume(); !h.begun || h.turn.between {
		t.Errorf("taken up: %v; the turn was not taken back: %v", h.begun, h.turn.between)
	}
}

// TestListenerEnds: what comes into the inbox as a slice ends is left to the slice that was asked for with it, and a panic
// over it costs the process nothing.
func TestListenerEnds(t *testing.T) {
	t.Parallel()
	p := newSettled(t, source.Options{}, nil)
	h := p.hand(t)
	over, end := context.WithCancel(t.Context())
	end()
	h.turn.slice = over
	h.Heard()
	h.Heard() // never blocks
	if h.await()(); h.begun {
		t.Error("looked into the inbox after the end")
	}
	later := h.o.Later
	h.o.Later = func(Work, time.Time) { panic("on purpose") }
	if err := h.hear(t.Context()); err == nil || h.turn.between {
		t.Errorf("%v, between %v", err, h.turn.between)
	}
	h.o.Later = later
}

// notices waits until the inbox was looked through, as far as it can be before a hole is closed.
func (p *pusher) notices() {
	p.t.Helper()
	p.eventually("the inbox is taken up", func() bool {
		ds, err := p.store.Deliveries(context.Background(), store.InboxQuery{SourceID: p.theSet().SourceID, Limit: 1})
		if err != nil {
			p.t.Fatal(err)
		}
		return len(ds) == 0
	})
}
