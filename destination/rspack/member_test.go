package rspack

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"resyncd/destination/fuzztest"
)

// TestLimits: a directory over a bound is refused before it is read.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := pack(t, ordinary...)
	directory := int64(len(b) - endSize - find(t, b, entrySig, entrySize, "manifest.xml"))
	for _, c := range []struct {
		limits Limits
		text   string
	}{
		{Limits{Members: 5, Directory: directory}, ""},
		{Limits{Members: 4}, "it has 5 members, more than 4"},
		{Limits{Directory: directory - 1}, "more than"},
	} {
		r := &counter{ReaderAt: bytes.NewReader(b)}
		_, err := Open(r, int64(len(b)), c.limits)
		if c.text == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		is(t, err, CauseLimit, c.text)
		if r.reads != 1 {
			t.Errorf("%d reads before %v", r.reads, err)
		}
	}
}

// counter counts reads.
type counter struct {
	io.ReaderAt
	reads int
}

func (c *counter) ReadAt(b []byte, at int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(b, at)
}

var errDisk = errors.New("disk on fire")

// burning fails where a read touches a place.
type burning struct {
	io.ReaderAt
	at int64
}

func (r burning) ReadAt(b []byte, at int64) (int, error) {
	if at <= r.at && r.at < at+int64(len(b)) {
		return 0, errDisk
	}
	return r.ReaderAt.ReadAt(b, at)
}

// TestDisk: a failing disk is no fault of the package, wherever it fails, and a failing writer no fault of either.
func TestDisk(t *testing.T) {
	t.Parallel()
	b := pack(t, ordinary...)
	size := int64(len(b))
	p, inMember := open(t, b), 0
	for at := 0; at < len(b); at += 3 { // a field has more bytes
		var fault *Error
		_, err := Open(burning{bytes.NewReader(b), int64(at)}, size, Limits{})
		if !errors.Is(err, errDisk) || errors.As(err, &fault) {
			t.Errorf("at %d: %v", at, err)
		}
		p.r = burning{bytes.NewReader(b), int64(at)}
		for _, f := range ordinary {
			m, err := p.Find(f.name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Read(m, io.Discard); err != nil {
				inMember++
				if !errors.Is(err, errDisk) || errors.As(err, &fault) || !strings.Contains(err.Error(), f.name) {
					t.Errorf("%s at %d: %v", f.name, at, err)
				}
			}
		}
	}
	if inMember == 0 {
		t.Error("no member failed")
	}
	p.r = bytes.NewReader(b)
	for _, f := range ordinary {
		m, err := p.Find(f.name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.Read(m, full{}); err != errDisk || n != 0 { //nolint:errorlint // as it is
			t.Error(n, err)
		}
		holds(t, p, f.name, f.data)
	}
	_, err := p.Read(Member{}, io.Discard)
	is(t, err, CauseMissing, "no member")
	_, err = p.Reader(Member{number: 6})
	is(t, err, CauseMissing, "no member")
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errDisk }

// TestShortened: a file that becomes shorter after it was opened fails its members only.
func TestShortened(t *testing.T) {
	t.Parallel()
	b := pack(t, ordinary...)
	p := open(t, b)
	m, err := p.Find("last")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < find(t, b, entrySig, entrySize, "manifest.xml")-16; n += 5 {
		p.r = bytes.NewReader(b[:n])
		_, err := p.Read(m, io.Discard)
		if e, ok := errors.AsType[*Error](err); !ok || e.Cause() != CauseDamaged && e.Cause() != CauseWrong {
			t.Fatalf("with %d bytes: %v", n, err)
		}
	}
}

// TestEnd: data that break off behind their last byte are broken too. So many bytes come out of deflate before it looks on.
func TestEnd(t *testing.T) {
	t.Parallel()
	const window = 32 << 10
	b := pack(t, file{name: "bad", data: letters(window), method: zip.Deflate})
	p := open(t, addTo("bad", 20, -1)(t, b))
	m, err := p.Find("bad")
	if err != nil {
		t.Fatal(err)
	}
	n, err := p.Read(m, io.Discard)
	is(t, err, CauseWrong, "EOF")
	if n != window {
		t.Errorf("%d bytes", n)
	}
}

// TestReaders: streams are used again, but by one at a time.
func TestReaders(t *testing.T) {
	t.Parallel()
	p := open(t, pack(t, ordinary...))
	get := func(name string) io.ReadCloser {
		m, err := p.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Reader(m)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := get("bad")
	if _, err := io.ReadFull(first, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	if n, err := first.Read(make([]byte, 1)); n != 0 || !errors.Is(err, fs.ErrClosed) {
		t.Error(n, err)
	}
	second, third := get("good"), get("plain")
	first.Close()
	var a, b bytes.Buffer
	for range 2000 {
		if _, err := io.CopyN(&a, second, 1); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if _, err := io.CopyN(&b, third, 1); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if a.String() != letters(500) || b.String() != letters(100) {
		t.Errorf("%q, %q", &a, &b)
	}
}

// TestMany: many at once read members good and bad, large and small, stored and deflated.
func TestMany(t *testing.T) {
	t.Parallel()
	const members, readers = 50, 8
	random := rand.New(rand.NewPCG(1, 2))
	var files []file
	for i := range members {
		data := make([]byte, random.IntN(10_000))
		for j := range data {
			data[j] = byte(random.IntN(4 << (i % 7)))
		}
		files = append(files, file{name: fmt.Sprintf("m%03d", i), data: string(data) + "x", method: uint16(i % 2 * 8)})
	}
	b := pack(t, files...)
	for i := 0; i < members; i += 5 {
		b[find(t, b, entrySig, entrySize, files[i].name)+16] ^= 1 // its checksum
	}
	p := open(t, b)
	var all sync.WaitGroup
	for range readers {
		order := random.Perm(members)
		all.Go(func() {
			for _, i := range order {
				m, err := p.Find("/" + files[i].name)
				if err != nil {
					t.Error(err)
					return
				}
				var got bytes.Buffer
				switch _, err = p.Read(m, &got); {
				case i%5 == 0:
					is(t, err, CauseWrong, fmt.Sprintf("%q", files[i].name))
				case err != nil || got.String() != files[i].data:
					t.Errorf("%s: %v", files[i].name, err)
				}
			}
		})
	}
	all.Wait()
}

// behind is a file that begins with a hole.
type behind struct {
	hole int64
	b    []byte
}

func (r behind) ReadAt(b []byte, at int64) (int, error) {
	hole := min(int64(len(b)), max(0, r.hole-at))
	clear(b[:hole])
	n, err := bytes.NewReader(r.b).ReadAt(b[hole:], max(0, at-r.hole))
	return n + int(hole), err
}

// TestLarge: members and the directory lie behind 4 GiB.
func TestLarge(t *testing.T) {
	t.Parallel()
	const hole = 5 << 30
	b := pack(t, ordinary...)
	for _, f := range ordinary {
		at := uint64(find(t, b, headerSig, headerSize, f.name))
		b = both(entry(f.name, 42, ff4...), extra(f.name, wide64(hole+at)...))(t, b)
	}
	b = zip64(t, b)
	tail := b[len(b)-endSize-locatorSize-end64Size:]
	for _, at := range []int{48, end64Size + 8} {
		le.PutUint64(tail[at:], le.Uint64(tail[at:])+hole)
	}
	p, err := Open(behind{hole, b}, hole+int64(len(b)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ordinary {
		holds(t, p, f.name, f.data)
	}
}

// TestOverlaps: of members that share bytes none is read, so that what can be read never expands to more than deflate can make
// of the package. One kernel that many members quote is how a small ZIP file becomes endless.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	const members = 200
	var files []file
	for i := range members {
		files = append(files, file{name: fmt.Sprintf("%03d", i), method: zip.Deflate})
	}
	kernel := file{name: "kernel", data: letters(1 << 18), method: zip.Deflate}
	b := pack(t, append(slices.Clone(files), kernel, file{name: "apart", data: "a"})...)
	end := find(t, b, headerSig, headerSize, "apart")
	for i, f := range files {
		// Each reaches from its own header over all others to the kernel's end.
		at := find(t, b, entrySig, entrySize, f.name)
		le.PutUint32(b[at+20:], uint32(end-find(t, b, headerSig, headerSize, f.name)-headerSize-len(f.name)))
		le.PutUint32(b[at+24:], uint32(1<<18+i))
	}
	p := open(t, b)
	for _, f := range append(files, kernel) {
		_, err := p.Find(f.name)
		is(t, err, CauseRefused, "shares")
	}
	holds(t, p, "apart", "a")
}

// TestSame: what archive/zip reads of an ordinary package is what is read here.
func TestSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		var buf bytes.Buffer
		buf.WriteString(letters(random.IntN(2) * random.IntN(100)))
		w := zip.NewWriter(&buf)
		w.SetOffset(int64(buf.Len()))
		for i := range random.IntN(40) {
			h := &zip.FileHeader{Name: fmt.Sprintf("%d/%d", i%3, i), Method: uint16(random.IntN(2) * 8), Comment: letters(random.IntN(20))}
			h.SetMode(0o644)
			data := []byte(letters(random.IntN(5000)))
			if random.IntN(2) == 0 && h.Method == zip.Store { // lengths in the header, no descriptor
				h.CRC32, h.CompressedSize64, h.UncompressedSize64 = crc32.ChecksumIEEE(data), uint64(len(data)), uint64(len(data))
				m, err := w.CreateRaw(h)
				if err != nil {
					t.Fatal(err)
				}
				m.Write(data)
				continue
			}
			m, err := w.CreateHeader(h)
			if err != nil {
				t.Fatal(err)
			}
			m.Write(data)
		}
		if err := w.SetComment(letters(random.IntN(50))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		theirs, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		p := open(t, buf.Bytes())
		if p.Len() != len(theirs.File) {
			t.Errorf("%d members, not %d", p.Len(), len(theirs.File))
		}
		for _, f := range theirs.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			holds(t, p, f.Name, string(data))
		}
	}
}

// sum is the length and checksum of what is written.
type sum struct {
	n   int64
	crc uint32
}

func (s *sum) Write(b []byte) (int, error) {
	s.n += int64(len(b))
	s.crc = crc32.Update(s.crc, crc32.IEEETable, b)
	return len(b), nil
}

// FuzzOpen: whatever a file holds, members that are read are what the directory says, lie apart, have names that do not escape,
// and are no more together than deflate makes of the file.
func FuzzOpen(f *testing.F) {
	whole := pack(f, ordinary...)
	f.Add(whole)
	f.Add(zip64(f, slices.Clone(whole)))
	f.Add(pack(f))
	f.Add(append([]byte("prefix"), whole...))
	f.Add(pack(f, file{name: "../up"}, file{name: "twice"}, file{name: "twice"}, file{name: "folder/"}))
	for _, c := range []change{
		atOf("bad", "good", 0), addTo("bad", 20, 17), entry("bad", 24, 100, 0), entry("bad", 8, 9), header("bad", 28, 17), ending(8, 6, 0, 6, 0),
		both(entry("bad", 24, ff4...), extra("bad", wide64(1000)...)), ending64(40, ff4...),
	} {
		f.Add(c(f, slices.Clone(whole)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t)
		p, err := Open(bytes.NewReader(b), int64(len(b)), Limits{Members: 1000})
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%v comes from no disk", err)
			}
			return
		}
		var total, last int64
		for i := range p.records {
			rec := &p.records[i]
			name := p.nameOf(rec)
			m, err := p.Find(name)
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Cause() == "") {
				t.Errorf("%q: %v", name, err)
			}
			if rec.fault == 0 && err != nil && err.(*Error).Cause() != CauseAmbiguous {
				t.Errorf("%q is not found: %v", name, err)
			}
			if err != nil || m.number != uint32(i+1) {
				continue
			}
			if escapes([]byte(name)) {
				t.Errorf("%q was found", name)
			}
			var got sum
			n, err := p.Read(m, &got)
			if n != got.n || n > m.Length {
				t.Errorf("%q: %d bytes, %d told, %d by the directory", name, got.n, n, m.Length)
			}
			total += n
			if err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Errorf("%q: %v", name, err)
				}
				continue
			}
			if n != m.Length || got.crc != rec.crc {
				t.Errorf("%q: %d bytes of %d, checksum %08x, not %08x", name, n, m.Length, got.crc, rec.crc)
			}
			if rec.header < last {
				t.Errorf("%q begins at %d, before %d", name, rec.header, last)
			}
			last = rec.header + headerSize + int64(len(name)) + rec.packed
		}
		if total > 1040*int64(len(b)) {
			t.Errorf("%d bytes expanded to %d", len(b), total)
		}
	})
}
