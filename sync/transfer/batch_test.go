package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
)

// manifest describes members: each is loc, path and the attributes that its bytes have.
func manifest(entries ...[3]string) string {
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="resourcedump-manifest" at="2026-01-01T00:00:00Z"/>`)
	for _, e := range entries {
		fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md path="%s" %s/></url>`, e[0], e[1], e[2])
	}
	return b.String() + `</urlset>`
}

// TestBatch: what an endpoint answers is used as any package is; whatever is wrong with it costs GETs.
func TestBatch(t *testing.T) {
	t.Parallel()
	described := func(body string) string { return fmt.Sprintf(`hash="%s" length="%d"`, md5of(body), len(body)) }
	for name, tc := range map[string]struct {
		answer func(t *testing.T, c *carried) string
		failed bool
		asked  string // after the batch
	}{
		"right": {func(t *testing.T, c *carried) string {
			return string(pack(t, map[string]string{"a": "A", "b": "BB", "manifest.xml": manifest(
				[3]string{c.srv.URL + "/a", "/a", described("A")}, [3]string{c.srv.URL + "/b", "b", ""})}))
		}, false, ""},
		"one is missing": {func(t *testing.T, c *carried) string {
			return string(pack(t, map[string]string{"a": "A", "manifest.xml": manifest(
				[3]string{c.srv.URL + "/a", "/a", described("A")}, [3]string{c.srv.URL + "/b", "b", ""},
				[3]string{c.srv.URL + "/c", "a", ""})}))
		}, false, "/b"},
		"one is wrong": {func(t *testing.T, c *carried) string {
			return string(pack(t, map[string]string{"a": "A", "b": "XX", "manifest.xml": manifest(
				[3]string{c.srv.URL + "/a", "/a", described("A")}, [3]string{c.srv.URL + "/b", "b", ""})}))
		}, false, "/b"},
		"one has no path": {func(t *testing.T, c *carried) string {
			return string(pack(t, map[string]string{"a": "A", "manifest.xml": manifest(
				[3]string{c.srv.URL + "/a", "", described("A")}, [3]string{c.srv.URL + "/b", "b", ""})}))
		}, false, "/a /b"},
		"a cut manifest": {func(t *testing.T, c *carried) string {
			whole := manifest([3]string{c.srv.URL + "/a", "/a", described("A")}, [3]string{c.srv.URL + "/b", "b", ""})
			return string(pack(t, map[string]string{"a": "A", "b": "BB", "manifest.xml": whole[:len(whole)-20]}))
		}, true, "/b"},
		"no manifest": {func(t *testing.T, _ *carried) string { return string(pack(t, map[string]string{"a": "A"})) }, true, "/a /b"},
		"no package":  {func(*testing.T, *carried) string { return "<html>hello" }, true, "/a /b"},
		"too many members": {func(t *testing.T, c *carried) string {
			members := map[string]string{"a": "A", "manifest.xml": manifest([3]string{c.srv.URL + "/a", "a", ""})}
			for i := range membersMost {
				members[fmt.Sprint(i)] = ""
			}
			return string(pack(t, members))
		}, true, "/a /b"},
		"no answer":    {func(*testing.T, *carried) string { return "" }, true, "/a /b"},
		"too much":     {func(_ *testing.T, c *carried) string { c.s.Means.MaxDump = 100; return strings.Repeat("x", 101) }, true, "/a /b"},
		"out of reach": {func(_ *testing.T, c *carried) string { c.s.Means.Batch = "ftp://lib.example/"; return "" }, true, "/a /b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serves := map[string]string{"/a": "A", "/b": "BB"}
			c := carrying(t, serves)
			c.s.Means.Batch, c.s.Means.BatchSize = c.srv.URL+"/batch", 10
			serves["/batch"] = tc.answer(t, c)
			count := c.Count()
			rows := []*store.Resource{c.row(1, "/a", "A"), c.row(2, "/b", "BB")}
			cond := conductor{r: c.Reconciler, queue: rows}
			a := cond.next(t.Context())
			if len(a.batch) != 2 || len(cond.queue) != 0 || cond.active != 1 {
				t.Fatalf("%d are asked for together, %d are queued", len(a.batch), len(cond.queue))
			}
			cond.ended(c.Reconciler.work(t.Context(), a))
			if (a.failed != nil) != tc.failed || cond.idle() || len(cond.queue) != 2 {
				t.Errorf("%d queued, %v", len(cond.queue), a.failed)
			}
			if sent := c.asked(); name != "out of reach" && sent != fmt.Sprintf(`/batch["%[1]s/a","%[1]s/b"]`, c.srv.URL) {
				t.Errorf("sent %s", sent)
			}
			var ended []*outcome
			for range rows {
				a := cond.next(t.Context())
				if len(a.batch) > 0 {
					t.Fatal("asked for together again")
				}
				o, got := c.work(a.res)
				if want := serves[strings.TrimPrefix(a.res.URI, c.srv.URL)]; o.verdict != verdictFetched || got != want {
					t.Errorf("%s: %v, %q, %v", a.res.URI, o.verdict, got, o.failure)
				}
				c.s.end(a.res)
				ended = append(ended, o)
			}
			if asked := c.asked(); asked != tc.asked {
				t.Errorf("asked for %q, not for %q", asked, tc.asked)
			}
			if len(c.s.flight) > 0 || len(c.s.offers.rows) > 0 {
				t.Error("something is remembered for ever")
			}
			if err := c.s.Mirror.Spools(t.Context(), func(string, time.Time) error { return errDone }); err != nil {
				t.Error("the answer is left:", err)
			}
			c.count(ended)
			gets := int64(len(strings.Fields(tc.asked)))
			posts := map[bool]int64{true: 1}[name != "out of reach"]
			if d := c.Since(count, c.Failing()); d.Batches != posts || d.FromPackages != 2-gets || d.Fetched != 2 {
				t.Errorf("counted %+v", d)
			}
		})
	}
}

// TestGathered: only rows that lack their bytes are asked for together, no more at once than the endpoint takes, and none while
// the endpoint fails.
func TestGathered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(c *carried, cond *conductor)
		batch  int
	}{
		"all":           {nil, 4},
		"at most":       {func(c *carried, _ *conductor) { c.s.Means.BatchSize = 3 }, 3},
		"one at a time": {func(c *carried, _ *conductor) { c.s.Means.BatchSize = 1 }, 0},
		"no size":       {func(c *carried, _ *conductor) { c.s.Means.BatchSize = 0 }, 0},
		"no endpoint":   {func(c *carried, _ *conductor) { c.s.Means.Batch = "" }, 0},
		"alone":         {func(_ *carried, cond *conductor) { cond.queue = cond.queue[:1] }, 0},
		"one is offered": {func(c *carried, _ *conductor) {
			p, _ := c.packaged(map[string]string{"a": ""})
			c.s.Offer(2, c.offer(p, "a", ""))
		}, 3},
		"the first comes with its feed": {func(_ *carried, cond *conductor) { cond.queue[0].Wants[0].Inline = true }, 0},
		"one comes with its feed":       {func(_ *carried, cond *conductor) { cond.queue[1].Wants[0].Inline = true }, 3},
		"the Source decides":            {func(_ *carried, cond *conductor) { cond.queue[1].Wants[0].State = store.WantAsk }, 3},
		"one is absent":                 {func(_ *carried, cond *conductor) { cond.queue[1].Wants[0].State = store.WantAbsent }, 3},
		"one is refused":                {func(_ *carried, cond *conductor) { cond.queue[1].Wants[0].Refused = "so" }, 3},
		"one failed before":             {func(_ *carried, cond *conductor) { cond.queue[1].Work.Attempts = 1 }, 3},
		"one is in doubt":               {func(c *carried, _ *conductor) { c.s.Doubt(2) }, 3},
		"one is not wanted":             {func(_ *carried, cond *conductor) { cond.queue[1].Wants = nil }, 3},
		"one is beyond the scope": {func(c *carried, cond *conductor) {
			c.s.Rule = func(int64) func(string) string {
				return func(uri string) string { return map[bool]string{true: "beyond"}[strings.HasSuffix(uri, "2")] }
			}
		}, 3},
		"the endpoint fails": {func(_ *carried, cond *conductor) {
			cond.answered(&attempt{failed: errDone})
		}, 0},
		"the endpoint failed once": {func(c *carried, cond *conductor) {
			cond.post.open = 1
			cond.answered(&attempt{failed: errDone})
			c.s.Now = func() time.Time { return time.Now().Add(postAgain) }
		}, 2},
		"it failed, and is tried": {func(c *carried, cond *conductor) {
			cond.answered(&attempt{failed: errDone})
			c.s.Now = func() time.Time { return time.Now().Add(postAgain) }
			cond.post.open = 1
		}, 0},
		"it works, and is asked": {func(_ *carried, cond *conductor) { cond.post.open = 1 }, 4},
	} {
		c := carrying(t, nil)
		c.s.Means.Batch, c.s.Means.BatchSize = c.srv.URL+"/batch", 100
		cond := &conductor{r: c.Reconciler}
		for id := range int64(4) {
			cond.queue = append(cond.queue, c.row(id+1, fmt.Sprintf("/%d", id+1), "x"))
		}
		if tc.change != nil {
			tc.change(c, cond)
		}
		queued := len(cond.queue)
		a := cond.next(t.Context())
		if len(a.batch) != tc.batch || len(cond.queue) != queued-max(tc.batch, 1) || a.res.ID != 1 {
			t.Errorf("%s: %d of %d are asked for together, %d stay", name, len(a.batch), queued, len(cond.queue))
		}
		patient := (&attempts{}).begin(t.Context(), c.row(9, "/9", "x"), true)
		if cond.gather(patient); len(patient.batch) > 0 {
			t.Errorf("%s: asked for one that hangs", name)
		}
	}
}

// TestHaltForgetsBatches: rows that are found again after a halt are asked for together again.
func TestHaltForgetsBatches(t *testing.T) {
	t.Parallel()
	c := &conductor{r: alone(siteOf(NewWorkset()), nil)}
	rows := c.r.s.Begin(rowsOf(1, 2))
	c.r.s.gathered(rows)
	c.answered(&attempt{batch: rows})
	c.r.tally.halted = errDone
	if err := c.page(t.Context()); err != nil || len(c.r.s.flight) > 0 || len(c.queue) > 0 {
		t.Errorf("%v, %d are remembered, %d queued", err, len(c.r.s.flight), len(c.queue))
	}
}

// TestOneOutage: requests that were under way together fail together, which is one failure; the longest wait that is asked for counts.
func TestOneOutage(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	s := siteOf(NewWorkset())
	s.Now = func() time.Time { return at }
	c := &conductor{r: alone(s, nil)}
	c.post.open = 25
	for range 24 {
		c.answered(&attempt{failed: errDone})
	}
	if wait := c.post.until.Sub(at); wait != postAgain || c.post.failures != 1 || c.post.open != 1 {
		t.Errorf("left alone for %s, %d failures, %d open", wait, c.post.failures, c.post.open)
	}
	c.answered(&attempt{failed: &fetch.Error{Status: 503, RetryAfter: time.Minute, Err: errDone}})
	if wait := c.post.until.Sub(at); wait != time.Minute {
		t.Errorf("asked for %s", wait)
	}
}

// crowdedDisk has little room.
type crowdedDisk struct {
	blob.Mirror
	free uint64
}

func (m crowdedDisk) Free(context.Context) (uint64, uint64, error) { return m.free, m.free, nil }

// TestAnswersShareTheRoom: each worker may have an answer, and all of them have no more than the disk.
func TestAnswersShareTheRoom(t *testing.T) {
	t.Parallel()
	serves := map[string]string{}
	c := carrying(t, serves)
	c.s.Means.Batch, c.workers = c.srv.URL+"/batch", 4
	serves["/batch"] = string(pack(t, map[string]string{"manifest.xml": manifest()}))
	for part, fits := range map[uint64]bool{1: false, 2: false, 7: false, 8: true} {
		c.s.Mirror = crowdedDisk{c.s.Mirror, part * uint64(len(serves["/batch"]))}
		if err := c.ask(t.Context(), []*store.Resource{c.row(1, "/a", "")}); (err == nil) != fits {
			t.Errorf("%d times the answer are free: %v", part, err)
		}
	}
}

// TestAnswerDoesNotOutliveTheRun: no later run goes on with it.
func TestAnswerDoesNotOutliveTheRun(t *testing.T) {
	t.Parallel()
	serves := map[string]string{}
	c := carrying(t, serves)
	c.s.Means.Batch = c.srv.URL + "/batch"
	serves["/batch"] = string(pack(t, map[string]string{"a": "A", "manifest.xml": manifest([3]string{c.srv.URL + "/a", "a", ""})}))
	rows := []*store.Resource{c.row(1, "/a", "A")}
	if err := c.ask(t.Context(), rows); err != nil || len(c.s.offers.rows) != 1 {
		t.Fatal(err)
	}
	if err := c.ask(t.Context(), rows); err != nil {
		t.Error("while the answer before is in use:", err)
	}
	c.s.Clear()
	if err := c.s.Mirror.Spools(t.Context(), func(string, time.Time) error { return errDone }); err != nil {
		t.Error("the answer is left:", err)
	}
}

// TestEndpointIsLeftAlone: longer with each failure, for long where it does not exist, as long as it asks for, and not after an end.
func TestEndpointIsLeftAlone(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	s := siteOf(NewWorkset())
	s.Now = func() time.Time { return at }
	c := &conductor{r: alone(s, nil)}
	for _, tc := range []struct {
		err  error
		wait time.Duration
	}{
		{errDone, postAgain}, {errDone, 2 * postAgain}, {&fetch.Error{Kind: fetch.Stalled, Err: errDone}, 4 * postAgain},
		{&fetch.Error{Status: 503, RetryAfter: time.Minute, Err: errDone}, time.Minute},
		{&fetch.Error{Status: 405, Err: errDone}, postAbsent}, {nil, -1}, {errDone, postAgain},
		{&fetch.Error{Kind: fetch.Canceled, Err: errDone}, -1}, {&fetch.Error{Status: 404, Err: errDone}, postAbsent},
		{&fetch.Error{Status: 410, Err: errDone}, postAbsent}, {errors.Join(&fetch.Error{Status: 501, Err: errDone}), postAbsent},
		{&fetch.Error{Status: 500, Err: errDone}, 8 * postAgain},
	} {
		at = at.Add(100 * time.Hour)
		before := c.post.until
		c.answered(&attempt{failed: tc.err})
		if tc.wait < 0 && c.post.until != before || tc.wait >= 0 && c.post.until.Sub(at) != tc.wait {
			t.Errorf("%v: %s", tc.err, c.post.until.Sub(at))
		}
	}
	for range 100 {
		at = at.Add(100 * time.Hour)
		c.answered(&attempt{failed: errDone})
	}
	if wait := c.post.until.Sub(at); wait != postMost {
		t.Errorf("after many failures %s", wait)
	}
}
