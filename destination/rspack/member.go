package rspack

import (
	"bufio"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"io/fs"
)

// stream is a member being read.
type stream struct {
	*tools // nil once closed
	p      *Package
	rec    *record
	left   int64
	crc    uint32
	err    error
}

// tools are used again, by one stream at a time, as what deflate needs is larger than most members.
type tools struct {
	data    io.SectionReader
	in      *bufio.Reader // data
	inflate io.ReadCloser
	from    io.Reader // expanded bytes
	buf     [32 << 10]byte
}

func newTools() any {
	in := bufio.NewReaderSize(nil, 16<<10)
	return &tools{in: in, inflate: flate.NewReader(in)}
}

// Read copies a member's bytes to w. It fails if they are not as many as the directory says, or have another checksum,
// which w learns too late. Failures of w come as they are, those of the file wrapped.
func (p *Package) Read(m Member, w io.Writer) (int64, error) {
	r, err := p.Reader(m)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.CopyBuffer(struct{ io.Writer }{w}, r, r.(*stream).buf[:])
}

// Reader is a member's bytes as a stream, which ends in an error where Read would fail.
func (p *Package) Reader(m Member) (io.ReadCloser, error) {
	if m.number == 0 || int(m.number) > len(p.records) {
		return nil, refuse(CauseMissing, "no member of it was asked for")
	}
	rec := &p.records[m.number-1]
	s := &stream{tools: p.idle.Get().(*tools), p: p, rec: rec, left: rec.length}
	limit := p.from
	if int(m.number) < len(p.records) {
		limit = p.records[m.number].header
	}
	if err := s.begin(limit); err != nil {
		err = s.failed(err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// begin holds a member's own header to the directory, and finds its bytes between that and the next member.
func (s *stream) begin(limit int64) error {
	rec, head := s.rec, s.buf[:headerSize]
	if err := readAt(s.p.r, head, rec.header); err != nil {
		return err
	}
	method, name := le.Uint16(head[8:]), make([]byte, le.Uint16(head[26:]))
	at := rec.header + headerSize + int64(len(name)) + int64(le.Uint16(head[28:])) // behind extra fields
	switch {
	case le.Uint32(head) != headerSig:
		return refuse(CauseWrong, "it does not begin where the directory says")
	case method != rec.method:
		return refuse(CauseWrong, "its own header has method %d, the directory %d", method, rec.method)
	case rec.packed > limit-at:
		return refuse(CauseRefused, "%s", faults[overlapping])
	}
	if err := readAt(s.p.r, name, rec.header+headerSize); err != nil {
		return err
	}
	if maphash.Bytes(s.p.seed, name) != rec.name {
		return refuse(CauseWrong, "its own header calls it %.200q", name)
	}
	s.data = *io.NewSectionReader(s.p.r, at, rec.packed)
	s.in.Reset(&s.data)
	if s.from = s.in; method == deflated {
		s.from = s.inflate
		return s.inflate.(flate.Resetter).Reset(s.in, nil)
	}
	return nil
}

// Read never gives more than the directory says, whatever the data would expand to.
func (s *stream) Read(b []byte) (n int, err error) {
	switch {
	case s.tools == nil:
		return 0, fs.ErrClosed
	case s.err != nil:
		return 0, s.err
	case s.left == 0:
		if err = s.end(); err == nil {
			s.err = io.EOF
			return 0, io.EOF
		}
	default:
		n, err = s.from.Read(b[:min(int64(len(b)), s.left)])
		s.crc = crc32.Update(s.crc, crc32.IEEETable, b[:n])
		if s.left -= int64(n); s.left == 0 && errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		s.err = s.failed(err)
	}
	return n, s.err
}

// end holds what came to the directory.
func (s *stream) end() error {
	if _, err := io.ReadFull(s.from, s.buf[:1]); err == nil {
		return refuse(CauseWrong, "it expands to more than %d bytes, its length by the directory", s.rec.length)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := s.in.ReadByte(); err == nil {
		return refuse(CauseWrong, "its data end before %d bytes, their length by the directory", s.rec.packed)
	}
	if s.crc != s.rec.crc {
		return refuse(CauseWrong, "its checksum is %08x, by the directory %08x", s.crc, s.rec.crc)
	}
	return nil
}

// failed says which member it was. What is wrong with its data is an *Error, what is wrong with the file is not.
func (s *stream) failed(err error) error {
	name := s.p.nameOf(s.rec)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	e, ok := errors.AsType[*Error](err)
	if _, corrupt := errors.AsType[flate.CorruptInputError](err); corrupt || errors.Is(err, io.ErrUnexpectedEOF) {
		e, ok = refuse(CauseWrong, "its data are broken: %w", err), true
	}
	if !ok {
		return fmt.Errorf("reading member %.200q of a package: %w", name, err)
	}
	e.Member = name
	return e
}

// Close has the tools used again.
func (s *stream) Close() error {
	if s.tools != nil {
		s.p.idle.Put(s.tools)
		s.tools = nil
	}
	return nil
}
