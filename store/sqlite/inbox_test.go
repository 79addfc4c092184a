package sqlite

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
	"resyncd/store/storetest"
)

// benchDelivery is a signed notification of the usual size.
func benchDelivery(sourceID, setID, subID int64, n int) *store.Delivery {
	body := fmt.Appendf(make([]byte, 0, 1024), "%0512d%0512d", n, n)
	return &store.Delivery{
		SubscriptionID: subID, SourceID: sourceID, SetID: setID, Kind: store.ChannelChange, Received: store.Micros(1_700_000_000_000_000 + n),
		Signed: true, Digest: sha256.Sum256(body), Type: "application/xml", From: 1, Until: 2, Body: body,
	}
}

const posters = 4

// deliverForEver is a callback server: it takes deliveries from several posters and tells those that are kept.
func deliverForEver(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	src, err := s.EnsureSource(ctx, "crash", "https://a.example/")
	if err != nil {
		return err
	}
	subs, err := s.Subscriptions(ctx, src.ID, false)
	if err != nil {
		return err
	}
	if len(subs) == 0 {
		subs = []store.Subscription{{SourceID: src.ID, SetID: 1, Token: "t"}}
		if err := s.AddSubscription(ctx, &subs[0]); err != nil {
			return err
		}
	}
	errs := make(chan error)
	for poster := range posters {
		go func() {
			var err error
			for n := int(subs[0].Delivered) + poster*1_000_000; err == nil; n += 3 {
				var ds []*store.Delivery
				for i := range 1 + n%3 {
					ds = append(ds, benchDelivery(src.ID, 1, subs[0].ID, n+i))
				}
				if err = s.Deliver(ctx, ds, nil); err == nil {
					for _, d := range ds {
						_, err = fmt.Printf("%d %x\n", d.ID, d.Digest)
					}
				}
			}
			errs <- err
		}()
	}
	return <-errs
}

// TestKillDelivering: what was acknowledged is there after a kill at any moment (P4), and nothing is counted that is not.
func TestKillDelivering(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.db")
	acknowledged := map[int64]string{}
	for round := range 5 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "RESYNCD_TEST_DELIVER="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ { // to its end: what it told before it died counts
			var id int64
			var digest string
			if _, err := fmt.Sscan(lines.Text(), &id, &digest); err != nil {
				if n <= 1+31*round {
					t.Fatal(lines.Text(), err)
				}
				break // a line that the kill cut
			}
			if id != 0 {
				acknowledged[id] = digest
			}
			if n == 1+31*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		deliveriesSurvived(t, path, acknowledged)
	}
}

func deliveriesSurvived(t *testing.T, path string, acknowledged map[int64]string) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	subs, err := s.Subscriptions(t.Context(), 0, false)
	if err != nil || len(subs) != 1 {
		t.Fatal(subs, err)
	}
	found, bytes := map[int64]string{}, int64(0)
	for q := (store.InboxQuery{SourceID: subs[0].SourceID, Limit: 100}); ; {
		ds, err := s.Deliveries(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			if sha256.Sum256(d.Body) != d.Digest {
				t.Fatalf("delivery %d is not what was delivered", d.ID)
			}
			found[d.ID] = fmt.Sprintf("%x", d.Digest)
			bytes += int64(len(d.Body))
		}
		q.After = ds[len(ds)-1].ID
	}
	for id, digest := range acknowledged {
		if found[id] != digest {
			t.Errorf("delivery %s was acknowledged as %d, there is %q", digest, id, found[id])
		}
	}
	shares, err := s.InboxShares(t.Context())
	if size := storetest.Waiting(shares); err != nil || size != (store.InboxSize{Deliveries: int64(len(found)), Bytes: bytes}) {
		t.Errorf("%d deliveries of %d bytes, said to be %+v (%v)", len(found), bytes, shares, err)
	}
	if n := subs[0].Delivered - subs[0].Duplicates; n != int64(len(found)) {
		t.Errorf("%d deliveries, %d counted", len(found), n)
	}
}

// TestPollingWritesNothing: asking for requests and for the size of the inbox does not take the writer's turn.
func TestPollingWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	defer hold(t, f.s)()
	if rs, err := f.s.TakeRequests(t.Context(), 1); err != nil || len(rs) != 0 {
		t.Error(rs, err)
	}
	if _, err := f.s.InboxShares(t.Context()); err != nil {
		t.Error(err)
	}
	if err := f.s.TallySubscription(t.Context(), 1, store.Tally{}); err != nil {
		t.Error(err)
	}
	if err := f.s.Deliver(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}

// TestFullInbox: a full disk is told apart, and nothing of a group is kept or counted (F7).
func TestFullInbox(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	sub := store.Subscription{SourceID: f.claim.SourceID, SetID: f.set.ID, Token: "t"}
	if err := f.s.AddSubscription(t.Context(), &sub); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		err := f.s.db.Write(t.Context(), "limit", func(tx *dbfile.Session) {
			tx.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)) // at least the present size
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	small, large := benchDelivery(sub.SourceID, sub.SetID, sub.ID, 1), benchDelivery(sub.SourceID, sub.SetID, sub.ID, 2)
	large.Body = make([]byte, 1<<20)
	if err := f.s.Deliver(t.Context(), []*store.Delivery{small, large}, nil); !errors.Is(err, store.ErrFull) {
		t.Fatal(err)
	}
	shares, err := f.s.InboxShares(t.Context())
	size := storetest.Waiting(shares)
	got, err2 := f.s.Subscription(t.Context(), sub.ID)
	if err := errors.Join(err, err2); err != nil || size.Deliveries != 0 || got.Delivered != 0 || small.ID != 0 {
		t.Fatalf("%+v, %+v, %v", size, got, err)
	}
	limit(1 << 20)
	if err := f.s.Deliver(t.Context(), []*store.Delivery{small, large}, nil); err != nil || small.Duplicate {
		t.Fatal(err)
	}
}

// BenchmarkDeliver: durable deliveries, so many to a transaction.
func BenchmarkDeliver(b *testing.B) {
	for _, size := range []int{1, 8, 32} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
			sub := store.Subscription{SourceID: f.claim.SourceID, SetID: f.set.ID, Token: "t"}
			if err := f.s.AddSubscription(b.Context(), &sub); err != nil {
				b.Fatal(err)
			}
			ds := make([]*store.Delivery, size)
			n := 0
			for b.Loop() {
				for i := range ds {
					ds[i] = benchDelivery(sub.SourceID, sub.SetID, sub.ID, n)
					n++
				}
				if err := f.s.Deliver(b.Context(), ds, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}

// BenchmarkInbox is what a callback server pays to learn whether there is room.
func BenchmarkInbox(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	for b.Loop() {
		if _, err := f.s.InboxShares(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTakeNone is what a daemon pays for each look for requests.
func BenchmarkTakeNone(b *testing.B) {
	f := newFilled(b, filepath.Join(b.TempDir(), "state.db"))
	for b.Loop() {
		if _, err := f.s.TakeRequests(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
}
