package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// memory is a body that the program put there.
type memory []byte

func (m memory) open(rec *record) (body, error) {
	return body{ReadSeeker: bytes.NewReader(m), modified: time.Unix(rec.modified, 0), exact: true}, nil
}

// Put creates or updates a resource of a Source in memory. The name is unescaped bytes without a slash in front. The
// body is kept, not copied.
func (s *Source) Put(name string, body []byte) error {
	if s.backend != nil {
		return fmt.Errorf("put %q: the Source is not in memory", name)
	}
	if !validName(name) || s.reserved(name) {
		return fmt.Errorf("put %q: not a name that a URI path can have here", name)
	}
	rec := &record{name: name, live: true, content: memory(body)}
	if err := s.fill(rec, bytes.NewReader(body)); err != nil {
		return fmt.Errorf("put %q: %w", name, err)
	}
	s.compare(rec)
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.modified = s.options.Now().Unix()
	s.publish(rec)
	return nil
}

// Delete removes a resource of a Source in memory. It reports whether there was one.
func (s *Source) Delete(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.catalog.find(name)
	if s.backend != nil || rec == nil || !rec.live {
		return false
	}
	s.publish(&record{name: name})
	return true
}

// Synthetic describes made-up resources. Each body is text and a pure function of (Seed, number, version), so none is
// kept.
type Synthetic struct {
	// Resources is how many there are at the beginning, numbered from 1.
	Resources int
	// Rate is the number of changes a second: three of five are updates, the others keep the number of resources near
	// Resources.
	Rate float64
	// Seed makes another world.
	Seed uint64
	// Size is the length of every body. 0: a mix from 100 bytes to 32 KiB, on average 3 KiB.
	Size int64
}

// Name is the name of a resource: res/000001 and so on.
func (Synthetic) Name(number int) string {
	digits := strconv.Itoa(number)
	return "res/" + "000000"[:max(0, 6-len(digits))] + digits
}

// Length is the length of a version of a resource. Versions are numbered from 0.
func (o Synthetic) Length(number int, version int64) int64 {
	if o.Size > 0 {
		return o.Size
	}
	h := o.key(number, version)
	var low, high uint64
	switch pick := h >> 32 % 100; {
	case pick < 70:
		low, high = 100, 2<<10
	case pick < 95:
		low, high = 2<<10, 8<<10
	default:
		low, high = 8<<10, 32<<10
	}
	return int64(low + h&0xffffffff%(high-low))
}

// Content is a version of a resource.
func (o Synthetic) Content(number int, version int64) io.ReadSeeker {
	return io.NewSectionReader(letters(o.key(number, version)), 0, o.Length(number, version))
}

func (o Synthetic) key(number int, version int64) uint64 {
	return mix(mix(mix(o.Seed)+uint64(number)) + uint64(version))
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// letters reads as letters from a to p with a line break after every 63rd, without end.
type letters uint64

// ReadAt never fails.
func (key letters) ReadAt(p []byte, offset int64) (int, error) {
	var word [8]byte
	for n := 0; n < len(p); {
		at := uint64(offset) + uint64(n)
		binary.LittleEndian.PutUint64(word[:], key.word(at/8))
		n += copy(p[n:], word[at%8:])
	}
	return len(p), nil
}

// word is eight characters at once.
func (key letters) word(i uint64) uint64 {
	w := mix(uint64(key)+i)&0x0f0f0f0f0f0f0f0f + 0x6161616161616161
	if i%8 == 7 {
		w = w&^(0xff<<56) | '\n'<<56
	}
	return w
}

// firstModified is the first Last-Modified of all resources: 2020-01-01.
const firstModified = 1_577_836_800

// generator makes up the resources: slot n of the catalog holds the number n+1.
type generator struct {
	Synthetic
	s      *Source
	random *rand.Rand // of step, which alone changes the catalog
}

func (s *Source) makeResources(ctx context.Context) error {
	o := *s.options.Synthetic
	m := &generator{Synthetic: o, s: s, random: rand.New(rand.NewPCG(o.Seed, 0x5eed))}
	s.backend = m
	known := len(s.catalog.all)
	for _, rec := range alive(slices.Clone(s.catalog.all)) {
		rec.content = m
	}
	all := make([]*record, max(0, o.Resources-known))
	workers := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		group.Go(func() error {
			for i := w; i < len(all); i += workers {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("make resources: %w", err)
				}
				all[i] = m.record(known+i+1, 0, firstModified)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, rec := range all {
		if s.state.known() {
			s.publish(rec)
		} else {
			s.catalog.set(rec)
		}
	}
	return nil
}

// record is a live record of a version.
func (m *generator) record(number int, version, modified int64) *record {
	r := &record{name: m.Name(number), live: true, version: version, modified: modified, content: m}
	// Reading letters cannot fail.
	_ = m.s.fill(r, m.Content(number, version))
	return r
}

func (m *generator) open(rec *record) (body, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(rec.name, "res/"))
	return body{ReadSeeker: m.Content(number, rec.version), modified: time.Unix(rec.modified, 0), exact: true}, err
}

// run makes Rate changes a second, however coarse the timer is.
func (m *generator) run(ctx context.Context) {
	if m.Rate == 0 {
		return
	}
	begin, done := time.Now(), 0
	repeat(ctx, max(10*time.Millisecond, time.Duration(float64(time.Second)/m.Rate)), func() {
		due := int(time.Since(begin).Seconds() * m.Rate)
		m.step(due - done)
		done = due
	})
}

// step makes n changes. What the n-th since New is depends on the options alone.
func (m *generator) step(n int) {
	for range n {
		number, version, alive := m.choose()
		next := &record{name: m.Name(number), version: version}
		if alive {
			next = m.record(number, version, m.s.options.Now().Unix())
		}
		m.s.mu.Lock()
		m.s.publish(next)
		m.s.mu.Unlock()
	}
}

// choose picks the next change: the number of a resource, its version and whether it is then alive.
func (m *generator) choose() (number int, version int64, alive bool) {
	m.s.mu.RLock()
	defer m.s.mu.RUnlock()
	all, live := m.s.catalog.all, m.s.catalog.live
	dead, dice := len(all)-live, m.random.IntN(5)
	switch {
	case live > 0 && dice < 3:
		slot := m.pick(all, true)
		return slot + 1, all[slot].version + 1, true
	case live > m.Resources || live > 0 && live == m.Resources && dice == 3:
		slot := m.pick(all, true)
		return slot + 1, all[slot].version, false
	case dead > 0 && (dead > m.Resources/4+10 || m.random.IntN(2) == 0):
		slot := m.pick(all, false)
		return slot + 1, all[slot].version + 1, true
	}
	return len(all) + 1, 0, true
}

// pick chooses a slot that is alive or dead, as asked; there is one.
func (m *generator) pick(all []*record, alive bool) int {
	slot := m.random.IntN(len(all))
	for all[slot].live != alive {
		slot = (slot + 1) % len(all)
	}
	return slot
}
