// Package rspack knows how a package is read: the directory of a ZIP file within bounds, and its members one by one,
// each held to the length and checksum of the directory. It refuses to know what a member means and where a package
// lies.
//
// The directory is read here because archive/zip keeps some hundred bytes and several pointers a member, and reads
// entries until one is bad, whatever the end record says. Here a member costs 52 bytes, and a directory over a bound is
// refused before it is read. Absurd ratios are harmless: a member is cut off at its length by the directory, and no two
// members that can be read share bytes, so that no package expands to more than deflate can make of its size.
package rspack

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Limits bound what a directory may cost. Zero is the default.
type Limits struct {
	Members   int   // default 1,000,000
	Directory int64 // bytes, default 256 MiB
}

// Package is an open ZIP file. Its methods may be used by many at once.
type Package struct {
	r       io.ReaderAt
	from    int64 // where the directory begins
	seed    maphash.Seed
	records []record // by place in the file
	byName  []uint32 // those that may be found, by hash of the name
	idle    sync.Pool
}

// record is what is kept of a member. Names are hashed by a seed that nobody outside knows.
type record struct {
	name           uint64
	entry          int64 // in the directory
	header         int64 // of the member's own, in the file
	length, packed int64
	crc            uint32
	method         uint16
	fault          fault
}

// Member is a file in one Package.
type Member struct {
	Length int64  // bytes expanded, by the directory
	number uint32 // from 1
}

// Signatures, sizes and methods (APPNOTE.TXT 4.3, 4.4.5).
const (
	entrySig, entrySize     = 0x02014b50, 46
	headerSig, headerSize   = 0x04034b50, 30
	endSig, endSize         = 0x06054b50, 22
	end64Sig, end64Size     = 0x06064b50, 56
	locatorSig, locatorSize = 0x07064b50, 20

	stored, deflated = 0, 8
)

var le = binary.LittleEndian

// Open reads the directory of a package of so many bytes. Failures of r are no *Error; they come wrapped.
func Open(r io.ReaderAt, size int64, l Limits) (*Package, error) {
	l.Members, l.Directory = cmp.Or(l.Members, 1_000_000), cmp.Or(l.Directory, 256<<20)
	e, at, err := findEnd(r, size)
	if err != nil {
		return nil, err
	}
	switch {
	case e.members > uint64(min(l.Members, math.MaxInt32)):
		return nil, refuse(CauseLimit, "it has %d members, more than %d", e.members, l.Members)
	case e.size > uint64(l.Directory):
		return nil, refuse(CauseLimit, "its directory has %d bytes, more than %d", e.size, l.Directory)
	// Something before the first member would shift it: a package that was cut behind a member that is a package.
	case e.size > uint64(at) || e.offset != uint64(at)-e.size || e.members*entrySize > e.size:
		return nil, refuse(CauseDamaged, "its directory cannot be where the end record says: was the file cut?")
	}
	p := &Package{r: r, from: int64(e.offset), seed: maphash.MakeSeed(), idle: sync.Pool{New: newTools}}
	if err := p.readDirectory(int64(e.size), int(e.members)); err != nil {
		return nil, err
	}
	p.index()
	return p, nil
}

// end is what the end record says, in either of its forms.
type end struct{ members, size, offset uint64 }

// findEnd reads the end record, and tells where the directory ends. The last record counts whose comment reaches the
// very end: anything looser could take one that stands in a member, which others than the Source may have written.
func findEnd(r io.ReaderAt, size int64) (e end, at int64, err error) {
	tail := make([]byte, min(size, math.MaxUint16+endSize+locatorSize+end64Size))
	if err := readAt(r, tail, size-int64(len(tail))); err != nil {
		return e, 0, err
	}
	i := len(tail) - endSize
	for i >= 0 && (le.Uint32(tail[i:]) != endSig || i+endSize+int(le.Uint16(tail[i+20:])) != len(tail)) {
		i--
	}
	if i < 0 {
		return e, 0, noPackage(r, size)
	}
	b := tail[i:]
	e = end{uint64(le.Uint16(b[10:])), uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:]))}
	whole := le.Uint32(b[4:]) == 0 && uint64(le.Uint16(b[8:])) == e.members
	at = size - int64(len(b))
	if i >= locatorSize+end64Size && le.Uint32(tail[i-locatorSize:]) == locatorSig {
		short := e
		b, at = tail[i-locatorSize-end64Size:], at-locatorSize-end64Size
		e = end{le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])}
		if le.Uint32(b) != end64Sig || le.Uint64(b[4:]) != end64Size-12 || // bytes that follow
			le.Uint64(b[end64Size+8:]) != e.offset+e.size || // where the record is
			short.members != math.MaxUint16 && short.members != e.members ||
			short.size != math.MaxUint32 && short.size != e.size ||
			short.offset != math.MaxUint32 && short.offset != e.offset {
			return e, 0, refuse(CauseDamaged, "its ZIP64 records contradict each other")
		}
		whole = le.Uint64(b[16:]) == 0 && le.Uint64(b[24:]) == e.members && le.Uint32(b[end64Size+4:]) == 0
	}
	if !whole {
		return e, 0, refuse(CauseDamaged, "it is one of several parts")
	}
	return e, at, nil
}

// noPackage tells what a file is that has no end record.
func noPackage(r io.ReaderAt, size int64) error {
	head := make([]byte, min(size, 1024))
	if err := readAt(r, head, 0); err != nil {
		return err
	}
	head = bytes.ToLower(head)
	if bytes.Contains(head, []byte("<html")) || bytes.Contains(head, []byte("<!doctype html")) {
		return refuse(CausePage, "it is an HTML page in place of a ZIP file")
	}
	return refuse(CauseDamaged, "it is no ZIP file, or was cut, or goes on behind its end")
}

// readDirectory keeps a record of each entry.
func (p *Package) readDirectory(size int64, members int) error {
	in, at := bufio.NewReaderSize(io.NewSectionReader(p.r, p.from, size), entrySize+3*math.MaxUint16), int64(0)
	p.records = make([]record, 0, members)
	for len(p.records) < members {
		b, err := in.Peek(entrySize)
		if err == nil {
			b, err = in.Peek(entrySize + int(le.Uint16(b[28:])) + int(le.Uint16(b[30:])) + int(le.Uint16(b[32:])))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the directory of a package: %w", err)
		}
		if err != nil || le.Uint32(b) != entrySig {
			break
		}
		p.records = append(p.records, p.parse(b, at))
		at += int64(len(b))
		in.Discard(len(b)) //nolint:errcheck // it was peeked at
	}
	if at != size || len(p.records) < members {
		return refuse(CauseDamaged, "its directory is broken after %d of %d members", len(p.records), members)
	}
	return nil
}

// parse makes a record of an entry.
func (p *Package) parse(b []byte, at int64) record {
	name := b[entrySize:][:le.Uint16(b[28:])]
	rec := record{name: maphash.Bytes(p.seed, name), entry: at, crc: le.Uint32(b[16:]), method: le.Uint16(b[10:])}
	flags, attributes := le.Uint16(b[8:]), le.Uint32(b[38:])
	wide, ok := sizes(b, b[entrySize+len(name):][:le.Uint16(b[30:])])
	room := p.from - headerSize - int64(len(name)) // for members, less the smallest header
	outside := !ok || wide[2] > room || wide[1] > room-wide[2]
	rec.length, rec.packed, rec.header = wide[0], wide[1], wide[2]
	if outside {
		rec.header = p.from // behind all others
	}
	switch {
	case escapes(name):
		rec.fault = unnamed
	case outside:
		rec.fault = absent
	case flags&0x2061 != 0: // by any of three ways; or a patch of PKZIP
		rec.fault = encrypted
	case rec.method != stored && rec.method != deflated:
		rec.fault = unknown
	case attributes>>28&^8 != 0 || attributes&0x18 != 0 || name[len(name)-1] == '/': // by Unix, by DOS, by custom
		rec.fault = special
	}
	return rec
}

// sizes are the length expanded, the length packed and the place of the header. What is too large for an entry stands
// in its extra field of ZIP64.
func sizes(b, extra []byte) (wide [3]int64, ok bool) {
	var large []byte
	for len(extra) >= 4 {
		n := min(int(le.Uint16(extra[2:])), len(extra)-4)
		if le.Uint16(extra) == 1 {
			large = extra[4 : 4+n]
		}
		extra = extra[4+n:]
	}
	for i, small := range [3]uint32{le.Uint32(b[24:]), le.Uint32(b[20:]), le.Uint32(b[42:])} {
		wide[i] = int64(small)
		if small == math.MaxUint32 {
			if len(large) < 8 {
				return wide, false
			}
			wide[i], large = int64(le.Uint64(large)), large[8:]
		}
		if wide[i] < 0 {
			return wide, false
		}
	}
	return wide, true
}

// escapes reports whether a name could lead out of a folder on some system. Nothing is ever written under it, but no
// manifest means such a member.
func escapes(name []byte) bool {
	for part := range bytes.SplitSeq(name, []byte("/")) {
		if string(part) == ".." {
			return true
		}
	}
	return len(name) == 0 || name[0] == '/' || bytes.ContainsAny(name, "\\\x00") || len(name) > 1 && name[1] == ':'
}

// index marks members that share bytes, and makes all known by name.
func (p *Package) index() {
	slices.SortFunc(p.records, func(a, b record) int { return cmp.Compare(a.header, b.header) })
	p.byName = make([]uint32, 0, len(p.records))
	last := 0 // the member that reaches farthest
	for i := range p.records {
		rec, far := &p.records[i], &p.records[last]
		if i > 0 && rec.header < far.header+headerSize+far.packed {
			rec.fault, far.fault = max(rec.fault, overlapping), max(far.fault, overlapping)
		}
		if rec.header+rec.packed >= far.header+far.packed {
			last = i
		}
		if rec.fault != unnamed {
			p.byName = append(p.byName, uint32(i))
		}
	}
	slices.SortFunc(p.byName, func(a, b uint32) int { return cmp.Compare(p.records[a].name, p.records[b].name) })
}

// Len is the number of members, those that cannot be read included.
func (p *Package) Len() int { return len(p.records) }

// Manifest is the member that says what the others are.
func (p *Package) Manifest() (Member, error) { return p.Find("manifest.xml") }

// Find looks up what a manifest calls by a path: a name without the leading slash, as it stands or else
// percent-decoded. Names are bytes, whatever their encoding.
func (p *Package) Find(path string) (Member, error) {
	name := strings.TrimPrefix(path, "/")
	i, n := p.lookUp(name)
	if plain, err := url.PathUnescape(name); n == 0 && err == nil {
		i, n = p.lookUp(plain)
	}
	var e *Error
	switch {
	case n == 0:
		e = refuse(CauseMissing, "the package has no such member")
	case n > 1:
		e = refuse(CauseAmbiguous, "the package has several of that name")
	case p.records[i].fault != 0:
		e = refuse(CauseRefused, "%s", faults[p.records[i].fault])
	default:
		return Member{Length: p.records[i].length, number: i + 1}, nil
	}
	e.Member = path
	return Member{}, e
}

// lookUp is a record of a name, and whether there are none, one or more. A hostile package has a million of one name.
func (p *Package) lookUp(name string) (first uint32, n int) {
	hash := maphash.String(p.seed, name)
	at, _ := slices.BinarySearchFunc(p.byName, hash, func(i uint32, hash uint64) int {
		return cmp.Compare(p.records[i].name, hash)
	})
	for n < 2 && at+n < len(p.byName) && p.records[p.byName[at+n]].name == hash {
		first = p.byName[at]
		n++
	}
	return first, n
}

// nameOf is the name of a member, for what is told of its failures.
func (p *Package) nameOf(rec *record) string {
	b := make([]byte, entrySize+math.MaxUint16)
	n, _ := p.r.ReadAt(b, p.from+rec.entry)
	return string(b[min(n, entrySize):min(n, entrySize+int(le.Uint16(b[28:])))])
}

// readAt fills b. A file that ends before is shorter than it was said to be.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return refuse(CauseDamaged, "it ends before its byte %d", at+int64(len(b)))
	}
	return fmt.Errorf("reading a package: %w", err)
}
