package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/store/sqlite"
)

// offering is what becomes of a subscription at a hub: how it verifies, and what the daemon makes of that.
type offering struct {
	name string
	// say changes what the hub says; nil: it never verifies.
	say     func(q url.Values)
	twice   bool          // it says so twice
	late    time.Duration // and this much later
	state   store.SubscriptionState
	granted int64
}

func offerings() []offering {
	const day = 24 * 60 * 60
	lease := func(text string, granted int64) offering {
		return offering{name: "lease " + text, say: func(q url.Values) { q.Set("hub.lease_seconds", text) }, state: store.SubActive, granted: granted}
	}
	same := func(url.Values) {}
	var more []offering
	if soak {
		more = []offering{
			lease("600", 600), lease("10000000000", 30*day), lease("99999999999999999999", 30*day), lease("", day), lease("3600.5", day),
			lease("1e9", day), lease("0x10", day),
		}
	}
	return append(more, []offering{
		lease("1", 1), lease("9223372037", 30*day), lease("0", day), lease("-1", day), lease("abc", day),
		{name: "no lease", say: func(q url.Values) { q.Del("hub.lease_seconds") }, state: store.SubActive, granted: day},
		{name: "twice", say: same, twice: true, state: store.SubActive, granted: 10 * day},
		{name: "late", say: same, late: 2 * time.Second, state: store.SubActive, granted: 10 * day},
		{name: "never", state: store.SubPending},
		{name: "another topic", say: func(q url.Values) { q.Set("hub.topic", q.Get("hub.topic")+"/other") }, state: store.SubPending},
		{name: "no challenge", say: func(q url.Values) { q.Del("hub.challenge") }, state: store.SubPending},
		{name: "denied", state: store.SubDenied, say: func(q url.Values) {
			q.Set("hub.mode", "denied")
			q.Set("hub.reason", "not you\x1b[31m")
			q.Del("hub.challenge")
		}},
	}...)
}

// verifier makes each subscription to changes another offering.
type verifier struct {
	o *ordeal

	mu        sync.Mutex
	offerings []offering
	dealt     map[string]*dealt // by callback
}

type dealt struct {
	offering
	asked int  // how often the hub wanted to verify it, which is how often it was asked to subscribe
	seen  bool // it has been what it should
}

// ample is for machines that are busy otherwise; nothing is so slow by itself.
const ample = 2 * time.Minute

// TestHardLeases has a hub that grants leases of every kind, denies, verifies late, twice, wrongly or never, dies and comes
// back (F20 to F25, S-53, S-54): the daemon makes of each what it should, asks no more often than each five seconds, and every
// mirror is the Source whatever became of its subscription (P9).
func TestHardLeases(t *testing.T) {
	t.Parallel()
	lasts := 3 * time.Second
	if soak {
		lasts = 30 * time.Second
	}
	o := newOrdeal(t, 10, "", "")
	v := &verifier{o: o, offerings: offerings(), dealt: map[string]*dealt{}}
	v.configure()
	o.gate.let(v.between)
	began := time.Now()
	o.serveDaemon()
	v.mirrored()
	v.stood()
	<-time.After(lasts)
	o.door.shut()
	<-time.After(lasts)
	o.door.open()
	hadAsked := v.asked("lease 1")
	back := o.until("the short lease is renewed at the hub that came back", ample, func() bool { return v.asked("lease 1") > hadAsked })
	v.stood()
	o.put("last.txt")
	took := v.mirrored()
	most := int(time.Since(began)/(5*time.Second)) + 2
	v.mu.Lock()
	defer v.mu.Unlock()
	asked := 0
	for _, d := range v.dealt {
		asked += d.asked
		if d.asked > most {
			t.Errorf("%s: asked to subscribe %d times in %s, want at most %d", d.name, d.asked, time.Since(began), most)
		}
	}
	t.Logf("%d offerings in %s, each with the subscription that it should have; %d requests to subscribe, of them %d for the lease of a second (at most %d); "+
		"asked again %s after the hub came back; %d mirrors in step after %s", len(v.dealt), time.Since(began).Round(time.Second), asked,
		v.dealtAs("lease 1").asked, most, back.Round(time.Millisecond), len(v.dealt), took.Round(time.Millisecond))
}

// configure names the Source as often as there are offerings.
func (v *verifier) configure() {
	o := v.o
	o.t.Helper()
	var sources strings.Builder
	for i := range v.offerings {
		fmt.Fprintf(&sources, "  - { name: s%d, url: \"%s/\", schedule: \"@every 10s\" }\n", i, o.base)
	}
	text := fmt.Sprintf("data_dir: %q\nmirror: %q\ncallback: { listen: \"127.0.0.1:0\", base_url: \"%s/cb\" }\nconsole: { listen: \"\" }\n"+
		"network: { allow: [127.0.0.0/8] }\nsources:\n%s", o.data, filepath.Dir(o.mirror), o.gate.Server.URL, &sources)
	if err := os.WriteFile(filepath.Join(o.dir, "resyncd.yaml"), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// between has a hub verify by what it offers.
func (v *verifier) between(w http.ResponseWriter, r *http.Request, _ []byte) (answered bool) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || q.Get("hub.mode") != "subscribe" || isFramework(q.Get("hub.topic")) {
		return false
	}
	d := v.deal(r.URL.Path)
	if d.say == nil {
		http.NotFound(w, r)
		return true
	}
	<-time.After(d.late)
	d.say(q)
	r.URL.RawQuery = q.Encode()
	if d.twice {
		v.o.gate.hand(r, nil)
	}
	return false
}

// deal gives a callback that is new the next offering.
func (v *verifier) deal(callback string) offering {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.dealt[callback]
	if d == nil {
		d = &dealt{offering: v.offerings[len(v.dealt)]}
		v.dealt[callback] = d
	}
	d.asked++
	return d.offering
}

// asked is how often an offering's subscription was asked for.
func (v *verifier) asked(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dealtAs(name).asked
}

func (v *verifier) dealtAs(name string) *dealt {
	for _, d := range v.dealt {
		if d.name == name {
			return d
		}
	}
	return &dealt{}
}

// stood waits until each subscription has been what its offering makes it; those of a second are so for a second.
func (v *verifier) stood() {
	v.o.t.Helper()
	st, err := sqlite.Open(v.o.t.Context(), filepath.Join(v.o.data, mirror.StateFile), sqlite.Options{ReadOnly: true})
	if err != nil {
		v.o.t.Fatal(err)
	}
	defer st.Close()
	v.mu.Lock()
	for _, d := range v.dealt {
		d.seen = false
	}
	v.mu.Unlock()
	v.o.until("each offering has its subscription", ample, func() bool { return v.look(st) })
}

func (v *verifier) look(st store.Subscriptions) (all bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all = len(v.dealt) == len(v.offerings)
	for callback, d := range v.dealt {
		if d.seen {
			continue
		}
		s, err := st.SubscriptionByToken(v.o.t.Context(), callback[strings.LastIndexByte(callback, '/')+1:])
		if err != nil {
			v.o.t.Error(err)
		}
		d.seen = s.State == d.state && s.Granted == d.granted && s.Secret != ""
		all = all && d.seen
	}
	return all
}

// mirrored waits until every mirror is the Source.
func (v *verifier) mirrored() time.Duration {
	v.o.t.Helper()
	equal := 0 // mirrors of a Source at rest: once is enough
	return v.o.until("every mirror equals the Source", ample, func() bool {
		for ; equal < len(v.offerings); equal++ {
			missing, wrong, extra, err := v.o.annals.differences(filepath.Join(filepath.Dir(v.o.mirror), fmt.Sprintf("s%d", equal)))
			if err != nil || len(missing)+len(wrong)+len(extra) > 0 {
				return false
			}
		}
		return true
	})
}
