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
	head    []byte // of the member's header
	data    io.SectionReader
	in      *bufio.Reader // data, for inflate
	inflate io.ReadCloser
	from    io.Reader // of expanded bytes
	left    int64
	crc     uint32
	err     error
	copy    [32 << 10]byte
}

// handle is what a user of a stream holds: closed twice, it does not close the stream of the next.
type handle struct{ s *stream }

// Read copies a member's bytes to w, and fails if they are not as many as the directory says or have another checksum; w has
// seen them by then. Failures of w come as they are, those of the file wrapped.
func (p *Package) Read(m Member, w io.Writer) (int64, error) {
	h, err := p.open(m)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	return io.CopyBuffer(struct{ io.Writer }{w}, h, h.s.copy[:])
}

// Reader is a member's bytes as a stream, whose end is an error where Read would fail.
func (p *Package) Reader(m Member) (io.ReadCloser, error) {
	h, err := p.open(m)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (p *Package) open(m Member) (*handle, error) {
	if m.number == 0 || int(m.number) > len(p.records) {
		return nil, &Error{Detail: "no member of it was asked for", cause: CauseMissing}
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

// begin holds the member's own header to the directory, and finds its bytes between that and the next member.
func (s *stream) begin(i int) error {
	p := s.p
	s.rec = &p.records[i]
	limit := p.from
	if i+1 < len(p.records) {
		limit = min(limit, p.records[i+1].header)
	}
	s.head = append(s.head[:0], make([]byte, headerSize)...)
	if err := readAt(p.r, s.head, s.rec.header); err != nil {
		return err
	}
	method, name, extra := le.Uint16(s.head[8:]), int64(le.Uint16(s.head[26:])), int64(le.Uint16(s.head[28:]))
	at := s.rec.header + headerSize + name + extra
	switch {
	case le.Uint32(s.head) != headerSig:
		return refuse(CauseWrong, "it does not begin where the directory says")
	case method != 0 != s.rec.deflated || method != 0 && method != 8:
		return refuse(CauseWrong, "its header and the directory name different methods")
	case s.rec.packed > limit-at:
		return refuse(CauseRefused, "%s", faults[overlap])
	}
	s.head = append(s.head[:0], make([]byte, name)...)
	if err := readAt(p.r, s.head, s.rec.header+headerSize); err != nil {
		return err
	}
	if maphash.Bytes(p.seed, s.head) != s.rec.name {
		return refuse(CauseWrong, "its header and the directory give different names")
	}
	s.data = *io.NewSectionReader(p.r, at, s.rec.packed)
	s.left, s.crc, s.err = s.rec.length, 0, nil
	if s.from = &s.data; s.rec.deflated {
		s.in.Reset(&s.data)
		if s.inflate == nil {
			s.inflate = flate.NewReader(s.in)
		} else if err := s.inflate.(flate.Resetter).Reset(s.in, nil); err != nil {
			return err
		}
		s.from = s.inflate
	}
	return nil
}

// Read never gives more than the directory says, whatever the data would expand to.
func (h *handle) Read(b []byte) (int, error) {
	s := h.s
	if s == nil {
		return 0, fs.ErrClosed
	}
	n := 0
	if s.err == nil && s.left > 0 {
		n, s.err = s.from.Read(b[:min(int64(len(b)), s.left)])
		s.crc = crc32.Update(s.crc, crc32.IEEETable, b[:n])
		s.left -= int64(n)
		if s.left == 0 && errors.Is(s.err, io.EOF) {
			s.err = nil // end says whether it is one
		}
		if s.err != nil {
			s.err = s.failed(s.err)
		}
		return n, s.err
	}
	if s.err == nil {
		s.err = s.end()
	}
	return 0, s.err
}

// end is io.EOF if all was as the directory says.
func (s *stream) end() error {
	n, err := io.ReadFull(s.from, s.copy[:1])
	switch {
	case n > 0:
		return s.failed(refuse(CauseWrong, "it expands to more than the %d bytes that the directory says", s.rec.length))
	case !errors.Is(err, io.EOF):
		return s.failed(err)
	case s.rec.deflated && s.rest():
		return s.failed(refuse(CauseWrong, "its data end before the %d bytes that the directory says", s.rec.packed))
	case s.crc != s.rec.crc:
		return s.failed(refuse(CauseWrong, "its checksum is %08x, where the directory says %08x", s.crc, s.rec.crc))
	}
	return io.EOF
}

// rest reports whether there are bytes behind the end of packed data.
func (s *stream) rest() bool {
	_, err := s.in.ReadByte()
	return err == nil
}

// failed says which member it was. What is wrong with the data is an *Error, what is wrong with the file is not.
func (s *stream) failed(err error) error {
	name := s.p.nameOf(s.rec)
	var e *Error
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &e):
		e.Member = name
		return e
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Member: name, Detail: "its data end before its length is reached", cause: CauseWrong, err: io.ErrUnexpectedEOF}
	case errors.As(err, &corrupt):
		return &Error{Member: name, Detail: err.Error(), cause: CauseWrong, err: err}
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
