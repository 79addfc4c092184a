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

// stream is a member being read. Streams are used again, as what deflate needs is larger than most members.
type stream struct {
	p       *Package
	rec     *record
	head    []byte // of the member's own header
	data    io.SectionReader
	in      *bufio.Reader // data, for inflate
	inflate io.ReadCloser
	from    io.Reader // expanded bytes
	left    int64
	crc     uint32
	err     error
	over    [1]byte // one more than there should be
	copy    [32 << 10]byte
}

// handle is what a user of a stream holds. Closed twice, it does not close the stream of the next user.
type handle struct{ s *stream }

// Read copies a member's bytes to w. It fails if they are not as many as the directory says, or have another checksum,
// which w learns too late. Failures of w come as they are, those of the file wrapped.
func (p *Package) Read(m Member, w io.Writer) (int64, error) {
	h, err := p.open(m)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	return io.CopyBuffer(struct{ io.Writer }{w}, h, h.s.copy[:])
}

// Reader is a member's bytes as a stream, which ends in an error where Read would fail.
func (p *Package) Reader(m Member) (io.ReadCloser, error) {
	h, err := p.open(m)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (p *Package) open(m Member) (*handle, error) {
	if m.number == 0 || int(m.number) > len(p.records) {
		return nil, refuse(CauseMissing, "no member of it was asked for")
	}
	s, _ := p.idle.Get().(*stream)
	if s == nil {
		s = &stream{p: p, in: bufio.NewReaderSize(nil, 16<<10)}
	}
	h := &handle{s}
	if err := s.begin(int(m.number - 1)); err != nil {
		err = s.failed(err)
		h.Close()
		return nil, err
	}
	return h, nil
}

// begin holds a member's own header to the directory, and finds its bytes between that and the next member.
func (s *stream) begin(i int) error {
	p, rec := s.p, &s.p.records[i]
	s.rec, s.left, s.crc, s.err = rec, rec.length, 0, nil
	limit := p.from
	if i+1 < len(p.records) {
		limit = p.records[i+1].header
	}
	s.head = append(s.head[:0], make([]byte, headerSize)...)
	if err := readAt(p.r, s.head, rec.header); err != nil {
		return err
	}
	method, name := le.Uint16(s.head[8:]), int64(le.Uint16(s.head[26:]))
	at := rec.header + headerSize + name + int64(le.Uint16(s.head[28:])) // behind extra fields
	switch {
	case le.Uint32(s.head) != headerSig:
		return refuse(CauseWrong, "it does not begin where the directory says")
	case method != rec.method:
		return refuse(CauseWrong, "its own header has method %d, the directory %d", method, rec.method)
	case rec.packed > limit-at:
		return refuse(CauseRefused, "%s", faults[overlapping])
	}
	s.head = append(s.head[:0], make([]byte, name)...)
	if err := readAt(p.r, s.head, rec.header+headerSize); err != nil {
		return err
	}
	if maphash.Bytes(p.seed, s.head) != rec.name {
		return refuse(CauseWrong, "its own header calls it %.200q", s.head)
	}
	s.data = *io.NewSectionReader(p.r, at, rec.packed)
	if rec.method == stored {
		s.from = &s.data
		return nil
	}
	s.in.Reset(&s.data)
	if s.inflate == nil {
		s.inflate = flate.NewReader(s.in)
	}
	s.from = s.inflate
	return s.inflate.(flate.Resetter).Reset(s.in, nil)
}

// Read never gives more than the directory says, whatever the data would expand to.
func (h *handle) Read(b []byte) (n int, err error) {
	s := h.s
	switch {
	case s == nil:
		return 0, fs.ErrClosed
	case s.err != nil:
	case s.left == 0:
		s.err = s.end()
	default:
		n, err = s.from.Read(b[:min(int64(len(b)), s.left)])
		s.crc = crc32.Update(s.crc, crc32.IEEETable, b[:n])
		s.left -= int64(n)
		if err != nil && (s.left > 0 || !errors.Is(err, io.EOF)) {
			s.err = s.failed(err)
		}
	}
	return n, s.err
}

// end is io.EOF if all was as the directory says.
func (s *stream) end() error {
	_, err := io.ReadFull(s.from, s.over[:])
	switch {
	case err == nil:
		err = refuse(CauseWrong, "it expands to more than %d bytes, its length by the directory", s.rec.length)
	case !errors.Is(err, io.EOF):
	case s.rec.method == deflated && s.more():
		err = refuse(CauseWrong, "its data end before %d bytes, their length by the directory", s.rec.packed)
	case s.crc != s.rec.crc:
		err = refuse(CauseWrong, "its checksum is %08x, by the directory %08x", s.crc, s.rec.crc)
	default:
		return io.EOF
	}
	return s.failed(err)
}

// more reports whether bytes follow what was inflated.
func (s *stream) more() bool {
	_, err := s.in.ReadByte()
	return err == nil
}

// failed says which member it was. What is wrong with its data is an *Error, what is wrong with the file is not.
func (s *stream) failed(err error) error {
	name := s.p.nameOf(s.rec)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Member = name
		return e
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if _, corrupt := errors.AsType[flate.CorruptInputError](err); corrupt || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Member: name, Detail: "its data are broken: " + err.Error(), cause: CauseWrong, err: err}
	}
	return fmt.Errorf("reading member %.200q of a package: %w", name, err)
}

// Close has the stream used again.
func (h *handle) Close() error {
	if h.s != nil {
		h.s.p.idle.Put(h.s)
		h.s = nil
	}
	return nil
}
