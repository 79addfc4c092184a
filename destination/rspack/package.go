// Package rspack knows how a package is read: the directory of a ZIP file within bounds, and its members one by one, each held to
// the length and checksum that the directory gives. It refuses to know what a member means, where it came from, and any disk.
//
// It reads the directory itself, as archive/zip keeps some hundred bytes and several pointers a member, and reads headers until
// one is bad, whatever the end record says. Here a member costs 52 bytes, and a directory is refused before it is read if it is
// over a bound. Absurd ratios are harmless: a member is cut off at its length by the directory, and no two members share
// bytes, so that no package expands to more than deflate can make of its size.
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
	deflated       bool
	fault          fault
}

// Member is a file in one Package.
type Member struct {
	Length int64 // bytes expanded, by the directory
	number uint32
}

// Signatures and sizes of records in the file (APPNOTE.TXT 4.3).
const (
	entrySig, entrySize     = 0x02014b50, 46
	headerSig, headerSize   = 0x04034b50, 30
	endSig, endSize         = 0x06054b50, 22
	end64Sig, end64Size     = 0x06064b50, 56
	locatorSig, locatorSize = 0x07064b50, 20

	longestEntry = entrySize + 3*math.MaxUint16
)

var le = binary.LittleEndian

// end is what the end record says, in either of its forms.
type end struct{ members, size, offset uint64 }

// Open reads the directory of a package of so many bytes. Failures of r are no *Error; they come wrapped.
func Open(r io.ReaderAt, size int64, l Limits) (*Package, error) {
	if l.Members == 0 {
		l.Members = 1_000_000
	}
	if l.Directory == 0 {
		l.Directory = 256 << 20
	}
	e, at, err := findEnd(r, size)
	if err != nil {
		return nil, err
	}
	switch {
	case e.members > uint64(min(l.Members, math.MaxUint32-1)):
		return nil, refuse(CauseLimit, "%d members, more than %d", e.members, l.Members)
	case e.size > uint64(l.Directory):
		return nil, refuse(CauseLimit, "a directory of %d bytes, more than %d", e.size, l.Directory)
	case e.size > uint64(at) || e.offset > uint64(at)-e.size || e.members*entrySize > e.size:
		return nil, refuse(CauseDamaged, "a directory that cannot be where its end record says")
	}
	p := &Package{r: r, from: at - int64(e.size), seed: maphash.MakeSeed()}
	// What stands before the first member, such as a program that unpacks, shifts all offsets.
	if err := p.readDirectory(int64(e.size), int(e.members), p.from-int64(e.offset)); err != nil {
		return nil, err
	}
	p.index()
	return p, nil
}

// findEnd reads the end record, and tells where it begins. The last one counts whose comment reaches the very end: bytes of members
// stand before it, and in a package that was cut one of a ZIP file among the members does not take its place.
func findEnd(r io.ReaderAt, size int64) (e end, at int64, err error) {
	tail := make([]byte, min(size, math.MaxUint16+endSize+locatorSize+end64Size))
	if err := readAt(r, tail, size-int64(len(tail))); err != nil {
		return e, 0, fmt.Errorf("reading the end of a package: %w", err)
	}
	i := len(tail) - endSize
	for ; i >= 0; i-- {
		if le.Uint32(tail[i:]) == endSig && i+endSize+int(le.Uint16(tail[i+20:])) == len(tail) {
			break
		}
	}
	if i < 0 {
		return e, 0, noPackage(r, size)
	}
	b := tail[i:]
	e = end{uint64(le.Uint16(b[10:])), uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:]))}
	disks := uint64(le.Uint32(b[4:])) | uint64(le.Uint16(b[8:])^le.Uint16(b[10:]))
	if i >= locatorSize+end64Size && le.Uint32(tail[i-locatorSize:]) == locatorSig {
		i -= locatorSize + end64Size
		b, short := tail[i:], e
		e = end{le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])}
		at = size - int64(len(tail)-i)
		shift := uint64(at) - e.size - e.offset
		if le.Uint32(b) != end64Sig || le.Uint64(b[4:]) != end64Size-12 || le.Uint64(b[end64Size+8:])+shift != uint64(at) ||
			!agree(short.members, math.MaxUint16, e.members) || !agree(short.size, math.MaxUint32, e.size) ||
			!agree(short.offset, math.MaxUint32, e.offset) {
			return e, 0, refuse(CauseDamaged, "ZIP64 records that contradict the end record or each other")
		}
		disks = uint64(le.Uint32(b[16:])|le.Uint32(b[20:])) | le.Uint64(b[24:]) ^ e.members
	}
	if disks != 0 {
		return e, 0, refuse(CauseDamaged, "one of several parts")
	}
	return e, size - int64(len(tail)-i), nil
}

// agree reports whether a short field says what the long one does, or leaves it to that.
func agree(short, left, long uint64) bool { return short == left || short == long }

// noPackage tells what a file is that has no end record.
func noPackage(r io.ReaderAt, size int64) error {
	head := make([]byte, min(size, 1024))
	if err := readAt(r, head, 0); err != nil {
		return fmt.Errorf("reading the head of a package: %w", err)
	}
	head = bytes.ToLower(head)
	switch {
	case bytes.Contains(head, []byte("<html")) || bytes.Contains(head, []byte("<!doctype html")):
		return refuse(CausePage, "an HTML page in place of a ZIP file")
	case bytes.HasPrefix(head, []byte("pk")):
		return refuse(CauseDamaged, "a ZIP file that is cut, or goes on behind its end")
	}
	return refuse(CauseDamaged, "no ZIP file")
}

// readDirectory keeps a record of each entry.
func (p *Package) readDirectory(size int64, members int, shift int64) error {
	in := bufio.NewReaderSize(io.NewSectionReader(p.r, p.from, size), min(longestEntry, int(size)))
	p.records = make([]record, 0, members)
	for at := int64(0); at < size; {
		b, err := in.Peek(entrySize)
		n := 0
		if err == nil && le.Uint32(b) == entrySig && len(p.records) < members {
			n = entrySize + int(le.Uint16(b[28:])) + int(le.Uint16(b[30:])) + int(le.Uint16(b[32:]))
			b, err = in.Peek(n)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the directory of a package: %w", err)
		}
		if err != nil || n == 0 {
			return refuse(CauseDamaged, "a directory that is broken at its byte %d, after %d of %d members", at, len(p.records), members)
		}
		p.records = append(p.records, p.parse(b, at, shift))
		at += int64(n)
		in.Discard(n) //nolint:errcheck // it was peeked at
	}
	if len(p.records) != members {
		return refuse(CauseDamaged, "a directory of %d members, where its end record says %d", len(p.records), members)
	}
	return nil
}

// parse makes a record of an entry of the directory.
func (p *Package) parse(b []byte, at, shift int64) record {
	name := b[entrySize:][:le.Uint16(b[28:])]
	rec := record{name: maphash.Bytes(p.seed, name), entry: at, crc: le.Uint32(b[16:]), deflated: le.Uint16(b[10:]) == 8}
	flags, method, attributes := le.Uint16(b[8:]), le.Uint16(b[10:]), le.Uint32(b[38:])
	wide, ok := sizes(b, b[entrySize+len(name):][:le.Uint16(b[30:])])
	rec.length, rec.packed, rec.header = wide[0], wide[1], wide[2]+shift
	switch {
	case !ok || wide[2] > p.from-shift-headerSize || rec.packed > p.from-rec.header-headerSize-int64(len(name)) || le.Uint16(b[34:]) != 0:
		rec.header, rec.packed, rec.fault = math.MaxInt64, 0, outside
	case escapes(string(name)):
		rec.fault = unnamed
	case flags&0x2061 != 0: // encrypted, by any of the ways, or a patch by PKZIP
		rec.fault = encrypted
	case method != 0 && method != 8:
		rec.fault = method_
	case attributes>>28&^8 != 0 || attributes&0x18 != 0 || name[len(name)-1] == '/':
		rec.fault = special
	case method == 0 && rec.length != rec.packed:
		rec.fault = lengths
	}
	return rec
}

// sizes are the length expanded, the length packed and the place of the header. What does not fit stands in the extra field of ZIP64.
func sizes(b, extra []byte) (wide [3]int64, ok bool) {
	var long []byte
	for len(extra) >= 4 {
		n := min(int(le.Uint16(extra[2:])), len(extra)-4)
		if le.Uint16(extra) == 1 {
			long = extra[4:][:n]
			break
		}
		extra = extra[4+n:]
	}
	for i, short := range [3]uint32{le.Uint32(b[24:]), le.Uint32(b[20:]), le.Uint32(b[42:])} {
		wide[i] = int64(short)
		if short == math.MaxUint32 {
			if len(long) < 8 {
				return wide, false
			}
			wide[i], long = int64(le.Uint64(long)), long[8:]
		}
		if wide[i] < 0 {
			return wide, false
		}
	}
	return wide, true
}

// escapes reports whether a name could lead out of a folder on some system. Nothing is written under names of members, but what
// has such a name is an attack.
func escapes(name string) bool {
	return name == "" || name[0] == '/' || strings.ContainsAny(name, "\\\x00") || len(name) > 1 && name[1] == ':' ||
		slices.Contains(strings.Split(name, "/"), "..")
}

// index marks members that share bytes, and makes the rest known by name.
func (p *Package) index() {
	slices.SortFunc(p.records, func(a, b record) int { return cmp.Compare(a.header, b.header) })
	p.byName = make([]uint32, 0, len(p.records))
	last := 0 // the member that reaches farthest
	for i := range p.records {
		rec, far := &p.records[i], &p.records[last]
		if rec.fault != unnamed {
			p.byName = append(p.byName, uint32(i))
		}
		if i > 0 && rec.fault != outside && rec.header < far.header+headerSize+far.packed {
			rec.fault, far.fault = max(rec.fault, overlap), max(far.fault, overlap)
		}
		if rec.header+rec.packed >= far.header+far.packed {
			last = i
		}
	}
	slices.SortFunc(p.byName, func(a, b uint32) int { return cmp.Compare(p.records[a].name, p.records[b].name) })
}

// Len is the number of members, those that nobody can read included.
func (p *Package) Len() int { return len(p.records) }

// Manifest is the member that says what the others are.
func (p *Package) Manifest() (Member, error) { return p.Find("manifest.xml") }

// Find looks up what a manifest calls by a path: the name as it stands, without a leading slash, or else percent-decoded.
// Names are bytes, whatever their encoding.
func (p *Package) Find(path string) (Member, error) {
	name := strings.TrimPrefix(path, "/")
	i, n := p.lookUp(name)
	if n == 0 {
		if plain, err := url.PathUnescape(name); err == nil {
			i, n = p.lookUp(plain)
		}
	}
	switch {
	case n == 0:
		return Member{}, &Error{Member: path, Detail: "the package has no such member", cause: CauseMissing}
	case n > 1:
		return Member{}, &Error{Member: path, Detail: "the package has several members of that name", cause: CauseAmbiguous}
	case p.records[i].fault != 0:
		return Member{}, &Error{Member: path, Detail: faults[p.records[i].fault], cause: CauseRefused}
	}
	return Member{Length: p.records[i].length, number: i + 1}, nil
}

// lookUp is the first record of a name, and how many there are.
func (p *Package) lookUp(name string) (first uint32, n int) {
	hash := maphash.String(p.seed, name)
	i, found := slices.BinarySearchFunc(p.byName, hash, func(i uint32, h uint64) int { return cmp.Compare(p.records[i].name, h) })
	if !found {
		return 0, 0
	}
	for n = 1; i+n < len(p.byName) && p.records[p.byName[i+n]].name == hash; n++ {
	}
	return p.byName[i], n
}

// nameOf is the name of a member, for what is told of its failures.
func (p *Package) nameOf(rec *record) string {
	b := make([]byte, entrySize)
	if readAt(p.r, b, p.from+rec.entry) != nil {
		return ""
	}
	name := make([]byte, le.Uint16(b[28:]))
	if readAt(p.r, name, p.from+rec.entry+entrySize) != nil {
		return ""
	}
	return string(name)
}

// readAt fills b. Where the file ends before, it is shorter than it was said to be.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return refuse(CauseDamaged, "a file that ends before byte %d", at+int64(len(b)))
	}
	return err
}
