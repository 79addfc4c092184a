package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/daemon"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/source"
	"resyncd/store"
	"resyncd/store/sqlite"
)

// scene is a daemon in this process that follows seven living Sources, each in another state, over loopback:
//
//	archive      push; its Change Lists come out when the test says so, so a gap stays open until then
//	herbarium    its list lacks most of what it had: removals held, as at observatory
//	journal      an Atom feed
//	library      push, all well
//	museum       answers 503
//	theatre      paused
type scene struct {
	console          string // the console's origin
	desk             console.Data
	library, archive *source.Source
	journal          *source.Source
	herbarium        *listing
	observatory      *listing
	loses            atomic.Bool // whether the hub loses the next notification
}

// listing is a Source that is one Resource List, of the first so many sheets.
type listing struct {
	*httptest.Server
	edition, sheets atomic.Int64
}

// newListing serves the Capability List, the Resource List and the sheets of a listing.
func newListing(t *testing.T, sheets int64) *listing {
	l := &listing{}
	l.edition.Store(1)
	l.sheets.Store(sheets)
	const head = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/capabilitylist.xml":
			fmt.Fprintf(w, `%s<rs:md capability="capabilitylist"/><url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url></urlset>`, head, l.URL)
		case r.URL.Path == "/resourcelist.xml":
			fmt.Fprintf(w, `%s<rs:ln rel="up" href="%s/capabilitylist.xml"/><rs:md capability="resourcelist" at="2026-01-%02dT00:00:00Z"/>`, head, l.URL, l.edition.Load())
			for i := range l.sheets.Load() {
				fmt.Fprintf(w, `<url><loc>%s/sheets/%03d.txt</loc></url>`, l.URL, i+1)
			}
			fmt.Fprint(w, `</urlset>`)
		case strings.HasPrefix(r.URL.Path, "/sheets/"):
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "This is %s.\n", r.URL.Path)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// shrinks publishes a list that holds fewer sheets.
func (l *listing) shrinks(sheets int64) {
	l.edition.Add(1)
	l.sheets.Store(sheets)
}

// newScene starts everything and waits until each Source is in its state.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{}
	bed, dir := newBed(t), t.TempDir()
	relayAt, hubURL := bed.listen()
	hubURL += "/"
	bed.hub(dir, relayAt, hub.Options{Base: hubURL, Lose: s.lose})
	peer := func(o source.Options, resources int) (*source.Source, string) {
		at, url := bed.listen()
		o.Base = url
		src := bed.source(o)
		for i := range resources {
			put(t, src, fmt.Sprintf("maps/%03d.txt", i+1), "first edition")
		}
		bed.run(src.Run, func(ctx context.Context) error { return src.Serve(ctx, at) })
		return src, url
	}
	urls := map[string]string{}
	s.library, urls["library"] = peer(source.Options{Hub: hubURL}, 40)
	s.archive, urls["archive"] = peer(source.Options{Hub: hubURL, ClosedLists: true, ChangeListEvery: 24 * time.Hour}, 12)
	s.archive.Rotate() // a list that ends before any gap: what follows it lags
	s.journal, _ = peer(source.Options{}, 0)
	put(t, s.journal, "issues/1.txt", "one")
	urls["journal"] = s.journal.FeedURL()
	_, urls["theatre"] = peer(source.Options{}, 3)
	s.herbarium, s.observatory = newListing(t, 15), newListing(t, 15)
	urls["herbarium"], urls["observatory"] = s.herbarium.URL+"/capabilitylist.xml", s.observatory.URL+"/capabilitylist.xml"
	museum := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(museum.Close)
	urls["museum"] = museum.URL + "/"

	cfg := config.Default()
	cfg.DataDir, cfg.Mirror = dir, filepath.Join(dir, "mirror")
	cfg.Network.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Callback.Listen, cfg.Callback.BaseURL, cfg.Console.Listen = freePort, "http://"+freePort+"/cb", freePort
	cfg.Defaults.ReorderGrace = 200 * time.Millisecond
	var err error
	if cfg.Defaults.Schedule, err = config.ParseSchedule("@every 6h"); err != nil { // what is pulled, the tests ask for
		t.Fatal(err)
	}
	for _, name := range []string{"archive", "herbarium", "journal", "library", "museum", "observatory", "theatre"} {
		src, err := cfg.Adhoc(name, urls[name])
		if err != nil {
			t.Fatal(err)
		}
		cfg.Sources = append(cfg.Sources, src)
	}
	remember(t, cfg)
	listens := make(chan string, 1)
	d := daemon.New(daemon.Options{
		Config: cfg, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Announce: func(_, console string) error { listens <- console; return nil },
	})
	bed.run(func(ctx context.Context) error { return d.Run(ctx, nil) })
	select {
	case at := <-listens:
		s.console = "http://" + strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/")
	case <-t.Context().Done():
		t.Fatal("the daemon does not listen")
	}
	s.desk = d.Data()
	s.settle(t)
	return s
}

// remember gives the Sources a past of two days before the daemon begins, as after a restart.
func remember(t *testing.T, cfg *config.Config) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(cfg.DataDir, mirror.StateFile), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := store.MicrosOf(time.Now())
	var points []store.Point
	for i := range cfg.Sources {
		src := &cfg.Sources[i]
		if src.Name == "museum" { // never reached so far
			continue
		}
		known, err := st.EnsureSource(t.Context(), src.Name, src.URL)
		if err != nil {
			t.Fatal(err)
		}
		for hour := range int64(48) {
			p := store.Point{SourceID: known.ID, At: now - store.Micros(hour+1)*3600e6, Changes: (hour*7 + int64(i)*5) % 23}
			if src.Name == "library" || src.Name == "archive" {
				p.Pushes, p.Latency, p.LatencyMost = 1, 15e3+hour*11%17*1e3, 40e3
			}
			points = append(points, p)
		}
	}
	if err := errors.Join(st.AddPoints(t.Context(), points), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// settle waits for the baselines, then brings the Sources into their states.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	s.becomes(t, "museum", func(r console.Row) bool { return r.State == "failing" })
	for _, name := range []string{"herbarium", "journal", "observatory", "theatre"} {
		s.becomes(t, name, func(r console.Row) bool { return r.State == "in step" })
	}
	for name, src := range map[string]*source.Source{"library": s.library, "archive": s.archive} {
		s.becomes(t, name, func(r console.Row) bool { return r.Channel == "active" && r.Resources > 0 && r.Owed == 0 })
		put(t, src, "maps/001.txt", "second edition")
		s.becomes(t, name, func(r console.Row) bool { return !r.LastPush.IsZero() })
	}
	s.archive.Rotate()
	s.does(t, console.Action{Kind: console.Pull, Source: "archive"})
	for _, name := range []string{"library", "archive"} {
		s.becomes(t, name, func(r console.Row) bool { return r.State == "in step" && r.GapsOpen == 0 })
	}
	s.does(t, console.Action{Kind: console.Pause, Source: "theatre"})
	for name, l := range map[string]*listing{"herbarium": s.herbarium, "observatory": s.observatory} {
		l.shrinks(2)
		s.does(t, console.Action{Kind: console.Pull, Source: name})
		s.becomes(t, name, func(r console.Row) bool { return r.Held == 13 })
	}
}

// lose is the hub's.
func (s *scene) lose(int64, int, []byte) bool { return s.loses.CompareAndSwap(true, false) }

// gap has the hub lose what it hears of a change, so that archive's next notification opens a gap.
func (s *scene) gap(t *testing.T, n int) {
	t.Helper()
	s.loses.Store(true)
	put(t, s.archive, fmt.Sprintf("lost/%03d.txt", n), "nobody hears of it")
	if err := poll("a notification is lost", func() (bool, error) { return !s.loses.Load(), nil }); err != nil {
		t.Fatal(err)
	}
	put(t, s.archive, fmt.Sprintf("heard/%03d.txt", n), "and what comes after tells of a hole")
}

// does what the console does.
func (s *scene) does(t *testing.T, a console.Action) {
	t.Helper()
	if _, err := s.desk.Do(t.Context(), a); err != nil {
		t.Fatal(a, err)
	}
}

// becomes waits for the row of a Source.
func (s *scene) becomes(t *testing.T, name string, want func(console.Row) bool) {
	t.Helper()
	var last console.Row
	err := poll(name+" is as it should be", func() (bool, error) {
		o, err := s.desk.Overview(t.Context())
		for _, r := range o.Rows {
			if r.Name == name {
				last = r
			}
		}
		return err == nil && want(last), nil // it may not have begun
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, last)
	}
}

func put(t *testing.T, src *source.Source, name, body string) {
	t.Helper()
	if err := src.Put(name, []byte(body)); err != nil {
		t.Fatal(err)
	}
}
