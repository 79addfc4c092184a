package source

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestContent is the law of made-up text: the same however it is read.
func TestContent(t *testing.T) {
	t.Parallel()
	o := Synthetic{Seed: 3}
	whole, err := io.ReadAll(o.Content(17, 4))
	if err != nil || int64(len(whole)) != o.Length(17, 4) {
		t.Fatalf("%d bytes, want %d, %v", len(whole), o.Length(17, 4), err)
	}
	if err := iotest.TestReader(o.Content(17, 4), whole); err != nil {
		t.Error(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, len(whole)).Draw(t, "from")
		r := o.Content(17, 4)
		if _, err := r.Seek(int64(from), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(r)
		if err != nil || string(part) != string(whole[from:]) {
			t.Fatalf("from %d: %d bytes, %v", from, len(part), err)
		}
	})
	seen := map[[32]byte]bool{}
	var total int64
	for n := range 2000 {
		for version := range int64(3) {
			b, _ := io.ReadAll(o.Content(n+1, version))
			seen[sha256.Sum256(b)] = true
			total += int64(len(b))
		}
	}
	if mean := total / 6000; len(seen) != 6000 || mean < 2500 || mean > 4000 {
		t.Errorf("%d different of 6000, %d bytes on average", len(seen), mean)
	}
}

func TestSyntheticNames(t *testing.T) {
	t.Parallel()
	var o Synthetic
	for n, want := range map[int]string{1: "res/000001", 999_999: "res/999999", 1_000_000: "res/1000000"} {
		if o.Name(n) != want {
			t.Errorf("%d: %s", n, o.Name(n))
		}
	}
	s := newSource(t, Options{Synthetic: &Synthetic{Resources: 3}})
	for _, bad := range []string{"res/1", "res/000000", "res/0000001", "res/+00001", "res/-00001", "res/00000a", "res/", "x"} {
		if resp := ask(s, "GET", "/"+bad); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", bad, resp.Status)
		}
	}
}

// TestSteps makes the same history twice, and another from another seed; the served bytes are what the lists say.
func TestSteps(t *testing.T) {
	t.Parallel()
	history := func(seed uint64) *Source {
		s := newSource(t, Options{Now: newScripted().now, Synthetic: &Synthetic{Resources: 50, Seed: seed, Size: 100}})
		for range 30 {
			s.backend.(*generator).step(10)
			if n := s.Len(); n < 45 || n > 55 {
				t.Fatalf("%d resources", n)
			}
		}
		return s
	}
	one := history(1)
	if diff := cmp.Diff(maps.Collect(one.Resources()), maps.Collect(history(1).Resources())); diff != "" {
		t.Errorf("the same seed, another history:\n%s", diff)
	}
	if cmp.Equal(maps.Collect(one.Resources()), maps.Collect(history(2).Resources())) {
		t.Error("another seed, the same history")
	}
	_, set := listed(t, one)
	if diff := cmp.Diff(maps.Collect(one.Resources()), set); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for uri, sum := range set {
		if body := get(t, one, uri); sha256.Sum256(body) != sum {
			t.Errorf("%s is served as another version than listed", uri)
		}
	}
	counts := map[string]int{}
	_, lists := changeLists(t, one)
	for _, e := range lists[0] {
		counts[e.Change.String()]++
	}
	if counts["updated"] < 130 || counts["created"] < 30 || counts["deleted"] < 30 {
		t.Errorf("changes: %v", counts)
	}
	if resp := ask(one, "GET", testBase+"/res/999999"); resp.StatusCode != 404 {
		t.Errorf("a number that never was: %s", resp.Status)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.1, 7, 1000} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(t, Options{Synthetic: &Synthetic{Resources: 10, Rate: rate, Size: 8}})
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second+time.Millisecond)
			defer cancel()
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			if want := 60 * rate; math.Abs(float64(s.journal.total())-want) > 1+want/100 {
				t.Errorf("%d changes in a minute at %g a second", s.journal.total(), rate)
			}
		})
	}
}

// TestSmallRecords bounds what a made-up resource costs, so that a million of them can be served.
func TestSmallRecords(t *testing.T) {
	const n = 100_000
	before := heap()
	s := newSource(t, Options{Synthetic: &Synthetic{Resources: n, Size: 8}})
	if per := (heap() - before) / n; per > 200 {
		t.Errorf("%d bytes for each resource", per)
	}
	runtime.KeepAlive(s)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCatalog compares a catalog with a map, and what was copied of it before with copies of that map.
func TestCatalog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := catalog{slots: map[string]int{}, most: rapid.IntRange(1, 300).Draw(t, "most")}
		model := map[string]int64{}
		type moment struct {
			all   []*record
			model map[string]int64
		}
		var moments []moment
		check := func(all []*record, want map[string]int64) {
			got := map[string]int64{}
			for _, r := range alive(all) {
				got[r.name] = r.length
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		name := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 200).Draw(t, "name")) }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n, length := name(t), rapid.Int64Range(0, 9).Draw(t, "length")
				c.set(&record{name: n, live: true, length: length})
				model[n] = length
			},
			"remove": func(t *rapid.T) {
				n := name(t)
				if r := c.find(n); r != nil && r.live {
					c.set(&record{name: n})
					delete(model, n)
				}
			},
			"copy": func(*rapid.T) {
				moments = append(moments, moment{slices.Clone(c.all), maps.Clone(model)})
			},
			"": func(t *rapid.T) {
				if c.live != len(model) || len(c.slots) > c.live+c.most {
					t.Fatalf("%d alive of %d known, want %d", c.live, len(c.slots), len(model))
				}
			},
		})
		for _, m := range moments {
			check(m.all, m.model)
		}
		check(slices.Clone(c.all), model)
	})
}

// TestTombstones forgets the dead one day, and never one that lives again.
func TestTombstones(t *testing.T) {
	t.Parallel()
	c := catalog{slots: map[string]int{}, most: maxTombstones}
	for i := range 3 {
		c.set(&record{name: fmt.Sprint("early", i), live: true})
		c.set(&record{name: fmt.Sprint("early", i)})
	}
	c.set(&record{name: "early1", live: true})
	for i := range maxTombstones {
		c.set(&record{name: fmt.Sprint(i), live: true})
		c.set(&record{name: fmt.Sprint(i)})
	}
	for name, want := range map[string]bool{"early0": false, "early1": true, "early2": false, "0": true} {
		if got := c.find(name) != nil; got != want {
			t.Errorf("%s known: %v", name, got)
		}
	}
	if r := c.find("early1"); !r.live || c.live != 1 {
		t.Error("a living record was removed")
	}
	slots := len(c.all)
	if c.set(&record{name: "new", live: true}); len(c.all) != slots {
		t.Error("a free slot was not used again")
	}
}
