package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
	syncengine "resyncd/sync"
)

// furnished is a daemon of which nothing runs, with one configured Source, lib, that has a set, and one that is not
// configured any more.
type furnished struct {
	*Daemon
	desk  *dashboard
	src   store.Source
	claim store.Claim
	set   store.Set
}

func furnish(t testing.TB) *furnished {
	t.Helper()
	d := idle(t)
	cfg := config.Default()
	cfg.DataDir, cfg.Mirror = t.TempDir(), t.TempDir()
	src, err := cfg.Adhoc("lib", "https://lib.example/?token=hunter2")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Sources = []config.Source{src}
	d.sources.cfg = cfg
	d.engine = &syncengine.Engine{Store: d.st, Now: time.Now}
	d.listeners.behind.Store(callback.New(callback.Options{}))
	f := &furnished{Daemon: d, desk: &dashboard{d}}
	ctx := t.Context()
	for _, name := range []string{"lib", "old"} {
		if f.src, err = d.st.EnsureSource(ctx, name, "https://"+name+".example/?token=hunter2"); err != nil {
			t.Fatal(err)
		}
	}
	if f.src, err = d.st.Source(ctx, "lib"); err != nil {
		t.Fatal(err)
	}
	if f.claim, _, err = d.st.Claim(ctx, f.src.ID, "test"); err != nil {
		t.Fatal(err)
	}
	if f.set, err = d.st.EnsureSet(ctx, f.claim, "https://lib.example/c.xml?token=hunter2"); err != nil {
		t.Fatal(err)
	}
	r := newRunner(d, src)
	r.id, r.run = f.src.ID, &run{}
	d.sources.byName["lib"], d.sources.byID[f.src.ID] = r, r
	f.commit(t, &store.Commit{Sets: []store.SetChange{{ID: f.set.ID, State: f.state("", true)}}})
	return f
}

func (f *furnished) state(problem string, inStep bool) *store.SetState {
	now := store.MicrosOf(time.Now())
	return &store.SetState{
		Floor: now - 3600e6, Proven: []store.Interval{{From: now - 3600e6, Until: now - 60e6}}, Joint: []store.Interval{{From: now - 3600e6, Until: now - 60e6}},
		Problem: problem, InStep: inStep, LastPull: now, Baselines: 1,
	}
}

func (f *furnished) commit(t testing.TB, c *store.Commit) {
	t.Helper()
	c.Claim = f.claim
	if err := f.st.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func (f *furnished) overview(t testing.TB) map[string]console.Row {
	t.Helper()
	if err := f.board.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := f.desk.Overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]console.Row{}
	for _, r := range o.Rows {
		out[r.Name] = r
	}
	return out
}

// TestOverview: a row follows what the store and the daemon know, once it is named as changed.
func TestOverview(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	rows := f.overview(t)
	lib := rows["lib"]
	if lib.Level != console.Good || lib.State != "in step" || lib.Fresh.IsZero() || lib.Position.IsZero() || len(lib.Hours) != 24 || lib.Channel != "none" {
		t.Errorf("%+v", lib)
	}
	if strings.Contains(fmt.Sprint(rows), "hunter2") {
		t.Errorf("a token shows: %v", rows)
	}
	if old := rows["old"]; old.State != "not configured" || len(rows) != 2 {
		t.Errorf("%+v", rows)
	}
	f.commit(t, &store.Commit{Sets: []store.SetChange{{ID: f.set.ID, State: f.state("answered 503 Service Unavailable", false)}}})
	if got := f.overview(t)["lib"]; got.State != "in step" {
		t.Errorf("it was read without having been named: %+v", got)
	}
	f.board.changed("lib")
	if got := f.overview(t)["lib"]; got.State != "failing" || !got.Fresh.IsZero() {
		t.Errorf("%+v", got)
	}
	f.sampler.add(store.Point{SourceID: f.src.ID, Changes: 3, Pushes: 1, Latency: 2e6, LatencyMost: 2e6})
	if got := f.overview(t)["lib"]; got.Hours[23].Changes != 3 || got.Hours[23].Latency != 2e6 || got.Hours[0].Pushes != 0 {
		t.Errorf("%+v", got.Hours)
	}
	if err := f.sampler.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.loadDay(t.Context())
	if got := f.overview(t)["lib"]; got.Hours[23].Changes != 3 {
		t.Errorf("written: %v", got.Hours)
	}
	again := newSampler(time.Now) // as after a restart
	again.st = f.st
	if err := again.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hours := again.day(time.Now(), f.src.ID); hours[23].Changes != 3 {
		t.Errorf("read anew: %v", hours)
	}
}

// TestNotices: an invalid configuration that was to be read again is told of until one is taken over.
func TestNotices(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	for _, wrong := range []error{errors.New("sources: is missing"), nil} {
		f.o.Reread = func() (*config.Config, error) { return f.sources.config(), wrong }
		f.reload(t.Context())
		o, err := f.desk.Overview(t.Context())
		if told := len(o.Notices) == 1; err != nil || told != (wrong != nil) {
			t.Errorf("%v: %v %+v", wrong, err, o.Notices)
		}
	}
}

// TestChanges: who listens is told of what was read, at once and once.
func TestChanges(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	told := f.desk.Changed()
	keeping, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.board.keep(keeping) }()
	<-told
	told = f.desk.Changed()
	f.board.changed("lib")
	f.board.changed(f.sources.nameOf(f.src.ID))
	<-told
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case <-f.desk.Changed():
		t.Error("told twice")
	default:
	}
}

// page is a page of the console as a browser gets it.
func (f *furnished) page(t *testing.T, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	console.New(console.Options{Data: f.desk}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	if w.Code != http.StatusOK {
		t.Errorf("%s: %d", path, w.Code)
	}
	return w.Body.String()
}

// TestSourcePage: the page of a Source holds its sets, gaps, runs, and what is owed and held, with reasons.
func TestSourcePage(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	now := store.MicrosOf(time.Now())
	owed := store.ResourceChange{
		URI: "https://lib.example/a", Want: &store.Want{SetID: f.set.ID, State: store.WantPresent, Length: -1, LastMod: store.NoTime},
		Work: &store.Work{Action: store.ActionFetch, Attempts: 2, Due: now + 60e6, Reason: "get https://lib.example/a?t=hunter2: answered 403 Forbidden", Since: now - 9e6},
	}
	refused := store.ResourceChange{URI: "https://other.example/b", Want: &store.Want{
		SetID: f.set.ID, State: store.WantPresent, Length: -1, LastMod: store.NoTime, Refused: "outside of the scope",
	}}
	f.commit(t, &store.Commit{
		Resources: []store.ResourceChange{owed, refused},
		Gaps:      []*store.Gap{{SetID: f.set.ID, From: now - 30e6, Until: now - 20e6, State: store.GapClosed, ClosedBy: "change-list", Found: now - 5e6, Ended: now}},
		Runs:      []store.Run{{SetID: f.set.ID, Kind: "incremental", Started: now - 2e6, Ended: now, Fetched: 4}},
		Spans:     []store.Span{{SetID: f.set.ID, Kind: store.SpanBaseline, From: store.NoTime, Until: now - 3600e6, First: now, Last: now}},
	})
	f.sources.byName["lib"].seen.found = map[int64]string{f.set.ID: "robots"}
	v, err := f.desk.Source(t.Context(), "lib")
	if err != nil || len(v.Sets) != 1 || len(v.Owed) != 1 || len(v.Runs) != 1 || v.Row.Owed != 1 {
		t.Fatalf("%v %+v", err, v)
	}
	if v.State != "owed" || !strings.Contains(v.Why, "403 Forbidden") || v.Runs[0].Ended-v.Runs[0].Started != 2e6 {
		t.Errorf("%+v", v)
	}
	set := v.Sets[0]
	if set.Found != "robots" || len(set.Gaps) != 1 || set.From.IsZero() || set.Position.IsZero() || set.State != "owed" {
		t.Errorf("%+v", set)
	}
	if w := v.Owed[0].Work; w.Attempts != 2 || w.Due != owed.Work.Due || w.Since != owed.Work.Since {
		t.Errorf("%+v", w)
	}
	if len(v.Refusals) != 1 || v.Refusals[0].URI != refused.URI || v.Row.Refused != 1 {
		t.Errorf("%d refused: %+v", v.Row.Refused, v.Refusals)
	}
	page := f.page(t, "/source/lib")
	for _, want := range []string{"by robots.txt", "closed by a Change List after 5s", "outside of the scope", "403 Forbidden"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "hunter2") {
		t.Errorf("a token shows: %s", page)
	}
	if v, err := f.desk.Source(t.Context(), "old"); err != nil || v.State != "not configured" {
		t.Errorf("%v %+v", err, v)
	}
	if _, err := f.desk.Source(t.Context(), "nobody"); !errors.Is(err, console.ErrUnknown) {
		t.Errorf("nobody: %v", err)
	}
	line, err := f.desk.Timeline(t.Context(), "lib", f.set.ID, time.Now().Add(-2*time.Hour), time.Now())
	if err != nil || len(line.Spans) != 1 || line.Spans[0].Kind != "baseline" || line.Spans[0].From.Known() {
		t.Errorf("%v %+v", err, line)
	}
	if line, err := f.desk.Timeline(t.Context(), "lib", f.set.ID, time.Now().Add(-10*time.Second), time.Now()); err != nil || len(line.Spans) != 0 {
		t.Errorf("%v %+v", err, line)
	}
	if _, err := f.desk.Timeline(t.Context(), "lib", f.set.ID+99, time.Now(), time.Now()); !errors.Is(err, console.ErrUnknown) {
		t.Errorf("no set: %v", err)
	}
}

// TestResourcePage: a resource is found, shown with its history, and its bytes are those of the mirror.
func TestResourcePage(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	ctx := t.Context()
	root := mirror.Configured(f.sources.config(), f.sources.config().Sources[0]).Root
	id, err := dir.Create(root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dir.Open(root, id, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stage, err := m.NewStage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = stage.Write([]byte("hello"))
	if err = errors.Join(err, stage.Close()); err != nil {
		t.Fatal(err)
	}
	if errs, err := m.Place(ctx, []blob.Placement{{Stage: stage, Key: "lib.example/a.txt"}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	now := store.MicrosOf(time.Now())
	version := store.Version{From: now, Until: now}
	f.commit(t, &store.Commit{
		Source: &store.SourceChange{RootID: &id},
		Resources: []store.ResourceChange{{
			URI: "https://lib.example/a.txt?v=1", Key: "lib.example/a.txt", Have: &store.Have{State: store.HavePresent, Length: 5, Type: "text/plain", Fetched: now, Version: version},
			Want: &store.Want{SetID: f.set.ID, State: store.WantPresent, Length: 5, LastMod: store.NoTime, Version: version, Meta: `{"title":"A"}`},
		}},
		Events: []store.Event{{SourceID: f.src.ID, URI: "https://lib.example/a.txt?v=1", At: now, What: "deleted"}},
	})
	const uri = "https://lib.example/a.txt?v=1"
	found, err := f.desk.Find(ctx, "lib", "a.txt")
	if err != nil || !found.Complete || len(found.Items) != 1 || found.Items[0].URI != uri || found.Items[0].State != "present" || !strings.Contains(f.page(t, "/source/lib/find?q=a.txt"), "<bdi>A</bdi>") {
		t.Errorf("%v %+v", err, found)
	}
	r, err := f.desk.Resource(ctx, "lib", uri)
	if err != nil || r.SHA256 == nil || r.InTrash || *r.Length != 5 || *r.Type != "text/plain" || len(r.History) < 3 || r.History[0].What != "deleted" {
		t.Errorf("%v %+v", err, r)
	}
	body, info, err := f.desk.Open(ctx, "lib", uri)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil || string(data) != "hello" {
		t.Errorf("%q %v", data, err)
	}
	if diff := cmp.Diff(console.FileInfo{Name: "a.txt", Type: "text/plain", Length: 5, Modified: now.Time()}, info); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"lib", "nobody"} {
		if _, err := f.desk.Resource(ctx, name, "https://lib.example/none"); !errors.Is(err, console.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := f.desk.Open(ctx, name, "https://lib.example/none"); !errors.Is(err, console.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if found, err := f.desk.Find(ctx, "lib", "nothing of that kind"); err != nil || len(found.Items) != 0 {
		t.Errorf("%v %+v", err, found)
	}
}

// TestDo: actions go the way of the commands, say what they did, and never hold a page up.
func TestDo(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	obeying, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.operator.serve(obeying) }()
	f.sources.byName["lib"].run = nil
	do := func(a console.Action) (string, error) { return f.desk.Do(t.Context(), a) }
	said, err := do(console.Action{Kind: console.Pause, Source: "lib"})
	if known, serr := f.st.Source(t.Context(), "lib"); err != nil || said != "paused lib" || serr != nil || !known.Paused {
		t.Errorf("%q %v", said, err)
	}
	if _, err := do(console.Action{Kind: console.Pull, Source: "lib"}); err == nil || !strings.Contains(err.Error(), "Resume") {
		t.Errorf("a paused Source was pulled: %v", err)
	}
	if said, err := do(console.Action{Kind: console.Resume, Source: "lib"}); err != nil || said != "resumed lib" {
		t.Errorf("%q %v", said, err)
	}
	if _, err := do(console.Action{Kind: console.Approve, Source: "lib"}); err == nil || !strings.Contains(err.Error(), "just now") {
		t.Errorf("nobody follows it: %v", err)
	}
	if _, err := do(console.Action{Kind: console.Pull, Source: "nobody"}); !errors.Is(err, console.ErrUnknown) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := do(console.Action{Kind: "burn", Source: "lib"}); err == nil {
		t.Error("it burns")
	}
	sub := subscribed(t, f.Daemon, "lib")
	if said, err := do(console.Action{Kind: console.Renew, Source: "lib", Topic: sub.Topic}); err != nil || !strings.Contains(said, "renew 1") {
		t.Errorf("%q %v", said, err)
	}
	for range buttonsMost {
		f.operator.buttons <- struct{}{}
	}
	if _, err := do(console.Action{Kind: console.Resume, Source: "lib"}); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("one too many: %v", err)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	f.operator.server.Under.Wait()
}

// TestActionOutlivesBrowser: closing the tab does not undo what was asked for.
func TestActionOutlivesBrowser(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	f.sources.byName["lib"].run = nil
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.desk.Do(ctx, console.Action{Kind: console.Pause, Source: "lib"}); err != nil {
		t.Error(err)
	}
	f.operator.server.Under.Wait()
	if known, err := f.st.Source(t.Context(), "lib"); err != nil || !known.Paused {
		t.Errorf("%v %+v", err, known)
	}
}

// TestPulledText says of a pull what it did.
func TestPulledText(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]syncengine.Result{
		"3 fetched, 0 deleted; in step": {Set: "https://lib.example/c.xml?token=hunter2", Fetched: 3, InStep: true},
		"2 owed":                        {Set: "b", Owed: 2},
		"answered 503":                  {Set: "c", Problem: "answered 503"},
		"1 removals held":               {Set: "d", Held: 1},
	} {
		if got := pulledText(&r); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// forgetful is a store whose Sources are forgotten between two questions.
type forgetful struct{ store.Store }

func (forgetful) Sets(context.Context, int64) ([]store.Set, error) { return nil, store.ErrNotFound }

// TestForgottenMeanwhile: a Source that is forgotten while its page is made is an unknown one, and no page puts one on the
// board, from which it may just have been taken.
func TestForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	for _, name := range []string{"lib", "old"} {
		if _, err := f.desk.Source(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f.board.entry(name) != nil {
			t.Errorf("%s came back to the board", name)
		}
	}
	f.st = forgetful{f.st}
	if _, err := f.desk.Source(t.Context(), "old"); !errors.Is(err, console.ErrUnknown) {
		t.Errorf("forgotten: %v", err)
	}
}
