package sync

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination"
	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/keymap"
)

// pusher is a rig whose Source's changes are made into notifications by hand, and a Follower that is given them.
type pusher struct {
	*rig
	eng      *Engine
	f        *Follower
	store    store.Store
	sub      store.Subscription
	channels []destination.Channel // as they were offered last
	late     time.Duration         // how far the engine's clock is ahead
	kind     store.ChannelKind     // of its channel; the change channel if it is not set
	also     func(*Observer)       // adds to what the next Follower tells
	// failed hears of errors of slices and, at "", of the one that ended the Follower; if it is not set the test fails.
	failed func(at Work, err error)

	mu      sync.Mutex
	changes []source.Change
	gaps    []store.Gap
	landed  []Mirrored
	missed  int64
	from    rsdoc.Micros // where the next notification begins
	jobs    map[Work]time.Time
	wake    chan struct{}
	stop    func()
}

func newPusher(t *testing.T, o source.Options, bodies map[string]string) *pusher {
	t.Helper()
	return newPusherIn(t, t.TempDir(), o, bodies)
}

// newSettled is a pusher whose baseline is taken and whose first push, a.txt, has come through: no hole is left.
func newSettled(t *testing.T, o source.Options, bodies map[string]string) *pusher {
	t.Helper()
	p := newPusher(t, o, bodies)
	p.taken()
	p.pull(false)
	p.put("a.txt", "1")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	return p
}

func newPusherIn(t tester, folder string, o source.Options, bodies map[string]string, tune ...func(*Target)) *pusher {
	t.Helper()
	p := &pusher{jobs: map[Work]time.Time{}, wake: make(chan struct{}, 1)}
	o.OnChange = func(c source.Change) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changes = append(p.changes, c)
	}
	p.rig = newRigIn(t, folder, o, bodies)
	for _, f := range tune {
		p.tune = f
	}
	p.follow()
	t.Cleanup(func() { p.stop() })
	return p
}

// follow begins a Follower; halt ends it.
func (p *pusher) follow() {
	p.t.Helper()
	e, target, done := p.open()
	p.eng, p.store = e, e.Store
	observe := Observer{
		Mirrored: func(m Mirrored) { p.locked(func() { p.landed = append(p.landed, m) }) },
		Missed:   func(_ int64, n int64) { p.locked(func() { p.missed += n }) },
	}
	observe.Gap = func(g store.Gap) { p.locked(func() { p.gaps = append(p.gaps, g) }) }
	if p.also != nil {
		p.also(&observe)
	}
	f, err := e.Follow(p.t.Context(), target, FollowOptions{
		ReorderGrace: 30 * time.Millisecond, Poll: time.Minute, Patience: 5 * time.Second, Later: p.later,
		Subscribed: func(int64) store.Micros { return 1 },
		Offered: func(_ context.Context, _ int64, channels []destination.Channel) {
			p.locked(func() { p.channels = channels })
		},
		Observe: observe,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.f = f
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	work, stopWork := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() {
		err := f.Run(ctx)
		if err != nil && p.failed != nil {
			p.failed("", err) // as soon as it is so
			err = nil
		}
		ran <- err
	}()
	both.Go(func() { p.drive(work) })
	var once sync.Once
	p.stop = func() {
		once.Do(func() {
			stopWork()
			both.Wait()
			cancel()
			if err := <-ran; err != nil {
				p.t.Errorf("the follower ended: %v", err)
			}
			if err := f.Close(); err != nil {
				p.t.Error(err)
			}
			done()
		})
	}
}

func (p *pusher) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *pusher) later(w Work, due time.Time) {
	due = due.Add(-p.late)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.jobs[w]; !ok || due.Before(at) {
		p.jobs[w] = due
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// drive runs slices as they become due.
func (p *pusher) drive(ctx context.Context) {
	for ctx.Err() == nil {
		var next Work
		at := p.eng.Now().Add(time.Hour)
		p.locked(func() {
			for w, due := range p.jobs {
				if due.Before(at) {
					next, at = w, due
				}
			}
			if !at.After(p.eng.Now()) {
				delete(p.jobs, next)
			}
		})
		if wait := at.Sub(p.eng.Now()); wait > 0 {
			select {
			case <-p.wake:
			case <-time.After(wait):
			case <-ctx.Done():
			}
			continue
		}
		switch err := p.f.Do(ctx, next); {
		case err == nil || ctx.Err() != nil:
		case p.failed != nil:
			p.failed(next, err)
		default:
			p.t.Errorf("%s: %v", next, err)
		}
	}
}

// pull pulls and waits for the result.
func (p *pusher) pull(full bool) Result {
	p.t.Helper()
	done, res := make(chan error, 1), Result{}
	p.f.RequestPull(PullRequest{Full: full, Ended: func(r Result) { res = r }, Done: func(err error) { done <- err }})
	p.later(WorkPull, p.eng.Now())
	select {
	case err := <-done:
		if err != nil {
			p.t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		p.t.Fatal("the pull does not end")
	}
	return res
}

// taken are the changes since the last call, and the interval that a notification of them covers.
func (p *pusher) taken() ([]source.Change, rsdoc.Interval) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.changes
	p.changes = nil
	iv := rsdoc.Interval{From: p.from, Until: p.from}
	if len(out) > 0 {
		if iv.Until = out[len(out)-1].Datetime; p.from == 0 {
			iv.From = out[0].Datetime - 1
		}
	}
	p.from = iv.Until
	return out, iv
}

// document writes a notification.
func (p *pusher) document(iv rsdoc.Interval, changes []source.Change) []byte {
	p.t.Helper()
	var b bytes.Buffer
	h := rsdoc.NewHead(rsdoc.List, rsdoc.KindChangeNotification)
	h.From, h.Until = iv.From, iv.Until
	w, err := rsdoc.NewWriter(&b, h)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range changes {
		e := rsdoc.NewEntry(c.URI)
		e.Change, e.Datetime, e.HasMD = c.Change, c.Datetime, true
		if c.Change != rsdoc.ChangeDeleted {
			d := rsdoc.Digest{Alg: rsdoc.SHA256}
			copy(d.Sum[:], c.SHA256[:])
			e.Digests, e.Length = []rsdoc.Digest{d}, c.Length
		}
		if err := w.Write(&e); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	return b.Bytes()
}

// deliver puts a notification into the inbox, as the callback server does.
func (p *pusher) deliver(iv rsdoc.Interval, body []byte, signed bool) {
	p.t.Helper()
	ctx := context.Background()
	set := p.theSet()
	if p.sub.ID == 0 {
		kind := cmp.Or(p.kind, store.ChannelChange)
		p.sub = store.Subscription{SourceID: set.SourceID, SetID: set.ID, Kind: kind, Topic: "t", Hub: "h", Token: "x",
			State: store.SubActive}
		if err := p.store.AddSubscription(ctx, &p.sub); err != nil {
			p.t.Fatal(err)
		}
	}
	d := &store.Delivery{
		SubscriptionID: p.sub.ID, SourceID: set.SourceID, SetID: set.ID, Kind: p.sub.Kind, Received: store.MicrosOf(time.Now()),
		Signed: signed, Digest: sha256.Sum256(body), From: store.Micros(iv.From), Until: store.Micros(iv.Until), Body: body,
	}
	if err := p.store.Deliver(ctx, []*store.Delivery{d}, nil); err != nil {
		p.t.Fatal(err)
	}
	p.later(WorkNotify, time.Now())
	p.f.Heard()
}

// push notifies of everything that changed since the last notification.
func (p *pusher) push() {
	p.t.Helper()
	changes, iv := p.taken()
	p.deliver(iv, p.document(iv, changes), true)
}

func (p *pusher) theSet() store.Set {
	p.t.Helper()
	src, err := p.store.Source(context.Background(), "test")
	if err != nil {
		p.t.Fatal(err)
	}
	sets, err := p.store.Sets(context.Background(), src.ID)
	if err != nil || len(sets) != 1 {
		p.t.Fatalf("%d sets, %v", len(sets), err)
	}
	return sets[0]
}

// eventually waits for something to become true.
func (p *pusher) eventually(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	p.t.Fatalf("%s: not within 20 s; set %+v, gaps %+v\n%s", what, p.theSet(), p.listed(), p.rows())
}

// rows tells what the state says of every resource that is not as the Source has it.
func (p *pusher) rows() string {
	var out strings.Builder
	got, all := p.files(), maps.Collect(p.src.Resources())
	rs, err := p.store.Scan(context.Background(), store.ScanQuery{SourceID: p.theSet().SourceID, Limit: 1000})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, r := range rs {
		sum, there := all[r.URI]
		if got[r.Key] == fmt.Sprintf("%x", sum) || !there && got[r.Key] == "" {
			continue
		}
		fmt.Fprintf(&out, "%s there %v: have %+v, work %+v\n", r.URI, there, r.Have, r.Work)
		for _, w := range r.Wants {
			fmt.Fprintf(&out, "    want %+v, listed %+v\n", w, w.Listed)
		}
	}
	return out.String()
}

// same reports whether the mirror equals the Source.
func (p *pusher) same() bool {
	got := p.files()
	for uri, sum := range p.src.Resources() {
		key, err := keymap.NaturalKey(uri)
		if err != nil || got[key] != fmt.Sprintf("%x", sum) {
			return false
		}
		delete(got, key)
	}
	return len(got) == 0
}

func (p *pusher) listed() []store.Gap {
	p.t.Helper()
	gaps, err := p.store.Gaps(context.Background(), p.theSet().ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return gaps
}

// quiet: nothing waits in the inbox, nothing is owed, no hole and no gap is open, and what was fetched is counted, which it is
// once it is durable. The work that brought this about may not have ended yet.
func (p *pusher) quiet() bool {
	set := p.theSet()
	size, err := waiting(p.store)
	counts, cerr := p.store.Counts(context.Background(), set.ID)
	if err = errors.Join(err, cerr); err != nil {
		p.t.Fatal(err)
	}
	cover := coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}
	open := slices.ContainsFunc(p.listed(), func(g store.Gap) bool { return g.State.Open() })
	return size.Deliveries == 0 && counts.Owed == 0 && len(cover.Unheard()) == 0 && !open && p.f.Idle()
}

const never = rsdoc.Micros(math.MaxInt64)

// freeze makes all documents what they are now until the returned function is called.
func (p *pusher) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	var mu sync.Mutex
	frozen := map[string]*httptest.ResponseRecorder{}
	docs := func(path string) bool {
		return strings.HasPrefix(path, "/.resourcesync/") || strings.HasPrefix(path, "/.well-known/")
	}
	p.rig.mu.Lock()
	asks := p.asks
	p.rig.mu.Unlock()
	for _, path := range asks {
		if docs(path) {
			rec := httptest.NewRecorder()
			p.src.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
			frozen[path] = rec
		}
	}
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		rec := frozen[r.URL.Path]
		if rec == nil {
			return false
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
		return true
	})
	return func() { p.interpose(nil) }
}

// waiting is how much is in the inbox, of all Sources.
func waiting(st store.Inbox) (sum store.InboxSize, err error) {
	shares, err := st.InboxShares(context.Background())
	for _, share := range shares {
		sum.Deliveries, sum.Bytes = sum.Deliveries+share.Deliveries, sum.Bytes+share.Bytes
	}
	return sum, err
}
