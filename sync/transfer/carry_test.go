package transfer

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/rspack"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
)

// carried is a Site with a mirror and a Source, and what its Source was asked for.
type carried struct {
	*Reconciler
	t    *testing.T
	srv  *httptest.Server
	log  bytes.Buffer
	mu   sync.Mutex
	asks []string
}

// carrying is a Source that answers from a table of paths; what it lacks is 404.
func carrying(t *testing.T, serves map[string]string) *carried {
	t.Helper()
	c := &carried{t: t}
	c.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		c.asks = append(c.asks, r.URL.Path+string(sent))
		c.mu.Unlock()
		if body, ok := serves[r.URL.Path]; ok {
			w.Header().Set("ETag", `"of `+r.URL.Path+`"`)
			w.Header().Set("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
			_, _ = io.WriteString(w, body)
		} else {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(c.srv.Close)
	root := t.TempDir()
	id, err := dir.Create(root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dir.Open(root, id, dir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	host, err := url.Parse(c.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := fetch.New(fetch.Options{})
	t.Cleanup(func() { client.Close(); _ = m.Close() })
	s := siteOf(NewWorkset())
	s.Mirror, s.Rule = m, func(int64) func(string) string { return func(string) string { return "" } }
	s.Log = slog.New(slog.NewTextHandler(&c.log, nil))
	s.Means = Means{Client: client, Policy: &fetch.Policy{Trusted: []string{host.Host}}}
	c.Reconciler = alone(s, nil)
	s.Take()
	return c
}

// row is a resource of the Source that is wanted with these bytes, in flight.
func (c *carried) row(id int64, path, bytes string) *store.Resource {
	r := &store.Resource{
		ID: id, URI: c.srv.URL + path, Key: "f" + path, Work: store.Work{Action: store.ActionFetch},
		Wants: []store.Want{{
			State: store.WantPresent, Digests: sha(bytes), Length: int64(len(bytes)), LastMod: store.NoTime,
			Version: store.Version{From: 1, Until: 1, Document: 1},
		}},
	}
	c.s.Begin([]*store.Resource{r})
	return r
}

// work brings a resource into the mirror. got are its bytes there, "" for none.
func (c *carried) work(r *store.Resource) (o *outcome, got string) {
	c.t.Helper()
	var as attempts
	a := as.begin(c.t.Context(), r, false)
	o = c.Reconciler.work(c.t.Context(), a)
	as.end(a)
	if o.stage == nil {
		return o, ""
	}
	if errs, err := c.s.Mirror.Place(c.t.Context(), []blob.Placement{{Stage: o.stage, Key: r.Key}}); errs[0] != nil || err != nil {
		c.t.Fatal(errs, err)
	}
	f, _, err := c.s.Mirror.Open(c.t.Context(), r.Key)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read
	b, err := io.ReadAll(f)
	if err != nil {
		c.t.Fatal(err)
	}
	return o, string(b)
}

// asked are the paths that were asked for since.
func (c *carried) asked() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asks := strings.Join(c.asks, " ")
	c.asks = nil
	return asks
}

func sha(s string) string { return fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(s))) }

func md5of(s string) string { return fmt.Sprintf("md5:%x", md5.Sum([]byte(s))) }

// pack makes a package of members, each with its name for its bytes.
func pack(t *testing.T, members map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, body := range members {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// memory is a spool that remembers whether its use ended.
type memory struct {
	*bytes.Reader
	ended atomic.Bool
}

func (m *memory) Write([]byte) (int, error) { panic("a package is only read") }
func (m *memory) Reset() error              { panic("a package is only read") }
func (m *memory) Close() error              { m.ended.Store(true); return nil }
func (m *memory) Discard() error            { return m.Close() }

// packaged is an opened package of these members.
func (c *carried) packaged(members map[string]string, spoil ...func([]byte)) (*Package, *memory) {
	c.t.Helper()
	b := pack(c.t, members)
	for _, s := range spoil {
		s(b)
	}
	m := &memory{Reader: bytes.NewReader(b)}
	z, err := rspack.Open(m, m.Size(), rspack.Limits{})
	if err != nil {
		c.t.Fatal(err)
	}
	return NewPackage("http://lib.example/dump.zip?token=secret", m, z, c.s.Log), m
}

// offer is that of a member of a package, which says of it what its bytes are.
func (c *carried) offer(p *Package, name, bytes string) *Offer {
	c.t.Helper()
	m, err := p.zip.Find(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return &Offer{Package: p, Member: m, Digests: sha(bytes), Length: int64(len(bytes)), LastMod: store.NoTime}
}

// Offer offers the bytes of a row in flight.
func (w *Workset) Offer(id int64, o *Offer) {
	if w.Busy(id) {
		w.HandOffered([]*store.Resource{{ID: id}}, []*Offer{o})
	}
}

func isDone(p *Package) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// TestPackage: a member is used if it is surely what is wanted, and checked with all that is known of it; whatever is wrong with it
// costs a GET.
func TestPackage(t *testing.T) {
	t.Parallel()
	const right, wrong = "the bytes", "no bytes!"
	type given struct {
		c *carried
		r *store.Resource
		w *store.Want
		o *Offer
	}
	for name, tc := range map[string]struct {
		change func(g given)
		member string
		spoil  func([]byte)
		via    via
		warns  bool
	}{
		"the same digest":            {via: viaPackage},
		"the same and a digest more": {func(g given) { g.o.Digests += " " + md5of(right) }, right, nil, viaPackage, false},
		"no length":                  {func(g given) { g.o.Length, g.w.Length = -1, -1 }, right, nil, viaPackage, false},
		"learnt from the manifest": {func(g given) {
			g.w.Digests, g.o.Version = "", g.w.Version
		}, right, nil, viaPackage, false},
		"digests of two kinds, learnt from the manifest": {func(g given) {
			g.o.Digests, g.o.Version = md5of(right), g.w.Version
		}, right, nil, viaPackage, false},
		"learnt from it, of another time": {func(g given) {
			g.w.Digests, g.o.Version, g.w.LastMod, g.o.LastMod = "", g.w.Version, 5, 4
		}, right, nil, viaSource, false},
		"the same digest, of another time": {func(g given) { g.w.LastMod, g.o.LastMod = 5, 4 }, right, nil, viaPackage, false},
		"the same time and length": {func(g given) {
			g.w.Digests, g.w.LastMod, g.o.LastMod = "", 5, 5
		}, right, nil, viaPackage, false},
		"the same time, no length": {func(g given) {
			g.w.Digests, g.w.LastMod, g.o.LastMod, g.w.Length = "", 5, 5, -1
		}, right, nil, viaSource, false},
		"nothing compares":   {func(g given) { g.w.Digests = "" }, right, nil, viaSource, false},
		"no time":            {func(g given) { g.w.Digests, g.o.Digests = "", "" }, right, nil, viaSource, false},
		"another digest":     {func(g given) { g.o.Digests = sha(wrong) }, wrong, nil, viaSource, false},
		"another length":     {func(g given) { g.o.Length++ }, right, nil, viaSource, false},
		"the Source decides": {func(g given) { g.w.State, g.w.Digests, g.w.Length = store.WantAsk, "", -1 }, right, nil, viaSource, false},
		"a wrong member":     {nil, wrong, nil, viaSource, true},
		"a short member":     {func(g given) { g.w.Length, g.o.Length = -1, -1 }, "the", nil, viaSource, true},
		"a short member, no digest": {func(g given) {
			g.w.Digests, g.o.Digests, g.o.Version, g.w.Length = "", "", g.w.Version, -1
		}, "the", nil, viaSource, true},
		"only the manifest's digest is wrong": {func(g given) {
			g.w.Digests, g.o.Digests, g.o.Version = "", md5of(wrong), g.w.Version
		}, right, nil, viaSource, true},
		"only the want's digest is wrong": {func(g given) {
			g.o.Digests, g.o.Version = md5of(wrong), g.w.Version
		}, wrong, nil, viaSource, true},
		"a wrong checksum": {func(g given) {
			g.w.Digests, g.o.Digests, g.o.Version = "", "", g.w.Version
		}, right, func(b []byte) { b[bytes.LastIndex(b, []byte("PK\x01\x02"))+16] ^= 1 }, viaSource, true},
		"no bytes at all": {nil, right, func(b []byte) { b[0] = 'X' }, viaSource, true},
		"too large":       {func(g given) { g.c.s.Means.MaxResource = 4 }, right, nil, viaNothing, true},
		"a panic":         {func(g given) { g.o.Package.zip = nil }, right, nil, viaSource, true},
		"only a patch":    {func(g given) { g.o.Member = rspack.Member{} }, right, nil, viaSource, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := carrying(t, map[string]string{"/a": right})
			if tc.member == "" {
				tc.member = right
			}
			var spoil []func([]byte)
			if tc.spoil != nil {
				spoil = append(spoil, tc.spoil)
			}
			p, spool := c.packaged(map[string]string{"a": tc.member}, spoil...)
			r := c.row(1, "/a", right)
			offer := c.offer(p, "a", right)
			if tc.change != nil {
				tc.change(given{c, r, &r.Wants[0], offer})
			}
			c.s.Offer(1, offer)
			p.Seal()
			if isDone(p) {
				t.Fatal("done before its offer is used")
			}
			o, got := c.work(r)
			if isDone(p) {
				t.Error("done before the bytes are durable")
			}
			c.s.end(r)
			if tc.via == viaNothing {
				if o.verdict != verdictFailed || o.failure.class != fetch.TooLarge.String() {
					t.Errorf("%v, %v", o.verdict, o.failure)
				}
			} else if o.verdict != verdictFetched || got != right || o.via != tc.via {
				t.Errorf("%v via %v: %q, %v", o.verdict, o.via, got, o.failure)
			}
			if asked := c.asked(); strings.HasPrefix(asked, "/a") != (tc.via != viaPackage) || o.via == viaPackage && o.took != 0 {
				t.Errorf("asked for %q, for %s", asked, o.took)
			}
			if o.via == viaPackage && (o.have.ETag != "" || o.have.LastModified != "" || o.have.Checked == "" != (r.Wants[0].Digests == "")) {
				t.Errorf("learnt %+v", o.have)
			}
			if !isDone(p) || !spool.ended.Load() {
				t.Error("the package stays")
			}
			if warned := strings.Contains(c.log.String(), "members=1"); warned != tc.warns || strings.Contains(c.log.String(), "secret") {
				t.Errorf("told: %s", c.log.String())
			}
		})
	}
}

// TestMemberIsBrokenOff: that nobody waits for a resource any more says nothing about its package.
func TestMemberIsBrokenOff(t *testing.T) {
	t.Parallel()
	c := carrying(t, map[string]string{"/a": "x"})
	p, _ := c.packaged(map[string]string{"a": "x"})
	r := c.row(1, "/a", "x")
	c.s.Offer(1, c.offer(p, "a", "x"))
	p.Seal()
	a := new(attempts).begin(t.Context(), r, false)
	a.cancel(errAside)
	o := c.Reconciler.work(t.Context(), a)
	if c.s.end(r); !o.aside || c.asked() != "" || c.log.Len() > 0 || !isDone(p) {
		t.Errorf("%v, %v, told %s", o.verdict, o.failure, c.log.String())
	}
}

// fullDisk has no room in its stages.
type fullDisk struct{ blob.Mirror }

type fullStage struct{ blob.Stage }

func (m fullDisk) NewStage(ctx context.Context) (blob.Stage, error) {
	s, err := m.Mirror.NewStage(ctx)
	return fullStage{s}, err
}

func (fullStage) Write([]byte) (int, error) {
	return 0, fmt.Errorf("write to a stage: %w", blob.ErrNoSpace)
}

// TestPackageOnAFullDisk: nobody is asked for what there is no room for, and no package is blamed for it.
func TestPackageOnAFullDisk(t *testing.T) {
	t.Parallel()
	c := carrying(t, map[string]string{"/a": "x"})
	c.s.Mirror = fullDisk{c.s.Mirror}
	p, _ := c.packaged(map[string]string{"a": "x"})
	r := c.row(1, "/a", "x")
	c.s.Offer(1, c.offer(p, "a", "x"))
	p.Seal()
	o := c.Reconciler.work(t.Context(), new(attempts).begin(t.Context(), r, false))
	if c.s.end(r); o.disk == nil || o.failure.class != classDisk || c.asked() != "" || c.log.Len() > 0 || !isDone(p) {
		t.Errorf("%v, %v, told %s", o.verdict, o.failure, c.log.String())
	}
}

// TestPackageIsDiscarded: once it is sealed and no offer waits, whatever became of the offers.
func TestPackageIsDiscarded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *carried, r *store.Resource){
		"worked on":     func(c *carried, r *store.Resource) { c.work(r); c.s.end(r) },
		"given up":      func(c *carried, r *store.Resource) { c.s.end(r) },
		"halted":        func(c *carried, _ *store.Resource) { c.s.drop() },
		"the run's end": func(c *carried, _ *store.Resource) { c.s.Clear() },
		"another offer": func(c *carried, _ *store.Resource) { p, _ := c.packaged(nil); c.s.Offer(1, &Offer{Package: p}) },
		"wanted anew": func(c *carried, r *store.Resource) {
			c.s.Touch(&store.ResourceChange{ID: 1}, 0)
			c.s.ready = append(c.s.ready, r)
			c.s.TakeReady(1)
		},
		"right already":  func(c *carried, r *store.Resource) { r.Wants = nil; o, _ := c.work(r); c.s.end(o.res) },
		"done otherwise": func(c *carried, r *store.Resource) { c.s.ready = append(c.s.ready, r); c.s.drop() },
	} {
		c := carrying(t, nil)
		p, spool := c.packaged(map[string]string{"a": "x"})
		r := c.row(1, "/a", "x")
		c.s.Offer(1, c.offer(p, "a", "x"))
		p.Seal()
		if isDone(p) || spool.ended.Load() {
			t.Errorf("%s: discarded before", name)
		}
		if end(c, r); !isDone(p) || !spool.ended.Load() {
			t.Errorf("%s: not discarded", name)
		}
		if len(c.s.offers.rows) > 0 && name != "another offer" {
			t.Errorf("%s: an offer stays", name)
		}
		open, kept := c.packaged(map[string]string{"a": "x"})
		c.s.Take()
		c.s.Begin([]*store.Resource{r})
		c.s.Offer(1, c.offer(open, "a", "x"))
		if c.s.Clear(); isDone(open) || kept.ended.Load() {
			t.Errorf("%s: discarded although offers may still come", name)
		}
	}
}
