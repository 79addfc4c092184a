package column

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"resyncd/destination/fuzztest"
	"resyncd/store"
)

func genMicros() *rapid.Generator[store.Micros] {
	return rapid.Map(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64, 0, -1})),
		func(n int64) store.Micros { return store.Micros(n) })
}

func genDigests() *rapid.Generator[string] {
	token := rapid.OneOf(rapid.StringMatching("md5:[0-9a-f]{32}"), rapid.StringMatching("sha-1:[0-9a-f]{40}"),
		rapid.StringMatching("sha-256:[0-9a-f]{64}"), rapid.StringMatching("sha-384:[0-9a-f]{96}"), rapid.StringMatching("sha-512:[0-9a-f]{128}"),
		rapid.StringMatching("(md5|sha-256|crc):[0-9a-fA-Fx]{0,64}"), rapid.String())
	return rapid.Map(rapid.SliceOfN(token, 0, 4), func(ts []string) string { return strings.Join(ts, " ") })
}

// TestPacked: what is packed comes back letter by letter.
func TestPacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		version := store.Version{From: genMicros().Draw(t, "from"), Until: genMicros().Draw(t, "until"),
			Ordinal: rapid.Int64().Draw(t, "ordinal"), Document: rapid.Int64().Draw(t, "document")}
		h := store.Have{
			SHA256: [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sha")), ModTime: rapid.Int64().Draw(t, "mtime"),
			ETag: rapid.String().Draw(t, "etag"), LastModified: rapid.String().Draw(t, "lm"), Type: rapid.String().Draw(t, "type"),
			Checked: genDigests().Draw(t, "checked"), Version: version, Fetched: genMicros().Draw(t, "fetched"),
		}
		var h2 store.Have
		if err := IntoFile(&h2).Scan(PackFile(&h)); err != nil || h != h2 {
			t.Fatalf("%v\n%s", err, cmp.Diff(h, h2))
		}
		k := store.Work{Attempts: rapid.Int().Draw(t, "attempts"), Since: genMicros().Draw(t, "since"),
			Class: rapid.String().Draw(t, "class"), Reason: rapid.String().Draw(t, "reason")}
		var k2 store.Work
		if err := IntoFailure(&k2).Scan(PackFailure(&k)); err != nil || k != k2 {
			t.Fatalf("%v\n%s", err, cmp.Diff(k, k2))
		}
		said := func() store.Want {
			w := store.Want{Digests: genDigests().Draw(t, "digests"), Length: rapid.Int64().Draw(t, "length"), LastMod: genMicros().Draw(t, "lastmod"),
				Type: rapid.String().Draw(t, "wtype"), Links: rapid.String().Draw(t, "links"), Settled: rapid.Bool().Draw(t, "settled")}
			w.Version.Ordinal, w.Version.Document = version.Ordinal, version.Document
			return w
		}
		w := said()
		w.Pushed, w.Inline, w.Meta = rapid.Bool().Draw(t, "pushed"), rapid.Bool().Draw(t, "inline"), rapid.String().Draw(t, "meta")
		if rapid.Bool().Draw(t, "listed") {
			l := said()
			l.Version, l.SetID, l.Generation = version, rapid.Int64().Draw(t, "set"), rapid.Int64().Draw(t, "generation")
			l.State, l.Held = store.WantState(rapid.Byte().Draw(t, "state")), rapid.Bool().Draw(t, "held")
			l.Refused = rapid.String().Draw(t, "refused")
			l.Inline, l.Meta = rapid.Bool().Draw(t, "listed inline"), rapid.SampledFrom([]string{"", "{}", "ä"}).Draw(t, "listed meta")
			w.Listed = &l
		}
		var w2 store.Want
		if err := IntoWant(&w2).Scan(PackWant(&w)); err != nil || !cmp.Equal(w, w2) {
			t.Fatalf("%v\n%s", err, cmp.Diff(w, w2))
		}
	})
}

// TestOrdinaryWantIsSmall: what only some wants have costs the others nothing.
func TestOrdinaryWantIsSmall(t *testing.T) {
	t.Parallel()
	w := store.Want{Length: 5, Type: "t"}
	var plain packed
	plain.said(&w)
	if got := len(PackWant(&w)); got != len(plain.out) {
		t.Errorf("%d bytes, %d without", got, len(plain.out))
	}
	w.Inline = true
	if got := len(PackWant(&w)); got != len(plain.out)+1 {
		t.Errorf("inline: %d bytes, %d without", got, len(plain.out))
	}
}

func TestDigestsAreSmall(t *testing.T) {
	t.Parallel()
	s := "sha-256:" + strings.Repeat("0a", 32) + " md5:" + strings.Repeat("ff", 16)
	if got := len(appendDigests(nil, s)); got != 1+1+32+1+16 {
		t.Errorf("%d bytes", got)
	}
}

// FuzzUnpack: damaged records give an error or nonsense, never a panic and never more memory than they have bytes.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{})
	f.Add(PackFile(&store.Have{ETag: "e", Checked: "md5:" + strings.Repeat("00", 16)}))
	f.Add(PackWant(&store.Want{Type: "t", Digests: "x"}))
	f.Add(PackWant(&store.Want{Pushed: true, Listed: &store.Want{Type: "t", Refused: "r", Links: "l"}}))
	f.Add(PackWant(&store.Want{Inline: true, Meta: "{}", Listed: &store.Want{Inline: true, Meta: "[]"}}))
	f.Add([]byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t)
		var h store.Have
		var k store.Work
		var w store.Want
		for _, err := range []error{IntoFile(&h).Scan(b), IntoFailure(&k).Scan(b), IntoWant(&w).Scan(b)} {
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
		}
		n := len(h.ETag) + len(h.LastModified) + len(h.Type) + len(w.Type) + len(w.Links) + len(w.Meta)
		if w.Listed != nil {
			n += len(w.Listed.Type) + len(w.Listed.Links) + len(w.Listed.Refused) + len(w.Listed.Meta)
		}
		if n > 2*len(b) {
			t.Fatalf("%d bytes out of %d", n, len(b))
		}
	})
}

func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"cut":       IntoFile(new(store.Have)).Scan(make([]byte, 10)),
		"long":      IntoWant(new(store.Want)).Scan([]byte{0, 0, 0, 0, 0, 200}),
		"listed":    IntoWant(new(store.Want)).Scan([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1 | 2, 9, 1}),
		"meta":      IntoWant(new(store.Want)).Scan([]byte{0, 0, 0, 0, 0, 0, 0, 0, 4 | 8, 9, 1}),
		"no digest": IntoWant(new(store.Want)).Scan([]byte{0, 0, 0, 0, 0, 0, 0, 1, 9}),
		"a string":  IntoFile(new(store.Have)).Scan("x"),
		"intervals": IntervalsAt(new([]store.Interval)).Scan("nonsense"),
		"state":     IntoNumber(new(store.HaveState)).Scan(int64(900)),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
